import type {RollupSchedule} from '../../core/window.js'
import {ConditionFailed, isInvalid} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {pause} from '../../dynamo/retry.js'
import {getItem, sendRepeatable, type Table} from '../../repository/table/table.js'
import {isOfOthers} from '../../repository/usage/parts.js'
import {type CoarseUsage, isRolledUp, isSameUsage, readWithin, sumOfParts} from '../../repository/usage/sum.js'
import {type Item, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {keys} from '../../schema/keys.js'
import {MIGRATION_MARK} from '../../schema/migration-marks.js'
import {readNumber, readString} from '../../schema/read.js'
import {type ConcernedDay, isLate, startWithin} from './agenda.js'

const LOOKS = 6

const {rolledUp, expiresAt} = attributes.usage

/** Resolves to whether it wrote. Reads the whole before the parts, writes if unchanged: the last write is current. */
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
      // Maybe a lost response: the next look shows it.
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
  const e = new ExpressionBuilder()
  const name = e.name(rolledUp)
  e.condition(before === undefined ? `attribute_not_exists(${name})` : `${name} = ${e.value(s(before))}`)
  e.condition(`attribute_not_exists(${e.name(MIGRATION_MARK)})`)
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

  /** Rolls up a window that no sweep will. Checks lateness after counting, so that it follows a sweep under way. */
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
