import {InvalidInput} from '../errors.js'
import {checkLimitName} from '../names.js'
import {knownCurrencies} from '../text/money.js'
import {asSentence} from '../text/text.js'
import {type Rate, toMilli} from '../token-math.js'

/**
 * The allowance under one name. A rate holds up to `capacity` tokens and gains `refillAmount` tokens every
 * `refillPeriodSeconds`. With `reset` it is a quota: it does not refill, and each reset restores the whole capacity.
 * With `inFlight` it limits concurrency: requests hold slots until their leases end.
 * Optional fields that do not apply are absent, never undefined or empty.
 */
export interface Limit<Name extends string = string> {
  readonly name: Name
  /** Whole tokens: the burst of a rate, the allowance of a quota, the slots of an in-flight limit. */
  readonly capacity: number
  /** Whole tokens per period; 0 for a quota and an in-flight limit. */
  readonly refillAmount: number
  /** Always {@link QUOTA_PERIOD_SECONDS} for a quota and an in-flight limit, where it has no meaning. */
  readonly refillPeriodSeconds: number
  /** When a quota is restored: by the calendar, or some time after its first use. */
  readonly reset?: CalendarReset | SessionReset
  /** `capacity` is the most slots that requests hold at once, over all processes. Excludes all fields below. */
  readonly inFlight?: true
  /** Other parameters in windows of time; the first matching entry applies. */
  readonly schedule?: readonly ScheduleEntry[]
  /** IANA time zone of resets and schedule; present if and only if there are any. */
  readonly timeZone?: string
  /** Counted, but never refuses a request. */
  readonly soft?: true
  /** Currency code; the tokens are millionths of it. Stored separately from the numbers. */
  readonly unit?: string
  /** The temporary limit that owns the first windows, if boosts were read. Stored separately from the numbers. */
  readonly boost?: LimitBoost
}

/** Temporary values of a limit, stored as the first windows of its schedule. After the end the base values apply. */
export interface LimitBoost {
  /** The end, in epoch ms; a whole minute. */
  readonly untilMs: number
  /** The number of leading schedule entries that belong to it. */
  readonly windows: number
  /** Whether the end had passed when the limit was read. Then its windows only need to be removed. */
  readonly isEnded: boolean
  /** The limits of this scope are a copy that expires with this boost. Then the next level applies, not the base. */
  readonly endsCopy?: true
}

/** A quota restored when one of the crons (five fields) starts to match. */
export interface CalendarReset {
  readonly crons: readonly string[]
}

/** A quota whose window opens with the first use after the last window has ended. */
export interface SessionReset {
  readonly afterSeconds: number
}

/** Other parameters in all minutes that a cron matches: scaled or replaced. */
export type ScheduleEntry = ScaledWindow | ReplacedWindow

export interface ScaledWindow {
  readonly cron: string
  /** Factor of capacity and refill amount, such as 0.5. Stored with at most three decimals. */
  readonly scale: number
}

/** Absent parameters keep their values; at least one is present. */
export interface ReplacedWindow {
  readonly cron: string
  readonly capacity?: number
  readonly refillAmount?: number
  readonly refillPeriodSeconds?: number
}

/** A cron that always matches is a valid window, but never resets anything. */
export type CronUse = 'reset' | 'window'

/** Returns why a cron or zone is unusable; `undefined` if it is usable. Core has no calendar, so callers pass one. */
export interface CalendarCheck {
  readonly cron: (cron: string, use: CronUse) => string | undefined
  readonly zone: (timeZone: string) => string | undefined
}

/** Above this, millitokens are not exact in doubles. zae-limiter cannot even read a level above 10^15. */
export const MAX_TOKENS = Math.floor(Number.MAX_SAFE_INTEGER / 1000)

/** Slots of an in-flight limit. */
export const MAX_SLOTS = 1_000_000

/** 31.7 years: the longest period and session that all clients of a table accept. */
export const MAX_PERIOD_SECONDS = 1_000_000_000

export const MAX_SCALE = 1_000_000

export const QUOTA_PERIOD_SECONDS = 1

export const DEFAULT_ZONE = 'UTC'

export const isCalendarReset = (reset: Limit['reset']): reset is CalendarReset =>
  reset !== undefined && 'crons' in reset

export const isSessionReset = (reset: Limit['reset']): reset is SessionReset =>
  reset !== undefined && 'afterSeconds' in reset

