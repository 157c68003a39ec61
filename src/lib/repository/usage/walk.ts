import {parseWindowKey} from '../../core/window.js'
import {batchGet} from '../../dynamo/batch.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {queryItems} from '../../dynamo/paging.js'
import {type Item, s} from '../../schema/attribute-value.js'
import {attributes, type IndexName, keyNames} from '../../schema/attributes.js'
import {keyId, keyOf, parseItemKey} from '../../schema/keys.js'
import {type KeyRange, ranges, startKeyOf} from '../../schema/ranges.js'
import {readString} from '../../schema/read.js'
import {decodeUsage} from '../../schema/usage-record.js'
import type {NamespaceTable} from '../table/table.js'
import {oneRecordPerWindow, type Place, type PlacedUsage} from './one-window.js'
import {AFTER_ALL, type UsageRange} from './range.js'

/** The maximum of one BatchGetItem. */
const RECORDS_PER_READ = 100

/** What to read, and in which portions. */
export interface UsageWalk {
  readonly range: UsageRange
  /** Where the page before ended. */
  readonly after?: Place | undefined
  /** Items that one Query reads. */
  readonly pageSize: number
}

/** Windows of one entity and resource, newest first. A place is the window key and the resource. */
export async function* usageOfEntityAndResource(
  table: NamespaceTable,
  entity: string,
  resource: string,
  {range, after, pageSize}: UsageWalk,
): AsyncGenerator<PlacedUsage, void> {
  const keyRange = ranges.usageOfEntity(table.namespace, entity, resource)
  const {prefix} = keyRange
  const [first, last] = range.bounds
  // All records of the instant at which the page before ended: those of one window are read together.
  const continued = after && `${parseWindowKey(after[0] ?? '').start}${AFTER_ALL}`
  const upTo = continued !== undefined && continued < last ? continued : last
  const e = new ExpressionBuilder()
  range.filter(e)
  async function* found() {
    for await (const item of descending(table, e, keyRange, [prefix + first, prefix + upTo], pageSize)) {
      const record = decodeUsage(item)
      const place = [(readString(item, attributes.key.sort) ?? '').slice(prefix.length), resource]
      if (record && range.has(record)) yield {record, place, group: parseWindowKey(place[0] ?? '').start}
    }
  }
  for await (const each of oneRecordPerWindow(found())) if (!after || isBefore(each.place, after)) yield each
}

/**
 * Windows of one entity over all resources, newest first. The table orders them by resource, so the listings of the
 * resources are merged: each step yields the newest of their heads.
 */
export async function* usageOfEntity(
  table: NamespaceTable,
  entity: string,
  walk: UsageWalk,
): AsyncGenerator<PlacedUsage, void> {
  const heads: {next: PlacedUsage; rest: AsyncGenerator<PlacedUsage, void>}[] = []
  for (const resource of await resourcesOfEntity(table, entity)) {
    const rest = usageOfEntityAndResource(table, entity, resource, walk)
    const {value: next} = await rest.next()
    if (next) heads.push({next, rest})
  }
  while (heads.length > 0) {
    const newest = heads.reduce((a, b) => (isBefore(a.next.place, b.next.place) ? b : a))
    yield newest.next
    const {value: next} = await newest.rest.next()
    if (next) newest.next = next
    else heads.splice(heads.indexOf(newest), 1)
  }
}

/**
 * Windows of one resource over all entities, newest first. The index may hold keys only, so the records are read by
 * key; a place is the sort key of the index and the primary key.
 */
