import {WRITE_PRESSURE_LIMIT} from '../names.js'
import type {Rate} from '../token-math.js'
import {type Amounts, type BucketState, hasKinds, inForceAt, instantAt, isCurrentAt, refillBucket} from './bucket.js'

/** Whether tokens that were returned late exceed what the shard may hold: the next write must cut them off. */
export function isOverfull(share: BucketState, nowMs: number): boolean {
  for (const [name, limit] of inForceAt(share, instantAt(share, nowMs)).limits) {
    if (name !== WRITE_PRESSURE_LIMIT && limit.tokensMilli > limit.capacityMilli) return true
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
 * but each can name bounds; it is full when its state lies within one of them. Empty when the state that was seen does not.
 */
export function boundsOfFullness(share: BucketState, amounts: Amounts, nowMs: number): FullnessBounds[] {
  const sinceSeenMs = nowMs - share.refilledAtMs
  // Bounds are arithmetic of a single rule.
  if (sinceSeenMs <= 0 || hasKinds(share)) return []
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
  const lowestAfter = (limit: Rate, elapsedMs: number) =>
    // Planted fault: a bucket counts as full too early
    limit.capacityMilli - (limit.refillAmountMilli * BigInt(elapsedMs)) / BigInt(limit.refillPeriodMs)
  // Bounds know no carried fraction: a bucket that is full only thanks to one lies within none of them.
  if (limits.some(([, limit]) => limit.tokensMilli < lowestAfter(limit, sinceSeenMs))) return []
  return [...new Set(rests)].map(elapsedMs => ({
    latestRefillMs: nowMs - elapsedMs,
    lowestMilli: new Map(limits.map(([name, limit]) => [name, lowestAfter(limit, elapsedMs)])),
  }))
}

/**
 * Bounds within which no limit has overflowed at an instant, whatever others have written: only then may tokens be taken
 * without a refill. Otherwise what has overflowed would come back with the next refill: twice the capacity at once.
 */
export interface RoomBounds {
  /** Refilled no earlier than this, in epoch ms. */
  readonly earliestRefillMs: number
  /** Per limit, the highest balance that the time since then does not fill up. */
  readonly highestMilli: ReadonlyMap<string, bigint>
}

/** A state may have been refilled by others since it was seen, so shares of the time since then are bounds as well. */
const SHARES_OF_TIME_SINCE_SEEN = [1, 4, 16] as const

/** Where the refill instant is unknown: shares of the time in which the first limit fills up, in 64ths. */
const SHARES_OF_FILLING = [1, 4, 16, 32, 48] as const

/** A limit that gains less than this part of its capacity has room enough within a single bound. */
const SMALL_GAIN = 16n

/** More names would make the expression too long for more than one bound. */
const MOST_NAMES_IN_ROOM = 8

/** Bounds for a bucket that was seen; empty when one of the limits may have overflowed as it was seen. */
export function boundsOfRoom(seen: BucketState, names: readonly string[], nowMs: number): RoomBounds[] {
  if (!isCurrentAt(seen, nowMs)) return []
  const share = inForceAt(seen, instantAt(seen, nowMs))
  const elapsedMs = Math.max(0, nowMs - share.refilledAtMs)
  const first = roomAfter(share.limits, names, elapsedMs, nowMs)
  const isInside = (name: string) =>
    // Planted fault: a bucket that has overflowed counts as one with room
    (share.limits.get(name)?.tokensMilli ?? 0n) <= (first?.highestMilli.get(name) ?? 0n)
  if (!first || !names.every(isInside)) return []
  const isSmall = (name: string) => {
    const {capacityMilli} = share.limits.get(name) as Rate
    return (capacityMilli - (first.highestMilli.get(name) as bigint)) * SMALL_GAIN <= capacityMilli
  }
  if (names.length > MOST_NAMES_IN_ROOM || names.every(isSmall)) return [first]
  const shares = SHARES_OF_TIME_SINCE_SEEN.map(part => Math.floor(elapsedMs / part))
  return shares.flatMap(eachMs => roomAfter(share.limits, names, eachMs, nowMs) ?? [])
}

/** For limits that gain nothing with time, such as quotas: a year. */
const LONGEST_FILL_MS = 365 * 86_400_000

export function boundsOfUnseenRoom(
  rates: ReadonlyMap<string, Rate>,
  names: readonly string[],
  nowMs: number,
): RoomBounds[] {
  if (names.length === 0 || names.length > MOST_NAMES_IN_ROOM || names.some(name => !rates.has(name))) return []
  const fillMs = names.map(name => {
    const {capacityMilli, refillAmountMilli, refillPeriodMs} = rates.get(name) as Rate
    return refillAmountMilli > 0n
      ? Number((capacityMilli * BigInt(refillPeriodMs)) / refillAmountMilli)
      : LONGEST_FILL_MS
  })
  const firstFullMs = Math.min(...fillMs)
  return SHARES_OF_FILLING.flatMap(part => roomAfter(rates, names, Math.floor((firstFullMs * part) / 64), nowMs) ?? [])
}

function roomAfter(
  rates: ReadonlyMap<string, Rate>,
  names: readonly string[],
  elapsedMs: number,
  nowMs: number,
): RoomBounds | undefined {
  const highestMilli = new Map<string, bigint>()
  for (const name of names) {
    const rate = rates.get(name)
    const highest = rate && rate.capacityMilli - earnedMilli(rate, elapsedMs)
    if (highest === undefined || highest < 0n) return undefined
    highestMilli.set(name, highest)
  }
  return {earliestRefillMs: nowMs - elapsedMs, highestMilli}
}

/** Bounds within which a refill would bring every limit next to nothing, whatever others have written since it was seen. */
export interface SmallGainBounds {
  /** Refilled no earlier than this, in epoch ms. */
  readonly earliestRefillMs: number
  /** Per limit that gains more in the time since then, the lowest balance that leaves no room for it. */
  readonly lowestMilli: ReadonlyMap<string, bigint>
}

/** What a refill brings is next to nothing when it is at most this part of the capacity. */
const NEXT_TO_NOTHING = 64n

/** For a bucket that was seen; empty when a refill would bring one of its limits more than that. */
export function boundsOfSmallGain(share: BucketState, nowMs: number): SmallGainBounds[] {
  const limits = [...share.limits].filter(([name]) => name !== WRITE_PRESSURE_LIMIT)
  // Less one millitoken: a fraction may be carried.
  const shortMs = limits.flatMap(([, {capacityMilli, refillAmountMilli, refillPeriodMs}]) =>
    refillAmountMilli > 0n
      ? [Number(((capacityMilli / NEXT_TO_NOTHING - 1n) * BigInt(refillPeriodMs)) / refillAmountMilli)]
      : [],
  )
  const recent = {
    earliestRefillMs: nowMs - Math.max(0, Math.min(nowMs, ...shortMs)),
    lowestMilli: new Map<string, bigint>(),
  }
  if (share.refilledAtMs >= recent.earliestRefillMs) return [recent]
  const lowest = ({capacityMilli}: Rate) => capacityMilli - capacityMilli / NEXT_TO_NOTHING
  const gaining = limits.filter(
    ([, limit]) => earnedMilli(limit, nowMs - share.refilledAtMs) * NEXT_TO_NOTHING > limit.capacityMilli,
  )
  if (gaining.some(([, limit]) => limit.tokensMilli < lowest(limit))) return []
  const lowestMilli = new Map(gaining.map(([name, limit]) => [name, lowest(limit)]))
  return [recent, {earliestRefillMs: share.refilledAtMs, lowestMilli}]
}

/** What a limit gains, rounded up: with the fraction of this time and the one carried over it is less. */
function earnedMilli({refillAmountMilli, refillPeriodMs}: Rate, elapsedMs: number): bigint {
  return elapsedMs <= 0 || refillAmountMilli <= 0n
    ? 0n
    : (refillAmountMilli * BigInt(elapsedMs)) / BigInt(refillPeriodMs) + 2n
}
