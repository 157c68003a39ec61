import type {RollupSchedule} from '../../core/window.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {queryItems} from '../../dynamo/paging.js'
import {type Item, s} from '../../schema/attribute-value.js'
import {type IndexName, keyNames} from '../../schema/attributes.js'
import {keyId, keyOf, parseItemKey} from '../../schema/keys.js'
import {ranges, startKeyOf} from '../../schema/ranges.js'
import {decodeUsage, type UsageRecord} from '../../schema/usage-record.js'
import {getItems, type NamespaceTable} from '../table/table.js'
import {oneRecordPerWindow, type Place, type PlacedUsage} from './one-window.js'
import {endOf, type UsageRange} from './range.js'
import {type IndexedWindow, withRolledWindows} from './resource-windows.js'
import {type CoarseUsage, isRolledUp, readWithin} from './sum.js'
import type {UsageWalk} from './walk.js'
import {isOwnRolled, wholeWindow} from './whole-windows.js'

/** The maximum of one BatchGetItem. */
const RECORDS_PER_READ = 100

const CONCURRENT_SUMS = 8

/** Newest first. The index may hold only keys, so records are read by key. Place: index sort key and primary key. */
export async function* usageOfResource(
  table: NamespaceTable,
  resource: string,
  {range, after, pageSize, schedule}: UsageWalk,
): AsyncGenerator<PlacedUsage, void> {
  const {transport, name: TableName, backoff} = table
  const {index, partition, prefix} = ranges.usageOfResource(table.namespace, resource)
  const whole = range.coarsestRolled(schedule)
  const [first, last] = whole ? range.boundsWith(whole) : range.bounds
  const [indexPartition, indexSort] = keyNames(index)
  const e = new ExpressionBuilder().project(...keyNames(), indexSort)
  e.keyCondition(`${e.name(indexPartition)} = ${e.value(s(partition))}`)
  const end = `${prefix}${last}`
  // Records shown as one window are read from its end on.
  const afterMs = Date.parse(after?.[0]?.slice(prefix.length, prefix.length + 20) ?? '')
  const continued = whole && !Number.isNaN(afterMs) ? `${prefix}${endOf(whole, afterMs)}` : after?.[0]
  const upTo = continued !== undefined && continued < end ? continued : end
  const [from, to] = [e.value(s(`${prefix}${first}`)), e.value(s(upTo))]
  e.keyCondition(`${e.name(indexSort)} BETWEEN ${from} AND ${to}`)
  const request = {TableName, IndexName: index, ScanIndexForward: false, Limit: pageSize, ...e.read()}
  const rows = placed(queryItems(transport, request, {backoff}), index)
  const windows = inOrder(whole ? withRolledWindows(rows, schedule) : rows)
  async function* found() {
    for await (const chunk of chunksOf(selected(windows, range, after), RECORDS_PER_READ)) {
      const items = await getItems(
        table,
        chunk.map(({primary}) => primary),
      )
      const records = await recordsOf(table, chunk, items, schedule)
      for (const [at, {place}] of chunk.entries()) {
        const record = records[at]
        if (record && range.has(record)) yield {record, place, group: place[0] ?? ''}
      }
    }
  }
  for await (const each of oneRecordPerWindow(found())) if (!after || comesAfter(each.place, after)) yield each
}

/** Windows that are not rolled up yet are summed. */
async function recordsOf(
  table: NamespaceTable,
  windows: readonly IndexedWindow[],
  items: ReadonlyMap<string, Item>,
  schedule: RollupSchedule,
): Promise<(UsageRecord | undefined)[]> {
  const records: (UsageRecord | undefined)[] = []
  for await (const chunk of chunksOf(windows, CONCURRENT_SUMS)) {
    const found = chunk.map(async each => {
      const item = items.get(keyId(each.primary))
      if (each.whole) return item && isRolledUp(item) ? decodeUsage(item) : sumUp(table, each.whole)
      const record = item && decodeUsage(item)
      return item && record && !isOwnRolled(item, record, schedule) ? record : undefined
    })
    records.push(...(await Promise.all(found)))
  }
  return records
}

async function sumUp(table: NamespaceTable, whole: CoarseUsage): Promise<UsageRecord | undefined> {
  const item = wholeWindow(whole, await readWithin(table, whole))
  return item && decodeUsage(item)
}

async function* placed(rows: AsyncIterable<Item>, index: IndexName): AsyncGenerator<IndexedWindow, void> {
  for await (const row of rows) {
    const [partition = '', sort = '', , indexSort = ''] = startKeyOf(row, index)
    const key = parseItemKey(row)
    if (key?.record === 'usage') yield {key, primary: keyOf(row), place: [indexSort, partition, sort]}
  }
}

/** Records of one entity and instant share an index key, so the index does not order them. */
async function* inOrder(windows: AsyncIterable<IndexedWindow>): AsyncGenerator<IndexedWindow, void> {
  let alike: IndexedWindow[] = []
  const ordered = () => alike.sort((a, b) => (comesAfter(b.place, a.place) ? -1 : 1))
  for await (const each of windows) {
    if (alike[0] !== undefined && alike[0].place[0] !== each.place[0]) {
      yield* ordered()
      alike = []
    }
    alike.push(each)
  }
  yield* ordered()
}

function comesAfter([indexSort = '', , sort = '']: Place, [otherIndexSort = '', , otherSort = '']: Place): boolean {
  return indexSort === otherIndexSort ? sort < otherSort : indexSort < otherIndexSort
}

/** From the instant on at which the previous page ended: records of one window are read together. */
async function* selected(
  windows: AsyncIterable<IndexedWindow>,
  range: UsageRange,
  after: Place | undefined,
): AsyncGenerator<IndexedWindow, void> {
  for await (const each of windows) {
    const isDone = after?.[0] !== undefined && (each.place[0] ?? '') > after[0]
    if (!isDone && (each.whole ? range.has(each.whole) : range.mayHave(each.key))) yield each
  }
}