/** Concurrency: a number of slots, without refill or reset. */
export const isInFlight = ({inFlight}: Pick<Limit, 'inFlight'>): boolean => inFlight === true

/** Limits that count tokens in buckets: all but in-flight limits. */
export const tokenLimits = (limits: readonly Limit[]): Limit[] => limits.filter(limit => !isInFlight(limit))

/** Slots by in-flight limit. */
export const slotsOf = (limits: readonly Limit[]): ReadonlyMap<string, number> =>
  new Map(limits.filter(isInFlight).map(({name, capacity}) => [name, capacity]))

export type LimitInput = Omit<Limit, 'inFlight' | 'schedule' | 'timeZone' | 'soft' | 'unit'> & {
  readonly inFlight?: boolean | undefined
  readonly schedule?: readonly ScheduleEntry[] | undefined
  readonly timeZone?: string | undefined
  readonly soft?: boolean | undefined
  readonly unit?: string | undefined
}

/** Validates and normalizes: equal limits have equal fields. */
export function makeLimit(limit: LimitInput, calendar?: CalendarCheck): Limit {
  const {name, capacity, refillAmount, refillPeriodSeconds, reset, schedule = [], timeZone, soft, unit} = limit
  checkLimitName(name)
  if (limit.inFlight) return inFlightLimit(limit)
  checkWhole(name, 'capacity', capacity, MAX_TOKENS)
  if (reset === undefined) {
    checkWhole(name, 'refill amount', refillAmount, MAX_TOKENS)
    checkWhole(name, 'refill period (seconds)', refillPeriodSeconds, MAX_PERIOD_SECONDS)
  } else if (refillAmount !== 0) {
    throw invalid(name, 'a quota does not refill between resets, so its refill amount must be 0')
  }
  if (unit !== undefined && !knownCurrencies().has(unit)) throw invalid(name, `"${unit}" is not a currency code`)
  const usesZone = isCalendarReset(reset) || schedule.length > 0
  if (!usesZone && timeZone !== undefined) throw invalid(name, 'it has a time zone, but no calendar reset or schedule')
  const zoneProblem = usesZone ? calendar?.zone(timeZone ?? DEFAULT_ZONE) : undefined
  if (zoneProblem !== undefined) throw invalid(name, zoneProblem)
  return {
    name,
    capacity,
    refillAmount,
    refillPeriodSeconds: reset === undefined ? refillPeriodSeconds : QUOTA_PERIOD_SECONDS,
    ...(reset && {reset: checkedReset(name, reset, calendar)}),
    ...(schedule.length > 0 && {schedule: schedule.map(entry => checkedEntry(limit, entry, calendar))}),
    ...(usesZone && {timeZone: timeZone ?? DEFAULT_ZONE}),
    ...(soft && {soft: true}),
    ...(unit !== undefined && {unit}),
  }
}

function inFlightLimit({
  name,
  capacity,
  refillAmount,
  reset,
  schedule = [],
  timeZone,
  soft,
  unit,
  boost,
}: LimitInput): Limit {
  checkWhole(name, 'number of slots', capacity, MAX_SLOTS)
  const excluded = {
    refill: refillAmount !== 0,
    reset: reset !== undefined,
    'schedule or temporary value': schedule.length > 0 || boost !== undefined,
    'time zone': timeZone !== undefined,
    'soft form': soft === true,
    currency: unit !== undefined,
  }
  const [first] = Object.entries(excluded).filter(([, isGiven]) => isGiven)
  if (first) throw invalid(name, `an in-flight limit has no ${first[0]}`)
  return {name, capacity, refillAmount: 0, refillPeriodSeconds: QUOTA_PERIOD_SECONDS, inFlight: true}
}

export function rateOf(limit: Limit): Rate {
  return {
    capacityMilli: toMilli(limit.capacity),
    refillAmountMilli: toMilli(limit.refillAmount),
    refillPeriodMs: limit.refillPeriodSeconds * 1000,
  }
}

export type BoostValues = Pick<Limit, 'capacity' | 'refillAmount' | 'refillPeriodSeconds'>

export function baseOf(limit: Limit): Limit {
  const {boost, schedule = [], timeZone, ...rest} = limit
  if (!boost) return limit
  const own = schedule.slice(boost.windows)
  const usesZone = own.length > 0 || isCalendarReset(rest.reset)
  return {
    ...rest,
    ...(own.length > 0 && {schedule: own}),
    ...(usesZone && timeZone !== undefined && {timeZone}),
  }
}

