import {string} from '@oclif/core/flags'
import {formatCount, formatTokens} from '../../core/text/text.js'
import type {TopUpEffect} from '../../insight/lookup/bucket-search.js'
import type {OperationOptions, OperationResult} from '../../repository/operations/apply-operation.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {LimitUnits} from '../usage/presenter.js'
import type {BucketResetResult, BucketTopUpResult} from './results.js'

interface ChangedBucket {
  readonly entity: string
  readonly resource: string
  readonly result: OperationResult
  readonly units: LimitUnits
}

export interface ResetRequest extends OperationOptions {
  readonly entity: string
  readonly resource: string
  readonly limits?: readonly string[] | undefined
}

export function resetQuestion({entity, resource, limits}: ResetRequest): string {
  const which = limits ? `the limit${limits.length > 1 ? 's' : ''} ${limits.join(', ')}` : 'every limit'
  return `This refills ${which} of ${entity} for ${resource} and clears its debt`
}

export async function resetBucket(
  namespace: NamespaceRepository,
  request: ResetRequest,
): Promise<{readonly lines: string[]; readonly result: BucketResetResult}> {
  const {entity, resource, ...options} = request
  const result = await namespace.resetBucket({entity, resource}, options)
  const changed = {entity, resource, result, units: await namespace.configs.units()}
  return {lines: resetLines(changed, options.limits === undefined), result: resetJson(changed)}
}

export function resetLines({entity, resource, result, units}: ChangedBucket, isWhole: boolean): string[] {
  if (result.isRepeated) return repeatedLines({entity, resource, result, units}, 'reset')
  const {shards, amounts} = result
  const parts = shards === 1 ? '' : ` (${formatCount(shards)} shards)`
  const what = isWhole ? `The bucket of ${entity} for ${resource} is full` : `Reset for ${entity} and ${resource}`
  return [`${what}${parts}: ${amountsText(amounts, units)}`]
}

/** `amounts`: as typed. */
export function topUpQuestion(
  {entity, resource, units}: Omit<ChangedBucket, 'result'>,
  amounts: readonly string[],
  effects: readonly TopUpEffect[],
): string {
  const balances = effects.map(({name, before, after}) => {
    const [from, to] = [before, after].map(tokens => formatTokens(Math.floor(tokens), units.get(name)))
    return `${name} left ${from} → ${to}`
  })
  return `This adds ${amounts.join(' ')} to the bucket of ${entity} for ${resource}: ${balances.join(', ')}`
}

/** `asked`: whole tokens. */
export function topUpLines(changed: ChangedBucket, asked: Readonly<Record<string, number>>): string[] {
  const {entity, resource, result, units} = changed
  if (result.isRepeated) return repeatedLines(changed, 'top up')
  const {shards, amounts} = result
  const parts = shards > 1 ? ` (${formatCount(shards)} shards)` : ''
  const short = Object.keys(asked).filter(name => (amounts[name] ?? 0) < (asked[name] as number))
  return [
    `Topped up ${entity} for ${resource}${parts}: ${amountsText(amounts, units)}`,
    ...(short.length === 0
      ? []
      : [`${short.join(', ')}: less than requested, because a rate cannot exceed its capacity`]),
  ]
}

function repeatedLines({entity, resource, result, units}: ChangedBucket, what: string): string[] {
  const {idempotencyKey, amounts} = result
  return [
    `Nothing was changed: the key ${idempotencyKey} was already used to ${what} ${entity} for ${resource} ` +
      `(${amountsText(amounts, units)})`,
  ]
}

function amountsText(amounts: Readonly<Record<string, number>>, units: LimitUnits): string {
  const names = Object.keys(amounts).sort()
  const each = names.map(name => {
    const tokens = amounts[name] as number
    return `${name} ${tokens < 0 ? '' : '+'}${formatTokens(tokens, units.get(name))}`
  })
  return each.join(', ')
}

function resetJson({entity, resource, result}: Omit<ChangedBucket, 'units'>): BucketResetResult {
  const {idempotencyKey, isRepeated, shards, ghosts, amounts} = result
  return {entity, resource, idempotencyKey, isRepeated, shards, reset: isRepeated ? 0 : shards, ghosts, amounts}
}

export function topUpJson(
  {entity, resource, result}: Omit<ChangedBucket, 'units'>,
  asked: Readonly<Record<string, number>>,
): BucketTopUpResult {
  const {idempotencyKey, isRepeated, shards, amounts} = result
  return {entity, resource, idempotencyKey, isRepeated, shards, asked, amounts}
}

export const idempotencyKey = string({
  description: 'Apply this change once, even if repeated within three days. 1 to 64 letters, digits, or . _ : -',
  helpValue: 'KEY',
})