export async function* usageOfResource(
  table: NamespaceTable,
  resource: string,
  {range, after, pageSize}: UsageWalk,
): AsyncGenerator<PlacedUsage, void> {
  const {transport, name: TableName, backoff} = table
  const {index, partition, prefix} = ranges.usageOfResource(table.namespace, resource)
  const [first, last] = range.bounds
  const [indexPartition, indexSort] = keyNames(index)
  const e = new ExpressionBuilder().project(...keyNames(), indexSort)
  e.keyCondition(`${e.name(indexPartition)} = ${e.value(s(partition))}`)
  const end = `${prefix}${last}`
  const upTo = after?.[0] !== undefined && after[0] < end ? after[0] : end
  const [from, to] = [e.value(s(`${prefix}${first}`)), e.value(s(upTo))]
  e.keyCondition(`${e.name(indexSort)} BETWEEN ${from} AND ${to}`)
  const request = {TableName, IndexName: index, ScanIndexForward: false, Limit: pageSize, ...e.read()}
  const rows = candidates(queryItems(transport, request, {backoff}), range)
  async function* found() {
    for await (const chunk of chunksOf(inOrder(rows, indexSort), RECORDS_PER_READ)) {
      const items = await batchGet(transport, TableName, chunk.map(keyOf), {backoff, consistent: true})
      for (const row of chunk) {
        const item = items.get(keyId(keyOf(row)))
        const record = item && decodeUsage(item)
        const place = placeOf(row, index)
        if (record && range.has(record)) yield {record, place, group: place[0] ?? ''}
      }
    }
  }
  for await (const each of oneRecordPerWindow(found())) if (!after || comesAfter(each.place, after)) yield each
}

/** Records of one entity and instant have the same key in the index, which then has no order of its own. */
async function* inOrder(rows: AsyncIterable<Item>, indexSort: string): AsyncGenerator<Item, void> {
  let alike: Item[] = []
  const ordered = () => alike.sort((a, b) => (sortKeyOf(a) < sortKeyOf(b) ? 1 : -1))
  for await (const row of rows) {
    const isAlike = alike[0] !== undefined && readString(alike[0], indexSort) === readString(row, indexSort)
    if (!isAlike) {
      yield* ordered()
      alike = []
    }
    alike.push(row)
  }
  yield* ordered()
}

const sortKeyOf = (row: Item): string => readString(row, attributes.key.sort) ?? ''

/** Whether a place is further down in a listing of the index, which is newest first. */
function comesAfter([indexSort = '', , sort = '']: Place, [otherIndexSort = '', , otherSort = '']: Place): boolean {
  return indexSort === otherIndexSort ? sort < otherSort : indexSort < otherIndexSort
}

/** Rows of the index that may be selected, judging by their keys. */
async function* candidates(rows: AsyncIterable<Item>, range: UsageRange): AsyncGenerator<Item, void> {
  for await (const row of rows) {
    const key = parseItemKey(row)
    if (key?.record === 'usage' && range.mayHave(key)) yield row
  }
}

/** One request per resource: each reads the last key before the windows of the resource found before. */
async function resourcesOfEntity(table: NamespaceTable, entity: string): Promise<string[]> {
  const resources: string[] = []
  const all = ranges.usageOfEntity(table.namespace, entity)
  let before = `${all.prefix}${AFTER_ALL}`
  for (;;) {
    const e = new ExpressionBuilder().project(...keyNames())
    const {value: item} = await descending(table, e, all, [all.prefix, before], 1).next()
    const key = item && parseItemKey(item)
    if (key?.record !== 'usage') return resources
    resources.push(key.resource)
    before = ranges.usageOfEntity(table.namespace, entity, key.resource).prefix
  }
}

function descending(
  table: NamespaceTable,
  e: ExpressionBuilder,
  {partition}: KeyRange,
  [from, to]: readonly [string, string],
  pageSize: number,
): AsyncGenerator<Item, void> {
  const {transport, name: TableName, backoff} = table
  const {key} = attributes
  e.keyCondition(`${e.name(key.partition)} = ${e.value(s(partition))}`)
  e.keyCondition(`${e.name(key.sort)} BETWEEN ${e.value(s(from))} AND ${e.value(s(to))}`)
  const request = {TableName, ScanIndexForward: false, Limit: pageSize, ...e.read()}
  return queryItems(transport, request, {backoff})
}

/** Whether a place sorts before another one, and so comes after it in a listing that is newest first. */
function isBefore([key = '', resource = '']: Place, [otherKey = '', otherResource = '']: Place): boolean {
  return key === otherKey ? resource < otherResource : key < otherKey
}

/** Sort key of the index, then the primary key. */
function placeOf(row: Item, index: IndexName): Place {
  const [partition = '', sort = '', , indexSort = ''] = startKeyOf(row, index)
  return [indexSort, partition, sort]
}
