import {InvalidInput} from '../errors.js'
import {boundaryAfter, isSoftAt, type KindedRate, sessionEndMs} from '../limits/limit-kind.js'
import {type Balance, floorDivide, MILLI, refill, retryAfterMs, takeBackRefill, toTokens} from '../token-math.js'
import {
  advanceKind,
  isInPeriod,
  type KindedLimit,
  periodOf,
  type QuotaPeriod,
  quotaSetBack,
  sessionSetBack,
  waitForKind,
  waitUntilFull,
  withRateAt,
} from './kind-refill.js'

export type LimitState = KindedLimit

/** All limits of one entity, resource and shard. They share one refill instant, which is also the optimistic lock. */
export interface BucketState {
  /** Epoch milliseconds up to which every limit has been credited. */
  readonly refilledAtMs: number
  readonly limits: ReadonlyMap<string, LimitState>
}

/** Millitokens asked for, per limit name. */
export type Amounts = ReadonlyMap<string, bigint>

export function sumAmounts(requests: Iterable<{readonly amounts: Amounts}>): Map<string, bigint> {
  const sum = new Map<string, bigint>()
  for (const {amounts} of requests) for (const [name, milli] of amounts) sum.set(name, (sum.get(name) ?? 0n) + milli)
  return sum
}

export function negateAmounts(amounts: Amounts): Map<string, bigint> {
  // Planted fault: returns are charges
  return new Map([...amounts].map(([name, milli]) => [name, -milli]))
}

/**
 * Which requests fit into the balances together, first come first served; the others are skipped one by one. `sum` is what
 * all of them ask for, none less than nothing.
 */
export function chooseFitting<T extends {readonly amounts: Amounts}>(
  requests: readonly T[],
  tokensMilli: ReadonlyMap<string, bigint>,
  sum: Amounts = sumAmounts(requests),
): {fitting: readonly T[]; others: readonly T[]} {
  if (covers(tokensMilli, sum)) return {fitting: requests, others: []}
  const left = new Map(tokensMilli)
  const fitting: T[] = []
  const others: T[] = []
  for (const request of requests) {
    if (covers(left, request.amounts)) {
      // Planted fault: requests of a batch share the same tokens
      for (const [name, milli] of request.amounts) left.set(name, (left.get(name) ?? 0n) - milli)
      fitting.push(request)
    } else others.push(request)
  }
  return {fitting, others}
}

