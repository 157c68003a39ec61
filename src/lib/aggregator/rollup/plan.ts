import {type CoarseWindow, RollupSchedule, type Window, windowStart} from '../../core/window.js'
import {ConditionFailed} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {getItem, sendRepeatable, type Table} from '../../repository/table/table.js'
import {isApplied, putNew} from '../../repository/table/transact.js'
import {isoSeconds, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {keys, wireKey} from '../../schema/keys.js'
import {decodeRollups, encodeRollups} from '../../schema/registry-records.js'

/** By then no process uses the previous settings. */
const NOTICE_MS = 3_600_000

/** How long a process trusts its last read: well within the notice. */
const KNOWN_MS = 600_000

const ATTEMPTS = 5

interface RollupSettings {
  readonly windows: readonly Window[]
  readonly retentionDays: number
}

/** Days to keep records: hours must outlive their day, days their month, and both the sweep after it. */
const KEPT_DAYS: Readonly<Record<CoarseWindow, number>> = {daily: 2, monthly: 33}

export function rollsUp(window: CoarseWindow, {windows, retentionDays}: RollupSettings): boolean {
  const needed: readonly Window[] = window === 'daily' ? ['hourly', 'daily'] : ['hourly', 'daily', 'monthly']
  const isKept = retentionDays === 0 || retentionDays >= KEPT_DAYS[window]
  return isKept && needed.every(each => windows.includes(each))
}

export function countedWindows(schedule: RollupSchedule, windows: readonly Window[], atMs: number): Window[] {
  const isRolled = (window: CoarseWindow) => schedule.isRolled(window, windowStart(window, atMs))
  const needsHours = windows.includes('hourly') || isRolled('daily') || isRolled('monthly')
  const direct = (['daily', 'monthly'] as const).filter(each => windows.includes(each) && !isRolled(each))
  return [...(needsHours ? ['hourly' as const] : []), ...direct]
}

/** Only for a table that is still empty: nothing is counted yet, so the running day and month need no notice. */
export async function rollUpFromStart(table: Table, settings: RollupSettings): Promise<void> {
  const since = [windowStart('monthly', table.clock())]
  const schedule = new RollupSchedule({
    ...(rollsUp('daily', settings) && {daily: since}),
    ...(rollsUp('monthly', settings) && {monthly: since}),
  })
  if (!schedule.has('daily')) return
  const {Put} = putNew(table, encodeRollups(schedule))
  // If it exists, another process has decided, or the response was lost.
  await isApplied(sendRepeatable(table, 'PutItem', Put))
}

/** Changes are announced in the table an hour ahead, so that each window is counted in one way throughout. */
export class RollupPlan {
  readonly #table: Table
  readonly #settings: RollupSettings
  #known: {readonly schedule: RollupSchedule; readonly atMs: number} | undefined

  constructor(table: Table, settings: RollupSettings) {
    this.#table = table
    this.#settings = settings
  }

  async schedule(): Promise<RollupSchedule> {
    const nowMs = this.#table.clock()
    if (!this.#known || nowMs - this.#known.atMs >= KNOWN_MS) {
      this.#known = {schedule: await this.#announced(nowMs), atMs: nowMs}
    }
    return this.#known.schedule
  }

  async #announced(nowMs: number): Promise<RollupSchedule> {
    for (let attempt = 1; ; attempt++) {
      const schedule = decodeRollups(await getItem(this.#table, keys.rollups()))
      const changed = (['daily', 'monthly'] as const).filter(window => this.#mustChange(window, schedule, nowMs))
      if (changed.length === 0) return schedule
      const e = new ExpressionBuilder()
      for (const window of changed) {
        const before = schedule.switches[window]
        const name = attributes.rollups[window]
        e.set(name, s([...before, isoSeconds(nowMs + NOTICE_MS)].join(',')))
        e.require(name, before.length === 0 ? undefined : before.join(','))
      }
      const update = {TableName: this.#table.name, Key: wireKey(keys.rollups()), ...e.update()}
      try {
        await sendRepeatable(this.#table, 'UpdateItem', update)
      } catch (error) {
        // Another process was first, or the response was lost: read again.
        if (!(error instanceof ConditionFailed) || attempt >= ATTEMPTS) throw error
      }
    }
  }

  /** Not while a change is announced: processes with the previous settings may still start. */
  #mustChange(window: CoarseWindow, {switches}: RollupSchedule, nowMs: number): boolean {
    const instants = switches[window]
    const isRolling = instants.length % 2 === 1
    return isRolling !== rollsUp(window, this.#settings) && (instants.at(-1) ?? '') <= isoSeconds(nowMs)
  }
}
