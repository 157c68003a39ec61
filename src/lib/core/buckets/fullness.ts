import {isSoftAt} from '../limits/limit-kind.js'
import {WRITE_PRESSURE_LIMIT} from '../names.js'
import type {Rate} from '../token-math.js'
import {
  type Amounts,
  type BucketLimit,
  type BucketState,
  inForceAt,
  instantAt,
  isCurrentAt,
  refillBucket,
} from './bucket.js'
import {greatestDivisor} from './kind-refill.js'

/** Late refunds can exceed the capacity. The next write must cut off the excess. */
export function isOverfull(share: BucketState, nowMs: number): boolean {
  for (const [name, limit] of inForceAt(share, instantAt(share, nowMs)).limits) {
    if (name !== WRITE_PRESSURE_LIMIT && limit.tokensMilli > limit.capacityMilli) return true
  }
  return false
}

/** Whether the bucket had overflowed before `taken` was consumed without a refill. */
export function hasOverflowed(share: BucketState, taken: Amounts, nowMs: number): boolean {
  if (nowMs <= share.refilledAtMs) return false
  const {limits} = refillBucket(share, nowMs)
  return [...taken].some(([name, milli]) => {
    const limit = limits.get(name)
    return milli > 0n && limit !== undefined && limit.tokensMilli + milli > limit.capacityMilli
  })
}

/** A bucket within these bounds is full at an instant, whatever other processes wrote. */
export interface FullnessBounds {
  readonly latestRefillMs: number
  /** The lowest balance that fills up by now if it was refilled then. */
  readonly lowestMilli: ReadonlyMap<string, bigint>
}

/** Each step allows for more requests by other processes, which must then be older. */
const RUNGS = [1, 2, 4, 8] as const

/**
 * Several processes share the bucket, so no process knows its exact state. Quotas gain nothing with time and have no
 * bounds. Empty if the seen state is out of bounds.
 */
export function boundsOfFullness(seen: BucketState, amounts: Amounts, nowMs: number): FullnessBounds[] {
  const sinceSeenMs = nowMs - seen.refilledAtMs
  // Bounds only hold for a single rule.
  if (sinceSeenMs <= 0 || !isCurrentAt(seen, nowMs)) return []
  const share = inForceAt(seen, nowMs)
  const {limits: refilled} = refillBucket(share, nowMs)
  const limits = [...share.limits].filter(([name, {kind}]) => name !== WRITE_PRESSURE_LIMIT && !kind?.quota)
  let restMs = 1
  for (const [name, limit] of limits) {
    if ((refilled.get(name)?.tokensMilli ?? 0n) < limit.capacityMilli) return []
    if (limit.refillAmountMilli <= 0n) continue
    const missing = limit.capacityMilli - limit.tokensMilli
    const asked = amounts.get(name) ?? 0n
    const usual = missing > asked ? missing : asked
    restMs = Math.max(restMs, Number((usual * BigInt(limit.refillPeriodMs)) / limit.refillAmountMilli) + 1)
  }
  // Going back further than the seen state gains nothing: it lies within the widest bounds.
  const rests = RUNGS.map(times => Math.min(times * restMs, sinceSeenMs))
  const lowestAfter = (limit: Rate, elapsedMs: number) =>
    // Planted fault: a bucket counts as full too early
    limit.capacityMilli - (limit.refillAmountMilli * BigInt(elapsedMs)) / BigInt(limit.refillPeriodMs)
  // Bounds ignore carried fractions: a bucket that is full only because of one is outside all bounds.
  if (limits.some(([, limit]) => limit.tokensMilli < lowestAfter(limit, sinceSeenMs))) return []
  return [...new Set(rests)].map(elapsedMs => ({
    latestRefillMs: nowMs - elapsedMs,
    lowestMilli: new Map(limits.map(([name, limit]) => [name, lowestAfter(limit, elapsedMs)])),
  }))
}

/**
 * Within these bounds no limit has overflowed, so tokens may be taken without a refill. A later refill would
 * otherwise return the overflow: up to twice the capacity.
 */
export interface RoomBounds {
  readonly earliestRefillMs: number
  /** The highest balance that does not overflow by now if it was refilled then. */
  readonly highestMilli: ReadonlyMap<string, bigint>
}

/** Other processes may have refilled since the state was seen, so try fractions of that time too. */
const SHARES_OF_TIME_SINCE_SEEN = [1, 4, 16] as const

/** 64ths of the shortest fill time. */
const SHARES_OF_FILLING = [1, 4, 16, 32, 48] as const

/** A limit that gains less than 1/16 of its capacity needs only one bound. */
const SMALL_GAIN = 16n

/** With more names, the expression has room for one bound only. */
const MOST_NAMES_IN_ROOM = 8

