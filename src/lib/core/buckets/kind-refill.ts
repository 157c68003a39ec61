import {
  boundaryAfter,
  type LimitKind,
  type Quota,
  rateAt,
  resetTarget,
  sessionEndMs,
  wholeRateAt,
} from '../limits/limit-kind.js'
import {type Balance, type Rate, refill, retryAfterMs} from '../token-math.js'

export interface KindedLimit extends Rate, Balance {
  /** Net millitokens ever consumed: up on consumption, down on return; never touched by refill. */
  readonly consumedMilli: bigint
  /** Absent for plain limits. */
  readonly kind?: LimitKind | undefined
}

/** Rules that a refill walks through one by one; beyond that, the time in the middle earns nothing. */
const MOST_PIECES = 4096

/**
 * Brings a limit that has a kind forward from the instant it was credited to. A quota is restored when a reset lies
 * between; a session that has ended opens anew at `toMs`, as the first use then would, unless `opensSession` is false.
 * Parameters become those in force at `toMs`, or at `fromMs` if that is later: a clock that is behind the bucket cuts nothing
 * off by a rule of the past.
 */
export function advanceKind<L extends KindedLimit>(limit: L, fromMs: number, toMs: number, opensSession = true): L {
  const quota = limit.kind?.quota
  const advanced = quota
    ? advanceQuota(limit, quota, fromMs, toMs, opensSession)
    : {...limit, ...refillPiecewise(limit, fromMs, toMs)}
  return withRateAt(advanced, Math.max(fromMs, toMs))
}

export function withRateAt<L extends KindedLimit>(limit: L, atMs: number): L {
  const {kind} = limit
  if (!kind) return limit
  const {capacityMilli, refillAmountMilli, refillPeriodMs} = limit
  const share = kind.share ?? {shard: 0, count: 1, whole: {capacityMilli, refillAmountMilli, refillPeriodMs}}
  const whole = {...limit, kind: {...kind, share}}
  return {...whole, ...rateAt(whole, atMs).rate}
}

/** Whether the balance is of the period that an instant lies in; otherwise a reset is due, or a session to be opened. */
export function isInPeriod(limit: KindedLimit, refilledAtMs: number, atMs: number): boolean {
  const quota = limit.kind?.quota
  if (quota?.resets) {
    const resetMs = quota.resets.lastMs(atMs) ?? refilledAtMs
    return resetMs <= refilledAtMs || resetMs === quota.heldMs
  }
  if (!quota?.session) return true
  const endMs = sessionEndMs(limit)
  return endMs !== undefined && atMs < endMs && !hasPendingWindow(quota, refilledAtMs)
}

/** Millitokens that were bought on top of a quota for the period that an instant lies in. */
export function boughtMilli(limit: KindedLimit, refilledAtMs: number, atMs: number): bigint {
  const topUpMilli = limit.kind?.quota?.topUpMilli
  return topUpMilli !== undefined && isInPeriod(limit, refilledAtMs, atMs) ? topUpMilli : 0n
}

/** Names the period of a quota that tokens were taken in: what is returned goes to no other. */
export interface QuotaPeriod {
  readonly definition: string
  /** By the calendar: refilled before this instant, in epoch ms, and reset by hand this often. */
  readonly endMs?: number | undefined
  readonly resetNumber?: number | undefined
  /** Of a session. */
  readonly startMs?: number | undefined
  readonly isSession: boolean
}

/**
 * The period that the balance of a quota belongs to; `undefined` for other limits. Of a charge before the state was seen:
 * the one that it was in, or, where a session has begun since, none that is there.
 */
export function periodOf({kind}: KindedLimit, refilledAtMs: number, chargedAtMs = Infinity): QuotaPeriod | undefined {
  if (!kind?.quota) return undefined
  const {resets, session, resetNumber} = kind.quota
  const {definition} = kind
  const startMs = (session?.startMs ?? 0) > chargedAtMs ? undefined : session?.startMs
  if (session) return {definition, isSession: true, startMs}
  // Planted fault: what is charged in a window that is over is returned to the next
  return {definition, isSession: false, endMs: resets?.nextMs(Math.min(refilledAtMs, chargedAtMs)), resetNumber}
}

