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

export type BucketLimit = KindedLimit

/** All limits of one entity, resource and shard. They share one refill instant, which is also the optimistic lock. */
export interface BucketState {
  /** Epoch ms up to which every limit has been credited. */
  readonly refilledAtMs: number
  readonly limits: ReadonlyMap<string, BucketLimit>
}

/** Millitokens per limit name. */
export type Amounts = ReadonlyMap<string, bigint>

export function sumAmounts(requests: Iterable<{readonly amounts: Amounts}>): Map<string, bigint> {
  const sum = new Map<string, bigint>()
  for (const {amounts} of requests) for (const [name, milli] of amounts) sum.set(name, (sum.get(name) ?? 0n) + milli)
  return sum
}

export function negateAmounts(amounts: Amounts): Map<string, bigint> {
  // Planted fault: refunds are charges
  return new Map([...amounts].map(([name, milli]) => [name, -milli]))
}

/** First come, first served: requests that don't fit are skipped one by one. Amounts must not be negative. */
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
  // Planted fault: a request with one token too few is admitted
  for (const [name, milli] of amounts) if ((tokensMilli.get(name) ?? 0n) < milli) return false
  return true
}

/** A limit's balance against the requested amount, in whole tokens. */
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
  readonly bucket: BucketState
  readonly statuses: readonly LimitStatus[]
  readonly retryAfterMs: number
}

/**
 * Set back only instants more than a day ahead: within a day either clock may be wrong, for example by a time zone,
 * and setting back by a lagging clock would credit that time twice.
 */
const MAX_AHEAD_MS = 86_400_000

/** Whether a bucket or a session would stand still for more than a day. The next write repairs it. */
export function isAheadOfTime({refilledAtMs, limits}: BucketState, nowMs: number): boolean {
  if (refilledAtMs > nowMs + MAX_AHEAD_MS) return true
  for (const {kind} of limits.values()) if ((kind?.quota?.session?.startMs ?? 0) > nowMs + MAX_AHEAD_MS) return true
  return false
}

/**
 * Credits every limit up to `nowMs` and moves the shared instant there. Time is never credited twice: a clock slightly
 * behind changes nothing. An instant far ahead is set back and its credit is taken back; quotas keep their balance and
 * are not granted its period again. Reopens ended sessions at `nowMs`, as a use would, unless `opensSessions` is false.
 */
export function refillBucket(bucket: BucketState, nowMs: number, opensSessions = true): BucketState {
  const {refilledAtMs} = bucket
  const elapsedMs = nowMs - refilledAtMs
  const isAhead = elapsedMs < -MAX_AHEAD_MS
  if (elapsedMs <= 0 && !isAhead && !hasKinds(bucket)) return bucket
  const untilMs = instantAt(bucket, nowMs)
  const limits = new Map<string, BucketLimit>()
  for (const [name, limit] of bucket.limits)
    limits.set(name, refillLimit(limit, refilledAtMs, untilMs, nowMs, opensSessions))
  return {refilledAtMs: untilMs, limits}
}

function refillLimit(
  limit: BucketLimit,
  refilledAtMs: number,
  untilMs: number,
  nowMs: number,
  opensSessions: boolean,
): BucketLimit {
  const isAhead = untilMs < refilledAtMs
  if (limit.kind) {
    const held = sessionSetBack(isAhead ? setBack(limit, refilledAtMs, untilMs) : limit, nowMs, MAX_AHEAD_MS)
    return advanceKind(held, Math.min(refilledAtMs, untilMs), nowMs, opensSessions)
  }
  if (nowMs > refilledAtMs) return withBalance(limit, refill(limit, limit, nowMs - refilledAtMs))
  return isAhead ? withBalance(limit, takeBackRefill(limit, limit, refilledAtMs - untilMs)) : limit
}

/** Field by field, which is faster than spreading. Runs for every refusal. */
function withBalance(
  {capacityMilli, refillAmountMilli, refillPeriodMs, consumedMilli}: BucketLimit,
  {tokensMilli, remainder}: Balance,
): BucketLimit {
  return {capacityMilli, refillAmountMilli, refillPeriodMs, tokensMilli, consumedMilli, remainder}
}

/** Rules are evaluated at the bucket's instant, even if the clock is behind it. */
export function instantAt(bucket: BucketState, nowMs: number): number {
  const {refilledAtMs} = bucket
  return refilledAtMs > nowMs + MAX_AHEAD_MS ? setBackTo(bucket, nowMs) : Math.max(refilledAtMs, nowMs)
}

/** `nowMs`, or the start of a period at most a day ahead, which clients that ignore `heldMs` would grant again. */
function setBackTo({refilledAtMs, limits}: BucketState, nowMs: number): number {
  let latestMs = nowMs
  for (const {kind} of limits.values()) {
    const beginMs = kind?.quota?.session ? kind.quota.session.startMs : kind?.quota?.resets?.lastMs(refilledAtMs)
    if (beginMs !== undefined && beginMs > latestMs && beginMs - nowMs <= MAX_AHEAD_MS) latestMs = beginMs
  }
  return latestMs
}

/** Any positive balance may be credit of a wrong clock, whatever rates it used. */
function setBack(limit: BucketLimit, refilledAtMs: number, untilMs: number): BucketLimit {
  if (limit.kind?.quota) return quotaSetBack(limit, refilledAtMs, untilMs)
  return limit.tokensMilli <= 0n ? limit : {...limit, tokensMilli: 0n, remainder: 0n}
}

