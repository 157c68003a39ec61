import type {Cron} from './cron.js'
import {DAY_MS, firstInstantAt, latestWallMs, MINUTE_MS, type TimeZone, timeZone} from './time-zone.js'

const MINUTES_OF_DAY = 1440

/** 29 February falls on the same weekday again within 40 years, so a longer search finds nothing more. */
const HORIZON_MS = 41 * 366 * DAY_MS

export function matchesAt(cron: Cron, zone: TimeZone, ms: number): boolean {
  const minute = toMinute(ms + zone.spanAt(ms).offsetMs)
  const day = Math.floor(minute / MINUTES_OF_DAY)
  return cron.times[minute - day * MINUTES_OF_DAY] === 1 && isDay(cron, day)
}

export function nextWhere(cron: Cron, zone: TimeZone, isMatch: boolean, fromMs: number): number | undefined {
  if (cron.isAlways && !isMatch) return undefined
  let at = Math.ceil(fromMs / MINUTE_MS) * MINUTE_MS
  const limitMs = at + HORIZON_MS
  while (at < limitMs) {
    const {offsetMs, untilMs} = zone.spanAt(at)
    const found = findMinute(cron, isMatch, toMinute(at + offsetMs), toMinute(untilMs - MINUTE_MS + offsetMs) + 1)
    if (found !== undefined) return Math.ceil((found * MINUTE_MS - offsetMs) / MINUTE_MS) * MINUTE_MS
    at = untilMs
  }
  return undefined
}

function lastWhere(cron: Cron, zone: TimeZone, isMatch: boolean, upToMs: number): number | undefined {
  if (cron.isAlways && !isMatch) return undefined
  let at = Math.floor(upToMs / MINUTE_MS) * MINUTE_MS
  const limitMs = at - HORIZON_MS
  while (at > limitMs) {
    const {offsetMs, fromMs} = zone.spanAt(at)
    const found = findMinute(cron, isMatch, toMinute(at + offsetMs), toMinute(fromMs + offsetMs) - 1)
    if (found !== undefined) return Math.floor(((found + 1) * MINUTE_MS - 1 - offsetMs) / MINUTE_MS) * MINUTE_MS
    at = fromMs - MINUTE_MS
  }
  return undefined
}

/**
 * A cron starts where it begins to match on an even wall clock, without clock changes. A start in a skipped time is the
 * first instant after it; a start in a repeated time counts once, the first time. So every day begins once.
 */
export function nextStart(cron: Cron, zone: TimeZone, afterMs: number): number | undefined {
  if (cron.isHourly) return nextRise(cron, zone, afterMs)
  const wallMs = nextRise(cron, timeZone(EVEN), latestWallMs(zone, afterMs))
  return wallMs === undefined ? undefined : firstInstantAt(zone, wallMs)
}

export function lastStart(cron: Cron, zone: TimeZone, upToMs: number): number | undefined {
  if (cron.isHourly) return lastRise(cron, zone, upToMs)
  const wallMs = lastRise(cron, timeZone(EVEN), latestWallMs(zone, upToMs))
  return wallMs === undefined ? undefined : firstInstantAt(zone, wallMs)
}

/** A zone without clock changes, to calculate with wall-clock times. */
const EVEN = 'UTC'

/** By the clock as it runs: a match that lasts for hours rises once, a repeated minute twice, a skipped one never. */
function nextRise(cron: Cron, zone: TimeZone, afterMs: number): number | undefined {
  const next = (Math.floor(afterMs / MINUTE_MS) + 1) * MINUTE_MS
  const gap = matchesAt(cron, zone, afterMs) ? nextWhere(cron, zone, false, next) : next
  return gap === undefined ? undefined : nextWhere(cron, zone, true, gap)
}

function lastRise(cron: Cron, zone: TimeZone, upToMs: number): number | undefined {
  const match = lastWhere(cron, zone, true, upToMs)
  const gap = match === undefined ? undefined : lastWhere(cron, zone, false, match - MINUTE_MS)
  return gap === undefined ? undefined : gap + MINUTE_MS
}

function toMinute(ms: number): number {
  return Math.floor(ms / MINUTE_MS)
}

/** `end` is exclusive and may be before `from`. The wall clock must run evenly between them. */
function findMinute(cron: Cron, isMatch: boolean, from: number, end: number): number | undefined {
  const step = end > from ? 1 : -1
  const wanted = isMatch ? 1 : 0
  let day = Math.floor(from / MINUTES_OF_DAY)
  let time = from - day * MINUTES_OF_DAY
  const lastDay = Math.floor((end - step) / MINUTES_OF_DAY)
  for (; (lastDay - day) * step >= 0; day += step) {
    const found = timeOfDay(isDay(cron, day))
    if (found >= 0) {
      const minute = day * MINUTES_OF_DAY + found
      return (end - minute) * step > 0 ? minute : undefined
    }
    time = step > 0 ? 0 : MINUTES_OF_DAY - 1
  }
  return undefined

  /** −1 when there is none. */
  function timeOfDay(isDayOfPattern: boolean): number {
    if (!isDayOfPattern) return isMatch ? -1 : time
    return step > 0 ? cron.times.indexOf(wanted, time) : cron.times.lastIndexOf(wanted, time)
  }
}

/** `day` counts from 1970. */
function isDay(cron: Cron, day: number): boolean {
  const date = new Date(day * DAY_MS)
  if ((cron.months & (1 << (date.getUTCMonth() + 1))) === 0) return false
  const isDayOfMonth = (cron.days & (1 << date.getUTCDate())) !== 0
  const isWeekday = (cron.weekdays & (1 << (date.getUTCDay() || 7))) !== 0
  return cron.needsBothDays ? isDayOfMonth && isWeekday : isDayOfMonth || isWeekday
}
