import {InvalidInput} from '../errors.js'
import {durationMs, formatDuration} from '../text/duration.js'
import {nearestNames} from '../text/nearest.js'
import {type Pair, type PairProblem, readPairs, splitPair} from '../text/text.js'
import {
  cutPiece,
  formatAmount,
  isPlainAmount,
  type Piece,
  parseAmount,
  refuseThousands,
  slicePiece,
  splitPiece,
  syntaxError,
} from './amount-text.js'
import {
  baseOf,
  type CalendarCheck,
  type CronUse,
  canonicalCron,
  cronFields,
  DEFAULT_ZONE,
  isCalendarReset,
  isSessionReset,
  kindNameOf,
  type Limit,
  type LimitInput,
  MAX_PERIOD_SECONDS,
  MAX_SCALE,
  MAX_SLOTS,
  makeLimit,
  QUOTA_PERIOD_SECONDS,
  type ReplacedWindow,
  type ScheduleEntry,
} from './limit.js'

/**
 * Parses `NAME=AMOUNT[/PERIOD][:BURST][@WHEN][!][,MODIFIER…]`. Defaults: a period of a minute, the amount as burst.
 * The period of an in-flight limit is `inflight`. `:` may replace `=`. Crons and time zones are parsed, but not checked.
 */
export function parseLimit(text: string): Limit {
  return givenLimit(splitPair(text, SEPARATORS, refusePair)).limit
}

/** Parses several limits. Throws on a duplicate name. With a calendar, also checks crons and time zones. */
export function parseLimits(texts: readonly string[], calendar?: CalendarCheck): Limit[] {
  return parseLimitsOver(texts, [], calendar).map(({limit}) => limit)
}

/** A limit as typed, completed. */
export interface GivenLimit {
  readonly text: string
  readonly limit: Limit
  /** The permanent values of the limit in force. */
  readonly inForce: Limit | undefined
  /** `inForce` if an amount without a period keeps its other parameters. */
  readonly base: Limit | undefined
  readonly hasPeriod: boolean
  /** Windows or `soft` are given; without any, those of `base` are kept. */
  readonly hasModifiers: boolean
  /** The amount had no currency and took the one of `base`. */
  readonly isUnitKept: boolean
}

/** Like {@link parseLimits}. An amount without a period keeps the other parameters of the limit `inForce`. */
export function parseLimitsOver(
  texts: readonly string[],
  inForce: readonly Limit[],
  calendar?: CalendarCheck,
): GivenLimit[] {
  return readPairs(texts, SEPARATORS, refusePair).map(pair => {
    const present = inForce.find(({name}) => name === pair.name)
    return givenLimit(pair, present && baseOf(present), calendar)
  })
}

/** Limits, or their text form. */
export type LimitTexts<Name extends string = string> = readonly (Limit<Name> | string)[]

/** Parses the limits that are given as text. */
export function readLimits(given: LimitTexts): Limit[] {
  return given.map(limit => (typeof limit === 'string' ? parseLimit(limit) : limit))
}

/**
 * Limits whose names the compiler knows: a limiter of these limits refuses to compile `consume: {rmp: 1}`.
 *
 * @example
 * ```ts
 * const limits = defineLimits(['rpm=60/min', 'tpm=100k/min'])
 * await namespace.setLimits({level: 'system'}, limits)
 * const limiter = new RateLimiter<LimitName<typeof limits>>({stack: 'prod'})
 * ```
 */
export function defineLimits<const Text extends string>(
  texts: readonly Text[],
): readonly Limit<LimitName<readonly Text[]>>[] {
  return parseLimits(texts) as Limit<LimitName<readonly Text[]>>[]
}

/** The names of limits: `LimitName<typeof limits>`. */
export type LimitName<Limits extends LimitTexts> = Limits[number] extends infer Each
  ? Each extends Limit<infer Name> | `${infer Name}=${string}`
    ? Name
    : Each extends `${infer Name}:${string}`
      ? Name
      : string
  : never

