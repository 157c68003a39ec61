import {type Amounts, type BucketState, refillBucket} from './bucket.js'
import {WRITE_PRESSURE_LIMIT} from './names.js'

/** Whether tokens that were returned late exceed what the shard may hold: the next write must cut them off. */
export function isOverfull(share: BucketState): boolean {
  for (const [name, limit] of share.limits) {
    if (name !== WRITE_PRESSURE_LIMIT && limit.tokensMilli > limit.capacityMilli) return true
  }
  return false
}

/**
 * Whether one of the limits has filled up since the last refill. Consuming without a refill would then give back later
 * what has overflowed: twice the capacity at once.
 */
export function hasFilledUp(share: BucketState, names: Iterable<string>, nowMs: number): boolean {
  if (nowMs <= share.refilledAtMs) return false
  const {limits} = refillBucket(share, nowMs)
  for (const name of names) {
    const limit = limits.get(name)
    if (limit && limit.tokensMilli >= limit.capacityMilli) return true
  }
  return false
}

/** Whether a bucket from which `taken` was consumed just now, without a refill, had overflowed before. */
export function hasOverflowed(share: BucketState, taken: Amounts, nowMs: number): boolean {
  if (nowMs <= share.refilledAtMs) return false
  const {limits} = refillBucket(share, nowMs)
  return [...taken].some(([name, milli]) => {
    const limit = limits.get(name)
    return milli > 0n && limit !== undefined && limit.tokensMilli + milli > limit.capacityMilli
  })
}

/** Bounds within which a bucket is certainly full at an instant, whatever others have written since it was seen. */
export interface FullnessBounds {
  /** Refilled no later than this, in epoch ms. */
  readonly latestRefillMs: number
  /** Per limit, the lowest balance that the time since then fills up. */
  readonly lowestMilli: ReadonlyMap<string, bigint>
}

/** Each rung allows for so many requests by others; the more, the longer ago they must have been. */
const RUNGS = [1, 2, 4, 8] as const

/**
 * For a bucket that several processes share and that is full between their requests. None of them knows its exact state,
 * but each can name bounds; it is full when its state lies within one of them. Empty when some limit is not full.
 */
export function boundsOfFullness(share: BucketState, amounts: Amounts, nowMs: number): FullnessBounds[] {
  const sinceSeenMs = nowMs - share.refilledAtMs
  if (sinceSeenMs <= 0) return []
  const {limits: refilled} = refillBucket(share, nowMs)
  const limits = [...share.limits].filter(([name]) => name !== WRITE_PRESSURE_LIMIT)
  let restMs = 1
  for (const [name, limit] of limits) {
    if ((refilled.get(name)?.tokensMilli ?? 0n) < limit.capacityMilli) return []
    if (limit.refillAmountMilli <= 0n) continue
    const missing = limit.capacityMilli - limit.tokensMilli
    const asked = amounts.get(name) ?? 0n
    const usual = missing > asked ? missing : asked
    restMs = Math.max(restMs, Number((usual * BigInt(limit.refillPeriodMs)) / limit.refillAmountMilli) + 1)
  }
  // Beyond what was seen nothing is gained: that instant lies within the widest bounds itself.
  const rests = RUNGS.map(times => Math.min(times * restMs, sinceSeenMs))
  return [...new Set(rests)].map(elapsedMs => ({
    latestRefillMs: nowMs - elapsedMs,
    lowestMilli: new Map(
      limits.map(([name, {capacityMilli, refillAmountMilli, refillPeriodMs}]) => [
        name,
        capacityMilli - (refillAmountMilli * BigInt(elapsedMs)) / BigInt(refillPeriodMs),
      ]),
    ),
  }))
}
