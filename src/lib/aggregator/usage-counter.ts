import {ZaelError} from '../core/errors.js'
import {type RollupSchedule, type Window, windowStart} from '../core/window.js'
import {isInvalid} from '../dynamo/errors.js'
import type {Table} from '../repository/table/table.js'
import {type Batch, each} from './batch.js'
import type {AggregatorSettings} from './environment.js'
import {Agenda, agendaEntries, concernedDays} from './rollup/agenda.js'
import {countedWindows, RollupPlan} from './rollup/plan.js'
import {createSweep, RollUps} from './rollup/roll-ups.js'
import {addUsage, groupUsage, limitsOf, type UsageGroup} from './usage.js'

const DAY_SECONDS = 86_400

/** Bounds the remembered records. The next write describes a forgotten one again. */
const MOST_BEGUN = 100_000

export class UsageCounter {
  readonly #table: Table
  readonly #windows: readonly Window[]
  readonly #retentionDays: number
  readonly #plan: RollupPlan
  readonly #agenda: Agenda
  readonly #rollUps: RollUps
  readonly sweep: (batch: Batch) => Promise<void>
  readonly #pace: NewRecordPace
  readonly #begun = new Set<string>()

  constructor(table: Table, settings: Pick<AggregatorSettings, 'windows' | 'retentionDays'>) {
    this.#table = table
    this.#windows = settings.windows
    this.#retentionDays = settings.retentionDays
    this.#plan = new RollupPlan(table, settings)
    this.#agenda = new Agenda(table)
    this.#rollUps = new RollUps(table, () => this.#plan.schedule())
    this.sweep = createSweep(table, this.#agenda, this.#rollUps)
    this.#pace = new NewRecordPace(table)
  }

  async count(batch: Batch): Promise<void> {
    if (batch.changes.length === 0) return
    let schedule: RollupSchedule
    try {
      schedule = await this.#plan.schedule()
    } catch (error) {
      const numbers = batch.changes.map(({sequenceNumber}) => sequenceNumber)
      return batch.fail(numbers, 'usage', {}, error)
    }
    const groups = groupUsage(batch.changes, atMs => countedWindows(schedule, this.#windows, atMs))
    const ttlSeconds = this.#expiryOfNewUsage()
    await this.#enter(batch, groups, schedule)
    const counted: UsageGroup[] = []
    await each(groups, async group => {
      await this.#pace.turn(group)
      if (await this.#count(batch, group, ttlSeconds)) counted.push(group)
    })
    await each(concernedDays(counted), async ({groups: hours, ...day}) => {
      try {
        await this.#rollUps.afterCounting(batch, day)
      } catch (error) {
        batch.fail(hours.flatMap(numbersOf), 'roll-up', day, error)
      }
    })
  }

  /** Before counting: usage that is counted but not on the agenda would never be rolled up. */
  async #enter(batch: Batch, groups: readonly UsageGroup[], schedule: RollupSchedule): Promise<void> {
    await each(agendaEntries(groups, schedule, this.#table.clock()), async ({entry, groups: concerned}) => {
      try {
        await this.#agenda.enter(entry)
      } catch (error) {
        batch.fail(concerned.flatMap(numbersOf), 'agenda', entry, error)
      }
    })
  }

  /** Resolves to whether the record has counted the group, now or before. */
  async #count(batch: Batch, group: UsageGroup, ttlSeconds: number | undefined): Promise<boolean> {
    const {changes: _, ...subject} = group
    const numbers = numbersOf(group)
    const record = Object.values(subject).join('#')
    try {
      const isBegun = this.#begun.has(record)
      const {isCounted, leftOut} = await addUsage(this.#table, group, {ttlSeconds, isBegun})
      if (this.#begun.size >= MOST_BEGUN) this.#begun.clear()
      this.#begun.add(record)
      if (isCounted) batch.counts.snapshots++
      if (leftOut.length > 0) batch.setAside(numbers, subject, leftOut)
      return true
    } catch (error) {
      // Not for writes DynamoDB never accepts (over 400 KB), nor for bugs: redelivery would hold up all usage for hours.
      if (error instanceof ZaelError && !isInvalid(error)) batch.fail(numbers, 'usage', subject, error)
      else batch.setAside(numbers, subject, limitsOf(group), error)
      return false
    }
  }

  #expiryOfNewUsage(): number | undefined {
    return this.#retentionDays === 0
      ? undefined
      : Math.floor(this.#table.clock() / 1000) + this.#retentionDays * DAY_SECONDS
  }
}

const numbersOf = ({changes}: UsageGroup): string[] =>
  [...changes.values()].flat().map(({sequenceNumber}) => sequenceNumber)

/** Per resource and process. One index key takes 1,000 a second, shared with requests for new buckets. */
const PER_SECOND = 250

/** After the full hour, new records are paced for this long; later they come one by one. */
const PACED_MS = 60_000

/** Bounds the remembered buckets; forgotten ones count as new again. */
const MOST_KNOWN = 100_000

/** Spreads the first usage records of an hour: written at once, they would throttle requests for new buckets. */
export class NewRecordPace {
  readonly #table: Pick<Table, 'clock' | 'backoff'>
  #hour = ''
  readonly #known = new Set<string>()
  /** By resource: epoch ms at which its next record may be written. */
  readonly #nextMs = new Map<string, number>()

  constructor(table: Pick<Table, 'clock' | 'backoff'>) {
    this.#table = table
  }

  async turn({namespace, entity, resource, window, start}: UsageGroup): Promise<void> {
    const nowMs = this.#table.clock()
    this.#beginHour(windowStart('hourly', nowMs))
    if (nowMs - Date.parse(this.#hour) >= PACED_MS || start !== windowStart(window, nowMs)) return
    const name = [namespace, resource, window].join('#')
    const bucket = `${name}#${entity}`
    if (this.#known.has(bucket)) return
    if (this.#known.size >= MOST_KNOWN) this.#known.clear()
    this.#known.add(bucket)
    const atMs = Math.max(nowMs, this.#nextMs.get(name) ?? 0)
    this.#nextMs.set(name, atMs + 1000 / PER_SECOND)
    const waitMs = Math.floor(atMs - nowMs)
    if (waitMs > 0) await this.#table.backoff.sleep(waitMs)
  }

  #beginHour(hour: string): void {
    if (hour === this.#hour) return
    this.#hour = hour
    this.#known.clear()
    this.#nextMs.clear()
  }
}
