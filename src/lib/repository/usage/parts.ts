import {WINDOWS, type Window, windowEndMs, windowStart} from '../../core/window.js'
import type {Item} from '../../schema/attribute-value.js'
import {keys} from '../../schema/keys.js'
import {decodeUsage, overdrawnCounter, readProgress, type UsageRecord} from '../../schema/usage-record.js'
import {getItems, type Table} from '../table/table.js'

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

/** Whether the parts have counted exactly as much of the stream as the whole. */
export function isSamePosition(whole: Item, parts: readonly Item[]): boolean {
  const {marks} = readProgress(whole)
  const latest = new Map<number, string>()
  for (const part of parts) {
    for (const [shard, mark] of readProgress(part).marks) {
      if (mark > (latest.get(shard) ?? '')) latest.set(shard, mark)
    }
  }
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
