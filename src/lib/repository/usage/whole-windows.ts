import {type CoarseWindow, type RollupSchedule, type Window, windowKey, windowStart} from '../../core/window.js'
import type {Item} from '../../schema/attribute-value.js'
import {parseItemKey} from '../../schema/keys.js'
import {decodeUsage, readProgress, type UsageRecord} from '../../schema/usage-record.js'
import {type CoarseUsage, isOwnKey, isRolledUp, sumOfParts} from './sum.js'

interface KeyedRecord {
  readonly record: UsageRecord
  readonly key: string
}

/** A day counted with every batch is not used: an older aggregator may have begun in the middle of it. */
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
