import {keyId} from '../../dynamo/batch.js'
import {keyOf, readAll} from '../../repository/table/query.js'
import type {Item} from '../../schema/attribute-value.js'
import {sortPrefix} from '../../schema/keys.js'
import {decodeUsage, type UsageRecord} from '../../schema/usage-record.js'
import {isOldBucketExpired} from '../buckets/old-bucket.js'
import {classifyItem} from '../records/classify.js'
import {spelledIn} from '../records/copied-records.js'
import type {MigrationContext} from '../records/finding.js'
import {DailyEvidence} from './daily-evidence.js'
import type {DailyWindows} from './merge.js'

/** The old usage records of one entity and resource. */
export interface Series {
  readonly home: string
  /** The namespace id in the old keys, empty where they have none. */
  readonly origin: string
  readonly entity: string
  readonly resource: string
}

/** Some days of a series, and what all of it says about the windows that were counted. */
export interface SeriesDays {
  /** By `YYYY-MM-DD`, in the order of their keys. */
  readonly days: ReadonlyMap<string, readonly Item[]>
  readonly daily: DailyWindows
}

/** What was learnt from a series, and where it begins. */
interface Lesson {
  readonly daily: DailyWindows
  readonly first: string
}

/**
 * A series may go over many pages. What its first page has taught is kept for the next ones, so that it is read as a whole
 * once in a walk; memory is that of the series of one page.
 */
const lessons = new WeakMap<MigrationContext, Map<string, Lesson>>()

/** Reads the wanted days of several series; `met` tells whether an item is among those that are being looked at. */
export function seriesReader(stage: MigrationContext, met: (key: string) => boolean) {
  const before = lessons.get(stage) ?? new Map<string, Lesson>()
  const learnt = new Map<string, Lesson>()
  lessons.set(stage, learnt)
  return async (series: Series, wanted: ReadonlySet<string>): Promise<SeriesDays> => {
    const name = JSON.stringify([series.origin, series.entity, series.resource])
    const known = before.get(name)
    // A page with its beginning starts a walk anew: by now the series may say something else.
    const lesson = known && !met(known.first) ? known : undefined
    const {days, ...read} = lesson
      ? {days: await readDays(stage, series, wanted), ...lesson}
      : await readWhole(stage, series, wanted)
    learnt.set(name, read)
    return {days, daily: read.daily}
  }
}

async function readDays(
  stage: MigrationContext,
  series: Series,
  wanted: ReadonlySet<string>,
): Promise<Map<string, Item[]>> {
  const days = new Map<string, Item[]>()
  for (const day of wanted) {
    for await (const {item} of aliveRecords(stage, series, day)) days.set(day, [...(days.get(day) ?? []), item])
  }
  return days
}

async function readWhole(
  stage: MigrationContext,
  series: Series,
  wanted: ReadonlySet<string>,
): Promise<Lesson & {days: Map<string, Item[]>}> {
  const days = new Map<string, Item[]>()
  const evidence = new DailyEvidence(stage.table.clock())
  let first = ''
  let today = ''
  let records: UsageRecord[] = []
  for await (const {item, record} of aliveRecords(stage, series, '')) {
    const day = record.start.slice(0, 10)
    if (first === '') first = keyId(keyOf(item))
    if (day !== today) {
      evidence.add(records)
      records = []
      today = day
    }
    records.push(record)
    if (wanted.has(day)) days.set(day, [...(days.get(day) ?? []), item])
  }
  evidence.add(records)
  return {days, daily: evidence.says, first}
}

/** Those whose window begins with a date, in order. */
async function* aliveRecords(stage: MigrationContext, {home, origin, entity, resource}: Series, date: string) {
  const partition = `${origin === '' ? '' : `${origin}/`}ENTITY#${entity}`
  const prefix = `${sortPrefix.usage(resource)}${date}`
  for await (const item of readAll(stage.table, {partition, prefix}, undefined, stage.signal)) {
    const known = classifyItem(item, stage)
    const isOurs = known.kind === 'old' && known.type === 'usage' && known.resource === resource
    const record =
      isOurs && !isOldBucketExpired(item, stage.table.clock()) ? decodeUsage(spelledIn(home, item)) : undefined
    if (record) yield {item, record}
  }
}
