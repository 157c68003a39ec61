import type {Amounts, BucketState} from '../core/bucket.js'
import {refillBucket, tryConsumeBucket} from '../core/bucket.js'
import type {BucketPlan} from '../repository/buckets/plan.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import {shareOfRecord} from './known-bucket.js'

/** A planned bucket as core sees it: balances after refill, parameters of this shard. */
export function plannedState({seen, refilledAtMs, changes}: BucketPlan): BucketState {
  const limits = new Map(
    [...changes].flatMap(([name, change]) => (change.kind === 'remove' ? [] : [[name, change.after] as const])),
  )
  return shareOfRecord({...seen.record, state: {refilledAtMs, limits}})
}

/** A planned bucket as it will be stored once the amounts are taken. */
export function plannedRecord({seen, refilledAtMs, changes}: BucketPlan, taken: Amounts): BucketRecord {
  const limits = new Map(
    [...changes].flatMap(([name, {kind, after}]) =>
      kind === 'remove' ? [] : [[name, {...after, tokensMilli: after.tokensMilli - (taken.get(name) ?? 0n)}] as const],
    ),
  )
  return {...seen.record, state: {refilledAtMs, limits}}
}

/** Millitokens of each limit over several shards; a shard in debt offers nothing. */
export function heldTogether(shards: Iterable<BucketState>): Map<string, bigint> {
  const held = new Map<string, bigint>()
  for (const {limits} of shards) {
    for (const [name, {tokensMilli}] of limits) {
      held.set(name, (held.get(name) ?? 0n) + (tokensMilli > 0n ? tokensMilli : 0n))
    }
  }
  return held
}

/** Millitokens of one limit that can be had of several shards: a debt of one takes nothing from the others. */
export function availableTogether(shards: readonly BucketState[], name: string): bigint {
  const balances = shards.map(({limits}) => limits.get(name)?.tokensMilli ?? 0n)
  const held = balances.filter(milli => milli > 0n)
  return (held.length > 0 ? held : balances).reduce((sum, milli) => sum + milli, 0n)
}

/** Whether several shards together hold what is asked. */
export function holdTogether(shards: Iterable<BucketState>, amounts: Amounts): boolean {
  const held = heldTogether(shards)
  return [...amounts].every(([name, milli]) => (held.get(name) ?? 0n) >= milli)
}

/** Ten years in ms: no limit takes longer, as far as anybody would wait. */
const HORIZON_MS = 10 * 365 * 86_400_000

/** Milliseconds until several shards together hold what is asked; `Infinity` when they never will. */
export function timeUntilTogether(records: readonly BucketRecord[], amounts: Amounts, nowMs: number): number {
  const shares = records.map(shareOfRecord)
  const [only, another] = shares
  // Of a single shard the wait follows by arithmetic; the search below costs most of a refusal.
  if (only && !another && [...amounts.keys()].every(name => only.limits.has(name))) {
    return tryConsumeBucket(only, amounts, nowMs).retryAfterMs
  }
  const enoughAfter = (waitMs: number) =>
    holdTogether(
      shares.map(state => refillBucket(state, nowMs + waitMs)),
      amounts,
    )
  if (!enoughAfter(HORIZON_MS)) return Number.POSITIVE_INFINITY
  let tooEarly = -1
  let lateEnough = HORIZON_MS
  while (lateEnough - tooEarly > 1) {
    const middle = Math.floor((tooEarly + lateEnough) / 2)
    if (enoughAfter(middle)) lateEnough = middle
    else tooEarly = middle
  }
  // One more: instants are cut to milliseconds.
  return lateEnough + 1
}