const SEPARATORS = '=:'

function refusePair(problem: PairProblem, {text, name}: Pair): InvalidInput {
  if (problem === 'duplicate') return new InvalidInput('limit.duplicate', `The limit "${name}" is given twice.`)
  return problem === 'no-name'
    ? syntaxError({whole: text, text: text.slice(0, 1), at: 0}, 'the name is missing')
    : syntaxError({whole: text, text, at: 0}, '"=" is missing between name and rate')
}

function givenLimit({text, name, value, valueAt}: Pair, present?: Limit, calendar?: CalendarCheck): GivenLimit {
  const [main, ...modifiers] = splitPiece({whole: text, text: value, at: valueAt}, ',')
  const zone = zoneReader(calendar)
  const {basis, ...given} = parseMain(main, zone, present)
  if (basis.inFlight && modifiers[0]) throw refusedModifier(modifiers[0])
  const context = {isQuota: basis.reset !== undefined, unit: basis.unit, zone}
  const soft = modifiers.filter(each => each.text === SOFT)
  if (soft[1]) throw syntaxError(soft[1], 'soft is given twice')
  const windows = modifiers.filter(each => each.text !== SOFT).map(each => parseWindow(each, context))
  const hasModifiers = modifiers.length > 0
  const kept = hasModifiers ? undefined : given.base
  const schedule = kept ? (kept.schedule ?? []) : windows
  const usesZone = isCalendarReset(basis.reset) || schedule.length > 0
  const timeZone = zone.given() ?? (usesZone ? given.base?.timeZone : undefined)
  const limit = makeLimit({name, ...basis, schedule, timeZone, soft: kept ? kept.soft : soft.length > 0})
  return {text, limit, inForce: present, hasModifiers, ...given}
}

type Basis = Pick<LimitInput, 'capacity' | 'refillAmount' | 'refillPeriodSeconds' | 'reset' | 'inFlight' | 'unit'>

interface ParsedMain extends Pick<GivenLimit, 'base' | 'hasPeriod' | 'isUnitKept'> {
  readonly basis: Basis
}

function parseMain(piece: Piece, zone: ZoneReader, present: Limit | undefined): ParsedMain {
  const [head, when] = cutPiece(piece, '@')
  const isSession = piece.text.endsWith('!')
  const mark = slicePiece(piece, piece.text.length - 1)
  if (when && isSession) throw syntaxError(mark, 'a quota resets by the calendar or by session, not both')
  const [rateAndPeriod, burst] = cutPiece(isSession ? slicePiece(head, 0, head.text.length - 1) : head, ':')
  const [rate, period] = cutPiece(rateAndPeriod, '/')
  refuseSecond(period, '/', 'a second "/"')
  refuseSecond(burst, ':', 'a second ":" after the rate')

  const hasPeriod = period !== undefined || when !== undefined || isSession
  // A burst states a rate.
  const base = hasPeriod || (burst && present && kindNameOf(present) !== 'rate') ? undefined : present
  if (period?.text === IN_FLIGHT || base?.inFlight) {
    if (isSession) throw syntaxError(mark, 'an in-flight limit has no session')
    if (burst) throw syntaxError(separatorOf(burst), 'an in-flight limit has no burst')
    if (when) throw syntaxError(when, `an in-flight limit has no ${isCronText(when) ? 'reset' : 'time zone'}`)
    return {basis: parseSlots(rate), base, hasPeriod, isUnitKept: false}
  }
  const isUnitKept = base?.unit !== undefined && isPlainAmount(rate)
  const {tokens, unit} = parseAmount(isUnitKept ? {...rate, text: rate.text + base.unit} : rate, 'rate')
  const given = {base, hasPeriod, isUnitKept}
  if (!isSession && !when && !base?.reset) {
    const capacity = burst ? amountIn(unit, burst, 'burst') : base ? scaledBurst(base, tokens) : tokens
    const refillPeriodSeconds = period ? parsePeriod(period) : (base?.refillPeriodSeconds ?? 60)
    return {basis: {capacity, refillAmount: tokens, refillPeriodSeconds, ...units(unit)}, ...given}
  }
  if (burst) throw syntaxError(separatorOf(burst), 'a quota has no burst')
  const reset =
    base?.reset ?? (when ? {crons: parseResets(when, period, zone)} : {afterSeconds: parseSession(head, period)})
  const quota = {capacity: tokens, refillAmount: 0, refillPeriodSeconds: QUOTA_PERIOD_SECONDS, reset}
  return {basis: {...quota, ...units(unit)}, ...given}
}

