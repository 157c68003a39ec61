import {durationMs, formatDuration} from '../text/duration.js'
import {nearestNames} from '../text/nearest.js'
import {MAX_PERIOD_SECONDS} from './limit.js'
import {type Piece, syntaxError} from './syntax-problem.js'

/** When calendar periods begin. A week begins on Monday. */
const CRON_OF_PERIOD: ReadonlyMap<string, string> = new Map([
  ['hour', '0 * * * *'],
  ['day', '0 0 * * *'],
  ['week', '0 0 * * 1'],
  ['month', '0 0 1 * *'],
])

const PERIOD_OF_CRON: ReadonlyMap<string, string> = new Map([...CRON_OF_PERIOD].map(([name, cron]) => [cron, name]))

const UNITS = ['sec', 'min', 'hour', 'day']

/** Seconds of `min`, `15min`, `5h`. */
export function parsePeriod(piece: Piece): number {
  const {text} = piece
  const ms = durationMs(text)
  if (ms === undefined) {
    if (CRON_OF_PERIOD.has(text))
      throw syntaxError(piece, `a ${text} of the calendar needs a time zone, as in 500/${text}@UTC`)
    throw syntaxError(
      piece,
      `the period "${text}" is not one of sec, min, hour, day, with an optional count${meant(text, UNITS)}`,
    )
  }
  if (ms === 0 || ms % 1000 !== 0) throw syntaxError(piece, `the period "${text}" is not a whole number of seconds`)
  if (ms / 1000 > MAX_PERIOD_SECONDS)
    throw syntaxError(piece, `the period "${text}" is longer than ${MAX_PERIOD_SECONDS} seconds (31.7 years)`)
  return ms / 1000
}

/** `min`, `15min`: without a count of 1. */
export function formatPeriod(seconds: number): string {
  return formatDuration(seconds * 1000).replace(/^1(?=[a-z])/, '')
}

/** The cron of `hour`, `day`, `week` or `month`. */
export function parseCalendarPeriod(piece: Piece): string {
  const cron = CRON_OF_PERIOD.get(piece.text)
  if (cron !== undefined) return cron
  const names = [...CRON_OF_PERIOD.keys()]
  const why = `the period "${piece.text}" is not one of hour, day, week, month, as a quota of the calendar needs`
  throw syntaxError(piece, why + meant(piece.text, names))
}

/** The calendar period that a cron stands for; `undefined` for any other cron. */
export function formatCalendarPeriod(cron: string): string | undefined {
  return PERIOD_OF_CRON.get(cron)
}

function meant(typed: string, names: readonly string[]): string {
  const [near, ...more] = nearestNames(typed.replace(/^\d+/, ''), names)
  return near === undefined || more.length > 0 ? '' : ` (did you mean ${near}?)`
}
