import {type CoarseWindow, parseWindowKey, type RollupSchedule} from '../../core/window.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {queryItems} from '../../dynamo/paging.js'
import {type Item, s} from '../../schema/attribute-value.js'
import {attributes, keyNames} from '../../schema/attributes.js'
import {parseItemKey} from '../../schema/keys.js'
import {type KeyRange, ranges} from '../../schema/ranges.js'
import {readString} from '../../schema/read.js'
import {decodeUsage} from '../../schema/usage-record.js'
import type {NamespaceTable} from '../table/table.js'
import {oneRecordPerWindow, type Place, type PlacedUsage} from './one-window.js'
import {AFTER_ALL, endOf, type UsageRange} from './range.js'
import {withWholeWindows} from './whole-windows.js'

export interface UsageWalk {
  readonly range: UsageRange
  readonly after?: Place | undefined
  readonly pageSize: number
  readonly schedule: RollupSchedule
}

/** Newest first. Place: window key and resource. */
export async function* usageOfEntityAndResource(
  table: NamespaceTable,
  entity: string,
  resource: string,
  {range, after, pageSize, schedule}: UsageWalk,
): AsyncGenerator<PlacedUsage, void> {
  const keyRange = ranges.usageOfEntity(table.namespace, entity, resource)
  const {prefix} = keyRange
  const whole = range.coarsestRolled(schedule)
  const [first, last] = whole ? range.boundsWith(whole) : range.bounds
  const continued = after && continuedAt(after, whole)
  const upTo = continued !== undefined && continued < last ? continued : last
  const e = new ExpressionBuilder()
  if (whole) range.filterWith(e, whole, schedule)
  else range.filter(e)
  const items = descending(table, e, keyRange, [prefix + first, prefix + upTo], pageSize)
  async function* found() {
    for await (const {record, key} of whole ? withWholeWindows(items, schedule) : asStored(items, prefix))
      if (range.has(record)) yield {record, place: [key, resource], group: parseWindowKey(key).start}
  }
  for await (const each of oneRecordPerWindow(found())) if (!after || isBefore(each.place, after)) yield each
}

async function* asStored(items: AsyncIterable<Item>, prefix: string) {
  for await (const item of items) {
    const record = decodeUsage(item)
    if (record) yield {record, key: sortKeyOf(item).slice(prefix.length)}
  }
}

/** Includes the whole window in which the previous page ended: windows shown together are read together. */
function continuedAt([key = '']: Place, whole: CoarseWindow | undefined): string {
  const {start} = parseWindowKey(key)
  const atMs = Date.parse(start)
  return whole && !Number.isNaN(atMs) ? endOf(whole, atMs) : `${start}${AFTER_ALL}`
}

/** Newest first. The table orders windows by resource, so the listings of the resources are merged. */
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

/** One request per resource: each reads the last key before the previous resource's windows. */
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

/** Sorts before, so it comes later in a listing that is newest first. */
function isBefore([key = '', resource = '']: Place, [otherKey = '', otherResource = '']: Place): boolean {
  return key === otherKey ? resource < otherResource : key < otherKey
}

const sortKeyOf = (row: Item): string => readString(row, attributes.key.sort) ?? ''
