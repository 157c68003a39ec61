import {type Amounts, type BucketState, refillBucket} from './bucket.js'
import {WRITE_PRESSURE_LIMIT} from './names.js'

/** Bounds within which a bucket is certainly full at an instant, whatever others have written since it was seen. */
export interface FullnessBounds {
  /** Refilled no later than this, in epoch ms. */
  readonly latestRefillMs: number
  /** Per limit, the lowest balance that the time since then fills up. */
  readonly lowestMilli: ReadonlyMap<string, bigint>
}

/** A little consumed a moment ago, more some time ago, much long ago: each rung allows for so many times a request. */
const RUNGS = [1, 2, 4, 8] as const

/**
 * Several processes share a bucket that has always filled up again when somebody comes. None of them knows its exact
 * state, but each can name bounds, of which the state needs to lie within one. Empty when some limit is not full.
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
