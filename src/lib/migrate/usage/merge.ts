import type {Window} from '../../core/window.js'
import {attributes} from '../../schema/attributes.js'
import type {UsageRecord} from '../../schema/usage-record.js'

/** Whole tokens per limit, and the number of events. */
export type Counters = Readonly<Record<string, number>>

export type UsageTarget = Readonly<ReturnType<typeof targetOf>>

/** Whether the aggregator counted days too. `unknown`: the records do not show it, and the table does not say. */
export type DailyWindows = 'counted' | 'not counted' | 'unknown'

export interface UsageDay {
  readonly targets: readonly UsageTarget[]
  /** `undefined`: no record counted several windows. */
  readonly decision: 'split' | 'kept as labelled' | undefined
}

export function separateMidnight(records: readonly UsageRecord[]): {midnight: UsageRecord[]; others: UsageRecord[]} {
  const isMidnight = ({start}: UsageRecord) => start.endsWith('T00:00:00Z')
  return {midnight: records.filter(isMidnight), others: records.filter(record => !isMidnight(record))}
}

/**
 * Old aggregators kept the day, and the month, in the record of its first hour (D-11). It then holds twice that hour
 * and once each other hour. It is split if days were counted and the numbers are consistent, else kept as labelled.
 */
export function mergeUsageDay(records: readonly UsageRecord[], daily: DailyWindows): UsageDay {
  const {
    midnight: [midnight, another],
    others,
  } = separateMidnight(records)
  const targets = others.map(record => targetOf(record, record.window, countersOf(record), others.length))
  if (!midnight) return {targets, decision: undefined}
  if (another) {
    // Two records of one instant have their window in the key, so neither is mixed.
    const separate = [midnight, another].map(each => targetOf(each, each.window, countersOf(each), others.length))
    return {targets: [...targets, ...separate], decision: undefined}
  }
  const asLabelled = targetOf(midnight, midnight.window, countersOf(midnight), others.length)
  // A record labelled as a day had no traffic in its first hour, so it is not mixed.
  if (midnight.window === 'daily') return {targets: [...targets, asLabelled], decision: undefined}
  const isSplittable = daily === 'counted' && midnight.window === 'hourly' && !isFirstOfMonth(midnight)
  const firstHour = isSplittable ? computeFirstHour(midnight, others) : undefined
  if (!firstHour) {
    // Subtracts the amount that an earlier pass added to the day when it split the record before the day was over.
    const noDay = targetOf(midnight, 'daily', {}, others.length)
    return {targets: [...targets, asLabelled, noDay], decision: 'kept as labelled'}
  }
  const day = subtractCounters(countersOf(midnight), firstHour)
  return {
    targets: [
      ...targets,
      targetOf(midnight, 'hourly', firstHour, others.length),
      targetOf(midnight, 'daily', day, others.length),
    ],
    decision: 'split',
  }
}

/** The first record of that day may count the month too. */
export const isFirstOfMonth = ({start}: UsageRecord): boolean => start.slice(8, 10) === '01'

function countersOf({tokens, totalEvents}: UsageRecord): Counters {
  return {...Object.fromEntries(tokens), [attributes.usage.totalEvents]: totalEvents}
}

function targetOf(record: UsageRecord, window: Window, counters: Counters, hours: number) {
  return {window, start: record.start, counters, hours, ttlSeconds: record.ttlSeconds}
}

/** Half of midnight's counts above the other hours. `undefined`: not whole for every counter. */
export function computeFirstHour(midnight: UsageRecord, hours: readonly UsageRecord[]): Counters | undefined {
  const mixed = countersOf(midnight)
  const others = hours.map(countersOf)
  const first: Record<string, number> = {}
  for (const name of new Set([mixed, ...others].flatMap(counters => Object.keys(counters)))) {
    const inOthers = others.reduce((sum, counters) => sum + (counters[name] ?? 0), 0)
    const twice = (mixed[name] ?? 0) - inOthers
    if (twice < 0 || twice % 2 !== 0) return undefined
    if (name in mixed) first[name] = twice / 2
  }
  return first
}

export function subtractCounters(from: Counters, subtracted: Counters): Counters {
  const difference: Record<string, number> = {}
  for (const name of new Set([...Object.keys(from), ...Object.keys(subtracted)])) {
    const change = (from[name] ?? 0) - (subtracted[name] ?? 0)
    if (change !== 0) difference[name] = change
  }
  return difference
}