/**
 * A quota of a bucket that is set back from `refilledAtMs` to `untilMs` keeps its balance. If that is of a period which
 * begins later, the period is remembered: no clock is granted it a second time.
 */
export function quotaSetBack<L extends KindedLimit>(limit: L, refilledAtMs: number, untilMs: number): L {
  const {kind} = limit
  const beginMs = kind?.quota?.resets?.lastMs(refilledAtMs)
  if (beginMs === undefined || beginMs <= untilMs) return limit
  return {...limit, kind: {...kind, quota: {...kind?.quota, heldMs: beginMs}}}
}

/**
 * A session that begins more than `mostMs` after `nowMs` was opened by a wrong clock, and would not end for that long: it
 * begins now, with what is left of it. One that another shard has announced has not begun here: the one before counts.
 */
export function sessionSetBack<L extends KindedLimit>(limit: L, nowMs: number, mostMs: number): L {
  const {kind} = limit
  const session = kind?.quota?.session
  if (session?.startMs === undefined || session.startMs - nowMs <= mostMs) return limit
  const {appliedMs} = session
  const isAnnounced = appliedMs !== undefined && appliedMs - nowMs <= mostMs
  const startMs = isAnnounced ? appliedMs : nowMs
  const setBack = {...session, startMs, appliedMs: startMs, consumedMarkMilli: undefined}
  const heldMs = isAnnounced ? kind?.quota?.heldMs : session.startMs
  return {...limit, kind: {...kind, quota: {...kind?.quota, session: setBack, heldMs}}}
}

/** The session that a bucket was set back from, if an instant lies in it. */
function heldSession({session, heldMs}: Quota, atMs: number): Quota | undefined {
  if (!session || heldMs === undefined || atMs < heldMs || atMs >= heldMs + session.lengthMs) return undefined
  return {session: {...session, startMs: heldMs, appliedMs: heldMs}}
}

export function isSamePeriod(period: QuotaPeriod, limit: KindedLimit | undefined, refilledAtMs: number): boolean {
  const now = limit && periodOf(limit, refilledAtMs)
  if (now?.definition !== period.definition) return false
  return now.endMs === period.endMs && now.resetNumber === period.resetNumber && now.startMs === period.startMs
}

/** Whether another shard has opened a session that lasts, and that this one has to start with its next write. */
export function hasWindowToStart(limit: KindedLimit, refilledAtMs: number, nowMs: number): boolean {
  const quota = limit.kind?.quota
  return quota !== undefined && (sessionEndMs(limit) ?? 0) > nowMs && hasPendingWindow(quota, refilledAtMs)
}

/** Whether another shard has opened a window that this one's balance does not belong to yet. */
function hasPendingWindow({session}: Quota, refilledAtMs: number): boolean {
  // Planted fault: a window that another shard has opened is not started
  return session?.startMs !== undefined && session.startMs > (session.appliedMs ?? refilledAtMs)
}

function advanceQuota<L extends KindedLimit>(
  limit: L,
  quota: Quota,
  fromMs: number,
  toMs: number,
  opensSession: boolean,
): L {
  const {resets, session} = quota
  const ruleMs = Math.max(fromMs, toMs)
  if (resets) {
    const resetMs = resets.lastMs(toMs)
    const isHeld = resetMs === quota.heldMs
    // Planted fault: a quota is not restored
    // Planted fault: a quota is restored again within a minute
    if (!isHeld && resetMs !== undefined && resetMs > fromMs) return granted(limit, quota, resetTarget(limit, toMs))
  } else if (session) {
    const endMs = sessionEndMs(limit)
    // Planted fault: a session begins before the last one has ended
    if (endMs === undefined || toMs >= endMs) {
      const held = heldSession(quota, toMs)
      if (held) return {...limit, kind: {...limit.kind, quota: {...quota, ...held, heldMs: undefined}}}
      if (!opensSession) return limit
      const opened = {...quota, session: {...session, startMs: toMs, appliedMs: toMs}}
      return granted(limit, opened, resetTarget(limit, toMs))
    }
    if (hasPendingWindow(quota, fromMs)) {
      const applied = {...quota, session: {...session, appliedMs: session.startMs}}
      // Planted fault: what was spent since a window was announced is granted again
      return granted(limit, applied, resetTarget(limit, ruleMs) - spentSinceMark(limit, quota))
    }
  }
  const {capacityMilli} = rateAt(limit, ruleMs).rate
  return limit.tokensMilli > capacityMilli ? {...limit, tokensMilli: capacityMilli} : limit
}

