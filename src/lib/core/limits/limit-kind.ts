import {isSameRate, type Rate, shareOf} from '../token-math.js'

/** A window that opens with the first use: [start, start + length). */
export interface SessionWindow {
  readonly lengthMs: number
  /** Absent before the first use. */
  readonly startMs?: number | undefined
  /** Start of the window that this shard's balance belongs to; absent if no client has marked it. */
  readonly appliedMs?: number | undefined
  /** `consumedMilli` of this shard when another shard opened the window. */
  readonly consumedMarkMilli?: bigint | undefined
}

/** A quota does not refill: a reset restores its whole allowance. Exactly one of `resets` and `session` is present. */
export interface Quota {
  readonly resets?: ResetClock | undefined
  readonly session?: SessionWindow | undefined
  /** The number of shards when this one was last granted its part; absent if no client has marked it. */
  readonly grantCount?: number | undefined
  /** Bought on top of the grant; expires with the period. */
  readonly topUpMilli?: bigint | undefined
  readonly resetNumber?: number | undefined
  /**
   * Start (epoch ms) of the balance's period if the bucket was set back from it, or if the kind was changed in it. That
   * period is not granted again, and a change of the allowance keeps the balance.
   */
  readonly heldMs?: number | undefined
}

interface Share {
  readonly shard: number
  readonly count: number
  readonly whole: Rate
}

export interface LimitKind {
  /** Identifies schedule, resets and session length. Equal texts mean equal kinds. */
  readonly definition: string
  readonly schedule?: RateSchedule | undefined
  readonly quota?: Quota | undefined
  /** Soft until this instant, in epoch ms: counted, but never refuses a request. */
  readonly softUntilMs?: number | undefined
  /** Absent if the parameters are those of the whole. */
  readonly share?: Share | undefined
}

export interface KindedRate extends Rate {
  readonly kind?: LimitKind | undefined
}

interface RateInForce {
  readonly rate: Rate
  readonly untilMs: number | undefined
}

export function wholeRateAt(limit: KindedRate, atMs: number): RateInForce {
  const whole = limit.kind?.share?.whole ?? limit
  // Planted fault: a window of the schedule is ignored
  return limit.kind?.schedule?.at(atMs, whole) ?? {rate: whole, untilMs: undefined}
}

/** Applies the schedule before taking the shard's part: the other order rounds differently. */
export function rateAt(limit: KindedRate & {readonly tokensMilli?: bigint}, atMs: number): RateInForce {
  const {kind} = limit
  if (!kind) return {rate: limit, untilMs: undefined}
  const {rate, untilMs} = wholeRateAt(limit, atMs)
  const {shard, count} = kind.share ?? {shard: 0, count: 1}
  if (kind.quota) {
    const granted = grantCountOf(limit, rate.capacityMilli)
    const capacityMilli = shareOf(rate.capacityMilli, shard % granted, granted) + (kind.quota.topUpMilli ?? 0n)
    return {rate: {...rate, capacityMilli, refillAmountMilli: 0n}, untilMs}
  }
  return {rate: shareOfParameters(rate, shard, count), untilMs}
}

export function resetTarget(limit: KindedRate, atMs: number): bigint {
  const {shard, count} = limit.kind?.share ?? {shard: 0, count: 1}
  return shareOf(wholeRateAt(limit, atMs).rate.capacityMilli, shard, count)
}

/** The shard count of the last grant. If unmarked: the present one, or fewer if the shard holds more than its part. */
export function grantCountOf(
  {kind, tokensMilli = 0n}: KindedRate & {readonly tokensMilli?: bigint},
  capacityMilli: bigint,
): number {
  const {shard, count} = kind?.share ?? {shard: 0, count: 1}
  const marked = kind?.quota?.grantCount
  if (marked !== undefined && marked >= 1) return marked
  let granted = count
  while (granted > 1 && granted % 2 === 0 && tokensMilli > shareOf(capacityMilli, shard % granted, granted))
    granted /= 2
  return granted
}

export const hasCalendar = ({kind}: KindedRate): boolean => kind?.schedule !== undefined || kind?.quota !== undefined

/**
 * Whether the balance of a quota is its allowance minus the use of the period. Not with windows, which clamp it, and not
 * in a period in which the kind was changed.
 */
export function tellsUse({kind}: KindedRate, atMs: number): boolean {
  if (!kind?.quota || kind.schedule) return false
  const {heldMs} = kind.quota
  return heldMs === undefined || heldMs !== periodStart(kind.quota, atMs)
}

/** Epoch ms; `undefined` before the first reset or session. */
export const periodStart = ({session, resets}: Quota, atMs: number): number | undefined =>
  session ? session.startMs : resets?.lastMs(atMs)

export function isSoftAt({kind}: KindedRate, atMs: number): boolean {
  return kind?.softUntilMs !== undefined && kind.softUntilMs > atMs
}

export function sessionEndMs({kind}: KindedRate): number | undefined {
  const session = kind?.quota?.session
  return session?.startMs === undefined ? undefined : session.startMs + session.lengthMs
}

/** The first instant after `atMs` at which the parameters change, a reset is due, or a session ends. */
export function boundaryAfter(limit: KindedRate, atMs: number): number | undefined {
  const {kind} = limit
  if (!kind) return undefined
  const endMs = sessionEndMs(limit)
  const instants = [
    kind.schedule && wholeRateAt(limit, atMs).untilMs,
    kind.quota?.resets?.nextMs(atMs),
    endMs !== undefined && endMs > atMs ? endMs : undefined,
  ].filter(instant => instant !== undefined)
  return instants.length === 0 ? undefined : Math.min(...instants)
}

/** Ignores balances and windows. */
export function isSameLimit(a: KindedRate, b: KindedRate): boolean {
  return (
    isSameRate(a, b) &&
    a.kind?.definition === b.kind?.definition &&
    (a.kind?.softUntilMs === undefined) === (b.kind?.softUntilMs === undefined)
  )
}

function shareOfParameters(rate: Rate, shard: number, count: number): Rate {
  if (count <= 1) return rate
  return {
    capacityMilli: shareOf(rate.capacityMilli, shard, count),
    refillAmountMilli: shareOf(rate.refillAmountMilli, shard, count),
    refillPeriodMs: rate.refillPeriodMs,
  }
}

/** How long softness or a bypass lasts unless the configuration confirms it, in ms. Other clients use the same time. */
export const STAMP_MS = 54_000

/** Requests renew a bypass that expires within this time, in ms, so a bypass in use never expires. */
const BYPASS_RENEWAL_MS = 15_000

export interface Bypassable {
  /**
   * Limits are bypassed until this instant (epoch ms): requests are admitted and counted, but take no tokens.
   * Then the next request asks the configuration. 0 if the stored instant is unreadable.
   */
  readonly bypassUntilMs?: number | undefined
}

export function isBypassedAt({bypassUntilMs}: Bypassable, atMs: number): boolean {
  return bypassUntilMs !== undefined && bypassUntilMs > atMs
}

export function isRenewalDue(bucket: Bypassable, nowMs: number): boolean {
  return !isBypassedAt(bucket, nowMs + BYPASS_RENEWAL_MS)
}

export interface ResetClock {
  lastMs(atMs: number): number | undefined
  nextMs(atMs: number): number | undefined
}

export interface RateSchedule {
  /** For the whole limit. Another rate may apply from `untilMs` on. */
  at(atMs: number, base: Rate): {readonly rate: Rate; readonly untilMs: number | undefined}
}
