import type {CompiledSchedule} from '../../../src/lib/core/calendar/compiled-schedule.js'
import {scaleToPerMille} from '../../../src/lib/core/calendar/schedule.js'
import {compileStored, formatWindows} from '../../../src/lib/core/calendar/stored-schedule.js'
import {type Limit, rateOf} from '../../../src/lib/core/limits/limit.js'
import type {Rate} from '../../../src/lib/core/token-math.js'
import type {Scenario} from '../scenario.js'
import {START_MS} from '../world/virtual-time.js'

/** A rate whose schedule never changes during the scenario. */
export interface ScheduledLimit {
  readonly base: Rate
  readonly schedule: RateOverTime
}

/** A rate at an instant, and when it changes next. */
type RateOverTime = Pick<CompiledSchedule, 'rateAt' | 'nextWindowChange'>

/** How long a process may use limits from before a change, in ms. */
const FOLLOWING_MS = 70_000

/** Rates with a schedule or a temporary limit, by name. Scenarios do not change them otherwise. */
export function scheduledLimits({configs, steps}: Scenario): Map<string, ScheduledLimit> {
  const found = new Map<string, ScheduledLimit>()
  for (const {limits} of configs)
    for (const limit of limits) if (isScheduledRate(limit)) found.set(limit.name, of(limit))
  for (const {atMs, event} of steps) {
    if (event.kind !== 'boost') continue
    for (const value of event.limits) {
      const base = configs.flatMap(({limits}) => limits).find(({name}) => name === value.name)
      if (base)
        found.set(value.name, {base: rateOf(base), schedule: boosted(base, value, START_MS + atMs, event.untilMs)})
    }
  }
  return found
}

/** The values of a temporary limit until it expires. Smaller values count once all processes know them. */
function boosted(base: Limit, value: Limit, setAtMs: number, untilMs: number): RateOverTime {
  const isSmaller = value.capacity < base.capacity || value.refillAmount < base.refillAmount
  const fromMs = isSmaller ? setAtMs + FOLLOWING_MS : setAtMs
  return {
    rateAt: (usual, ms) => (ms >= fromMs && ms < untilMs ? rateOf(value) : usual),
    nextWindowChange: ms => (ms < fromMs ? fromMs : ms < untilMs ? untilMs : Infinity),
  }
}

const isScheduledRate = ({schedule, reset}: Limit): boolean => schedule !== undefined && reset === undefined

function of(limit: Limit): ScheduledLimit {
  const windows = (limit.schedule ?? []).map(entry =>
    'scale' in entry ? {cron: entry.cron, scalePerMille: scaleToPerMille(entry.scale)} : entry,
  )
  const schedule = compileStored({zone: limit.timeZone ?? 'UTC', windows: formatWindows(windows)})
  return {base: rateOf(limit), schedule}
}

/** The largest parameters in force between `atMs - behindMs` and `atMs + aheadMs`, and until when. */
export function configuredRate(
  {base, schedule}: ScheduledLimit,
  atMs: number,
  aheadMs: number,
  behindMs: number,
): Rate & {readonly untilMs: number} {
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
