import {type CoarseWindow, type RollupSchedule, WINDOWS, windowStart} from '../../core/window.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {queryItems} from '../../dynamo/paging.js'
import {type Item, type Key, s} from '../../schema/attribute-value.js'
import {type IndexName, keyNames} from '../../schema/attributes.js'
import {keyId, keyOf, keys, type ParsedKey, parseItemKey} from '../../schema/keys.js'
import {ranges, startKeyOf, usagePlace, usageSortKey} from '../../schema/ranges.js'
import {isRunEntity} from '../../schema/run-record.js'
import {decodeUsage, type UsageRecord} from '../../schema/usage-record.js'
import {getItems, type NamespaceTable} from '../table/table.js'
import {AFTER_ALL, endOf, type UsageRange} from './range.js'
import {type CoarseUsage, isOwnRolled, isRolledUp, readWithin, wholeWindow} from './sum.js'
import {oneRecordPerWindow, type Place, type PlacedUsage, type UsageWalk} from './walk.js'

const RECORDS_PER_READ = 100

const CONCURRENT_SUMS = 8

/** Newest first, without runs: their tokens are counted for the entities that delegated them. The index may hold only keys, so records are read by key. Place: index sort key and primary key. */
export async function* usageOfResource(
  table: NamespaceTable,
  resource: string,
  {range, after, pageSize, schedule}: UsageWalk,
): AsyncGenerator<PlacedUsage, void> {
  const {transport, name: TableName, backoff} = table
  const {index, partition, prefix} = ranges.usageOfResource(table.namespace, resource)
  const whole = range.coarsestRolled(schedule)
  const [first, last] = whole ? range.boundsWith(whole) : range.bounds
  const [indexPartition, indexSort] = keyNames(index)
  const e = new ExpressionBuilder().project(...keyNames(), indexSort)
  e.keyCondition(`${e.name(indexPartition)} = ${e.value(s(partition))}`)
  const end = `${prefix}${last}`
  // Records shown as one window are read from its end on.
  const afterMs = Date.parse(after?.[0]?.slice(prefix.length, prefix.length + 20) ?? '')
  const continued = whole && !Number.isNaN(afterMs) ? `${prefix}${endOf(whole, afterMs)}` : after?.[0]
  const upTo = continued !== undefined && continued < end ? continued : end
  const [from, to] = [e.value(s(`${prefix}${first}`)), e.value(s(upTo))]
  e.keyCondition(`${e.name(indexSort)} BETWEEN ${from} AND ${to}`)
  const request = {TableName, IndexName: index, ScanIndexForward: false, Limit: pageSize, ...e.read()}
  const rows = placed(queryItems(transport, request, {backoff}), index)
  const windows = inOrder(whole ? withRolledWindows(rows, schedule) : rows)
  async function* found() {
    for await (const chunk of chunksOf(selected(windows, range, after), RECORDS_PER_READ)) {
      const items = await getItems(
        table,
        chunk.map(({primary}) => primary),
      )
      const records = await recordsOf(table, chunk, items, schedule)
      for (const [at, {place}] of chunk.entries()) {
        const record = records[at]
        if (record && range.has(record) && !isRunEntity(record.entity)) yield {record, place, group: place[0] ?? ''}
      }
    }
  }
  for await (const each of oneRecordPerWindow(found())) if (!after || comesAfter(each.place, after)) yield each
}

/** Windows that are not rolled up yet are summed. */
async function recordsOf(
  table: NamespaceTable,
  windows: readonly IndexedWindow[],
  items: ReadonlyMap<string, Item>,
  schedule: RollupSchedule,
): Promise<(UsageRecord | undefined)[]> {
  const records: (UsageRecord | undefined)[] = []
  for await (const chunk of chunksOf(windows, CONCURRENT_SUMS)) {
    const found = chunk.map(async each => {
      const item = items.get(keyId(each.primary))
      if (each.whole) return item && isRolledUp(item) ? decodeUsage(item) : sumUp(table, each.whole)
      const record = item && decodeUsage(item)
      return item && record && !isOwnRolled(item, record, schedule) ? record : undefined
    })
    records.push(...(await Promise.all(found)))
  }
  return records
}

async function sumUp(table: NamespaceTable, whole: CoarseUsage): Promise<UsageRecord | undefined> {
  const item = wholeWindow(whole, await readWithin(table, whole))
  return item && decodeUsage(item)
}

async function* placed(rows: AsyncIterable<Item>, index: IndexName): AsyncGenerator<IndexedWindow, void> {
  for await (const row of rows) {
    const [partition = '', sort = '', , indexSort = ''] = startKeyOf(row, index)
    const key = parseItemKey(row)
    if (key?.record === 'usage') yield {key, primary: keyOf(row), place: [indexSort, partition, sort]}
  }
}

