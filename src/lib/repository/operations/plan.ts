import {InvalidInput} from '../../core/errors.js'
import {type Limit, MAX_TOKENS} from '../../core/limits/limit.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {toMilli, toTokens} from '../../core/token-math.js'
import type {BucketPlan, SeenBucket} from '../buckets/plan.js'
import type {TokensByLimit} from './record.js'

export interface OperationBasis {
  readonly shards: readonly SeenBucket[]
  /** Those in force; the stored ones where nothing is configured. */
  readonly limits: readonly Limit[] | undefined
  readonly nowMs: number
}

export interface PlannedOperation {
  readonly plans: readonly BucketPlan[]
  readonly amounts: TokensByLimit
  /** Every limit is filled: tokens taken before do not come back to the bucket. */
  readonly isWhole: boolean
}

export function limitNames(plans: readonly BucketPlan[]): Set<string> {
  const named = plans.flatMap(({changes}) =>
    [...changes].flatMap(([name, {kind}]) => (kind === 'remove' ? [] : [name])),
  )
  return new Set(named.filter(name => name !== WRITE_PRESSURE_LIMIT))
}

export function requireKnown(asked: readonly string[], names: ReadonlySet<string>): void {
  const unknown = asked.filter(name => !names.has(name))
  if (unknown.length === 0) return
  const known = [...names].sort().join(', ') || 'none'
  throw new InvalidInput('limit.unknown', `The bucket has no limit "${unknown.join('", "')}"; it has ${known}.`, {
    details: {unknown, known: [...names]},
  })
}

/** More than that, in millitokens over all shards, could not be shown exactly. */
export function requireCountable(name: string, ceilingMilli: bigint): void {
  if (ceilingMilli <= toMilli(MAX_TOKENS)) return
  throw new InvalidInput(
    'bucket.amount',
    `With that "${name}" could hold ${toTokens(ceilingMilli)}: at most ${MAX_TOKENS} is possible.`,
  )
}