/** Empty if a limit may have overflowed in the seen state. */
export function boundsOfRoom(seen: BucketState, names: readonly string[], nowMs: number): RoomBounds[] {
  if (!isCurrentAt(seen, nowMs)) return []
  const share = inForceAt(seen, instantAt(seen, nowMs))
  const elapsedMs = Math.max(0, nowMs - share.refilledAtMs)
  const first = roomAfter(share.limits, names, elapsedMs, nowMs)
  if (!first) return []
  for (const name of names) {
    // Planted fault: a bucket that has overflowed counts as one with room
    if ((share.limits.get(name)?.tokensMilli ?? 0n) > (first.highestMilli.get(name) ?? 0n)) return []
  }
  const isSmall = (name: string) => {
    const {capacityMilli} = share.limits.get(name) as Rate
    return (capacityMilli - (first.highestMilli.get(name) as bigint)) * SMALL_GAIN <= capacityMilli
  }
  if (names.length > MOST_NAMES_IN_ROOM || names.every(isSmall)) return [first]
  const shares = SHARES_OF_TIME_SINCE_SEEN.map(part => Math.floor(elapsedMs / part))
  return shares.flatMap(eachMs => roomAfter(share.limits, names, eachMs, nowMs) ?? [])
}

/** Slower buckets count as filled by then. An earlier instant adds no information. */
const LONGEST_FILL_MS = 365 * 86_400_000

