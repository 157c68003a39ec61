import {parseResets} from '../../../src/lib/core/calendar/stored-schedule.js'
import {DAY_MS} from '../../../src/lib/core/calendar/time-zone.js'
import {startsBetween} from '../../core/calendar/random-schedules.js'
import type {StoredQuota} from './stored-quota.js'

type Calendar = Pick<StoredQuota, 'resets' | 'zone'>

/** Two months: resets of scenarios are at most one month apart. */
const MOST_DAYS = 62

const known = new Map<string, readonly number[]>()

/** Checks minute by minute, independently of the library's search, which it judges. */
function startsOn(day: number, {resets, zone}: Calendar): readonly number[] {
  const key = `${day} ${zone} ${resets}`
  const found =
    known.get(key) ??
    parseResets(resets)
      .flatMap(cron => startsBetween(zone, cron, day * DAY_MS, (day + 1) * DAY_MS))
      .sort((a, b) => a - b)
  known.set(key, found)
  return found
}

/** At or before an instant. */
export function lastReset(calendar: Calendar, atMs: number): number {
  const today = Math.floor(atMs / DAY_MS)
  for (let day = today; day > today - MOST_DAYS; day--) {
    const last = startsOn(day, calendar).findLast(start => start <= atMs)
    if (last !== undefined) return last
  }
  return Number.NEGATIVE_INFINITY
}

/** After an instant. */
export function nextReset(calendar: Calendar, atMs: number): number {
  const today = Math.floor(atMs / DAY_MS)
  for (let day = today; day < today + MOST_DAYS; day++) {
    const next = startsOn(day, calendar).find(start => start > atMs)
    if (next !== undefined) return next
  }
  return Number.POSITIVE_INFINITY
}
