import {type RollupSchedule, windowEndMs} from '../../core/window.js'
import {forEachConcurrently} from '../../dynamo/concurrency.js'
import {ConditionFailed, isInvalid} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {queryPages} from '../../dynamo/paging.js'
import {pause} from '../../dynamo/retry.js'
import {queryInput} from '../../repository/table/query.js'
import {getItem, sendRepeatable, type Table} from '../../repository/table/table.js'
import {AFTER_ALL} from '../../repository/usage/range.js'
import {
  type CoarseUsage,
  isOfOthers,
  isRolledUp,
  isSameUsage,
  readWithin,
  sumOfParts,
} from '../../repository/usage/sum.js'
import {type Item, isoSeconds, readNumber, readString, s} from '../../schema/attribute-value.js'
import {attributes, keyNames} from '../../schema/attributes.js'
import {keys, parseItemKey} from '../../schema/keys.js'
import {MIGRATION_MARK} from '../../schema/migration-marks.js'
import {ranges, usageSortKey} from '../../schema/ranges.js'
import {type Agenda, type AgendaEntry, type ConcernedDay, isLate, type ResourceWindow, startWithin} from './agenda.js'

const LOOKS = 6

const {rolledUp, expiresAt} = attributes.usage

/**
 * Resolves to whether it wrote. Reads the whole before the parts and writes only if it is unchanged, so the last write
 * is current.
 */
async function rollUp(table: Table, whole: CoarseUsage): Promise<boolean> {
  const {namespace, entity, resource, window, start} = whole
  const key = keys.usage(namespace, entity, resource, window, start)
  for (let look = 1; ; look++) {
    const stored = await getItem(table, key)
    if (stored && (MIGRATION_MARK in stored || (!isRolledUp(stored) && isOfOthers(stored, window)))) return false
    const sum = sumOfParts(whole, await readWithin(table, whole))
    if (!sum || isExpired(table, sum) || (stored && isExpired(table, stored))) return false
    if (stored && isRolledUp(stored) && isSameUsage(stored, sum)) return false
    try {
      await write(table, sum, stored)
      return true
    } catch (error) {
      // May be a lost response: the next attempt shows it.
      if (!(error instanceof ConditionFailed) || look >= LOOKS) throw error
    }
    await pause(look, table.backoff)
  }
}

/** Its first parts may have expired: the sum would be too small. */
function isExpired(table: Table, item: Item): boolean {
  const seconds = readNumber(item, expiresAt)
  return seconds !== undefined && seconds * 1000 <= table.clock()
}

async function write(table: Table, sum: Item, stored: Item | undefined): Promise<void> {
  const before = stored && readString(stored, rolledUp)
  const e = new ExpressionBuilder().require(rolledUp, before).absent(MIGRATION_MARK)
  const version = s(String(Number(before ?? 0) + 1))
  const request = {TableName: table.name, Item: {...sum, [rolledUp]: version}, ...e.write()}
  await sendRepeatable(table, 'PutItem', request)
}

export interface RollupBatch {
  readonly counts: {rolledUp: number}
  attempt<T>(step: string, subject: object, work: () => Promise<T>): Promise<T | undefined>
}

export class RollUps {
  readonly #table: Table
  readonly schedule: () => Promise<RollupSchedule>

  constructor(table: Table, schedule: () => Promise<RollupSchedule>) {
    this.#table = table
    this.schedule = schedule
  }

  /** Rolls up a window that no sweep will. Checks lateness after counting, so that it follows a running sweep. */
  async afterCounting(batch: RollupBatch, {day, ...subject}: ConcernedDay): Promise<void> {
    const schedule = await this.schedule()
    const month = startWithin('monthly', day)
    const nowMs = this.#table.clock()
    if (schedule.isRolled('daily', day) && isLate('daily', day, nowMs))
      await this.rollUp(batch, {...subject, window: 'daily', start: day})
    else if (schedule.isRolled('monthly', month) && isLate('monthly', month, nowMs))
      await this.rollUp(batch, {...subject, window: 'monthly', start: month})
  }

