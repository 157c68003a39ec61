import type {RollupSchedule} from '../../core/window.js'
import {isInvalid} from '../../dynamo/errors.js'
import type {Table} from '../../repository/table/table.js'
import type {CoarseUsage} from '../../repository/usage/sum.js'
import type {ConcernedDay} from './concerned.js'
import {isLate, startWithin} from './due.js'
import {rollUp} from './sum-up.js'

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
