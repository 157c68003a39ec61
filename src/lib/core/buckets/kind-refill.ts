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
  /** Net millitokens ever consumed: consumption minus refunds. Refill never changes it. */
  readonly consumedMilli: bigint
  readonly kind?: LimitKind | undefined
}

/** Rule changes that one refill evaluates. With more, the time in the middle earns nothing. */
const MOST_PIECES = 4096

/**
 * Restores a quota if a reset lies between. Reopens an ended session at `toMs`, as a use would, if `opensSession`.
 * Applies the rule of the later instant: a lagging clock must not cut a balance by a past rule.
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

export function boughtMilli(limit: KindedLimit, refilledAtMs: number, atMs: number): bigint {
  const topUpMilli = limit.kind?.quota?.topUpMilli
  return topUpMilli !== undefined && isInPeriod(limit, refilledAtMs, atMs) ? topUpMilli : 0n
}

/** The period in which tokens were taken. Only this period gets the refund. */
export interface QuotaPeriod {
  readonly definition: string
  /** Calendar quotas: the end in epoch ms, and the number of manual resets. */
  readonly endMs?: number | undefined
  readonly resetNumber?: number | undefined
  readonly startMs?: number | undefined
  readonly isSession: boolean
}

/** Given `chargedAtMs`, the period of that earlier charge; without a start if a session began since. */
export function periodOf({kind}: KindedLimit, refilledAtMs: number, chargedAtMs = Infinity): QuotaPeriod | undefined {
  if (!kind?.quota) return undefined
  const {resets, session, resetNumber} = kind.quota
  const {definition} = kind
  const startMs = (session?.startMs ?? 0) > chargedAtMs ? undefined : session?.startMs
  if (session) return {definition, isSession: true, startMs}
  // Planted fault: a charge of an ended window is refunded to the next one
  return {definition, isSession: false, endMs: resets?.nextMs(Math.min(refilledAtMs, chargedAtMs)), resetNumber}
}

/** Keeps the balance. Marks its period as held if it starts after `untilMs`, so that no clock grants it twice. */
export function quotaSetBack<L extends KindedLimit>(limit: L, refilledAtMs: number, untilMs: number): L {
  const {kind} = limit
  const beginMs = kind?.quota?.resets?.lastMs(refilledAtMs)
  if (beginMs === undefined || beginMs <= untilMs) return limit
  return {...limit, kind: {...kind, quota: {...kind?.quota, heldMs: beginMs}}}
}

/**
 * A session that starts more than `mostMs` ahead was opened by a wrong clock: it starts now, with its balance.
 * If another shard announced it, this shard returns to the session before.
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

function heldSession({session, heldMs}: Quota, atMs: number): Quota | undefined {
  if (!session || heldMs === undefined || atMs < heldMs || atMs >= heldMs + session.lengthMs) return undefined
  return {session: {...session, startMs: heldMs, appliedMs: heldMs}}
}

export function isSamePeriod(period: QuotaPeriod, limit: KindedLimit | undefined, refilledAtMs: number): boolean {
  const now = limit && periodOf(limit, refilledAtMs)
  if (now?.definition !== period.definition) return false
  return now.endMs === period.endMs && now.resetNumber === period.resetNumber && now.startMs === period.startMs
}

export function hasWindowToStart(limit: KindedLimit, refilledAtMs: number, nowMs: number): boolean {
  const quota = limit.kind?.quota
  return quota !== undefined && (sessionEndMs(limit) ?? 0) > nowMs && hasPendingWindow(quota, refilledAtMs)
}

/** Whether another shard has opened a window that this shard's balance does not belong to yet. */
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
      // Planted fault: tokens spent since a window was announced are granted again
      return granted(limit, applied, resetTarget(limit, ruleMs) - spentSinceMark(limit, quota))
    }
  }
  const {capacityMilli} = rateAt(limit, ruleMs).rate
  return limit.tokensMilli > capacityMilli ? {...limit, tokensMilli: capacityMilli} : limit
}

/** Millitokens taken between the opening of a window on another shard and its start here; net refunds count as 0. */
function spentSinceMark({consumedMilli}: KindedLimit, {session}: Quota): bigint {
  const markMilli = session?.consumedMarkMilli
  return markMilli === undefined || consumedMilli < markMilli ? 0n : consumedMilli - markMilli
}

/** A reset forgives debts, ends top-ups, and grants for the present number of shards. */
function granted<L extends KindedLimit>(limit: L, quota: Quota, tokensMilli: bigint): L {
  const {kind} = limit
  if (!kind) return limit
  const grantCount = kind.share?.count ?? 1
  const anew = {...quota, grantCount, topUpMilli: undefined, heldMs: undefined}
  return {...limit, tokensMilli, remainder: 0n, kind: {...kind, quota: anew}}
}

/** Carries fractions exactly between pieces, then rounds down to the stored period. */
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
    // Idle across very many changes: the skipped time earns nothing, and the balance fits the lowest capacity so far.
    atMs = skipTo
    if (tokensMilli > lowestMilli) tokensMilli = lowestMilli
  }
  const {capacityMilli} = rateAt(limit, Math.max(fromMs, toMs)).rate
  if (tokensMilli >= capacityMilli) return {tokensMilli: capacityMilli, remainder: 0n}
  return {tokensMilli, remainder: (part.numerator * storedPeriod) / part.denominator}
}

const DEEP_DEBT_MILLI = -(10n ** 30n)

/** Refill of a limit that is not full, across rule changes. The remainder is over the stored period. */
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

export function greatestDivisor(a: bigint, b: bigint): bigint {
  return b === 0n ? a : greatestDivisor(b, a % b)
}

/** A limit that has not recovered after this many rule changes never does. */
const MOST_BOUNDARIES = 2000

/** Beyond this, drop fractions of a millitoken at each boundary: exactness takes quadratic time. */
const EXACT_BOUNDARIES = 64

/** Ten years; a longer wait counts as never. */
export const HORIZON_MS = 10 * 365 * 86_400_000

/** 0 if the limit holds enough, `Infinity` if it never will. The balance must be credited up to `nowMs`. */
export function waitForKind(limit: KindedLimit, neededMilli: bigint, nowMs: number): number {
  return waitFor(limit, nowMs, () => neededMilli)
}

export function waitUntilFull(limit: KindedLimit, nowMs: number): number {
  return waitFor(limit, nowMs, ({capacityMilli}) => capacityMilli)
}

/** When a limit can next hold more. A full limit gains only from a higher capacity. */
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
    // The remainder is over the stored period, which may differ. Rounding down keeps the wait long enough.
    const storedPeriodMs = held.kind?.share?.whole.refillPeriodMs ?? held.refillPeriodMs
    const remainder = (held.remainder * BigInt(held.refillPeriodMs)) / BigInt(storedPeriodMs)
    const waitMs = retryAfterMs(held, {...held, remainder}, needed(held))
    const nextMs = helpAfter(held, atMs)
    if (nextMs === undefined || atMs + waitMs < nextMs) return atMs - nowMs + waitMs
    // Restart from `nowMs` to lose no fraction. A quota is restored by the rule in force then, whatever was between.
    const isFromStart = limit.kind?.quota !== undefined || boundaries < EXACT_BOUNDARIES
    held = isFromStart ? advanceKind(limit, nowMs, nextMs) : advanceKind(held, atMs, nextMs)
    atMs = nextMs
  }
  return Number.POSITIVE_INFINITY
}
