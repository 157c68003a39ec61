import {keyId, keyOf, partitionOf, sortPrefix} from '../../schema/keys.js'
import {isExpiredItem, moderniseInto} from '../../schema/legacy-item.js'
import {legacyKeys, partitionPrefix} from '../../schema/legacy-key.js'
import {decodeUsage, type UsageRecord} from '../../schema/usage-record.js'
import {isOfType, queryOldItems} from '../records/conditional.js'
import type {MigrationContext, OldItem} from '../records/finding.js'
import {computeFirstHour, type DailyWindows, isFirstOfMonth, separateMidnight} from './merge.js'

export interface UsageSeries {
  readonly namespace: string
  /** The namespace id in the old keys. `undefined` before namespaces. */
  readonly origin: string | undefined
  readonly entity: string
  readonly resource: string
}

export interface OldUsage {
  readonly old: OldItem
  readonly record: UsageRecord
}

export interface SeriesDays {
  /** By `YYYY-MM-DD`, in key order. */
  readonly days: ReadonlyMap<string, readonly OldUsage[]>
  readonly daily: DailyWindows
}

interface SeriesSummary {
  readonly daily: DailyWindows
  readonly first: string
}

/** Summaries from the previous page: a series that spans pages is read whole only once per pass, in bounded memory. */
const summaries = new WeakMap<MigrationContext, Map<string, SeriesSummary>>()

export function seriesReader(context: MigrationContext, isOnPage: (key: string) => boolean) {
  const ofPreviousPage = summaries.get(context) ?? new Map<string, SeriesSummary>()
  const ofThisPage = new Map<string, SeriesSummary>()
  summaries.set(context, ofThisPage)
  return async (series: UsageSeries, members: readonly OldItem<'usage'>[]): Promise<SeriesDays> => {
    const name = JSON.stringify([series.origin ?? '', series.entity, series.resource])
    const known = ofPreviousPage.get(name)
    const wanted = new Set(members.map(({record: {start}}) => start.slice(0, 10)))
    // The first item of the series begins a new pass: the records may have changed since the last one.
    const summary = known && !isOnPage(known.first) ? known : undefined
    const live = members.every(({isPartitionOnPage}) => isPartitionOnPage)
      ? members.flatMap(old => decodeLive(context, series, old) ?? [])
      : liveRecords(context, series, '')
    const {days, ...rest} = summary
      ? {days: await readDays(context, series, wanted), ...summary}
      : await readWhole(context, live, wanted)
    ofThisPage.set(name, rest)
    return {days, daily: rest.daily}
  }
}

async function readDays(
  context: MigrationContext,
  series: UsageSeries,
  wanted: ReadonlySet<string>,
): Promise<Map<string, OldUsage[]>> {
  const days = new Map<string, OldUsage[]>()
  for (const day of wanted) {
    for await (const usage of liveRecords(context, series, day)) days.set(day, [...(days.get(day) ?? []), usage])
  }
  return days
}

async function readWhole(
  context: MigrationContext,
  records: AsyncIterable<OldUsage> | Iterable<OldUsage>,
  wanted: ReadonlySet<string>,
): Promise<SeriesSummary & {days: Map<string, OldUsage[]>}> {
  const days = new Map<string, OldUsage[]>()
  const evidence = new DailyEvidence(context.table.clock())
  let first = ''
  let currentDay = ''
  let recordsOfDay: UsageRecord[] = []
  for await (const usage of records) {
    const {old, record} = usage
    const day = record.start.slice(0, 10)
    if (first === '') first = keyId(keyOf(old.item))
    if (day !== currentDay) {
      evidence.add(recordsOfDay)
      recordsOfDay = []
      currentDay = day
    }
    recordsOfDay.push(record)
    if (wanted.has(day)) days.set(day, [...(days.get(day) ?? []), usage])
  }
  evidence.add(recordsOfDay)
  return {days, daily: evidence.conclusion, first}
}

async function* liveRecords(
  context: MigrationContext,
  series: UsageSeries,
  date: string,
): AsyncGenerator<OldUsage, void> {
  const {origin, entity, resource} = series
  const partition = partitionOf(legacyKeys.entity(partitionPrefix(origin), entity))
  const prefix = `${sortPrefix.usage(resource)}${date}`
  const isUsage = isOfType('usage')
  for await (const old of queryOldItems(context, {partition, prefix})) {
    const usage = isUsage(old) && old.record.resource === resource && decodeLive(context, series, old)
    if (usage) yield usage
  }
}

function decodeLive(context: MigrationContext, {namespace}: UsageSeries, old: OldItem): OldUsage | undefined {
  if (isExpiredItem(old.item, context.table.clock())) return undefined
  const record = decodeUsage(moderniseInto(namespace, old.item))
  return record && {old, record}
}

const DAY_SECONDS = 86_400

/** If days were counted, each day has a midnight record, with at least as many events as its other hours. */
export class DailyEvidence {
  #hasDailyLabel = false
  #hasMixedMidnight = false
  #lacksMidnight = false
  #exceedsMidnight = false

  constructor(readonly nowMs: number) {}

  add(records: readonly UsageRecord[]): void {
    const {midnight, others} = separateMidnight(records)
    const [first, another] = midnight
    // Two records of one instant: their aggregator has the window in the key and does not mix windows.
    if (another) return
    if (first?.window === 'daily') this.#hasDailyLabel = true
    const [other] = others
    if (!other || this.#isToday(other)) return
    if (!first) {
      if (!others.some(record => this.#midnightMayHaveExpired(record))) this.#lacksMidnight = true
    } else if (others.reduce((sum, {totalEvents}) => sum + totalEvents, 0) > first.totalEvents) {
      this.#exceedsMidnight = true
    } else if (first.window === 'hourly' && !isFirstOfMonth(first) && computeFirstHour(first, others)) {
      this.#hasMixedMidnight = true
    }
  }

  get conclusion(): DailyWindows {
    if (this.#lacksMidnight) return 'not counted'
    // Only an aggregator that counts days writes the label. Too few events then mean a lost write (D-14).
    if (this.#hasDailyLabel) return 'counted'
    if (this.#exceedsMidnight) return 'not counted'
    return this.#hasMixedMidnight ? 'counted' : 'unknown'
  }

  /** Hour and day are two writes: until the day is over, one of them may be missing. */
  #isToday({start}: UsageRecord): boolean {
    return start.slice(0, 10) === new Date(this.nowMs).toISOString().slice(0, 10)
  }

  /** The midnight record is the oldest of its day, so it expires first. */
  #midnightMayHaveExpired({start, ttlSeconds}: UsageRecord): boolean {
    if (ttlSeconds === undefined) return false
    const sinceMidnight = (Date.parse(start) / 1000) % DAY_SECONDS
    return ttlSeconds - sinceMidnight <= Math.floor(this.nowMs / 1000)
  }
}
