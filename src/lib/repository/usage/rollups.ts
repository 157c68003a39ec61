import {type RollupSchedule, windowEndMs} from '../../core/window.js'
import type {Item} from '../../schema/attribute-value.js'
import {keys, sortPrefix} from '../../schema/keys.js'
import {ranges} from '../../schema/ranges.js'
import {isoSeconds} from '../../schema/read.js'
import {decodeRollups} from '../../schema/registry-records.js'
import {readAll} from '../table/query.js'
import {getItem, type Table} from '../table/table.js'
import {AFTER_ALL} from './range.js'
import type {CoarseUsage} from './sum.js'

/** Which windows of a table are rolled up. Changes are announced an hour ahead, so the answer may be a little old. */
export async function readRollups(table: Table, signal?: AbortSignal): Promise<RollupSchedule> {
  return decodeRollups(await getItem(table, keys.rollups(), {consistent: false, signal}))
}

/** All stored usage of one entity and resource within a day or month, strongly consistent: also that of the whole window. */
export function readWithin(table: Table, whole: CoarseUsage, signal?: AbortSignal): Promise<Item[]> {
  return readThrough(table, whole, whole.start, signal)
}

export async function readThrough(
  table: Table,
  {namespace, entity, resource, window, start}: CoarseUsage,
  lastStart: string,
  signal?: AbortSignal,
): Promise<Item[]> {
  const {partition} = ranges.usageOfEntity(namespace, entity, resource)
  const prefix = sortPrefix.usage(resource)
  const last = `${prefix}${isoSeconds(windowEndMs(window, lastStart) - 1)}${AFTER_ALL}`
  const items: Item[] = []
  for await (const item of readAll(table, {partition, between: [`${prefix}${start}`, last]}, undefined, signal))
    items.push(item)
  return items
}
