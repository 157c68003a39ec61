import type {Window} from '../../core/window.js'
import type {UsageRecord} from '../../schema/usage-record.js'

/** Counters of one window: whole tokens per limit, and `total_events`. */
export type Counters = Readonly<Record<string, number>>

/** One of today's usage records, as the old records of a day give it. */
export interface UsageTarget {
  readonly window: Window
  readonly start: string
  readonly counters: Counters
  /** Other hours of the day that were there. */
  readonly hours: number
  readonly ttlSeconds: number | undefined
}

/**
 * Whether the aggregator of an old table counted days beside hours, for one entity and resource: `against` when its
 * records contradict that, `unknown` when they do not tell. Records do not say which windows were on.
 */
export type DailyWindows = 'counted' | 'against' | 'unknown'

/** What became of the records of one entity, resource and day. */
export interface UsageDay {
  readonly targets: readonly UsageTarget[]
  /** Whether a record that counted several windows at once could be taken apart; `undefined` when there was none. */
  readonly decision: 'untangled' | 'kept as labelled' | undefined
}

/** The records of a day's first instant, and those of its other hours. */
export function tellMidnight(records: readonly UsageRecord[]): {midnight: UsageRecord[]; others: UsageRecord[]} {
  const isMidnight = ({start}: UsageRecord) => start.endsWith('T00:00:00Z')
  return {midnight: records.filter(isMidnight), others: records.filter(record => !isMidnight(record))}
}

/**
 * Old aggregators that counted days kept the day, and the month, in the record of its first hour (D-11): after a day with
 * traffic in that hour, the record holds twice the first hour and once each other hour. Where days were counted, the other
 * hours are there and the numbers agree, hour and day are told apart; otherwise the record stays what it calls itself.
 */
export function mergeUsageDay(records: readonly UsageRecord[], daily: DailyWindows): UsageDay {
  const {
    midnight: [midnight, another],
    others,
  } = tellMidnight(records)
  const targets = others.map(record => targetOf(record, record.window, countersOf(record), others.length))
  if (!midnight) return {targets, decision: undefined}
  if (another) {
    // Two records of one instant have their window in the key: nothing was mixed.
    const apart = [midnight, another].map(record => targetOf(record, record.window, countersOf(record), others.length))
    return {targets: [...targets, ...apart], decision: undefined}
  }
  const asLabelled = targetOf(midnight, midnight.window, countersOf(midnight), others.length)
  // A day without traffic in its first hour was counted by itself.
  if (midnight.window === 'daily') return {targets: [...targets, asLabelled], decision: undefined}
  const canTell = daily === 'counted' && midnight.window === 'hourly' && !isFirstOfMonth(midnight)
  const firstHour = canTell ? firstHourOf(midnight, others) : undefined
  if (!firstHour) {
    // While the day goes on, an earlier look may have told them apart: what it gave the day is taken back.
    const noDay = targetOf(midnight, 'daily', {}, others.length)
    return {targets: [...targets, asLabelled, noDay], decision: 'kept as labelled'}
  }
  const day = minus(countersOf(midnight), firstHour)
  return {
    targets: [
      ...targets,
      targetOf(midnight, 'hourly', firstHour, others.length),
      targetOf(midnight, 'daily', day, others.length),
    ],
    decision: 'untangled',
  }
}

/** That day's first record may hold the month too. */
export const isFirstOfMonth = ({start}: UsageRecord): boolean => start.slice(8, 10) === '01'

function countersOf({tokens, totalEvents}: UsageRecord): Counters {
  return {...Object.fromEntries(tokens), total_events: totalEvents}
}

function targetOf(record: UsageRecord, window: Window, counters: Counters, hours: number): UsageTarget {
  return {window, start: record.start, counters, hours, ttlSeconds: record.ttlSeconds}
}

/** Half of what midnight holds without the other hours, if that is a whole number for every counter. */
export function firstHourOf(midnight: UsageRecord, hours: readonly UsageRecord[]): Counters | undefined {
  const mixed = countersOf(midnight)
  const others = hours.map(countersOf)
  const first: Record<string, number> = {}
  for (const name of new Set([mixed, ...others].flatMap(counters => Object.keys(counters)))) {
    const rest = others.reduce((sum, counters) => sum + (counters[name] ?? 0), 0)
    const twice = (mixed[name] ?? 0) - rest
    if (twice < 0 || twice % 2 !== 0) return undefined
    if (name in mixed) first[name] = twice / 2
  }
  return first
}

/** What has to be added to one set of counters to get another; counters that agree are left out. */
export function minus(wanted: Counters, there: Counters): Counters {
  const difference: Record<string, number> = {}
  for (const name of new Set([...Object.keys(wanted), ...Object.keys(there)])) {
    const change = (wanted[name] ?? 0) - (there[name] ?? 0)
    if (change !== 0) difference[name] = change
  }
  return difference
}
