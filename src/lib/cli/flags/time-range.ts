import {option, string} from '@oclif/core/flags'
import {InvalidInput} from '../../core/errors.js'
import {durationMs} from '../../core/text/duration.js'
import type {Window} from '../../core/window.js'

const helpGroup = 'TIME'

export const timeFlags = {
  since: string({
    description: 'Start: a duration ago (90m, 24h, 7d) or a UTC time (2026-11-01, 2026-11-01T14:30).',
    helpValue: 'WHEN',
    helpGroup,
  }),
  until: string({description: 'End, in the same format. Default: now.', helpValue: 'WHEN', helpGroup}),
}

/** In epoch milliseconds; the end is exclusive. */
export interface TimeRange {
  readonly sinceMs: number
  readonly untilMs: number
}

export function timeRange(
  flags: {readonly since?: string | undefined; readonly until?: string | undefined},
  nowMs: number,
  spanMs: number,
): TimeRange {
  // Includes a window that starts right now.
  const untilMs = flags.until === undefined ? Math.floor(nowMs) + 1 : parseInstant('--until', flags.until, nowMs)
  const sinceMs =
    flags.since === undefined ? Math.max(0, untilMs - spanMs) : parseInstant('--since', flags.since, nowMs)
  if (sinceMs < untilMs) return {sinceMs, untilMs}
  throw new InvalidInput(
    'time.range',
    `The time range is empty: it starts at ${iso(sinceMs)} and ends at ${iso(untilMs)}.`,
    {
      hint: '--since must be before --until.',
    },
  )
}

const DATE = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})?)?$/

/** In epoch milliseconds: a duration before now, or a date, in UTC unless it has a time zone. */
export function parseInstant(flag: string, text: string, nowMs: number): number {
  const spanMs = durationMs(text)
  if (spanMs !== undefined) {
    if (spanMs <= nowMs) return nowMs - spanMs
    throw badInstant(flag, text, `${text} ago is before 1970`, DURATION_OR_DATE)
  }
  if (!DATE.test(text)) throw badInstant(flag, text, 'it is neither a duration nor a date', DURATION_OR_DATE)
  return parseDate(flag, text)
}

/** In epoch milliseconds; UTC unless the date has a time zone. */
export function parseDate(flag: string, text: string, hint = DURATION_OR_DATE): number {
  const bad = (why: string) => badInstant(flag, text, why, hint)
  const match = DATE.exec(text)
  if (!match) throw bad('it is not a date')
  const [, year, month, day, hour = '00', minute = '00', second = '00', fraction = '', zone = 'Z'] = match
  const pieces: [string, string | undefined, number, number][] = [
    ['month', month, 1, 12],
    ['day', day, 1, new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()],
    ['hour', hour, 0, 23],
    ['minute', minute, 0, 59],
    ['second', second, 0, 59],
  ]
  for (const [name, piece, least, most] of pieces) {
    if (Number(piece) < least || Number(piece) > most) throw bad(`${name} ${piece} does not exist`)
  }
  const ms = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}${fraction}${zone}`)
  if (Number.isNaN(ms)) throw bad(`time zone ${zone} does not exist`)
  if (ms < 0) throw bad('it is before 1970')
  return ms
}

const DURATION_OR_DATE =
  'Write a duration such as 90m, 24h or 7d, or a date such as 2026-11-01 or 2026-11-01T14:30 (UTC).'

function badInstant(flag: string, text: string, why: string, hint: string): InvalidInput {
  return new InvalidInput('time.syntax', `${flag}: cannot read "${text}": ${why}.`, {
    hint,
    details: {flag, text, why},
  })
}

const iso = (ms: number): string => new Date(ms).toISOString()

const WINDOW_TYPES: readonly Window[] = ['hourly', 'daily', 'monthly']

const windowFlag = (usual: Window) =>
  option({char: 'w', options: WINDOW_TYPES, default: usual, description: 'Length of a usage window.'})()

export const usageFlags = {
  ...timeFlags,
  resource: string({char: 'r', description: 'Show only this resource.', helpValue: 'NAME'}),
  window: windowFlag('hourly'),
}

export const exportRangeFlags = {...timeFlags, window: windowFlag('daily')}
