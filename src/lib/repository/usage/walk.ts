import {batchGet, keyId} from '../../dynamo/batch.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {queryItems} from '../../dynamo/paging.js'
import {type Item, type Key, s} from '../../schema/attribute-value.js'
import {indexKeys, keys, parseItemKey, sortPrefix} from '../../schema/keys.js'
import {readString} from '../../schema/read.js'
import {decodeUsage, type UsageRecord} from '../../schema/usage-record.js'
import type {NamespaceTable} from '../table/table.js'
import type {UsageRange} from './range.js'

/** What one BatchGetItem can take. */
const RECORDS_PER_READ = 100

/** A record, and its place in the listing, after which the listing can be continued. */
export interface PlacedUsage {
  readonly record: UsageRecord
  readonly place: Place
}

/** What a cursor says. */
export type Place = readonly string[]

/** What to walk through, and in which bites. */
export interface UsageWalk {
  readonly range: UsageRange
  /** Where the page before ended. */
  readonly after?: Place | undefined
  /** Items that one Query looks at. */
  readonly pageSize: number
}

/** Windows of one entity and resource, newest first. A place is the window key and the resource. */
export async function* usageOfEntityAndResource(
  table: NamespaceTable,
  entity: string,
  resource: string,
  {range, after, pageSize}: UsageWalk,
): AsyncGenerator<PlacedUsage, void> {
  const prefix = sortPrefix.usage(resource)
  const [first, last] = range.bounds
  const upTo = after?.[0] !== undefined && after[0] < last ? after[0] : last
  const e = new ExpressionBuilder()
  range.filter(e)
  for await (const item of descending(table, e, entity, [prefix + first, prefix + upTo], pageSize)) {
    const record = decodeUsage(item)
    const place = [(readString(item, 'SK') ?? '').slice(prefix.length), resource]
    if (record && range.has(record) && (!after || isBefore(place, after))) yield {record, place}
  }
}

/**
 * Windows of one entity over all resources, newest first. The table orders them by resource, so the listings of the
 * resources are read side by side and the newest head is taken each time.
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
  const {GSI2PK} = indexKeys.usageOfResource(table.namespace, resource, '', '')
  const [first, last] = range.bounds
  const e = new ExpressionBuilder().project('PK', 'SK', 'GSI2SK')
  e.keyCondition(`${e.name('GSI2PK')} = ${e.value(s(GSI2PK))}`)
  const [from, to] = [e.value(s(`USAGE#${first}`)), e.value(s(`USAGE#${last}`))]
  e.keyCondition(`${e.name('GSI2SK')} BETWEEN ${from} AND ${to}`)
  const request = {TableName, IndexName: 'GSI2', ScanIndexForward: false, Limit: pageSize, ...e.read()}
  const start = after && {ExclusiveStartKey: startKey(GSI2PK, after)}
  const rows = candidates(queryItems(transport, {...request, ...start}, {backoff}), range)
  for await (const chunk of chunksOf(rows, RECORDS_PER_READ)) {
    const items = await batchGet(transport, TableName, chunk.map(keyOf), {backoff, consistent: true})
    for (const row of chunk) {
      const item = items.get(keyId(keyOf(row)))
      const record = item && decodeUsage(item)
      if (record && range.has(record)) yield {record, place: placeInIndex(row)}
    }
  }
}

/** Rows of the index that may be wanted, as far as their keys tell. */
async function* candidates(rows: AsyncIterable<Item>, range: UsageRange): AsyncGenerator<Item, void> {
  for await (const row of rows) {
    const key = parseItemKey(row)
    if (key?.record === 'usage' && range.mayHave(key)) yield row
  }
}

/** Found from one to the next: the last window of a resource leads to the resource before it. */
async function resourcesOfEntity(table: NamespaceTable, entity: string): Promise<string[]> {
  const resources: string[] = []
  let before = `${sortPrefix.usage()}~`
  for (;;) {
    const e = new ExpressionBuilder().project('PK', 'SK')
    const {value: item} = await descending(table, e, entity, [sortPrefix.usage(), before], 1).next()
    const key = item && parseItemKey(item)
    if (key?.record !== 'usage') return resources
    resources.push(key.resource)
    before = sortPrefix.usage(key.resource)
  }
}

function descending(
  table: NamespaceTable,
  e: ExpressionBuilder,
  entity: string,
  [from, to]: readonly [string, string],
  pageSize: number,
): AsyncGenerator<Item, void> {
  const {transport, name: TableName, backoff, namespace} = table
  e.keyCondition(`${e.name('PK')} = ${e.value(s(keys.entity(namespace, entity).PK))}`)
  e.keyCondition(`${e.name('SK')} BETWEEN ${e.value(s(from))} AND ${e.value(s(to))}`)
  const request = {TableName, ScanIndexForward: false, Limit: pageSize, ...e.read()}
  return queryItems(transport, request, {backoff})
}

/** Whether a place sorts before another one, and so comes after it in a listing that is newest first. */
function isBefore([key = '', resource = '']: Place, [otherKey = '', otherResource = '']: Place): boolean {
  return key === otherKey ? resource < otherResource : key < otherKey
}

function keyOf(row: Item): Key {
  return {PK: readString(row, 'PK') ?? '', SK: readString(row, 'SK') ?? ''}
}

function placeInIndex(row: Item): Place {
  const {PK, SK} = keyOf(row)
  return [readString(row, 'GSI2SK') ?? '', PK, SK]
}

function startKey(GSI2PK: string, [sortKey = '', PK = '', SK = '']: Place): Item {
  return {GSI2PK: s(GSI2PK), GSI2SK: s(sortKey), PK: s(PK), SK: s(SK)}
}