/** What was taken between the opening of a window elsewhere and its start on this shard; returns since do not count. */
function spentSinceMark({consumedMilli}: KindedLimit, {session}: Quota): bigint {
  const markMilli = session?.consumedMarkMilli
  return markMilli === undefined || consumedMilli < markMilli ? 0n : consumedMilli - markMilli
}

/** A reset forgives debts, ends what was bought, and grants for the number of shards that there are now. */
function granted<L extends KindedLimit>(limit: L, quota: Quota, tokensMilli: bigint): L {
  const {kind} = limit
  if (!kind) return limit
  const grantCount = kind.share?.count ?? 1
  const anew = {...quota, grantCount, topUpMilli: undefined, heldMs: undefined}
  return {...limit, tokensMilli, remainder: 0n, kind: {...kind, quota: anew}}
}

/**
 * A refill over instants at which the rule changes: each piece by its own rate, up to its own capacity. Fractions are
 * carried exactly from piece to piece; at the end they count over the stored period again, rounded down.
 */
function refillPiecewise(limit: KindedLimit, fromMs: number, toMs: number): Balance {
  const storedPeriod = BigInt(limit.kind?.share?.whole.refillPeriodMs ?? limit.refillPeriodMs)
  let {tokensMilli} = limit
  let part = {numerator: limit.remainder, denominator: storedPeriod}
  let lowestMilli: bigint | undefined
  let pieces = 0
  for (let atMs = fromMs; atMs < toMs; ) {
    const {rate, untilMs} = rateAt(limit, atMs)
    const endMs = untilMs !== undefined && untilMs < toMs ? untilMs : toMs
    const sum = addEarned(part, BigInt(endMs - atMs) * rate.refillAmountMilli, BigInt(rate.refillPeriodMs))
    tokensMilli += sum.numerator / sum.denominator
    part = {...sum, numerator: sum.numerator % sum.denominator}
    if (tokensMilli >= rate.capacityMilli) {
      tokensMilli = rate.capacityMilli
      part = {numerator: 0n, denominator: storedPeriod}
    }
    if (lowestMilli === undefined || rate.capacityMilli < lowestMilli) lowestMilli = rate.capacityMilli
    pieces++
    const meanMs = (endMs - fromMs) / pieces
    const skipTo = Math.floor(toMs - MOST_PIECES * meanMs)
    atMs = endMs
    if (pieces !== MOST_PIECES || skipTo <= endMs) continue
    // Idle over very many changes. What is left out earns nothing, and no capacity in it was larger than counted.
    atMs = skipTo
    if (tokensMilli > lowestMilli) tokensMilli = lowestMilli
  }
  const {capacityMilli} = rateAt(limit, Math.max(fromMs, toMs)).rate
  if (tokensMilli >= capacityMilli) return {tokensMilli: capacityMilli, remainder: 0n}
  return {tokensMilli, remainder: (part.numerator * storedPeriod) / part.denominator}
}

/** A debt that no refill repays, in millitokens. */
const DEEP_DEBT_MILLI = -(10n ** 30n)

