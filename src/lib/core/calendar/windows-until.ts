import {InvalidInput} from '../errors.js'
import {CompiledSchedule} from './compiled-schedule.js'
import {DAY_MS, MINUTE_MS, type TimeZone, timeZone} from './time-zone.js'

/** Crons have no year, so the windows recur. A later end would look like one in the next year. */
export const LONGEST_UNTIL_DAYS = 300

const LEAST_REST_MS = 30 * DAY_MS

export interface WindowsUntil {
  /** As few as possible. The first may be open before now. */
  readonly crons: readonly string[]
  /** When one of them recurs, in the next year or, for 29 February, later. Epoch ms. */
  readonly recurMs: number
}

/** Throws if the wall clock is ambiguous at the end. Afterwards the windows are closed for at least a month. */
export function windowsUntil(zoneName: string, nowMs: number, untilMs: number): WindowsUntil {
  const zone = timeZone(zoneName)
  if (untilMs % MINUTE_MS !== 0) throw new RangeError(`${untilMs} is not a whole minute`)
  // The end is rounded up to its minute.
  if (!(untilMs > nowMs) || untilMs - nowMs >= LONGEST_UNTIL_DAYS * DAY_MS + MINUTE_MS)
    throw new RangeError(`${untilMs} is not within ${LONGEST_UNTIL_DAYS} days after ${nowMs}`)
  const crons = cronsBetween(wallClock(zone, nowMs), wallClock(zone, untilMs))
  const recurMs = checkedEnd(zoneName, crons, nowMs, untilMs)
  if (recurMs !== undefined) return {crons, recurMs}
  const span = zone.spanAt(untilMs)
  throw new InvalidInput(
    'until.ambiguous',
    `The end is ambiguous: in ${zoneName}, the time zone of these limits, clocks change around ${isoMinute(untilMs)}.`,
    {
      hint: `Choose an end some hours earlier or later, for example ${isoMinute(hoursLater(span.untilMs, untilMs))}.`,
      details: {zone: zoneName, until: isoMinute(untilMs)},
    },
  )
}

export const isoMinute = (ms: number): string => `${new Date(ms).toISOString().slice(0, 16)}Z`

function hoursLater(changeMs: number, untilMs: number): number {
  const isSoon = changeMs >= untilMs && changeMs - untilMs < 6 * 60 * MINUTE_MS
  return (isSoon ? changeMs : untilMs) + 3 * 60 * MINUTE_MS
}

interface WallClock {
  readonly month: number
  readonly day: number
  readonly hour: number
  readonly minute: number
  /** Days since 1970. */
  readonly date: number
}

function wallClock(zone: TimeZone, ms: number): WallClock {
  const shown = new Date(ms + zone.spanAt(ms).offsetMs)
  return {
    month: shown.getUTCMonth() + 1,
    day: shown.getUTCDate(),
    hour: shown.getUTCHours(),
    minute: shown.getUTCMinutes(),
    date: Math.floor(shown.getTime() / DAY_MS),
  }
}

/** Months, then days of the last month, hours of the last day, minutes of the last hour. */
function cronsBetween(from: WallClock, until: WallClock): string[] {
  const {month, day, hour, minute} = until
  const date = `${day} ${month} *`
  const isSameMonth = from.month === month
  const isSameDay = from.date === until.date
  const firstDay = isSameMonth ? from.day : 1
  const firstHour = isSameDay ? from.hour : 0
  return [
    ...(isSameMonth ? [] : [`* * * ${monthList(from.month, month)} *`]),
    ...(firstDay < day ? [`* * ${range(firstDay, day - 1)} ${month} *`] : []),
    ...(firstHour < hour ? [`* ${range(firstHour, hour - 1)} ${date}`] : []),
    ...(minute > 0 ? [`${range(0, minute - 1)} ${hour} ${date}`] : []),
  ]
}

const range = (from: number, to: number): string => (from === to ? String(from) : `${from}-${to}`)

function monthList(from: number, end: number): string {
  if (from < end) return range(from, end - 1)
  return [range(from, 12), ...(end > 1 ? [range(1, end - 1)] : [])].join(',')
}

/** When the windows recur; `undefined` if they are not open exactly until the end. */
function checkedEnd(zone: string, crons: readonly string[], nowMs: number, untilMs: number): number | undefined {
  if (crons.length === 0) return undefined
  const windows = crons.map(cron => ({cron, capacity: 1}))
  const schedule = new CompiledSchedule({zone, windows, resets: []})
  for (let at = nowMs; at < untilMs; at = schedule.nextWindowChange(at)) {
    if (schedule.windowAt(at) === undefined) return undefined
  }
  if (schedule.windowAt(untilMs) !== undefined) return undefined
  const recurMs = schedule.nextWindowChange(untilMs)
  return recurMs >= untilMs + LEAST_REST_MS ? recurMs : undefined
}
