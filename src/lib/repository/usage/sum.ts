import {floorDivide, MILLI} from '../../core/token-math.js'
import {
  type CoarseWindow,
  type RollupSchedule,
  WINDOWS,
  type Window,
  windowEndMs,
  windowKey,
  windowStart,
} from '../../core/window.js'
import {type Item, isoSeconds, n, readNumber, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {keys, parseItemKey, sortPrefix} from '../../schema/keys.js'
import {ranges} from '../../schema/ranges.js'
import {addRefusals, readUsageRefusals, usageRefusals} from '../../schema/refusal-counts.js'
import {decodeRollups} from '../../schema/registry-records.js'
import {
  decodeUsage,
  encodeFractions,
  encodeUsage,
  overdrawnCounter,
  readProgress,
  type UsageRecord,
  usageMark,
} from '../../schema/usage-record.js'
import {decodeRange} from '../table/query.js'
import {getItem, getItems, type Table} from '../table/table.js'
import {AFTER_ALL} from './range.js'

export type CoarseUsage = Pick<UsageRecord, 'namespace' | 'entity' | 'resource' | 'start'> & {
  readonly window: CoarseWindow
}

export const isRolledUp = (item: Item): boolean => attributes.usage.rolledUp in item

/** zae-limiter's keys contain no window type. */
function isOwnKey(item: Item, window: Window): boolean {
  const key = parseItemKey(item)
  return key?.record === 'usage' && key.window === window
}

/** In its stored format; `undefined` without parts. A month sums its rolled-up days and the hours of its other days. */
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
    // The first hour's expiry, as if the window had been counted from then on.
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

/** Used like a limit's name, which is never empty. */
export const REQUESTS = ''

type Subject = Pick<UsageRecord, 'namespace' | 'entity' | 'resource'>

/** Strongly consistent; missing windows are left out. */
export async function readWindows(
  table: Table,
  {namespace, entity, resource}: Subject,
  window: Window,
  starts: readonly string[],
  signal?: AbortSignal,
): Promise<Item[]> {
  const wanted = starts.map(start => keys.usage(namespace, entity, resource, window, start))
  return [...(await getItems(table, wanted, {signal})).values()]
}

export const startsWithin = ({window, start}: Pick<UsageRecord, 'window' | 'start'>, finer: Window): string[] =>
  startsBetween(finer, Date.parse(start), windowEndMs(window, start) - 1)

export function startsBetween(window: Window, firstMs: number, lastMs: number): string[] {
  const starts: string[] = []
  for (let atMs = firstMs; ; ) {
    const start = windowStart(window, Math.min(atMs, lastMs))
    if (start !== starts.at(-1)) starts.push(start)
    if (atMs >= lastMs) return starts
    atMs = Math.min(lastMs, windowEndMs(window, start))
  }
}

export function nextFiner(window: Window, among: readonly Window[] = WINDOWS): Window | undefined {
  const finer = WINDOWS.slice(0, WINDOWS.indexOf(window))
  return finer.findLast(each => among.includes(each))
}

/** zae-limiter's aggregator keeps a day or month in the record of its first hour, and leaves no mark. */
export function isOfOthers(item: Item, window: Window): boolean {
  return decodeUsage(item)?.window !== window || readProgress(item).marks.size === 0
}

/** Whether the parts have counted exactly the same part of the stream as the whole. */
export function isSamePosition(item: Item, parts: readonly Item[]): boolean {
  const {marks} = readProgress(item)
  const latest = latestMarks(parts)
  return marks.size > 0 && marks.size === latest.size && [...marks].every(([shard, mark]) => latest.get(shard) === mark)
}

export function addUp(items: readonly Item[]): Map<string, bigint> {
  const sum = new Map<string, bigint>()
  for (const item of items) {
    for (const [name, milli] of amountsOf(item)) sum.set(name, (sum.get(name) ?? 0n) + milli)
  }
  return sum
}

/** Millitokens by limit, and thousandths of requests and of overdrawn writes. */
export function amountsOf(item: Item): Map<string, bigint> {
  const record = decodeUsage(item) as UsageRecord
  const amounts = new Map([...record.tokens].map(([name, tokens]) => [name, BigInt(tokens) * 1000n]))
  for (const [name, writes] of record.overdrawn ?? []) amounts.set(overdrawnCounter(name), BigInt(writes) * 1000n)
  for (const [name, milli] of readProgress(item).fractions) amounts.set(name, (amounts.get(name) ?? 0n) + milli)
  return amounts.set(REQUESTS, BigInt(record.totalEvents) * 1000n)
}

interface KeyedRecord {
  readonly record: UsageRecord
  readonly key: string
}

/** Ignores a day that is counted with every batch: an older aggregator may have started in the middle of it. */
export function wholeWindow(whole: CoarseUsage, items: readonly Item[]): Item | undefined {
  const stored = items.find(
    item => isOwnKey(item, whole.window) && isRolledUp(item) && decodeUsage(item)?.start === whole.start,
  )
  return stored ?? sumOfParts(whole, items)
}

/** Records of zae-limiter are shown as they are. */
export function isOwnRolled(item: Item, {window, start}: UsageRecord, schedule: RollupSchedule): boolean {
  if (!schedule.isRolled(window, start) || !isOwnKey(item, window)) return false
  return isRolledUp(item) || readProgress(item).marks.size > 0
}

/** `items` are newest first and begin at the end of a window of the coarsest type. */
export async function* withWholeWindows(
  items: AsyncIterable<Item>,
  schedule: RollupSchedule,
): AsyncGenerator<KeyedRecord, void> {
  let day: Item[] = []
  let month: Item[] = []
  const isOther = (window: Window, held: readonly Item[], item: Item) =>
    held[0] !== undefined && startOf(window, held[0]) !== startOf(window, item)
  for await (const item of items) {
    const isNextMonth = isOther('monthly', month, item)
    if (isNextMonth || isOther('daily', day, item)) {
      yield* inOrder([...recordsOf(day, schedule), ...(isNextMonth ? wholes('monthly', month, schedule) : [])])
      day = []
    }
    if (isNextMonth) month = []
    day.push(item)
    month.push(item)
  }
  yield* inOrder([...recordsOf(day, schedule), ...wholes('monthly', month, schedule)])
}

function startOf(window: Window, item: Item): string | undefined {
  const key = parseItemKey(item)
  const atMs = Date.parse(key?.record === 'usage' ? key.start : '')
  // Any client may have written the key.
  return Number.isNaN(atMs) ? undefined : windowStart(window, atMs)
}

function recordsOf(day: readonly Item[], schedule: RollupSchedule): KeyedRecord[] {
  const stored = day.flatMap(item => {
    const record = decodeUsage(item)
    const key = parseItemKey(item)
    if (!record || key?.record !== 'usage' || isOwnRolled(item, record, schedule)) return []
    return [{record, key: windowKey(key.window, key.start)}]
  })
  return [...stored, ...wholes('daily', day, schedule)]
}

function wholes(window: CoarseWindow, items: readonly Item[], schedule: RollupSchedule): KeyedRecord[] {
  const [first] = items
  const key = first && parseItemKey(first)
  if (!first || key?.record !== 'usage') return []
  const {namespace, entity, resource} = key
  const start = startOf(window, first)
  if (start === undefined || !schedule.isRolled(window, start)) return []
  const item = wholeWindow({namespace, entity, resource, window, start}, items)
  const record = item && decodeUsage(item)
  return record ? [{record, key: windowKey(window, start)}] : []
}

const inOrder = (records: readonly KeyedRecord[]): KeyedRecord[] =>
  records.toSorted((a, b) => (a.key === b.key ? 0 : a.key < b.key ? 1 : -1))