/** The boost's values as a permanent limit; `undefined` without a boost. */
export function boostedOf(limit: Limit): Limit | undefined {
  const [first] = limit.schedule ?? []
  if (!limit.boost || !first || 'scale' in first) return undefined
  const {cron: _, ...values} = first
  return {...withoutWindows(limit), ...values}
}

/** Neither a schedule nor a boost. */
export function withoutWindows({schedule: _, boost: __, timeZone, ...plain}: Limit): Limit {
  return {...plain, ...(isCalendarReset(plain.reset) && timeZone !== undefined && {timeZone})}
}

export type KindName = 'rate' | 'calendar quota' | 'session quota' | 'in-flight limit'

export function kindNameOf({reset, inFlight}: Limit): KindName {
  if (inFlight) return 'in-flight limit'
  return reset === undefined ? 'rate' : isSessionReset(reset) ? 'session quota' : 'calendar quota'
}

/** Replaces an earlier boost. Ignores the period of a quota. */
export function withBoost(
  limit: Limit,
  {capacity, refillAmount, refillPeriodSeconds}: BoostValues,
  {crons, timeZone, untilMs}: {readonly crons: readonly string[]; readonly timeZone: string; readonly untilMs: number},
): Limit {
  const base = baseOf(limit)
  const values = base.reset ? {capacity} : {capacity, refillAmount, refillPeriodSeconds}
  const windows = crons.map((cron): ReplacedWindow => ({cron, ...values}))
  return {
    ...base,
    schedule: [...windows, ...(base.schedule ?? [])],
    timeZone,
    boost: {untilMs, windows: windows.length, isEnded: false},
  }
}

/** As stored. Rounds half to even like the Python client; at least 1. */
export function thousandthsOf(scale: number): number {
  const thousandths = scale * 1000
  const below = Math.floor(thousandths)
  const isHalf = thousandths - below === 0.5
  return Math.max(1, isHalf ? below + (below % 2) : Math.round(thousandths))
}

function checkedReset(name: string, reset: CalendarReset | SessionReset, calendar?: CalendarCheck) {
  if (!isCalendarReset(reset)) {
    checkWhole(name, 'session (seconds)', reset.afterSeconds, MAX_PERIOD_SECONDS)
    return {afterSeconds: reset.afterSeconds}
  }
  if (reset.crons.length === 0) throw invalid(name, 'a calendar quota needs at least one cron')
  return {crons: reset.crons.map(cron => checkedCron(name, cron, 'reset', calendar))}
}

function checkedEntry({name, capacity, reset}: LimitInput, entry: ScheduleEntry, calendar?: CalendarCheck) {
  const cron = checkedCron(name, entry.cron, 'window', calendar)
  if ('scale' in entry) {
    const {scale} = entry
    if (!(scale > 0 && scale <= MAX_SCALE)) throw invalid(name, `a scale must be above 0 and at most ${MAX_SCALE}`)
    if (capacity * scale > MAX_TOKENS)
      throw invalid(name, `${capacity} scaled by ${scale} is above the maximum of ${MAX_TOKENS}`)
    return {cron, scale: thousandthsOf(scale) / 1000}
  }
  const replaced = Object.entries({
    capacity: [entry.capacity, MAX_TOKENS],
    refillAmount: [entry.refillAmount, MAX_TOKENS],
    refillPeriodSeconds: [entry.refillPeriodSeconds, MAX_PERIOD_SECONDS],
  } as const).flatMap(([field, [value, largest]]) => {
    if (value === undefined) return []
    checkWhole(name, `${field} of a window`, value, largest)
    return [[field, value]]
  })
  if (replaced.length === 0) throw invalid(name, `the window "${cron}" changes nothing`)
  if (reset !== undefined && entry.refillAmount !== undefined)
    throw invalid(name, 'a quota does not refill, so a window cannot set a refill')
  return {cron, ...Object.fromEntries(replaced)} as ReplacedWindow
}

function checkedCron(name: string, cron: string, use: CronUse, calendar?: CalendarCheck): string {
  const canonical = canonicalCron(cron)
  const problem =
    cronFields(cron) === undefined
      ? `the cron "${cron}" does not have five fields: minute, hour, day, month, weekday`
      : calendar?.cron(canonical, use)
  if (problem !== undefined) throw invalid(name, problem)
  return canonical
}

