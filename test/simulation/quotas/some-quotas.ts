import {formatResets} from '../../../src/lib/core/calendar/stored-schedule.js'
import {isCalendarReset, type Limit, makeLimit, type ScheduleEntry} from '../../../src/lib/core/limits/limit.js'
import type {Draws} from '../world/draws.js'
import {nextReset} from './calendar.js'

/** Where a scenario starts: before clock changes, before month ends, on ordinary days. */
const ORIGINS: Readonly<Record<string, readonly string[]>> = {
  UTC: ['2024-02-28T12:00:00Z', '2024-12-30T20:00:00Z', '2024-05-15T08:00:00Z'],
  'Europe/Berlin': ['2024-03-29T12:00:00Z', '2024-10-26T09:00:00Z', '2024-05-15T08:00:00Z'],
  'America/New_York': ['2024-03-09T15:00:00Z', '2024-11-02T12:00:00Z'],
  // Clocks change at midnight.
  'America/Havana': ['2024-03-09T15:00:00Z', '2024-11-02T12:00:00Z'],
  // By half an hour.
  'Australia/Lord_Howe': ['2024-04-05T20:00:00Z', '2024-10-04T20:00:00Z'],
  'Asia/Kathmandu': ['2024-05-15T08:00:00Z'],
}

const CRONS = [
  ['0 0 * * *'],
  ['0 0 * * *'],
  ['0 * * * *'],
  ['*/15 * * * *'],
  ['0 9 * * 1-5'],
  ['30 1 * * *', '30 13 * * *'],
  ['0 0 1 * *'],
]

/** Before a reset at a local time that is skipped or repeated. */
const CLOCK_CHANGES = [
  {zone: 'Africa/Cairo', origin: '2024-04-25T12:00:00Z', cron: '0 0 * * *'},
  {zone: 'America/Havana', origin: '2024-03-09T15:00:00Z', cron: '0 0 * * *'},
  {zone: 'America/Havana', origin: '2024-11-02T12:00:00Z', cron: '0 0 * * *'},
  {zone: 'America/New_York', origin: '2024-03-09T15:00:00Z', cron: '30 2 * * *'},
  {zone: 'America/New_York', origin: '2024-11-02T12:00:00Z', cron: '30 1 * * *'},
  {zone: 'Australia/Lord_Howe', origin: '2024-04-05T20:00:00Z', cron: '45 1 * * *'},
] as const

/** Zone and start of a scenario. */
export interface Place {
  readonly zone: string
  readonly originMs: number
}

export function somePlace(draws: Draws): Place {
  const zone = draws.pick(Object.keys(ORIGINS))
  const originMs = Date.parse(draws.pick(ORIGINS[zone] as readonly string[]))
  return {zone, originMs: originMs + draws.int(0, 60_000)}
}

/** A quota of any kind, named `q`. */
export function someQuota(draws: Draws, {zone}: Place, capacity = draws.int(2, 40)): Limit {
  const quota = {name: 'q', capacity, refillAmount: 0, refillPeriodSeconds: 1}
  const schedule = draws.chance(0.2) ? {schedule: someWindows(draws, capacity)} : {}
  if (draws.chance(0.4)) {
    const afterSeconds = draws.pick([30, 120, 3600, 18_000])
    return makeLimit({...quota, ...schedule, reset: {afterSeconds}, ...('schedule' in schedule && {timeZone: zone})})
  }
  return makeLimit({...quota, ...schedule, reset: {crons: draws.pick(CRONS)}, timeZone: zone})
}

/** A daily quota, also named `q`, around a clock change. */
export function quotaAtClockChange(draws: Draws): {readonly place: Place; readonly quota: Limit} {
  const {zone, origin, cron} = draws.pick(CLOCK_CHANGES)
  const quota = {name: 'q', capacity: draws.int(2, 40), refillAmount: 0, refillPeriodSeconds: 1}
  return {
    place: {zone, originMs: Date.parse(origin) + draws.int(0, 60_000)},
    quota: makeLimit({...quota, reset: {crons: [cron]}, timeZone: zone}),
  }
}

/** What `q` changes to: another allowance, another kind, or a rate. */
export function changedQuota(draws: Draws, quota: Limit, place: Place): Limit {
  const capacity = Math.max(1, Math.round(quota.capacity * draws.pick([0.3, 0.5, 1, 2])))
  if (draws.chance(0.3))
    return makeLimit({...quota, capacity, schedule: [], ...(isCalendarReset(quota.reset) ? {} : {timeZone: undefined})})
  if (draws.chance(0.2))
    return {name: 'q', capacity, refillAmount: capacity, refillPeriodSeconds: draws.pick([60, 3600])}
  return someQuota(draws, place, capacity)
}

/** A rate with windows, named `sched`. */
export function scheduledRate(draws: Draws, {zone}: Place): Limit {
  const capacity = draws.int(10, 60)
  const refillAmount = draws.int(5, 40)
  const limit = {name: 'sched', capacity, refillAmount, refillPeriodSeconds: 60, timeZone: zone}
  const cron = draws.pick(['* 0-5,22,23 * * *', '0-29 * * * *', '* * * * 6,7', '*/15 * * * *'])
  const entry: ScheduleEntry = draws.chance(0.5)
    ? {cron, scale: draws.pick([0.1, 0.5, 2])}
    : {cron, capacity: draws.int(5, 80), refillAmount: draws.int(1, 60)}
  return makeLimit({...limit, schedule: [entry]})
}

export const softLimit = (draws: Draws): Limit =>
  makeLimit({
    name: 'soft',
    capacity: draws.int(1, 10),
    refillAmount: draws.int(1, 10),
    refillPeriodSeconds: 60,
    soft: true,
  })

function someWindows(draws: Draws, capacity: number): ScheduleEntry[] {
  const cron = draws.pick(['* 0-5,22,23 * * *', '0-29 * * * *', '* * * * 6,7'])
  if (draws.chance(0.5)) return [{cron, scale: draws.pick([0.5, 2])}]
  return [{cron, capacity: Math.max(1, Math.round(capacity * draws.pick([0.4, 1.5])))}]
}

/** The first resets of a quota after the origin; for a session, the instants at which one would end. */
export function boundariesOf({reset, timeZone}: Limit, {originMs}: Place, count: number): number[] {
  const boundaries: number[] = []
  for (let atMs = originMs; boundaries.length < count; ) {
    if (isCalendarReset(reset)) atMs = nextReset({zone: timeZone ?? 'UTC', resets: formatResets(reset.crons)}, atMs)
    else atMs += 1000 * (reset?.afterSeconds ?? 3600)
    boundaries.push(atMs)
  }
  return boundaries
}