function covers(tokensMilli: ReadonlyMap<string, bigint>, amounts: Amounts): boolean {
  // Planted fault: a token too few is enough
  for (const [name, milli] of amounts) if ((tokensMilli.get(name) ?? 0n) < milli) return false
  return true
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

/** Whether a bucket or one of its sessions would stand still for more than a day; its next write repairs it. */
export function isAheadOfTime({refilledAtMs, limits}: BucketState, nowMs: number): boolean {
  if (refilledAtMs > nowMs + MAX_AHEAD_MS) return true
  for (const {kind} of limits.values()) if ((kind?.quota?.session?.startMs ?? 0) > nowMs + MAX_AHEAD_MS) return true
  return false
}

/**
 * Credits every limit up to `nowMs` and moves the shared instant there. A clock somewhat behind the instant changes
 * nothing: time that was credited once is never credited again. An instant far ahead is set back to `nowMs`, and what was
 * credited for the time between is taken back: nothing is minted, and the bucket does not stand still for years. Quotas
 * keep their balance, and are not granted the period that it is of again.
 * Sessions that have ended are opened as a use at `nowMs` would do, unless `opensSessions` is false.
 */
export function refillBucket(bucket: BucketState, nowMs: number, opensSessions = true): BucketState {
  const {refilledAtMs} = bucket
  const elapsedMs = nowMs - refilledAtMs
  const isAhead = elapsedMs < -MAX_AHEAD_MS
  if (elapsedMs <= 0 && !isAhead && !hasKinds(bucket)) return bucket
  const untilMs = instantAt(bucket, nowMs)
  const limits = new Map<string, LimitState>()
  for (const [name, limit] of bucket.limits)
    limits.set(name, refillLimit(limit, refilledAtMs, untilMs, nowMs, opensSessions))
  return {refilledAtMs: untilMs, limits}
}

function refillLimit(
  limit: LimitState,
  refilledAtMs: number,
  untilMs: number,
  nowMs: number,
  opensSessions: boolean,
): LimitState {
  const isAhead = untilMs < refilledAtMs
  if (limit.kind) {
    const held = sessionSetBack(isAhead ? setBack(limit, refilledAtMs, untilMs) : limit, nowMs, MAX_AHEAD_MS)
    return advanceKind(held, Math.min(refilledAtMs, untilMs), nowMs, opensSessions)
  }
  if (nowMs > refilledAtMs) return withBalance(limit, refill(limit, limit, nowMs - refilledAtMs))
  return isAhead ? withBalance(limit, takeBackRefill(limit, limit, refilledAtMs - untilMs)) : limit
}

/** Field by field, which is faster than spreading: this is done for every refusal. */
function withBalance(
  {capacityMilli, refillAmountMilli, refillPeriodMs, consumedMilli}: LimitState,
  {tokensMilli, remainder}: Balance,
): LimitState {
  return {capacityMilli, refillAmountMilli, refillPeriodMs, tokensMilli, consumedMilli, remainder}
}

/** The instant that a bucket is at when a clock shows `nowMs`: rules count as they are then, also if the clock is behind it. */
export function instantAt(bucket: BucketState, nowMs: number): number {
  const {refilledAtMs} = bucket
  return refilledAtMs > nowMs + MAX_AHEAD_MS ? setBackTo(bucket, nowMs) : Math.max(refilledAtMs, nowMs)
}

/**
 * Where a refill instant far ahead is set back to: `nowMs`, or the begin of the last period that is at most a day ahead.
 * Clients that do not know which period is held would otherwise grant that one again.
 */
function setBackTo({refilledAtMs, limits}: BucketState, nowMs: number): number {
  let latestMs = nowMs
  for (const {kind} of limits.values()) {
    const beginMs = kind?.quota?.session ? kind.quota.session.startMs : kind?.quota?.resets?.lastMs(refilledAtMs)
    if (beginMs !== undefined && beginMs > latestMs && beginMs - nowMs <= MAX_AHEAD_MS) latestMs = beginMs
  }
  return latestMs
}

/** Which rates were in force in the future that a wrong clock has credited is not worth knowing: all of it may be credit. */
function setBack(limit: LimitState, refilledAtMs: number, untilMs: number): LimitState {
  if (limit.kind?.quota) return quotaSetBack(limit, refilledAtMs, untilMs)
  return limit.tokensMilli <= 0n ? limit : {...limit, tokensMilli: 0n, remainder: 0n}
}

export function hasKinds({limits}: BucketState): boolean {
  for (const limit of limits.values()) if (limit.kind) return true
  return false
}

/** The same bucket with the parameters that are in force at an instant; its balances stay. */
export function inForceAt(bucket: BucketState, atMs: number): BucketState {
  if (!hasKinds(bucket)) return bucket
  return {...bucket, limits: new Map([...bucket.limits].map(([name, limit]) => [name, withRateAt(limit, atMs)]))}
}

/**
 * Whether the balances follow from plain arithmetic at `nowMs`: since the last refill no rule has changed, no reset was
 * due, no session has ended, and no softness has run out. Only then may tokens be taken without bringing it forward.
 */
export function isCurrentAt({refilledAtMs, limits}: BucketState, nowMs: number): boolean {
  for (const limit of limits.values()) {
    if (!limit.kind) continue
    const {softUntilMs} = limit.kind
    if (!isInPeriod(limit, refilledAtMs, nowMs) || (softUntilMs !== undefined && softUntilMs <= nowMs)) return false
    const boundaryMs = boundaryAfter(limit, Math.min(refilledAtMs, nowMs))
    if (boundaryMs !== undefined && boundaryMs <= nowMs) return false
  }
  return true
}

/** The periods that the balances of quotas belong to; of a state seen later, the periods that an earlier charge was in. */
export function periodsOf(bucket: BucketState, chargedAtMs = Infinity): ReadonlyMap<string, QuotaPeriod> {
  if (!hasKinds(bucket)) return NO_PERIODS
  const periods = new Map<string, QuotaPeriod>()
  for (const [name, limit] of bucket.limits) {
    const period = limit.kind && periodOf(limit, bucket.refilledAtMs, chargedAtMs)
    if (period) periods.set(name, period)
  }
  return periods
}

const NO_PERIODS: ReadonlyMap<string, QuotaPeriod> = new Map()

/** The first instant after `nowMs` at which a limit changes by itself; `undefined` for a bucket of plain limits. */
export function nextBoundary({limits}: BucketState, nowMs: number): number | undefined {
  let first: number | undefined
  for (const limit of limits.values()) {
    const boundaryMs = boundaryAfter(limit, nowMs)
    if (boundaryMs !== undefined && (first === undefined || boundaryMs < first)) first = boundaryMs
  }
  return first
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

export function wouldAdmit(bucket: BucketState, amounts: Amounts, nowMs: number): boolean {
  const untilMs = instantAt(bucket, nowMs)
  for (const [name, milli] of amounts) {
    const limit = refillLimit(knownLimit(bucket, name), bucket.refilledAtMs, untilMs, nowMs, true)
    if (isExceeded(limit, milli, nowMs)) return false
  }
  return true
}

/** A limit of which nothing is asked is not checked, not even when it is in debt. */
function isExceeded(limit: LimitState, milli: bigint, nowMs: number): boolean {
  return milli > 0n && limit.tokensMilli < milli && !isSoftAt(limit, nowMs)
}

/**
 * Seconds a bucket may lie untouched before the table may drop it: `multiplier` times the longest time any of its
 * limits needs to fill up from where it stands. Counting from the actual balance keeps a debt from being forgiven by
 * expiry. A balance above zero counts as zero, so that equal limits get equal lifetimes.
 */
export function lifetimeSeconds(
  limits: Iterable<KindedRate & {tokensMilli?: bigint}>,
  multiplier: number,
  nowMs = 0,
): number {
  let longest = 0n
  for (const limit of limits) {
    if (limit.kind) {
      const fillSeconds = BigInt(multiplier) * secondsUntilFull(limit, nowMs)
      if (fillSeconds > longest) longest = fillSeconds
    }
    if (limit.kind || limit.refillAmountMilli <= 0n) continue
    const debt = limit.tokensMilli !== undefined && limit.tokensMilli < 0n ? -limit.tokensMilli : 0n
    const fillSeconds =
      (BigInt(multiplier) * (limit.capacityMilli + debt) * BigInt(limit.refillPeriodMs)) /
      (limit.refillAmountMilli * MILLI)
    if (fillSeconds > longest) longest = fillSeconds
  }
  return Number(longest)
}

/** From an empty balance or a debt, over all changes of the rules, rounded up; a quota is restored by its next reset. */
function secondsUntilFull(limit: KindedRate & {tokensMilli?: bigint}, nowMs: number): bigint {
  const {tokensMilli = 0n} = limit
  const empty = {...limit, tokensMilli: tokensMilli < 0n ? tokensMilli : 0n, remainder: 0n, consumedMilli: 0n}
  // Shortly before a session ends, too: another shard may begin the next one. If none is open, the first use fills it.
  const sessionMs = limit.kind?.quota?.session?.lengthMs ?? 0
  const isClosed = sessionMs > 0 && (sessionEndMs(limit) ?? 0) <= nowMs
  const waitMs = isClosed ? sessionMs : Math.max(sessionMs, waitUntilFull(empty, nowMs))
  // A bucket that is gone before its reset, on any client's clock, would start with a second allowance.
  return BigInt(Math.ceil((Number.isFinite(waitMs) ? waitMs : UNKNOWN_LIFETIME_MS) / 1000) + CLOCK_MARGIN_SECONDS)
}

/** Clocks of clients differ by less. */
const CLOCK_MARGIN_SECONDS = 60

/** A year, for a limit that never fills up. */
const UNKNOWN_LIFETIME_MS = 365 * 86_400_000

/** An idle bucket lives for this many times the time it takes to fill, unless said otherwise, or longer. */
export const LIFETIME_MULTIPLIER = 7

/** Seven days, the least that an idle bucket lives: to make it anew costs more than to keep it for years (decision 37). */
const IDLE_LIFETIME_SECONDS = 7 * 86_400

/** A bucket that fills up within milliseconds must not count as expired between two requests. */
const SHORTEST_LIFETIME_SECONDS = 60

/** Epoch seconds after which the table may drop a bucket that lies untouched from `nowMs` on. */
export function expiresAtSeconds(
  limits: Iterable<KindedRate & {tokensMilli?: bigint}>,
  multiplier: number,
  nowMs: number,
): number {
  // Planted fault: buckets expire at once
  return Math.max(Math.floor(nowMs / 1000) + IDLE_LIFETIME_SECONDS, neededUntilSeconds(limits, multiplier, nowMs))
}

/** Epoch seconds before which a bucket must not be gone: it would begin full, and what it had been charged be forgotten. */
export function neededUntilSeconds(
  limits: Iterable<KindedRate & {tokensMilli?: bigint}>,
  multiplier: number,
  nowMs: number,
): number {
  return Math.floor(nowMs / 1000) + Math.max(SHORTEST_LIFETIME_SECONDS, lifetimeSeconds(limits, multiplier, nowMs))
}

/** Milliseconds until a limit without a kind holds an amount, of a bucket that was refilled by `nowMs`. */
export function waitInPlainBucket(refilled: BucketState, name: string, milli: bigint, nowMs: number): number {
  const limit = knownLimit(refilled, name)
  return isExceeded(limit, milli, nowMs) ? standstill(refilled, nowMs) + retryAfterMs(limit, limit, milli) : 0
}

/** Refill stands still until the clock passes the shared instant, so a wait starts there. */
function standstill({refilledAtMs}: BucketState, nowMs: number): number {
  return Math.max(0, refilledAtMs - nowMs)
}

function statusesOf(refilled: BucketState, amounts: Amounts, nowMs: number): LimitStatus[] {
  const standstillMs = standstill(refilled, nowMs)
  const statuses: LimitStatus[] = []
  for (const [name, amountMilli] of amounts) {
    const limit = knownLimit(refilled, name)
    const exceeded = isExceeded(limit, amountMilli, nowMs)
    const missingMilli = exceeded ? amountMilli - limit.tokensMilli : 0n
    statuses.push({
      name,
      capacity: toTokens(limit.capacityMilli),
      available: toTokens(limit.tokensMilli),
      requested: toTokens(amountMilli),
      deficit: Number(-floorDivide(-missingMilli, MILLI)),
      exceeded,
      retryAfterMs: !exceeded
        ? 0
        : limit.kind
          ? waitForKind(limit, amountMilli, Math.max(nowMs, refilled.refilledAtMs)) + standstillMs
          : standstillMs + retryAfterMs(limit, limit, amountMilli),
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