const IN_FLIGHT = 'inflight'

function parseSlots(piece: Piece): Basis {
  const {tokens, unit} = parseAmount(piece, 'number of slots')
  if (unit !== undefined) throw syntaxError(piece, 'an in-flight limit has no currency')
  if (tokens > MAX_SLOTS) throw syntaxError(piece, `an in-flight limit has at most ${MAX_SLOTS} slots`)
  return {capacity: tokens, refillAmount: 0, refillPeriodSeconds: QUOTA_PERIOD_SECONDS, inFlight: true}
}

function refusedModifier(piece: Piece): InvalidInput {
  if (!/[@"x]/.test(piece.text)) refuseThousands(piece)
  return syntaxError(
    piece,
    piece.text === SOFT ? 'an in-flight limit cannot be soft' : 'an in-flight limit has no windows',
  )
}

const separatorOf = (burst: Piece): Piece => ({...burst, text: ':', at: burst.at - 1})

/** The burst keeps its ratio to the rate; rounded half up, at least 1. */
function scaledBurst({capacity, refillAmount}: Limit, tokens: number): number {
  if (refillAmount === 0) return tokens
  const [burst, rate, amount] = [BigInt(capacity), BigInt(refillAmount), BigInt(tokens)]
  return Math.max(1, Number((2n * amount * burst + rate) / (2n * rate)))
}

const units = (unit: string | undefined): Pick<LimitInput, 'unit'> => (unit === undefined ? {} : {unit})

function refuseSecond(piece: Piece | undefined, separator: string, why: string): void {
  const at = piece?.text.indexOf(separator) ?? -1
  if (piece && at >= 0) throw syntaxError(slicePiece(piece, at, at + 1), why)
}

function parseSession(head: Piece, period: Piece | undefined): number {
  if (period) return parsePeriod(period)
  throw syntaxError(slicePiece(head, head.text.length - 1), 'a session needs a length, as in 200/5h!')
}

/** `day@Europe/Berlin`, or crons without a period. */
function parseResets(when: Piece, period: Piece | undefined, zone: ZoneReader): readonly string[] {
  if (isCronText(when)) {
    if (period) throw syntaxError(period, 'a cron replaces the period; remove the period')
    return parseCrons(when, 'reset', zone)
  }
  if (/\s/.test(when.text)) throw syntaxError(when, 'a cron must be in double quotes, as in @"0 9 * * 1-5"')
  if (!period) throw syntaxError(when, 'a time zone needs a period before it, as in 10k/day@UTC')
  const cron = parseCalendarPeriod(period)
  zone.take(when)
  return [cron]
}

/** The inverse of {@link parseLimit}: `parseLimit(formatLimit(x))` equals `x` without its boost. */
export function formatLimit(of: Limit): string {
  const limit = baseOf(of)
  const {name, schedule = [], timeZone, soft, reset} = limit
  // Write the zone once, as early as possible.
  const isZoneSaid = isCalendarReset(reset)
  const windows = schedule.map((entry, index) =>
    formatWindow(entry, limit, index === 0 && !isZoneSaid ? timeZone : undefined),
  )
  return [`${name}=${formatMain(limit)}`, ...windows, ...(soft ? [SOFT] : [])].join(',')
}

/** The parts that an amount alone kept of the limit in force, such as `/month@UTC` and `soft`; empty if it is complete. */
export function keptParts({text, limit, base, isUnitKept, hasModifiers}: GivenLimit): string[] {
  // Equal to the amount alone where no limit applies.
  if (!base || (!isUnitKept && hasSameText(limit, parseLimit(text)))) return []
  const {capacity, refillAmount, unit, schedule = []} = limit
  const isRate = kindNameOf(limit) === 'rate'
  const amount = isRate ? refillAmount : capacity
  const isScaled = isRate && capacity !== amount && capacity === scaledBurst(base, amount)
  const kept = hasModifiers ? {schedule: []} : {soft: limit.soft, schedule}
  return [
    formatMain({...limit, capacity: amount}).slice(formatAmount(amount, unit).length),
    ...(isUnitKept ? [`in ${unit}`] : []),
    ...(isScaled ? [`burst scaled to ${formatAmount(capacity, unit)}`] : []),
    ...(kept.schedule.length === 0 ? [] : [kept.schedule.every(entry => 'scale' in entry) ? 'windows' : SAME_AMOUNTS]),
    ...(kept.soft ? [SOFT] : []),
  ]
}

const SAME_AMOUNTS = 'windows with the same amounts'

export interface LimitChange {
  readonly name: string
  readonly before: Limit | undefined
  readonly after: Limit | undefined
}

export function limitChanges(before: readonly Limit[], after: readonly Limit[]): LimitChange[] {
  const names = [...new Set([...before, ...after].map(({name}) => name))].sort()
  const find = (limits: readonly Limit[], name: string) => limits.find(limit => limit.name === name)
  return names.map(name => ({name, before: find(before, name), after: find(after, name)}))
}

/** Ignores boosts. */
export const hasSameText = (a: Limit | undefined, b: Limit | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && formatLimit(a) === formatLimit(b))

function formatMain({capacity, refillAmount, refillPeriodSeconds, reset, inFlight, timeZone, unit}: Limit): string {
  const amount = formatAmount(capacity, unit)
  if (inFlight) return `${amount}/${IN_FLIGHT}`
  if (isSessionReset(reset)) return `${amount}/${formatPeriod(reset.afterSeconds)}!`
  if (isCalendarReset(reset)) {
    const period = reset.crons.length === 1 ? formatCalendarPeriod(reset.crons[0] as string) : undefined
    return period === undefined ? `${amount}@${formatCrons(reset.crons, timeZone)}` : `${amount}/${period}@${timeZone}`
  }
  const burst = capacity === refillAmount ? '' : `:${amount}`
  return `${formatAmount(refillAmount, unit)}/${formatPeriod(refillPeriodSeconds)}${burst}`
}

export interface ModifierContext {
  readonly isQuota: boolean
  readonly unit: string | undefined
  readonly zone: ZoneReader
}

const SOFT = 'soft'

/** `x0.1@"* 22,23 * * *"` or `200k/min:300k@"* 9-16 * * 1-5"`. */
function parseWindow(piece: Piece, context: ModifierContext): ScheduleEntry {
  const [parameters, when] = cutPiece(piece, '@')
  if (!when || !isCronText(when)) refuseThousands(piece)
  if (when === undefined) {
    const near = nearestNames(piece.text, [SOFT]).length > 0 ? '; did you mean soft?' : ''
    throw syntaxError(piece, `"${piece.text}" is neither soft nor a window such as x0.5@"* 9-16 * * 1-5"${near}`)
  }
  const [cron, second] = parseCrons(when, 'window', context.zone)
  if (second !== undefined) throw syntaxError(when, 'a window has one cron; add a window for each cron')
  return parameters.text.startsWith('x')
    ? {cron, scale: parseScale(slicePiece(parameters, 1))}
    : {cron, ...parseParameters(parameters, context)}
}

function parseScale(piece: Piece): number {
  if (!/^\d+(\.\d{1,3})?$/.test(piece.text))
    throw syntaxError(piece, 'a factor must be a number with at most three decimals, as in x0.5')
  const scale = Number(piece.text)
  if (scale === 0 || scale > MAX_SCALE) throw syntaxError(piece, `a factor must be above 0 and at most ${MAX_SCALE}`)
  return scale
}

/** `[RATE][/PERIOD][:[BURST]]`. Omitted parts stay, but a rate alone also sets the burst; `RATE:` keeps it. */
function parseParameters(piece: Piece, {isQuota, unit}: ModifierContext): Omit<ReplacedWindow, 'cron'> {
  const [rateAndPeriod, burst] = cutPiece(piece, ':')
  const [rate, period] = cutPiece(rateAndPeriod, '/')
  if (isQuota && burst !== undefined) throw syntaxError(separatorOf(burst), 'a quota has no burst')
  const tokens = (each: Piece, what: string): number => amountIn(unit, each, what)
  const amount = rate.text === '' ? undefined : tokens(rate, isQuota ? 'amount' : 'rate')
  const ownBurst = burst === undefined || burst.text === '' ? undefined : tokens(burst, 'burst')
  const capacity = ownBurst ?? (burst === undefined ? amount : undefined)
  if (amount === undefined && ownBurst === undefined && period === undefined)
    throw syntaxError(piece, 'the window changes nothing: a factor or an amount is missing')
  return {
    ...(capacity !== undefined && {capacity}),
    ...(amount !== undefined && !isQuota && {refillAmount: amount}),
    ...(period && {refillPeriodSeconds: parsePeriod(period)}),
  }
}

function amountIn(unit: string | undefined, piece: Piece, what: string): number {
  const amount = parseAmount(piece, what)
  if (amount.unit === unit) return amount.tokens
  throw syntaxError(piece, `the ${what} "${piece.text}" must be in ${unit ?? 'tokens'}, like the amount of the limit`)
}

function formatWindow(entry: ScheduleEntry, {reset, unit}: Limit, zone: string | undefined): string {
  const when = `@${formatCrons([entry.cron], zone)}`
  if ('scale' in entry) return `x${entry.scale}${when}`
  const {capacity, refillAmount, refillPeriodSeconds} = entry
  const amount = reset && refillAmount === undefined ? capacity : refillAmount
  const rate = amount === undefined ? '' : formatAmount(amount, unit)
  const period = refillPeriodSeconds === undefined ? '' : `/${formatPeriod(refillPeriodSeconds)}`
  const burst = amount === capacity ? '' : `:${capacity === undefined ? '' : formatAmount(capacity, unit)}`
  return `${rate}${period}${burst}${when}`
}

const CRON_OF_PERIOD: ReadonlyMap<string, string> = new Map([
  ['hour', '0 * * * *'],
  ['day', '0 0 * * *'],
  ['week', '0 0 * * 1'],
  ['month', '0 0 1 * *'],
])

const PERIOD_OF_CRON: ReadonlyMap<string, string> = new Map([...CRON_OF_PERIOD].map(([name, cron]) => [cron, name]))

const PERIODS = ['sec', 'min', 'hour', 'day', IN_FLIGHT]

function parsePeriod(piece: Piece): number {
  const {text} = piece
  const ms = durationMs(text)
  if (ms === undefined) {
    if (CRON_OF_PERIOD.has(text)) {
      const amount = piece.whole
        .slice(0, piece.at - 1)
        .split(/[=:,]/)
        .at(-1)
      throw syntaxError(piece, `a calendar ${text} needs a time zone, as in ${amount}/${text}@UTC`)
    }
    throw syntaxError(
      piece,
      `the period "${text}" is not one of sec, min, hour, day, with an optional count${meant(text, PERIODS)}`,
    )
  }
  if (ms === 0 || ms % 1000 !== 0) throw syntaxError(piece, `the period "${text}" is not a whole number of seconds`)
  if (ms / 1000 > MAX_PERIOD_SECONDS)
    throw syntaxError(piece, `the period "${text}" is longer than ${MAX_PERIOD_SECONDS} seconds (31.7 years)`)
  return ms / 1000
}

function formatPeriod(seconds: number): string {
  return formatDuration(seconds * 1000).replace(/^1(?=[a-z])/, '')
}

function parseCalendarPeriod(piece: Piece): string {
  const cron = CRON_OF_PERIOD.get(piece.text)
  if (cron !== undefined) return cron
  const names = [...CRON_OF_PERIOD.keys()]
  const why = `the period "${piece.text}" is not hour, day, week or month, which a calendar quota needs`
  throw syntaxError(piece, why + meant(piece.text, names))
}

function formatCalendarPeriod(cron: string): string | undefined {
  return PERIOD_OF_CRON.get(cron)
}

function meant(typed: string, names: readonly string[]): string {
  const [near, ...more] = nearestNames(typed.replace(/^\d+/, ''), names)
  return near === undefined || more.length > 0 ? '' : ` (did you mean ${near}?)`
}

export interface ZoneReader {
  readonly calendar: CalendarCheck | undefined
  readonly take: (piece: Piece) => void
  readonly given: () => string | undefined
}

/** All parts of a limit share one zone. Any of them may name it, and several may repeat it. */
function zoneReader(calendar: CalendarCheck | undefined): ZoneReader {
  let zone: string | undefined
  return {
    calendar,
    given: () => zone,
    take(piece) {
      const problem = piece.text === '' ? 'the time zone is missing' : calendar?.zone(piece.text)
      if (problem !== undefined) throw syntaxError(piece, problem)
      if (zone !== undefined && zone !== piece.text)
        throw syntaxError(piece, `a limit has one time zone, and this one already has ${zone}`)
      zone = piece.text
    },
  }
}

const isCronText = ({text}: Piece): boolean => text.startsWith('"')

/** `"CRON[; CRON…] [ZONE]"`. */
function parseCrons(piece: Piece, use: CronUse, zone: ZoneReader): [string, ...string[]] {
  const {text} = piece
  if (!isCronText(piece)) throw syntaxError(piece, 'a cron must be in double quotes, as in @"0 9 * * 1-5"')
  const end = text.indexOf('"', 1)
  if (end < 0) throw syntaxError(slicePiece(piece, 0, 1), 'the closing quote of the cron is missing')
  if (end + 1 < text.length) throw syntaxError(slicePiece(piece, end + 1), `"${text.slice(end + 1)}" follows the cron`)
  const crons = splitPiece(slicePiece(piece, 1, end), ';').map(each => parseCron(each, use, zone))
  return crons as [string, ...string[]]
}

function parseCron(piece: Piece, use: CronUse, zone: ZoneReader): string {
  const words = [...piece.text.matchAll(/\S+/g)]
  const sixth = words[5]
  const hasZone = words.length === 6 && /^[A-Za-z]/.test(sixth?.[0] ?? '')
  const cron = words
    .slice(0, hasZone ? 5 : undefined)
    .map(([word]) => word)
    .join(' ')
  if (cronFields(cron) === undefined)
    throw syntaxError(piece, 'a cron has five fields: minute, hour, day, month, weekday; a time zone may follow')
  const canonical = canonicalCron(cron)
  const problem = zone.calendar?.cron(canonical, use)
  if (problem !== undefined) {
    const first = words[0]?.index ?? 0
    const last = words[4]
    throw syntaxError(slicePiece(piece, first, (last?.index ?? 0) + (last?.[0].length ?? 0)), problem)
  }
  if (hasZone && sixth) zone.take(slicePiece(piece, sixth.index, sixth.index + sixth[0].length))
  return canonical
}

function formatCrons(crons: readonly string[], zone: string | undefined): string {
  return `"${crons.join('; ')}${zone === undefined || zone === DEFAULT_ZONE ? '' : ` ${zone}`}"`
}
