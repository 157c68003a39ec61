import {InvalidInput} from './errors.js'
import {
  type Balance,
  floorDivide,
  MILLI,
  type Rate,
  refill,
  retryAfterMs,
  takeBackRefill,
  toTokens,
} from './token-math.js'

/** One limit inside a bucket: its rate, its balance and its net consumption so far. */
export interface LimitState extends Rate, Balance {
  /** Net millitokens ever consumed: up on consumption, down on return; never touched by refill. */
  readonly consumedMilli: bigint
}

/** All limits of one entity, resource and shard. They share one refill instant, which is also the optimistic lock. */
export interface BucketState {
  /** Epoch milliseconds up to which every limit has been credited. */
  readonly refilledAtMs: number
  readonly limits: ReadonlyMap<string, LimitState>
}

/** Millitokens asked for, per limit name. */
export type Amounts = ReadonlyMap<string, bigint>

/** What several requests ask for together, or several corrections add up to. */
export function sumAmounts(requests: Iterable<{readonly amounts: Amounts}>): Map<string, bigint> {
  const sum = new Map<string, bigint>()
  for (const {amounts} of requests) for (const [name, milli] of amounts) sum.set(name, (sum.get(name) ?? 0n) + milli)
  return sum
}

/** The opposite amounts: what undoes a charge. */
export function negateAmounts(amounts: Amounts): Map<string, bigint> {
  return new Map([...amounts].map(([name, milli]) => [name, -milli]))
}

/** Which requests fit into the balances together, first come first served; the others are skipped one by one. */
export function chooseFitting<T extends {readonly amounts: Amounts}>(
  requests: readonly T[],
  tokensMilli: ReadonlyMap<string, bigint>,
): {fitting: T[]; others: T[]} {
  const left = new Map(tokensMilli)
  const fitting: T[] = []
  const others: T[] = []
  for (const request of requests) {
    const entries = [...request.amounts]
    if (entries.every(([name, milli]) => (left.get(name) ?? 0n) >= milli)) {
      for (const [name, milli] of entries) left.set(name, (left.get(name) ?? 0n) - milli)
      fitting.push(request)
    } else others.push(request)
  }
  return {fitting, others}
}

/** Where one limit stands against what was asked of it. Counts are whole tokens. */
export interface LimitStatus {
  readonly name: string
  readonly capacity: number
  readonly available: number
  readonly requested: number
  readonly deficit: number
  readonly exceeded: boolean
  /** 0 when not exceeded; `Infinity` when waiting never helps. */
  readonly retryAfterMs: number
}

export interface Decision {
  readonly admitted: boolean
  /** Refilled up to the decision's instant, and charged when admitted. */
  readonly bucket: BucketState
  /** One status per limit asked for, in the order asked. */
  readonly statuses: readonly LimitStatus[]
  /** The longest wait among the statuses. */
  readonly retryAfterMs: number
}

/**
 * How far a refill instant may be ahead of a clock: a day. Within that either clock may be the wrong one, by a time zone for
 * example, and to set the instant back by a clock that lags would credit the time between twice. The bucket waits instead.
 */
const MAX_AHEAD_MS = 86_400_000

/** Whether a bucket would stand still for more than a day; its next write repairs it. */
export function isAheadOfTime({refilledAtMs}: BucketState, nowMs: number): boolean {
  return refilledAtMs - nowMs > MAX_AHEAD_MS
}

/**
 * Credits every limit up to `nowMs` and moves the shared instant there. A clock somewhat behind the instant changes
 * nothing: time that was credited once is never credited again. An instant far ahead is set back to `nowMs`, and what was
 * credited for the time between is taken back: nothing is minted, and the bucket does not stand still for years.
 */
export function refillBucket(bucket: BucketState, nowMs: number): BucketState {
  const elapsedMs = nowMs - bucket.refilledAtMs
  if (elapsedMs <= 0 && !isAheadOfTime(bucket, nowMs)) return bucket
  const limits = new Map<string, LimitState>()
  for (const [name, limit] of bucket.limits) {
    const balance = elapsedMs > 0 ? refill(limit, limit, elapsedMs) : takeBackRefill(limit, limit, -elapsedMs)
    limits.set(name, {...limit, ...balance})
  }
  return {refilledAtMs: nowMs, limits}
}