function checkWhole(name: string, what: string, value: number, largest: number): void {
  if (Number.isSafeInteger(value) && value > 0 && value <= largest) return
  throw new InvalidInput(
    'limit.number',
    `The ${what} of limit "${name}" must be a whole number from 1 to ${largest}, not ${value}.`,
  )
}

function invalid(name: string, why: string): InvalidInput {
  const reason = asSentence(`The limit "${name}" is not valid: ${why}`)
  return new InvalidInput('limit.invalid', reason, {details: {limit: name, why}})
}

export const WEEKDAYS = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT']
export const MONTHS = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC']

const MONTH_FIELD = 3
const WEEKDAY_FIELD = 4

export function cronFields(cron: string): readonly string[] | undefined {
  const fields = cron.split(/\s+/).filter(field => field !== '')
  return fields.length === 5 ? fields : undefined
}

/** The stored spelling: single spaces, numbers for names of days and months, 7 for a single Sunday. */
export function canonicalCron(cron: string): string {
  const fields = cronFields(cron)
  if (fields === undefined) return cron
  return fields
    .map((field, index) => {
      if (index === MONTH_FIELD) return numbersFor(field, MONTHS, 1)
      return index === WEEKDAY_FIELD ? field.split(',').map(weekday).join(',') : field
    })
    .join(' ')
}

/** Sunday is 7 on its own, but 0 in a range or a step: `SUN-THU` is `0-4`. */
function weekday(item: string): string {
  return item === '0' || item.toUpperCase() === 'SUN' ? '7' : numbersFor(item, WEEKDAYS, 0)
}

function numbersFor(text: string, names: readonly string[], first: number): string {
  return text.replace(/[a-z]+/gi, name => {
    const index = names.indexOf(name.toUpperCase())
    return index < 0 ? name : String(index + first)
  })
}

/** Whole tokens per limit name; `Name` narrows the accepted names. */
export type Consumption<Name extends string = string> = string extends Name
  ? Readonly<Record<string, number>>
  : {readonly [Limit in Name]?: number}

/** Whole, not negative. Drops zeros: a limit with no amount is not checked. */
export function checkConsumption(consume: Consumption): Map<string, bigint> {
  const amounts = signedAmountsOf(consume)
  for (const [name, milli] of amounts) {
    if (milli < 0n) throw invalidAmount(name, consume[name], 'must be at least 0', 'Use release() to refund tokens.')
  }
  return amounts
}

export function signedAmountsOf(deltas: Consumption): Map<string, bigint> {
  const amounts = new Map<string, bigint>()
  // JavaScript callers can pass anything.
  if (typeof deltas !== 'object' || deltas === null) {
    throw new InvalidInput('request.amount', 'The amounts must be an object such as {rpm: 1}.')
  }
  for (const [name, tokens] of Object.entries(deltas)) {
    checkLimitName(name)
    if (!Number.isSafeInteger(tokens) || Math.abs(tokens) > MAX_TOKENS) {
      throw invalidAmount(name, tokens, `must be a whole number up to ${MAX_TOKENS}`)
    }
    if (tokens !== 0) amounts.set(name, toMilli(tokens))
  }
  return amounts
}

function invalidAmount(name: string, tokens: unknown, why: string, hint?: string): InvalidInput {
  // Some objects cannot be converted to text.
  const shown = typeof tokens === 'object' && tokens !== null ? 'an object' : String(tokens)
  return new InvalidInput(
    'request.amount',
    `The amount of "${name}" ${why}, not ${shown}.`,
    hint === undefined ? {} : {hint},
  )
}

/** Where limits can be configured, most specific first. Other clients use the same spelling. */
export const LEVELS = ['entity', 'entity_default', 'resource', 'system'] as const

export type Level = (typeof LEVELS)[number]

/** The limits configured at each level; a level may be absent or empty. */
export type LimitsByLevel = Readonly<Partial<Record<Level, readonly Limit[]>>>

export interface ResolvedLimits {
  readonly source: Level
  readonly limits: readonly Limit[]
}

/** The most specific level with limits applies as a whole; levels are never mixed. `undefined` if none has any. */
export function resolveLimits(configured: LimitsByLevel): ResolvedLimits | undefined {
  for (const source of LEVELS) {
    const limits = configured[source]
    if (limits && limits.length > 0) return {source, limits}
  }
  return undefined
}
