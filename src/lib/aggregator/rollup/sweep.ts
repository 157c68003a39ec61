import {windowEndMs} from '../../core/window.js'
import {forEachConcurrently} from '../../dynamo/concurrency.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {queryPages} from '../../dynamo/paging.js'
import {queryInput} from '../../repository/table/query.js'
import type {Table} from '../../repository/table/table.js'
import {AFTER_ALL} from '../../repository/usage/range.js'
import {keyNames} from '../../schema/attributes.js'
import {parseItemKey} from '../../schema/keys.js'
import {ranges, usageSortKey} from '../../schema/ranges.js'
import {isoSeconds, readString} from '../../schema/read.js'
import type {Agenda, AgendaEntry, ResourceWindow} from './agenda.js'
import type {RollUps, RollupBatch} from './roll-ups.js'

/** Between looks at the agenda: when idle, and when busy. */
const IDLE_MS = 60_000
const BUSY_MS = 5_000

/** Windows per turn and its longest time: spreads midnight's work over many batches and holds none up for long. */
const PER_TURN = 500
const TURN_MS = 3_000

const CONCURRENCY = 8
const ROWS_PER_QUERY = 500

/** Rolls up ended windows, some per batch. Two processes on the same window are wasteful, never wrong. */
export class Sweeper {
  readonly #table: Table
  readonly #agenda: Agenda
  readonly #rollUps: RollUps
  #nextMs = Number.NEGATIVE_INFINITY
  /** Entities done per sweep: an entity has a row for every hour. */
  readonly #done = new Map<string, Set<string>>()

  constructor(table: Table, agenda: Agenda, rollUps: RollUps) {
    this.#table = table
    this.#agenda = agenda
    this.#rollUps = rollUps
  }

  async turn(batch: RollupBatch): Promise<void> {
    const nowMs = this.#table.clock()
    if (nowMs < this.#nextMs) return
    this.#nextMs = nowMs + IDLE_MS
    const schedule = await batch.attempt('agenda', {}, () => this.#rollUps.schedule())
    if (!schedule?.hasBegun(isoSeconds(nowMs))) return
    const turn = {left: PER_TURN, endMs: nowMs + TURN_MS}
    const due = (await batch.attempt('agenda', {}, () => this.#agenda.due(PER_TURN))) ?? []
    for (const entry of due) {
      if (turn.left <= 0 || this.#table.clock() > turn.endMs) break
      turn.left--
      const {cursor: _, ...subject} = entry
      const isDone = await batch.attempt('roll-up', subject, () => this.#sweep(batch, subject, turn))
      if (isDone !== false) this.#done.delete(nameOf(subject))
    }
    if (due.length > 0) this.#nextMs = nowMs + BUSY_MS
  }

  /** Resolves to whether the entry is done or taken by another process. */
  async #sweep(batch: RollupBatch, subject: ResourceWindow, turn: {left: number; endMs: number}): Promise<boolean> {
    const entry = await this.#agenda.take(subject)
    if (!entry) return true
    const name = nameOf(subject)
    const done = this.#done.get(name) ?? new Set<string>()
    this.#done.set(name, done)
    for await (const rows of this.#rows(entry)) {
      // Planted fault: a sweep leaves out the last entity
      const entities = [...new Set(rows.entities)].filter(entity => !done.has(entity))
      await forEachConcurrently(each(entities), Math.min(CONCURRENCY, entities.length), async entity => {
        await this.#rollUps.rollUp(batch, {...subject, entity})
        done.add(entity)
        turn.left--
      })
      if (rows.last === undefined) break
      if (turn.left > 0 && this.#table.clock() <= turn.endMs) continue
      await this.#agenda.keep(subject, rows.last)
      return false
    }
    await this.#agenda.remove(subject)
    return true
  }

  /** Entities with usage in the window, by index page; `last` is where the next page begins. */
  async *#rows({namespace, resource, window, start, cursor}: AgendaEntry) {
    const {index, partition} = ranges.usageOfResource(namespace, resource)
    const first = cursor ?? usageSortKey(start, '')
    const last = `${usageSortKey(isoSeconds(windowEndMs(window, start) - 1), '')}${AFTER_ALL}`
    const e = new ExpressionBuilder().project(...keyNames(), keyNames(index)[1])
    const query = queryInput(this.#table, {index, partition, between: [first, last]}, e)
    const input = {...query, Limit: ROWS_PER_QUERY}
    for await (const {items, next} of queryPages(this.#table.transport, input, {backoff: this.#table.backoff})) {
      const keys = items.flatMap(item => parseItemKey(item) ?? [])
      const entities = keys.flatMap(key => (key.record === 'usage' ? [key.entity] : []))
      yield {entities, last: next && readString(next, keyNames(index)[1])}
    }
  }
}

const nameOf = ({namespace, resource, window, start}: ResourceWindow): string =>
  [window, start, namespace, resource].join('#')

async function* each<T>(elements: readonly T[]): AsyncGenerator<T, void> {
  yield* elements
}
