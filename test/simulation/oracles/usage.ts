import type {Window} from '../../../src/lib/core/window.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {decodeUsage, readProgress, type UsageRecord} from '../../../src/lib/schema/usage-record.js'
import {bucketId, consumedBy, type TableWrite} from '../world/table-writes.js'
import type {Verdicts} from './verdicts.js'

/** L4: after the stream is read to its end, the usage records of every window match the counters. */
export class UsageTruth {
  readonly #consumed = new Map<string, bigint>()
  readonly #uncountable = new Set<string>()
  readonly #verdicts: Verdicts

  constructor(verdicts: Verdicts) {
    this.#verdicts = verdicts
  }

  /** No usage record can hold the values written to this bucket. */
  exempt(bucket: string): void {
    this.#uncountable.add(bucket)
  }

  observe({shards, changes}: TableWrite): void {
    for (const {before, after} of changes) {
      const gone = before && !after ? decodeUsage(before) : undefined
      // Usage expires after 90 days.
      if (gone) this.exempt(bucketId(gone.namespace, gone.entity, gone.resource))
    }
    for (const change of shards) {
      for (const [name, milli] of consumedBy(change)) {
        const key = `${change.bucket} ${name}`
        this.#consumed.set(key, (this.#consumed.get(key) ?? 0n) + milli)
      }
    }
  }

  /** Every day and month with an hour has a record. */
  checkRolledUp(items: readonly Item[], removed: ReadonlySet<string>): void {
    const records = items.flatMap(item => decodeUsage(item) ?? [])
    const idOf = ({namespace, entity, resource}: UsageRecord) => bucketId(namespace, entity, resource)
    for (const hour of records.filter(({window}) => window === 'hourly')) {
      if (removed.has(idOf(hour)) || this.#uncountable.has(idOf(hour))) continue
      for (const [window, length] of [['daily', 10] as const, ['monthly', 7] as const]) {
        const span = hour.start.slice(0, length)
        const isThere = records.some(
          each => each.window === window && idOf(each) === idOf(hour) && each.start.startsWith(span),
        )
        if (!isThere) this.#verdicts.report('L4-rolled-up', idOf(hour), `the ${window} record of ${span} is missing`)
      }
    }
  }

  /** `removed`: buckets whose usage was deleted with their entity. `refused`: refusals that buckets have counted. */
  check(items: readonly Item[], removed: ReadonlySet<string>, refused: ReadonlyMap<string, bigint>): void {
    const counted = new Map<string, bigint>()
    const windows = new Set<string>()
    for (const {item, window} of shownIn(items)) {
      const record = decodeUsage(item)
      if (!record) continue
      const {namespace, entity, resource, tokens} = record
      windows.add(window)
      const {fractions} = readProgress(item)
      for (const name of new Set([...tokens.keys(), ...fractions.keys()])) {
        const key = `${window} ${bucketId(namespace, entity, resource)} ${name}`
        const milli = BigInt(tokens.get(name) ?? 0) * 1000n + (fractions.get(name) ?? 0n)
        counted.set(key, (counted.get(key) ?? 0n) + milli)
      }
      for (const [what, count] of refusedIn(item)) {
        const key = `${window} ${bucketId(namespace, entity, resource)} ${what}`
        counted.set(key, (counted.get(key) ?? 0n) + count * 1000n)
      }
    }
    const refusals = [...refused].map(([key, count]): [string, bigint] => [key, count * 1000n])
    for (const [key, consumed] of [...this.#consumed, ...refusals]) {
      const bucket = key.slice(0, key.indexOf(' '))
      if (removed.has(bucket) || this.#uncountable.has(bucket)) continue
      for (const window of windows.size > 0 ? windows : ['hourly']) {
        const usage = counted.get(`${window} ${key}`) ?? 0n
        if (usage === consumed) continue
        const message = `${window} usage is ${Number(usage) / 1000}, the counters show ${Number(consumed) / 1000}`
        this.#verdicts.report('L4-usage', key, message)
      }
    }
  }
}

/**
 * Usage per window type, computed without the library: a day not rolled up yet is the sum of its hours, a month that of
 * its days.
 */
function shownIn(items: readonly Item[]): {item: Item; window: Window}[] {
  const schedule = items.find(item => item.SK && 'S' in item.SK && item.SK.S === '#ROLLUPS')
  const isRolled = (window: Window, start: string): boolean => {
    const switches = schedule?.[window]
    return switches !== undefined && 'S' in switches && switches.S.split(',').filter(at => at <= start).length % 2 === 1
  }
  const usage = items.flatMap(item => {
    const record = decodeUsage(item)
    if (!record) return []
    const {namespace, entity, resource, window, start} = record
    const within = (length: number) => [namespace, entity, resource, start.slice(0, length)].join(' ')
    return [{item, window, start, day: within(10), month: within(7), isRolledUp: '_rolled' in item}]
  })
  type Stored = (typeof usage)[number]
  const wholes = (window: 'daily' | 'monthly', span: 'day' | 'month', parts: readonly Stored[]): Stored[] => {
    const startOf = (start: string) =>
      span === 'day' ? `${start.slice(0, 10)}T00:00:00Z` : `${start.slice(0, 7)}-01T00:00:00Z`
    const kept = usage.filter(each => each.window === window && (each.isRolledUp || !isRolled(window, each.start)))
    const known = new Set(kept.filter(each => each.isRolledUp).map(each => each[span]))
    const open = parts.filter(part => isRolled(window, startOf(part.start)) && !known.has(part[span]))
    return [...kept, ...open]
  }
  const hours = usage.filter(({window}) => window === 'hourly')
  const days = wholes('daily', 'day', hours)
  // If days are counted directly, a rolled-up month contains the hours.
  const parts = [
    ...days.filter(({isRolledUp, window}) => isRolledUp || window === 'hourly'),
    ...hours.filter(({start}) => !isRolled('daily', `${start.slice(0, 10)}T00:00:00Z`)),
  ]
  const months = wholes('monthly', 'month', parts)
  const as =
    (window: Window) =>
    ({item}: Stored) => ({item, window})
  return [...hours.map(as('hourly')), ...days.map(as('daily')), ...months.map(as('monthly'))]
}

/** The refusals in a usage record, read without the library's decoder. */
function refusedIn(item: Item): Map<string, bigint> {
  const refused = new Map<string, bigint>()
  const entries = item._refused && 'M' in item._refused ? item._refused.M : {}
  const count = (entry: string) => {
    const value = entries[entry]
    return value && 'N' in value ? BigInt(value.N) : 0n
  }
  for (const entry of Object.keys(entries)) {
    const name = entry.startsWith('r:') ? entry.slice(2) : undefined
    if (name === undefined) continue
    refused.set(`requests of ${name}`, count(entry))
    refused.set(`tokens of ${name}`, count(entry) + count(`t:${name}`))
  }
  return refused.set('requests', count('n')).set('by parent', count('p'))
}