/** Records of one entity and instant share an index key, so the index does not order them. */
async function* inOrder(windows: AsyncIterable<IndexedWindow>): AsyncGenerator<IndexedWindow, void> {
  let alike: IndexedWindow[] = []
  const ordered = () => alike.sort((a, b) => (comesAfter(b.place, a.place) ? -1 : 1))
  for await (const each of windows) {
    if (alike[0] !== undefined && alike[0].place[0] !== each.place[0]) {
      yield* ordered()
      alike = []
    }
    alike.push(each)
  }
  yield* ordered()
}

function comesAfter([indexSort = '', , sort = '']: Place, [otherIndexSort = '', , otherSort = '']: Place): boolean {
  return indexSort === otherIndexSort ? sort < otherSort : indexSort < otherIndexSort
}

/** Starts at the instant where the previous page ended: records of one window are read together. */
async function* selected(
  windows: AsyncIterable<IndexedWindow>,
  range: UsageRange,
  after: Place | undefined,
): AsyncGenerator<IndexedWindow, void> {
  for await (const each of windows) {
    const isDone = after?.[0] !== undefined && (each.place[0] ?? '') > after[0]
    if (!isDone && (each.whole ? range.has(each.whole) : range.mayHave(each.key))) yield each
  }
}

/** A row of the resource index, or a rolled-up window that one of its parts shows. */
interface IndexedWindow {
  readonly key: Extract<ParsedKey, {record: 'usage'}>
  readonly primary: Key
  readonly place: Place
  readonly whole?: CoarseUsage
}

/**
 * Adds each rolled-up window once, where its own row is or will be. Keeps the entities of one day and one month in
 * memory.
 */
async function* withRolledWindows(
  rows: AsyncIterable<IndexedWindow>,
  schedule: RollupSchedule,
): AsyncGenerator<IndexedWindow, void> {
  let waiting: WaitingWindows[] = []
  for await (const row of rows) {
    const {key} = row
    const due = waiting.filter(each => each.mayComeBefore(row.place[0] ?? ''))
    if (due.length > 0) {
      yield* upTo(due, row.place[0] ?? '')
      waiting = waiting.filter(each => !due.includes(each) || each.newest !== undefined)
    }
    for (const window of ['daily', 'monthly'] as const) {
      const start = startOf(window, key.start)
      const isPart = WINDOWS.indexOf(key.window) <= WINDOWS.indexOf(window)
      if (start === undefined || !isPart || !schedule.isRolled(window, start)) continue
      const known = waiting.find(each => each.window === window && each.start === start)
      const group = known ?? new WaitingWindows(window, start, key)
      group.add(key.entity)
      if (!known) waiting.push(group)
    }
    yield row
  }
  yield* upTo(waiting, '')
}

function* upTo(waiting: readonly WaitingWindows[], indexSort: string): Generator<IndexedWindow, void> {
  for (;;) {
    const next = waiting.reduce<WaitingWindows | undefined>(
      (best, each) => ((each.newest ?? '') > (best?.newest ?? '') ? each : best),
      undefined,
    )
    if (next?.newest === undefined || next.newest <= indexSort) return
    yield next.take()
  }
}

function startOf(window: CoarseWindow, start: string): string | undefined {
  const atMs = Date.parse(start)
  // Any client may have written the key.
  return Number.isNaN(atMs) ? undefined : windowStart(window, atMs)
}

class WaitingWindows {
  readonly #seen = new Set<string>()
  /** Ascending once `newest` was read. */
  readonly #entities: string[] = []
  #isSorted = true

  constructor(
    readonly window: CoarseWindow,
    readonly start: string,
    readonly of: Pick<IndexedWindow['key'], 'record' | 'namespace' | 'resource'>,
  ) {}

  add(entity: string): void {
    if (this.#seen.has(entity)) return
    this.#seen.add(entity)
    this.#entities.push(entity)
    this.#isSorted = false
  }

  mayComeBefore(indexSort: string): boolean {
    return indexSort < `${usageSortKey(this.start, '')}${AFTER_ALL}`
  }

  get newest(): string | undefined {
    // With the same start, keys are ordered by entity.
    if (!this.#isSorted) this.#entities.sort()
    this.#isSorted = true
    const entity = this.#entities.at(-1)
    return entity === undefined ? undefined : usageSortKey(this.start, entity)
  }

  take(): IndexedWindow {
    const {window, start, of} = this
    const entity = this.#entities.pop() as string
    const whole = {namespace: of.namespace, entity, resource: of.resource, window, start}
    const primary = keys.usage(of.namespace, entity, of.resource, window, start)
    return {key: {record: of.record, ...whole}, primary, place: usagePlace(whole), whole}
  }
}
