import type {RollupSchedule} from '../../core/window.js'
import {ConditionFailed, isInvalid, isRetryableWhenIdempotent} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {pause, retrying} from '../../dynamo/retry.js'
import {getItem, type Table} from '../../repository/table/table.js'
import {isOfOthers} from '../../repository/usage/parts.js'
import {type CoarseUsage, isRolledUp, isSameUsage, readWithin, sumOfParts} from '../../repository/usage/sum.js'
import {type Item, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {keys} from '../../schema/keys.js'
import {MIGRATION_MARK} from '../../schema/migration-marks.js'
import {readNumber, readString} from '../../schema/read.js'
import {type ConcernedDay, isLate, startWithin} from './agenda.js'

/** Looks at a window that other processes keep rolling up. */
const LOOKS = 6

const {rolledUp, expiresAt} = attributes.usage

/**
 * Makes a day or a month the sum of its parts; resolves to whether it was written. Whatever happened before, a crash, a
 * repetition, or another process at the same time: the whole is read before its parts and written only if nobody has
 * written it since, so what is written last was added up last. What others have put into the record is left alone.
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
      // Also after a lost response: the next look tells.
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

/** On condition that nobody has rolled it up since it was read. */
async function write(table: Table, sum: Item, stored: Item | undefined): Promise<void> {
  const before = stored && readString(stored, rolledUp)
  const e = new ExpressionBuilder()
  const name = e.name(rolledUp)
  e.condition(before === undefined ? `attribute_not_exists(${name})` : `${name} = ${e.value(s(before))}`)
  e.condition(`attribute_not_exists(${e.name(MIGRATION_MARK)})`)
  const version = s(String(Number(before ?? 0) + 1))
  const request = {TableName: table.name, Item: {...sum, [rolledUp]: version}, ...e.write()}
  await retrying(() => table.transport.send('PutItem', request), {
    ...table.backoff,
    retryable: isRetryableWhenIdempotent,
  })
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

  /**
   * After something was counted in a day, also if it had been counted before: rolls the day and its month up if nobody else
   * will. Whether it is late is asked after counting, so that a sweep that has begun by then is followed by this.
   */
  async afterCounting(batch: RollupBatch, {day, ...subject}: ConcernedDay): Promise<void> {
    const schedule = await this.schedule()
    const month = startWithin('monthly', day)
    const nowMs = this.#table.clock()
    if (schedule.isRolled('daily', day) && isLate('daily', day, nowMs))
      await this.rollUp(batch, {...subject, window: 'daily', start: day})
    else if (schedule.isRolled('monthly', month) && isLate('monthly', month, nowMs))
      await this.rollUp(batch, {...subject, window: 'monthly', start: month})
  }

  /** Rolls up a window, and after a day its month if that is over. What cannot be stored is logged and left. */
  async rollUp(batch: RollupBatch, whole: CoarseUsage): Promise<void> {
    const schedule = await this.schedule()
    await this.#write(batch, whole)
    const month = startWithin('monthly', whole.start)
    // A month that was swept before this day was written lacks it.
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
      // Readers add it up.
      if (!isInvalid(error)) throw error
      await batch.attempt('roll-up', whole, () => Promise.reject(error))
    }
  }
}