/** What time alone adds to a limit that is not full, over all changes of its rules; the fraction is over the stored period. */
export function earnedBetween(limit: KindedLimit, fromMs: number, toMs: number): Balance {
  const empty = {...limit, tokensMilli: DEEP_DEBT_MILLI, remainder: 0n}
  if (limit.kind?.quota || toMs <= fromMs) return {tokensMilli: 0n, remainder: 0n}
  const filled = limit.kind ? refillPiecewise(empty, fromMs, toMs) : refill(limit, empty, toMs - fromMs)
  return {...filled, tokensMilli: filled.tokensMilli - DEEP_DEBT_MILLI}
}

interface Fraction {
  readonly numerator: bigint
  readonly denominator: bigint
}

function addEarned({numerator, denominator}: Fraction, earned: bigint, period: bigint): Fraction {
  if (denominator === period) return {numerator: numerator + earned, denominator}
  const common = (denominator / greatestDivisor(denominator, period)) * period
  return {numerator: numerator * (common / denominator) + earned * (common / period), denominator: common}
}

function greatestDivisor(a: bigint, b: bigint): bigint {
  return b === 0n ? a : greatestDivisor(b, a % b)
}

/** Changes of the rules that a wait is followed through; a limit that does not recover by then never does. */
const MOST_BOUNDARIES = 2000

/** After so many, fractions of a millitoken are lost at each of them: exactness would take time that grows with the square. */
const EXACT_BOUNDARIES = 64

/** Ten years in ms: a longer wait counts as never. */
const HORIZON_MS = 10 * 365 * 86_400_000

/**
 * Milliseconds from `nowMs` until a limit that has a kind holds `neededMilli`, over all changes of its rules; 0 when it
 * does already, `Infinity` when it never will. The balance must be brought forward to `nowMs` already.
 */
export function waitForKind(limit: KindedLimit, neededMilli: bigint, nowMs: number): number {
  return waitFor(limit, nowMs, () => neededMilli)
}

/** Milliseconds until a limit that has a kind is as full as it can be then. */
export function waitUntilFull(limit: KindedLimit, nowMs: number): number {
  return waitFor(limit, nowMs, ({capacityMilli}) => capacityMilli)
}

/** The first instant after `atMs` at which a limit can hold more. To one that is full only another capacity gives room. */
function helpAfter(held: KindedLimit, atMs: number): number | undefined {
  const isFull = held.tokensMilli >= held.capacityMilli
  return isFull ? held.kind?.schedule && wholeRateAt(held, atMs).untilMs : boundaryAfter(held, atMs)
}

function waitFor(limit: KindedLimit, nowMs: number, needed: (held: KindedLimit) => bigint): number {
  let atMs = nowMs
  let held = withRateAt(limit, nowMs)
  for (let boundaries = 0; boundaries < MOST_BOUNDARIES && atMs - nowMs < HORIZON_MS; boundaries++) {
    // One more than the boundary: instants are truncated to milliseconds.
    // Planted fault: the wait for a quota is 50 ms short
    if (held.tokensMilli >= needed(held)) return boundaries === 0 ? 0 : atMs - nowMs + 1
    // The fraction counts over the stored period, which may be another one; rounded down, the wait is not too short.
    const storedPeriodMs = held.kind?.share?.whole.refillPeriodMs ?? held.refillPeriodMs
    const remainder = (held.remainder * BigInt(held.refillPeriodMs)) / BigInt(storedPeriodMs)
    const waitMs = retryAfterMs(held, {...held, remainder}, needed(held))
    const nextMs = helpAfter(held, atMs)
    if (nextMs === undefined || atMs + waitMs < nextMs) return atMs - nowMs + waitMs
    // From the start, which loses no fraction; a quota is restored by the rule that is in force then, whatever was between.
    const isFromStart = limit.kind?.quota !== undefined || boundaries < EXACT_BOUNDARIES
    held = isFromStart ? advanceKind(limit, nowMs, nextMs) : advanceKind(held, atMs, nextMs)
    atMs = nextMs
  }
  return Number.POSITIVE_INFINITY
}