export function hasKinds({limits}: BucketState): boolean {
  for (const limit of limits.values()) if (limit.kind) return true
  return false
}

export function inForceAt(bucket: BucketState, atMs: number): BucketState {
  if (!hasKinds(bucket)) return bucket
  return {...bucket, limits: new Map([...bucket.limits].map(([name, limit]) => [name, withRateAt(limit, atMs)]))}
}

/** Whether tokens may be taken without a refill: no rule change, reset, end of a session or softness since then. */
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

/** The quota periods of the balances, or those of a charge before this state was seen. */
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

export function nextBoundary({limits}: BucketState, nowMs: number): number | undefined {
  let first: number | undefined
  for (const limit of limits.values()) {
    const boundaryMs = boundaryAfter(limit, nowMs)
    if (boundaryMs !== undefined && (first === undefined || boundaryMs < first)) first = boundaryMs
  }
  return first
}

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

/** A limit with no amount is not checked, even in debt. */
function isExceeded(limit: BucketLimit, milli: bigint, nowMs: number): boolean {
  return milli > 0n && limit.tokensMilli < milli && !isSoftAt(limit, nowMs)
}

/** `multiplier` times the longest fill time, from zero or from a debt, so that expiry never forgives a debt. */
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

/** From zero or a debt, across rule changes, rounded up; a quota is full at its next reset. */
function secondsUntilFull(limit: KindedRate & {tokensMilli?: bigint}, nowMs: number): bigint {
  const {tokensMilli = 0n} = limit
  const empty = {...limit, tokensMilli: tokensMilli < 0n ? tokensMilli : 0n, remainder: 0n, consumedMilli: 0n}
  // At least a whole session, even shortly before it ends: another shard may begin the next one.
  const sessionMs = limit.kind?.quota?.session?.lengthMs ?? 0
  const isClosed = sessionMs > 0 && (sessionEndMs(limit) ?? 0) <= nowMs
  const waitMs = isClosed ? sessionMs : Math.max(sessionMs, waitUntilFull(empty, nowMs))
  // A bucket dropped before its reset, by any client's clock, would start with a second allowance.
  return BigInt(Math.ceil((Number.isFinite(waitMs) ? waitMs : UNKNOWN_LIFETIME_MS) / 1000) + CLOCK_MARGIN_SECONDS)
}

/** Clocks of clients differ by less. */
const CLOCK_MARGIN_SECONDS = 60

const UNKNOWN_LIFETIME_MS = 365 * 86_400_000

/** Idle expiry, in multiples of the fill time. */
export const LIFETIME_MULTIPLIER = 7

/** Minimum idle lifetime: recreating a bucket costs more than keeping it for years (decision 37). */
const IDLE_LIFETIME_SECONDS = 7 * 86_400

/** A bucket that fills within milliseconds must not expire between two requests. */
const SHORTEST_LIFETIME_SECONDS = 60

export function expiresAtSeconds(
  limits: Iterable<KindedRate & {tokensMilli?: bigint}>,
  multiplier: number,
  nowMs: number,
): number {
  // Planted fault: buckets expire at once
  return Math.max(Math.floor(nowMs / 1000) + IDLE_LIFETIME_SECONDS, neededUntilSeconds(limits, multiplier, nowMs))
}

/** End of the year 9999. A limit of 1/day with a burst of billions takes longer to fill, beyond exact numbers and dates. */
export const LATEST_EXPIRY_SECONDS = 253_402_300_799

/** Epoch seconds. Dropping the bucket earlier would forget charges: it would start full. */
export function neededUntilSeconds(
  limits: Iterable<KindedRate & {tokensMilli?: bigint}>,
  multiplier: number,
  nowMs: number,
): number {
  const neededSeconds = Math.max(SHORTEST_LIFETIME_SECONDS, lifetimeSeconds(limits, multiplier, nowMs))
  return Math.min(Math.floor(nowMs / 1000) + neededSeconds, LATEST_EXPIRY_SECONDS)
}

/** For a limit without a kind. The bucket must be refilled to `nowMs`. */
export function waitInPlainBucket(refilled: BucketState, name: string, milli: bigint, nowMs: number): number {
  const limit = knownLimit(refilled, name)
  return isExceeded(limit, milli, nowMs) ? standstill(refilled, nowMs) + retryAfterMs(limit, limit, milli) : 0
}

/** Until refill has repaid the debt, except for the `laterMilli` of charges after it. The bucket must be refilled to `nowMs`. */
export function waitUntilRepaid(refilled: BucketState, name: string, laterMilli: bigint, nowMs: number): number {
  const limit = knownLimit(refilled, name)
  const tokensMilli = limit.tokensMilli + laterMilli
  if (tokensMilli >= 0n || limit.kind) return 0
  return standstill(refilled, nowMs) + retryAfterMs(limit, {tokensMilli, remainder: limit.remainder}, 0n)
}

/** Refill pauses until the clock passes the shared instant, so a wait starts there. */
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

function knownLimit(bucket: BucketState, name: string): BucketLimit {
  const limit = bucket.limits.get(name)
  if (limit) return limit
  throw new InvalidInput(
    'limit.unknown',
    `The bucket has no limit "${name}"; it has ${[...bucket.limits.keys()].join(', ') || 'none'}.`,
  )
}
