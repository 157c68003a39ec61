import {InvalidInput} from '../../core/errors.js'
import {RollupSchedule, type Window} from '../../core/window.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import {namespacePrefix} from '../../schema/keys.js'
import type {UsageRecord} from '../../schema/usage-record.js'
import {badCursor, type CursorKind, decodeCursor, encodeCursor, readFromCursor} from '../table/cursor.js'
import {checkPageLimit, type PageRequest, type RecordPage} from '../table/query.js'
import type {NamespaceTable} from '../table/table.js'
import {UsageRange, type UsageSelection} from './range.js'
import {usageOfResource} from './resource-walk.js'
import {readRollups} from './sum.js'
import {type Place, type PlacedUsage, type UsageWalk, usageOfEntity, usageOfEntityAndResource} from './walk.js'

/** Consumption of one limit over several windows, in whole tokens. */
export interface LimitUsage {
  readonly total: number
  /** Per window in which the limit was used. */
  readonly average: number
  readonly windows: number
  /** Writes that took from it as a soft limit and left it in debt. */
  readonly overdrawn: number
}

export interface UsageSummary {
  readonly window: Window
  readonly windows: number
  readonly totalEvents: number
  readonly firstStart: string | undefined
  readonly lastStart: string | undefined
  readonly limits: ReadonlyMap<string, LimitUsage>
}

/** Entities whose first page is read at the same time. */
const ENTITIES_AHEAD = 8

/** Whole tokens; windows in UTC. */
export class Usage {
  readonly #table: NamespaceTable
  readonly #pageSize: number

  constructor(table: NamespaceTable, options: {readonly pageSize?: number} = {}) {
    this.#table = table
    this.#pageSize = options.pageSize ?? 250
  }

  /** Newest first. Default: all resources. */
  async ofEntity(
    entity: string,
    selection: UsageSelection & PageRequest & {readonly resource?: string | undefined} = {},
  ): Promise<RecordPage<UsageRecord>> {
    const kind = 'usage-of-entity'
    const after = decodePlace(kind, selection.cursor)
    const walk = this.#walkEntity(entity, selection.resource, await this.#walk(selection, after))
    return page(kind, walk, selection)
  }

  /** Newest first, over all entities. */
  async ofResource(resource: string, selection: UsageSelection & PageRequest = {}): Promise<RecordPage<UsageRecord>> {
    const kind = 'usage-of-resource'
    const after = decodePlace(kind, selection.cursor)
    // With a key of another namespace, the query would start there (S11).
    if (after && !after[1]?.startsWith(namespacePrefix(this.#table.namespace))) throw badCursor(selection.cursor ?? '')
    return page(kind, usageOfResource(this.#table, resource, await this.#walk(selection, after)), selection)
  }

  /** For one type of window: windows of different types count the same tokens. */
  async summary(
    selection: UsageSelection & {readonly entity?: string | undefined; readonly resource?: string | undefined},
  ): Promise<UsageSummary> {
    const {window = 'hourly'} = selection
    return summarise(window, this.records({...selection, window}))
  }

  /** Newest first, without pages. */
  async *records(
    selection: UsageSelection & {readonly entity?: string | undefined; readonly resource?: string | undefined},
  ): AsyncGenerator<UsageRecord, void> {
    const {entity, resource} = selection
    const walk = await this.#walk(selection, undefined)
    if (entity === undefined && resource === undefined) throw usageSubjectMissing()
    const found =
      entity === undefined
        ? usageOfResource(this.#table, resource as string, walk)
        : this.#walkEntity(entity, resource, walk)
    for await (const {record} of found) yield record
  }

  /** Usage of one entity after the other, each newest first. */
  async *ofEntities<Of extends {readonly id: string}>(
    entities: AsyncIterable<Of>,
    selection: UsageSelection,
  ): AsyncGenerator<{of: Of; record: UsageRecord}, void> {
    const walk = await this.#walk(selection, undefined)
    for await (const chunk of chunksOf(entities, ENTITIES_AHEAD)) {
      const sources = chunk.map(of => {
        const rest = usageOfEntity(this.#table, of.id, walk)
        const first = rest.next()
        // Thrown in its turn, unless an earlier one fails.
        first.catch(() => {})
        return {of, rest, first}
      })
      for (const {of, rest, first} of sources) {
        for (let next = await first; !next.done; next = await rest.next()) yield {of, record: next.value.record}
      }
    }
  }

  #walkEntity(entity: string, resource: string | undefined, walk: UsageWalk): AsyncGenerator<PlacedUsage, void> {
    if (resource === undefined) return usageOfEntity(this.#table, entity, walk)
    return usageOfEntityAndResource(this.#table, entity, resource, walk)
  }

  async #walk(selection: UsageSelection, after: Place | undefined): Promise<UsageWalk> {
    const range = new UsageRange(selection)
    // Hours are always shown as stored.
    const schedule = selection.window === 'hourly' ? new RollupSchedule() : await readRollups(this.#table)
    return {range, after, pageSize: this.#pageSize, schedule}
  }
}

export function usageSubjectMissing(): InvalidInput {
  return new InvalidInput('usage.subject', 'A usage summary needs an entity, a resource, or both.')
}

async function page(
  kind: CursorKind,
  walk: AsyncGenerator<PlacedUsage, void>,
  {limit, cursor}: PageRequest,
): Promise<RecordPage<UsageRecord>> {
  const wanted = checkPageLimit(limit)
  const records: UsageRecord[] = []
  let last: Place = []
  return readFromCursor(cursor, async () => {
    for await (const {record, place} of walk) {
      // One more than wanted shows that there is a next page.
      if (records.length === wanted) return {records, next: encodeCursor(kind, last)}
      records.push(record)
      last = place
    }
    return {records, next: undefined}
  })
}

async function summarise(window: Window, records: AsyncGenerator<UsageRecord, void>): Promise<UsageSummary> {
  const limits = new Map<string, LimitUsage>()
  let windows = 0
  let totalEvents = 0
  let firstStart: string | undefined
  let lastStart: string | undefined
  for await (const record of records) {
    windows++
    totalEvents += record.totalEvents
    lastStart ??= record.start
    firstStart = record.start
    for (const [name, tokens] of record.tokens) {
      const soFar = limits.get(name) ?? {total: 0, windows: 0, overdrawn: 0}
      const total = soFar.total + tokens
      const count = soFar.windows + 1
      const overdrawn = soFar.overdrawn + (record.overdrawn?.get(name) ?? 0)
      limits.set(name, {total, windows: count, average: total / count, overdrawn})
    }
  }
  return {window, windows, totalEvents, firstStart, lastStart, limits}
}

function decodePlace(kind: CursorKind, cursor: string | undefined): Place | undefined {
  return cursor === undefined ? undefined : decodeCursor(kind, cursor)
}