/** Admits when every limit asked for covers its amount; otherwise charges none of them. */
export function tryConsumeBucket(bucket: BucketState, amounts: Amounts, nowMs: number): Decision {
  const refilled = refillBucket(bucket, nowMs)
  const statuses = statusesOf(refilled, amounts, nowMs)
  const admitted = statuses.every(status => !status.exceeded)
  return {
    admitted,
    bucket: admitted ? chargeBucket(refilled, amounts) : refilled,
    statuses,
    retryAfterMs: Math.max(0, ...statuses.map(status => status.retryAfterMs)),
  }
}

/**
 * Seconds a bucket may lie untouched before the table may drop it: `multiplier` times the longest time any of its
 * limits needs to fill up from where it stands. Counting from the actual balance keeps a debt from being forgiven by
 * expiry. A balance above zero counts as zero, so that equal limits get equal lifetimes.
 */
export function lifetimeSeconds(limits: Iterable<Rate & {tokensMilli?: bigint}>, multiplier: number): number {
  let longest = 0n
  for (const limit of limits) {
    if (limit.refillAmountMilli <= 0n) continue
    const debt = limit.tokensMilli !== undefined && limit.tokensMilli < 0n ? -limit.tokensMilli : 0n
    const fillSeconds =
      (BigInt(multiplier) * (limit.capacityMilli + debt) * BigInt(limit.refillPeriodMs)) /
      (limit.refillAmountMilli * MILLI)
    if (fillSeconds > longest) longest = fillSeconds
  }
  return Number(longest)
}

/** A bucket that fills up within milliseconds must not count as expired between two requests. */
const SHORTEST_LIFETIME_SECONDS = 60

/** Epoch seconds after which the table may drop a bucket that lies untouched from `nowMs` on. */
export function expiresAtSeconds(
  limits: Iterable<Rate & {tokensMilli?: bigint}>,
  multiplier: number,
  nowMs: number,
): number {
  return Math.floor(nowMs / 1000) + Math.max(SHORTEST_LIFETIME_SECONDS, lifetimeSeconds(limits, multiplier))
}

function statusesOf(refilled: BucketState, amounts: Amounts, nowMs: number): LimitStatus[] {
  // Refill stands still until the clock passes the shared instant, so a wait starts there.
  const standstillMs = Math.max(0, refilled.refilledAtMs - nowMs)
  const statuses: LimitStatus[] = []
  for (const [name, amountMilli] of amounts) {
    const limit = knownLimit(refilled, name)
    // A limit of which nothing is asked is not checked, not even when it is in debt.
    const exceeded = amountMilli > 0n && limit.tokensMilli < amountMilli
    const missingMilli = exceeded ? amountMilli - limit.tokensMilli : 0n
    statuses.push({
      name,
      capacity: toTokens(limit.capacityMilli),
      available: toTokens(limit.tokensMilli),
      requested: toTokens(amountMilli),
      deficit: Number(-floorDivide(-missingMilli, MILLI)),
      exceeded,
      retryAfterMs: exceeded ? standstillMs + retryAfterMs(limit, limit, amountMilli) : 0,
    })
  }
  return statuses
}

function chargeBucket(bucket: BucketState, amounts: Amounts): BucketState {
  const limits = new Map(bucket.limits)
  for (const [name, amountMilli] of amounts) {
    const limit = knownLimit(bucket, name)
    limits.set(name, {
      ...limit,
      tokensMilli: limit.tokensMilli - amountMilli,
      consumedMilli: limit.consumedMilli + amountMilli,
    })
  }
  return {...bucket, limits}
}

function knownLimit(bucket: BucketState, name: string): LimitState {
  const limit = bucket.limits.get(name)
  if (limit) return limit
  throw new InvalidInput(
    'limit.unknown',
    `The bucket has no limit "${name}"; it has ${[...bucket.limits.keys()].join(', ') || 'none'}.`,
  )
}
