import {InvalidInput} from '../../core/errors.js'
import {MAX_TOKENS} from '../../core/limits/limit.js'
import {checkLimitName} from '../../core/names.js'
import type {OperationBasis, PlannedOperation} from './plan.js'
import type {TokensByLimit} from './record.js'
import {planReset} from './reset.js'
import {planTopUp} from './top-up.js'

export type BucketOperation =
  | {readonly kind: 'top_up'; readonly amounts: TokensByLimit}
  /** Of all limits unless some are given. */
  | {readonly kind: 'reset'; readonly limits?: ReadonlySet<string> | undefined}

/** A top-up by amounts as callers write them: whole tokens per limit. */
export function topUpOf(amounts: Readonly<Record<string, number>>): BucketOperation {
  const entries = Object.entries(amounts)
  if (entries.length === 0) throw new InvalidInput('bucket.amount', 'A top-up needs an amount for at least one limit.')
  for (const [name, tokens] of entries) {
    checkLimitName(name)
    if (!Number.isSafeInteger(tokens) || tokens < 1 || tokens > MAX_TOKENS)
      throw new InvalidInput(
        'bucket.amount',
        `The amount of "${name}" must be a whole number from 1 to ${MAX_TOKENS}, not ${tokens}.`,
      )
  }
  return {kind: 'top_up', amounts: new Map(entries)}
}

export function resetOf(limits: readonly string[] | undefined): BucketOperation {
  if (!limits) return {kind: 'reset'}
  if (limits.length === 0) throw new InvalidInput('bucket.limits', 'A reset of some limits needs the name of one.')
  return {kind: 'reset', limits: new Set(limits.map(checkLimitName))}
}

const KEY = /^[\w.:-]{1,64}$/

/** Keys are what other clients accept, too. */
export function checkIdempotencyKey(key: string): string {
  if (KEY.test(key)) return key
  throw new InvalidInput('bucket.key', `${JSON.stringify(key)} is not a valid idempotency key.`, {
    hint: 'Use 1 to 64 letters, digits, and . _ : -',
  })
}

/** Brings every shard forward as a request would, then does to the limits what the operation says. */
export function planOperation(operation: BucketOperation, input: OperationBasis): PlannedOperation {
  return operation.kind === 'top_up' ? planTopUp(operation.amounts, input) : planReset(operation.limits, input)
}
