import {floorDivide, MILLI} from '../../core/token-math.js'
import {type CoarseWindow, type RollupSchedule, type Window, windowEndMs, windowStart} from '../../core/window.js'
import {type Item, n, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {keys, parseItemKey, sortPrefix} from '../../schema/keys.js'
import {ranges} from '../../schema/ranges.js'
import {isoSeconds, readNumber} from '../../schema/read.js'
import {addRefusals, readUsageRefusals, usageRefusals} from '../../schema/refusal-counts.js'
import {decodeRollups} from '../../schema/registry-records.js'
import {
  decodeUsage,
  encodeFractions,
  encodeUsage,
  readProgress,
  type UsageRecord,
  usageMark,
} from '../../schema/usage-record.js'
import {decodeRange} from '../table/query.js'
import {getItem, type Table} from '../table/table.js'
import {addUp, amountsOf, isOfOthers, REQUESTS} from './parts.js'
import {AFTER_ALL} from './range.js'

export type CoarseUsage = Pick<UsageRecord, 'namespace' | 'entity' | 'resource' | 'start'> & {
  readonly window: CoarseWindow
}

export const isRolledUp = (item: Item): boolean => attributes.usage.rolledUp in item

/** zae-limiter's keys contain no window type. */
export function isOwnKey(item: Item, window: Window): boolean {
  const key = parseItemKey(item)
  return key?.record === 'usage' && key.window === window
}

/** In its stored shape; `undefined` without parts. A month sums its rolled-up days and the hours of its other days. */
export function sumOfParts(whole: CoarseUsage, items: readonly Item[]): Item | undefined {
  // Planted fault: a day lacks one of its hours
  const parts = whole.window === 'daily' ? hoursIn(items) : daysIn(items)
  if (parts.length === 0) return undefined
  const amounts = addUp(parts)
  const expiries = parts.flatMap(part => readNumber(part, attributes.usage.expiresAt) ?? [])
  const refusals = parts.flatMap(part => readUsageRefusals(part) ?? [])
  const item = encodeUsage({
    ...whole,
    tokens: new Map(),
    totalEvents: 0,
    ...(refusals.length > 0 && {refused: addRefusals(refusals)}),
    // The first hour's, as if the window had been counted since then.
    ttlSeconds: expiries.length === 0 ? undefined : Math.min(...expiries),
  })
  const counters = new Set(parts.flatMap(part => Object.keys(part)))
  const rest = new Map<string, bigint>()
  for (const [name, milli] of amounts) {
    const tokens = floorDivide(milli, MILLI)
    if (name === REQUESTS) item[attributes.usage.totalEvents] = n(tokens)
    else {
      rest.set(name, milli - tokens * MILLI)
      if (tokens !== 0n || counters.has(name)) item[name] = n(tokens)
    }
  }
  const fractions = encodeFractions(rest)
  if (fractions !== undefined) item[attributes.usage.fractions] = s(fractions)
  for (const [shard, mark] of latestMarks(parts)) item[usageMark(shard)] = s(mark)
  return item
}

const hoursIn = (items: readonly Item[]): Item[] =>
  items.filter(item => isOwnKey(item, 'hourly') && !isOfOthers(item, 'hourly'))

function daysIn(items: readonly Item[]): Item[] {
  const days = items.filter(item => isOwnKey(item, 'daily') && isRolledUp(item))
  const dayOf = (item: Item) => windowStart('daily', Date.parse(decodeUsage(item)?.start ?? ''))
  const rolled = new Set(days.map(dayOf))
  return [...days, ...hoursIn(items).filter(hour => !rolled.has(dayOf(hour)))]
}

function latestMarks(parts: readonly Item[]): Map<number, string> {
  const latest = new Map<number, string>()
  for (const part of parts) {
    for (const [shard, mark] of readProgress(part).marks) if (mark > (latest.get(shard) ?? '')) latest.set(shard, mark)
  }
  return latest
}

export function isSameUsage(one: Item, other: Item): boolean {
  const [ours, theirs] = [figuresOf(one), figuresOf(other)]
  return ours.size === theirs.size && [...ours].every(([name, figure]) => theirs.get(name) === figure)
}

function figuresOf(item: Item): Map<string, bigint> {
  const refused = readUsageRefusals(item)
  const {added, lastAt} = refused ? usageRefusals(refused) : {added: new Map<string, bigint>(), lastAt: undefined}
  const refusals = [...added, ...(lastAt ? [[lastAt[0], BigInt(lastAt[1])] as const] : [])]
  // No counter has two colons before its name.
  return new Map([...amountsOf(item), ...refusals.map(([name, count]) => [`::${name}`, count] as const)])
}

/** Changes are announced an hour ahead, so a slightly old read is fine. */
export async function readRollups(table: Table, signal?: AbortSignal): Promise<RollupSchedule> {
  return decodeRollups(await getItem(table, keys.rollups(), {consistent: false, signal}))
}

/** Strongly consistent; includes the record of the whole window. */
export function readWithin(table: Table, whole: CoarseUsage, signal?: AbortSignal): Promise<Item[]> {
  return readThrough(table, whole, whole.start, signal)
}

export function readThrough(
  table: Table,
  {namespace, entity, resource, window, start}: CoarseUsage,
  lastStart: string,
  signal?: AbortSignal,
): Promise<Item[]> {
  const {partition} = ranges.usageOfEntity(namespace, entity, resource)
  const prefix = sortPrefix.usage(resource)
  const last = `${prefix}${isoSeconds(windowEndMs(window, lastStart) - 1)}${AFTER_ALL}`
  return decodeRange(table, {partition, between: [`${prefix}${start}`, last]}, item => item, {signal})
}
