import {keyId, keyOf, partitionOf, sortPrefix} from '../../schema/keys.js'
import {isExpiredItem, moderniseInto} from '../../schema/legacy-item.js'
import {legacyKeys, partitionPrefix} from '../../schema/legacy-key.js'
import {decodeUsage, type UsageRecord} from '../../schema/usage-record.js'
import type {MigrationContext, OldItem} from '../records/finding.js'
import {isOfType, queryOldItems} from '../records/reads.js'
import {DailyEvidence} from './daily-evidence.js'
import type {DailyWindows} from './merge.js'

export interface UsageSeries {
  /** The namespace that they move to. */
  readonly namespace: string
  /** The namespace id in the old keys; `undefined` before namespaces. */
  readonly origin: string | undefined
  readonly entity: string
  readonly resource: string
}

export interface OldUsage {
  readonly old: OldItem
  readonly record: UsageRecord
}

export interface SeriesDays {
  /** By `YYYY-MM-DD`, in the order of their keys. */
  readonly days: ReadonlyMap<string, readonly OldUsage[]>
  readonly daily: DailyWindows
}

interface SeriesSummary {
  readonly daily: DailyWindows
  /** `keyId` of its first item. */
  readonly first: string
}

/**
 * Summaries of the series on the previous page. A series may span many pages; with these it is read as a whole once in a
 * pass, and memory is bounded by the series of one page.
 */
const summaries = new WeakMap<MigrationContext, Map<string, SeriesSummary>>()

/** Returns a function that reads days of a series; `isOnPage` tells whether an item is on the page being compared. */
export function seriesReader(context: MigrationContext, isOnPage: (key: string) => boolean) {
  const ofPreviousPage = summaries.get(context) ?? new Map<string, SeriesSummary>()
  const ofThisPage = new Map<string, SeriesSummary>()
  summaries.set(context, ofThisPage)
  return async (series: UsageSeries, members: readonly OldItem<'usage'>[]): Promise<SeriesDays> => {
    const name = JSON.stringify([series.origin ?? '', series.entity, series.resource])
    const known = ofPreviousPage.get(name)
    const wanted = new Set(members.map(({record: {start}}) => start.slice(0, 10)))
    // A page with the first item of the series begins a new pass: the records may have changed since the last one.
    const summary = known && !isOnPage(known.first) ? known : undefined
    const {days, ...rest} = summary
      ? {days: await readDays(context, series, wanted), ...summary}
      : await readWhole(context, seriesRecords(context, series, members), wanted)
    ofThisPage.set(name, rest)
    return {days, daily: rest.daily}
  }
}

/** All records of a series: those on the page if its partition is there as a whole. */
function seriesRecords(
  context: MigrationContext,
  series: UsageSeries,
  members: readonly OldItem<'usage'>[],
): AsyncIterable<OldUsage> | Iterable<OldUsage> {
  const isOnPage = members.every(({isPartitionOnPage}) => isPartitionOnPage)
  return isOnPage ? members.flatMap(old => decodeLive(context, series, old) ?? []) : liveRecords(context, series, '')
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
