import {type CoarseWindow, parseWindowKey, type RollupSchedule} from '../../core/window.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {queryItems} from '../../dynamo/paging.js'
import {type Item, readString, s} from '../../schema/attribute-value.js'
import {attributes, keyNames} from '../../schema/attributes.js'
import {parseItemKey} from '../../schema/keys.js'
import {type KeyRange, ranges} from '../../schema/ranges.js'
import {decodeUsage, type UsageRecord} from '../../schema/usage-record.js'
import type {NamespaceTable} from '../table/table.js'
import {AFTER_ALL, endOf, type UsageRange} from './range.js'
import {withWholeWindows} from './sum.js'

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

/** Includes the whole window where the previous page ended: windows shown together are read together. */
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

/** Sorts before the other, so comes later in a listing that is newest first. */
function isBefore([key = '', resource = '']: Place, [otherKey = '', otherResource = '']: Place): boolean {
  return key === otherKey ? resource < otherResource : key < otherKey
}

const sortKeyOf = (row: Item): string => readString(row, attributes.key.sort) ?? ''

export type Place = readonly string[]

export interface PlacedUsage {
  readonly record: UsageRecord
  readonly place: Place
}

interface FoundUsage extends PlacedUsage {
  readonly group: string
}

/**
 * Merges the records of one window: aggregators of zae-limiter and zael that ran one after the other have each counted
 * a part, under different keys. Records of a window are adjacent and share a group; the last one gives the place.
 */
export async function* oneRecordPerWindow(found: AsyncIterable<FoundUsage>): AsyncGenerator<PlacedUsage, void> {
  let group: string | undefined
  let windows = new Map<string, PlacedUsage>()
  for await (const {group: next, record, place} of found) {
    if (next !== group) {
      yield* windows.values()
      group = next
      windows = new Map()
    }
    const window = `${record.window} ${record.start}`
    const before = windows.get(window)
    // Moved to the end: the listing is ordered by place.
    windows.delete(window)
    windows.set(window, {record: before ? together(before.record, record) : record, place})
  }
  yield* windows.values()
}

function together(one: UsageRecord, other: UsageRecord): UsageRecord {
  const {ttlSeconds: _, ...first} = one
  const expiry =
    one.ttlSeconds === undefined || other.ttlSeconds === undefined ? [] : [one.ttlSeconds, other.ttlSeconds]
  // Only zael counts refusals, in its own record.
  const refused = one.refused ?? other.refused
  const overdrawn = sum(one.overdrawn ?? new Map(), other.overdrawn ?? new Map())
  return {
    ...first,
    tokens: sum(one.tokens, other.tokens),
    ...(overdrawn.size > 0 && {overdrawn}),
    ...(refused && {refused}),
    totalEvents: one.totalEvents + other.totalEvents,
    ttlSeconds: expiry.length === 0 ? undefined : Math.max(...expiry),
  }
}

function sum(one: ReadonlyMap<string, number>, other: ReadonlyMap<string, number>): Map<string, number> {
  const counters = new Map(one)
  for (const [name, count] of other) counters.set(name, (counters.get(name) ?? 0) + count)
  return new Map([...counters].sort(([a], [b]) => (a < b ? -1 : 1)))
}
