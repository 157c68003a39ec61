import type {UsageRecord} from '../../schema/usage-record.js'

/** The key in a cursor. */
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
