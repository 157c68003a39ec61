import {scaleToPerMille} from '../../../src/lib/calendar/schedule.js'
import {compileStored, formatWindows} from '../../../src/lib/calendar/stored-schedule.js'
import {type Limit, rateOf} from '../../../src/lib/core/limit.js'
import type {Rate} from '../../../src/lib/core/token-math.js'
import type {Scenario} from '../scenario.js'

/** A rate with a schedule that is the same in the whole scenario. */
export interface ScheduledLimit {
  readonly base: Rate
  readonly zone: string
  readonly windows: string
}

/** The rates that have a schedule, by name. Scenarios change neither them nor their windows. */
export function scheduledLimits({configs}: Scenario): Map<string, ScheduledLimit> {
  const found = new Map<string, ScheduledLimit>()
  for (const {limits} of configs)
    for (const limit of limits) if (isScheduledRate(limit)) found.set(limit.name, of(limit))
  return found
}

const isScheduledRate = ({schedule, reset}: Limit): boolean => schedule !== undefined && reset === undefined

function of(limit: Limit): ScheduledLimit {
  const windows = (limit.schedule ?? []).map(entry =>
    'scale' in entry ? {cron: entry.cron, scalePerMille: scaleToPerMille(entry.scale)} : entry,
  )
  return {base: rateOf(limit), zone: limit.timeZone ?? 'UTC', windows: formatWindows(windows)}
}

/** The largest parameters in force between `atMs - behindMs` and `atMs + aheadMs`, and until when they are the largest. */
export function configuredRate(
  {base, zone, windows}: ScheduledLimit,
  atMs: number,
  aheadMs: number,
  behindMs: number,
): Rate & {readonly untilMs: number} {
  const schedule = compileStored({zone, windows})
  let largest = schedule.rateAt(base, atMs - behindMs)
  for (let at = schedule.nextWindowChange(atMs - behindMs); at <= atMs + aheadMs; at = schedule.nextWindowChange(at)) {
    const rate = schedule.rateAt(base, at)
    const larger = (a: bigint, b: bigint) => (a > b ? a : b)
    largest = {
      capacityMilli: larger(largest.capacityMilli, rate.capacityMilli),
      refillAmountMilli: larger(largest.refillAmountMilli, rate.refillAmountMilli),
      refillPeriodMs: base.refillPeriodMs,
    }
  }
  const untilMs = Math.min(
    schedule.nextWindowChange(atMs - behindMs) + behindMs,
    schedule.nextWindowChange(atMs + aheadMs) - aheadMs,
  )
  return {...largest, untilMs: Math.max(untilMs, atMs + 1)}
}