  /** After a day, also rolls up its month if that is over. Logs and skips a record that cannot be stored. */
  async rollUp(batch: RollupBatch, whole: CoarseUsage): Promise<void> {
    const schedule = await this.schedule()
    await this.#write(batch, whole)
    const month = startWithin('monthly', whole.start)
    // A month swept before this day was written lacks it.
    if (
      whole.window === 'daily' &&
      schedule.isRolled('monthly', month) &&
      isLate('monthly', month, this.#table.clock())
    )
      await this.#write(batch, {...whole, window: 'monthly', start: month})
  }

  async #write(batch: RollupBatch, whole: CoarseUsage): Promise<void> {
    try {
      if (await rollUp(this.#table, whole)) batch.counts.rolledUp++
    } catch (error) {
      // Readers compute the sum instead.
      if (!isInvalid(error)) throw error
      await batch.attempt('roll-up', whole, () => Promise.reject(error))
    }
  }
}

/** Between looks at the agenda: when idle, and when busy. */
const IDLE_MS = 60_000
const BUSY_MS = 5_000

/** Windows per turn, and the longest time of a turn. Spreads midnight's work over many batches. */
const PER_TURN = 500
const TURN_MS = 3_000

const CONCURRENCY = 8
const ROWS_PER_QUERY = 500

/** Rolls up ended windows, some per batch. Two processes on the same window are wasteful, never wrong. */
export function createSweep(table: Table, agenda: Agenda, rollUps: RollUps): (batch: RollupBatch) => Promise<void> {
  let nextMs = Number.NEGATIVE_INFINITY
  /** Entities done per sweep: an entity has a row for every hour. */
  const doneBy = new Map<string, Set<string>>()

  return async batch => {
    const nowMs = table.clock()
    if (nowMs < nextMs) return
    nextMs = nowMs + IDLE_MS
    const schedule = await batch.attempt('agenda', {}, () => rollUps.schedule())
    if (!schedule?.hasBegun(isoSeconds(nowMs))) return
    const turn = {left: PER_TURN, endMs: nowMs + TURN_MS}
    const due = (await batch.attempt('agenda', {}, () => agenda.due(PER_TURN))) ?? []
    for (const entry of due) {
      if (turn.left <= 0 || table.clock() > turn.endMs) break
      turn.left--
      const {cursor: _, ...subject} = entry
      const isDone = await batch.attempt('roll-up', subject, () => sweep(batch, subject, turn))
      if (isDone !== false) doneBy.delete(nameOf(subject))
    }
    if (due.length > 0) nextMs = nowMs + BUSY_MS
  }

  /** Resolves to whether the entry is done or taken by another process. */
  async function sweep(
    batch: RollupBatch,
    subject: ResourceWindow,
    turn: {left: number; endMs: number},
  ): Promise<boolean> {
    const entry = await agenda.take(subject)
    if (!entry) return true
    const name = nameOf(subject)
    const done = doneBy.get(name) ?? new Set<string>()
    doneBy.set(name, done)
    for await (const rows of rowsOf(entry)) {
      // Planted fault: a sweep leaves out the last entity
      const entities = [...new Set(rows.entities)].filter(entity => !done.has(entity))
      await forEachConcurrently(entities, CONCURRENCY, async entity => {
        await rollUps.rollUp(batch, {...subject, entity})
        done.add(entity)
        turn.left--
      })
      if (rows.last === undefined) break
      if (turn.left > 0 && table.clock() <= turn.endMs) continue
      await agenda.keep(subject, rows.last)
      return false
    }
    await agenda.remove(subject)
    return true
  }

  /** Entities with usage in the window, by index page; `last` is where the next page begins. */
  async function* rowsOf({namespace, resource, window, start, cursor}: AgendaEntry) {
    const {index, partition} = ranges.usageOfResource(namespace, resource)
    const first = cursor ?? usageSortKey(start, '')
    const last = `${usageSortKey(isoSeconds(windowEndMs(window, start) - 1), '')}${AFTER_ALL}`
    const e = new ExpressionBuilder().project(...keyNames(), keyNames(index)[1])
    const query = queryInput(table, {index, partition, between: [first, last]}, e)
    const input = {...query, Limit: ROWS_PER_QUERY}
    for await (const {items, next} of queryPages(table.transport, input, {backoff: table.backoff})) {
      const keys = items.flatMap(item => parseItemKey(item) ?? [])
      const entities = keys.flatMap(key => (key.record === 'usage' ? [key.entity] : []))
      yield {entities, last: next && readString(next, keyNames(index)[1])}
    }
  }
}

const nameOf = ({namespace, resource, window, start}: ResourceWindow): string =>
  [window, start, namespace, resource].join('#')
