import {InvalidInput} from '../errors.js'
import {type Pair, type PairProblem, readPairs, splitPair} from '../text/pairs.js'
import {formatAmount, parseAmount} from './amount-text.js'
import {
  baseOf,
  type CalendarCheck,
  isCalendarReset,
  isSessionReset,
  type Limit,
  type LimitInput,
  makeLimit,
  QUOTA_PERIOD_SECONDS,
} from './limit.js'
import {amountIn, formatWindow, parseWindow, SOFT} from './modifier-text.js'
import {formatCalendarPeriod, formatPeriod, parseCalendarPeriod, parsePeriod} from './period-text.js'
import {cutPiece, type Piece, slicePiece, splitPiece, syntaxError} from './syntax-problem.js'
import {formatCrons, isCronText, parseCrons, type ZoneReader, zoneReader} from './when-text.js'

/**
 * Reads `NAME=AMOUNT[/PERIOD][:BURST][@WHEN][!][,MODIFIER…]`; the period defaults to a minute, the burst to the amount.
 * `:` may stand for `=`. Crons and zones are read, but whether they exist is not checked.
 */
export function parseLimit(text: string): Limit {
  return limitOf(splitPair(text, SEPARATORS, refusePair))
}

/** Reads several limits; a name given twice is an error. With a calendar, crons and zones are checked as well. */
export function parseLimits(texts: readonly string[], calendar?: CalendarCheck): Limit[] {
  return readPairs(texts, SEPARATORS, refusePair).map(pair => limitOf(pair, calendar))
}

const SEPARATORS = '=:'

function refusePair(problem: PairProblem, {text, name}: Pair): InvalidInput {
  if (problem === 'duplicate') return new InvalidInput('limit.duplicate', `The limit "${name}" is given twice.`)
  return problem === 'no-name'
    ? syntaxError({whole: text, text: text.slice(0, 1), at: 0}, 'the name is missing')
    : syntaxError({whole: text, text, at: 0}, 'there is no "=" between name and rate')
}

function limitOf({text, name, value, valueAt}: Pair, calendar?: CalendarCheck): Limit {
  const [main, ...modifiers] = splitPiece({whole: text, text: value, at: valueAt}, ',')
  const zone = zoneReader(calendar)
  const basis = parseMain(main, zone)
  const context = {isQuota: basis.reset !== undefined, unit: basis.unit, zone}
  const soft = modifiers.filter(each => each.text === SOFT)
  if (soft[1]) throw syntaxError(soft[1], 'soft is given twice')
  const schedule = modifiers.filter(each => each.text !== SOFT).map(each => parseWindow(each, context))
  return makeLimit({name, ...basis, schedule, timeZone: zone.given(), soft: soft.length > 0})
}

type Basis = Pick<LimitInput, 'capacity' | 'refillAmount' | 'refillPeriodSeconds' | 'reset' | 'unit'>

function parseMain(piece: Piece, zone: ZoneReader): Basis {
  const [head, when] = cutPiece(piece, '@')
  const isSession = piece.text.endsWith('!')
  if (when && isSession)
    throw syntaxError(
      slicePiece(piece, piece.text.length - 1),
      'a quota resets by the calendar or by session, not both',
    )
  const [rateAndPeriod, burst] = cutPiece(isSession ? slicePiece(head, 0, head.text.length - 1) : head, ':')
  const [rate, period] = cutPiece(rateAndPeriod, '/')
  refuseSecond(period, '/', 'a second "/"')
  refuseSecond(burst, ':', 'a second ":" after the rate')

  const {tokens, unit} = parseAmount(rate, 'rate')
  if (!isSession && !when) {
    const capacity = burst ? amountIn(unit, burst, 'burst') : tokens
    return {capacity, refillAmount: tokens, refillPeriodSeconds: period ? parsePeriod(period) : 60, ...units(unit)}
  }
  if (burst) throw syntaxError({...burst, text: ':', at: burst.at - 1}, 'a quota has no burst')
  const reset = when ? {crons: parseResets(when, period, zone)} : {afterSeconds: parseSession(head, period)}
  return {capacity: tokens, refillAmount: 0, refillPeriodSeconds: QUOTA_PERIOD_SECONDS, reset, ...units(unit)}
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
    if (period) throw syntaxError(period, 'the cron is the period; leave this one out')
    return parseCrons(when, 'reset', zone)
  }
  if (/\s/.test(when.text)) throw syntaxError(when, 'a cron must be in double quotes, as in @"0 9 * * 1-5"')
  if (!period) throw syntaxError(when, 'a time zone needs a period before it, as in 10k/day@UTC')
  const cron = parseCalendarPeriod(period)
  zone.take(when)
  return [cron]
}

/** The inverse of {@link parseLimit}: `parseLimit(formatLimit(x))` equals `x`, or what it is without its boost. */
export function formatLimit(of: Limit): string {
  const limit = baseOf(of)
  const {name, schedule = [], timeZone, soft, reset} = limit
  // The zone is said once, as early as possible.
  const isZoneSaid = isCalendarReset(reset)
  const windows = schedule.map((entry, index) =>
    formatWindow(entry, limit, index === 0 && !isZoneSaid ? timeZone : undefined),
  )
  return [`${name}=${formatMain(limit)}`, ...windows, ...(soft ? [SOFT] : [])].join(',')
}

function formatMain({capacity, refillAmount, refillPeriodSeconds, reset, timeZone, unit}: Limit): string {
  const amount = formatAmount(capacity, unit)
  if (isSessionReset(reset)) return `${amount}/${formatPeriod(reset.afterSeconds)}!`
  if (isCalendarReset(reset)) {
    const period = reset.crons.length === 1 ? formatCalendarPeriod(reset.crons[0] as string) : undefined
    return period === undefined ? `${amount}@${formatCrons(reset.crons, timeZone)}` : `${amount}/${period}@${timeZone}`
  }
  const burst = capacity === refillAmount ? '' : `:${amount}`
  return `${formatAmount(refillAmount, unit)}/${formatPeriod(refillPeriodSeconds)}${burst}`
}