export function boundsOfUnseenRoom(
  rates: ReadonlyMap<string, Rate>,
  names: readonly string[],
  nowMs: number,
): RoomBounds[] {
  if (names.length === 0 || names.length > MOST_NAMES_IN_ROOM || names.some(name => !rates.has(name))) return []
  const fillMs = names.flatMap(name => {
    const {capacityMilli, refillAmountMilli, refillPeriodMs} = rates.get(name) as Rate
    return refillAmountMilli > 0n ? [Number((capacityMilli * BigInt(refillPeriodMs)) / refillAmountMilli)] : []
  })
  const firstFullMs = Math.min(LONGEST_FILL_MS, ...fillMs)
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

/** Takes tokens even if other processes have refilled or charged the bucket since it was seen. */
export interface SharedTake {
  /** Credits this part of the time since the last refill, and moves the refill instant forward by it. */
  readonly stepMs: number
  /** Bounds of the refill instant, in epoch ms. Without a step it may be later. */
  readonly earliestRefillMs: number
  readonly latestRefillMs: number | undefined
  readonly limits: ReadonlyMap<string, LimitTake>
}

interface LimitTake {
  readonly lowestMilli?: bigint
  readonly highestMilli?: bigint
  /** Without `setMilli`. */
  readonly addMilli: bigint
  /** The balance afterwards, for a limit that may have overflowed. */
  readonly setMilli?: bigint
}

/** A full limit may lose its refill of this many round trips, and at most this part of its capacity. */
const [MOST_TRIPS_BEHIND, MOST_GIVEN_UP] = [12, 2n]

/** Each limit takes 15 of an expression's 300 operators, and about 150 of its 4,096 characters. */
export const MOST_LIMITS_IN_BOUNDS = 12

/**
 * With more limits, a write has no room to credit all of them. The refill instant then stays behind for this many ms.
 */
const LONGEST_BEHIND_MS = 1000

/**
 * Sets a full limit below its capacity: by the refill of this many round trips, or by this multiple of the amount, and
 * at most by this part of the capacity. The next takes then find room, and earlier takes by others do no harm.
 */
const [MARGIN_TRIPS, MARGIN_TIMES, MOST_MARGIN] = [2, 4n, 16n]

/** A longer step would waste more of the time since the last refill. */
const LONGEST_QUANTUM_MS = 1000n

/**
 * Under contention, no process knows the exact state long enough to refill it. This take is valid for every state that
 * others can have written. It credits only the time that the amounts need, so that several processes can each take
 * their part. It sets a full limit to a balance that the limit has in any case. Its refill instant stays a round trip
 * behind, because others may have moved it that far. `undefined` if the seen state does not allow it.
 */
export function sharedTake(
  seen: BucketState,
  amounts: Amounts,
  nowMs: number,
  roundTripMs: number,
): SharedTake | undefined {
  const sinceMs = nowMs - seen.refilledAtMs
  if (sinceMs < 0 || !isCurrentAt(seen, nowMs)) return undefined
  const limits = [...inForceAt(seen, nowMs).limits].filter(([name]) => name !== WRITE_PRESSURE_LIMIT)
  const mayOverflow = (limit: BucketLimit) => limit.tokensMilli > limit.capacityMilli - earnedMilli(limit, sinceMs)
  const missing = limits.map(([name, limit]) => {
    const needsNone = mayOverflow(limit) || limit.kind?.softUntilMs !== undefined
    return {limit, asked: needsNone ? 0n : (amounts.get(name) ?? 0n)}
  })
  /** The most that a full limit loses when the refill instant stays behind by this time. */
  const givenUp = (name: string, limit: Rate, behindMs: number): bigint => {
    const [most, soon] = [limit.capacityMilli / MOST_MARGIN, earnedMilli(limit, MARGIN_TRIPS * roundTripMs)]
    const some = MARGIN_TIMES * (amounts.get(name) ?? 0n)
    const wanted = soon > some ? soon : some
    return earnedMilli(limit, behindMs) + (most < wanted ? most : wanted)
  }
  const mostBehindMs = limits.length > MOST_LIMITS_IN_BOUNDS ? LONGEST_BEHIND_MS : MOST_TRIPS_BEHIND * roundTripMs
  const isTooMuch = (behindMs: number) =>
    limits.some(
      ([name, limit]) =>
        mayOverflow(limit) &&
        (behindMs > mostBehindMs || givenUp(name, limit, behindMs) * MOST_GIVEN_UP > limit.capacityMilli),
    )
  let stepMs = stepFor(missing, 0)
  if (stepMs !== undefined && isTooMuch(sinceMs - stepMs)) stepMs = stepFor(missing, sinceMs - roundTripMs)
  if (stepMs === undefined || stepMs > sinceMs || isTooMuch(sinceMs - stepMs)) return undefined
  const takes = new Map<string, LimitTake>()
  for (const [name, limit] of limits) {
    const {capacityMilli, kind} = limit
    const asked = amounts.get(name) ?? 0n
    const isSoft = kind?.softUntilMs !== undefined
    if (asked > 0n && isSoft && !isSoftAt(limit, nowMs)) return undefined
    const earned = (limit.refillAmountMilli * BigInt(stepMs)) / BigInt(limit.refillPeriodMs)
    if (!mayOverflow(limit)) {
      // Planted fault: a shared take credits one token too many
      const addMilli = earned - asked
      const lowest = isSoft ? {} : {lowestMilli: asked - earned}
      const bounds =
        asked > 0n
          ? {...lowest, highestMilli: capacityMilli - earnedMilli(limit, sinceMs)}
          : {highestMilli: capacityMilli - earned}
      if (addMilli !== 0n || asked > 0n) takes.set(name, {addMilli, ...bounds})
      continue
    }
    if (asked === 0n) continue
    const level = capacityMilli - givenUp(name, limit, sinceMs - stepMs)
    if (level < asked) return undefined
    // Planted fault: a shared take keeps the overflow
    takes.set(name, {addMilli: 0n, setMilli: level - asked, lowestMilli: level - earned})
  }
  const latestRefillMs = stepMs > 0 ? nowMs - stepMs : undefined
  return {stepMs, earliestRefillMs: seen.refilledAtMs, latestRefillMs, limits: takes}
}

/**
 * The shortest time in which the limits earn the missing tokens, and whole millitokens each. Or the longest time up to
 * `laggingMs`, if that is longer.
 */
function stepFor(
  takes: readonly {readonly limit: BucketLimit; readonly asked: bigint}[],
  laggingMs: number,
): number | undefined {
  let quantumMs = 1n
  let neededMs = 0n
  for (const {limit, asked} of takes) {
    const {tokensMilli, refillAmountMilli} = limit
    const missing = asked > 0n && asked > tokensMilli ? asked - tokensMilli : 0n
    if (refillAmountMilli <= 0n) {
      if (missing > 0n) return undefined
      continue
    }
    const periodMs = BigInt(limit.refillPeriodMs)
    const wholeMs = periodMs / greatestDivisor(periodMs, refillAmountMilli)
    quantumMs = (quantumMs / greatestDivisor(quantumMs, wholeMs)) * wholeMs
    const waitMs = (missing * periodMs + refillAmountMilli - 1n) / refillAmountMilli
    if (waitMs > neededMs) neededMs = waitMs
  }
  if (neededMs === 0n && laggingMs <= 0) return 0
  if (quantumMs > LONGEST_QUANTUM_MS) return undefined
  const shortestMs = Number(((neededMs + quantumMs - 1n) / quantumMs) * quantumMs)
  return Math.max(shortestMs, Math.floor(laggingMs / Number(quantumMs)) * Number(quantumMs))
}

/** Rounded up: 2 covers the fraction of this time and the carried one. */
function earnedMilli({refillAmountMilli, refillPeriodMs}: Rate, elapsedMs: number): bigint {
  return elapsedMs <= 0 || refillAmountMilli <= 0n
    ? 0n
    : (refillAmountMilli * BigInt(elapsedMs)) / BigInt(refillPeriodMs) + 2n
}
