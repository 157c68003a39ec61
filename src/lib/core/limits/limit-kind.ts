import {isSameRate, type Rate, shareOf} from '../token-math.js'

/** A window that opens with the first use and lasts for a fixed time: [start, start + length). */
export interface SessionWindow {
  readonly lengthMs: number
  /** Absent before the first use. */
  readonly startMs?: number | undefined
  /** The start of the window that the balance of this shard belongs to; absent where no client has marked it. */
  readonly appliedMs?: number | undefined
  /** What this shard had consumed when another shard opened the window, in millitokens. */
  readonly consumedMarkMilli?: bigint | undefined
}

/** A quota gains nothing with time: a reset restores its whole allowance at once. Either `resets` or `session` is there. */
export interface Quota {
  readonly resets?: ResetClock | undefined
  readonly session?: SessionWindow | undefined
  /** The number of shards when this one was last granted its part; absent where no client has marked it. */
  readonly grantCount?: number | undefined
  /** Bought on top of the grant; ends with the period. */
  readonly topUpMilli?: bigint | undefined
  /** How often an operator has reset it. */
  readonly resetNumber?: number | undefined
  /** Begin of the period that the balance is of, in epoch ms, where the bucket was set back from it: it is not granted again. */
  readonly heldMs?: number | undefined
}

interface Share {
  readonly shard: number
  readonly count: number
  readonly whole: Rate
}

export interface LimitKind {
  /** Identifies schedule, resets and session length: kinds with the same text are the same. */
  readonly definition: string
  readonly schedule?: RateSchedule | undefined
  readonly quota?: Quota | undefined
  /** Metered only: no reason to refuse before this instant, in epoch ms. */
  readonly softUntilMs?: number | undefined
  /** Absent where the parameters are those of the whole. */
  readonly share?: Share | undefined
}

export interface KindedRate extends Rate {
  readonly kind?: LimitKind | undefined
}

/** Parameters of this shard's part at an instant, and the first instant at which others may be in force. */
interface RateInForce {
  readonly rate: Rate
  readonly untilMs: number | undefined
}

export function wholeRateAt(limit: KindedRate, atMs: number): RateInForce {
  const whole = limit.kind?.share?.whole ?? limit
  // Planted fault: a window of the schedule is ignored
  return limit.kind?.schedule?.at(atMs, whole) ?? {rate: whole, untilMs: undefined}
}

/**
 * The parameters in force at an instant. The schedule applies to the whole, of which a shard then has its part: the other
 * order would round differently. A quota holds what was granted for its number of shards then, and what was bought since.
 */
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

/** What a reset restores: this shard's part at the number of shards that there are now. */
export function resetTarget(limit: KindedRate, atMs: number): bigint {
  const {shard, count} = limit.kind?.share ?? {shard: 0, count: 1}
  return shareOf(wholeRateAt(limit, atMs).rate.capacityMilli, shard, count)
}

/**
 * The number of shards that a grant was made for. Where it is not marked, the present one; unless the shard holds more than
 * that: then it was granted before the last splits.
 */
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

/** Whether time changes a limit by rules of a calendar or a session, not by refill alone. */
export const hasCalendar = ({kind}: KindedRate): boolean => kind?.schedule !== undefined || kind?.quota !== undefined

export function isSoftAt({kind}: KindedRate, atMs: number): boolean {
  return kind?.softUntilMs !== undefined && kind.softUntilMs > atMs
}

/** When a session's window ends; `undefined` when none is open or the limit has none. */
export function sessionEndMs({kind}: KindedRate): number | undefined {
  const session = kind?.quota?.session
  return session?.startMs === undefined ? undefined : session.startMs + session.lengthMs
}

/** The first instant after `atMs` at which time alone changes the rules: other parameters, a reset, the end of a session. */
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

/** Whether two limits are the same: parameters, calendar and softness. Balances and windows do not count. */
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

/**
 * How long softness or a bypass lasts without being confirmed by the configuration, in ms. A bucket that a change of the
 * configuration has missed follows it after this time at the latest; other clients use the same time.
 */
export const STAMP_MS = 54_000

/** Requests renew a bypass that ends within this time, in ms: so it does not run out while it is configured and used. */
const BYPASS_RENEWAL_MS = 15_000

export interface Bypassable {
  /**
   * Present where limits are bypassed: every request is admitted and counted, no tokens are taken. Until this instant, in
   * epoch ms; then the next request asks the configuration. 0 where the stored instant cannot be read.
   */
  readonly bypassUntilMs?: number | undefined
}

export function isBypassedAt({bypassUntilMs}: Bypassable, atMs: number): boolean {
  return bypassUntilMs !== undefined && bypassUntilMs > atMs
}

/** Whether the next request has to renew the bypass of a bucket, or to find out that it is over. */
export function isRenewalDue(bucket: Bypassable, nowMs: number): boolean {
  return !isBypassedAt(bucket, nowMs + BYPASS_RENEWAL_MS)
}

/** Instants at which a quota is restored; the calendar that names them is not known here. Epoch milliseconds. */
export interface ResetClock {
  /** The last reset at or before an instant; `undefined` when there was none. */
  lastMs(atMs: number): number | undefined
  /** The first reset after an instant; `undefined` when there will be none. */
  nextMs(atMs: number): number | undefined
}

export interface RateSchedule {
  /** What is in force at an instant, for the whole limit, and the first instant at which another answer may hold. */
  at(atMs: number, base: Rate): {readonly rate: Rate; readonly untilMs: number | undefined}
}
