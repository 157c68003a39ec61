import type {UsageRecord} from '../../schema/usage-record.js'
import {type DailyWindows, firstHourOf, isFirstOfMonth, tellMidnight} from './merge.js'

const DAY_SECONDS = 86_400

/**
 * Gathers what the days of a series say. With daily windows on, each hour was counted in the record of midnight as well,
 * so no day has hours without that record, or more events in its other hours than in that record.
 */
export class DailyEvidence {
  #hasLabel = false
  #hasMixture = false
  #lacksMidnight = false
  #exceedsMidnight = false

  constructor(readonly nowMs: number) {}

  /** Takes note of the records of one day that are left. */
  add(records: readonly UsageRecord[]): void {
    const {midnight, others} = tellMidnight(records)
    const [first, another] = midnight
    // Two records of one instant have their window in the key: they are of an aggregator that mixes nothing.
    if (another) return
    if (first?.window === 'daily') this.#hasLabel = true
    const [other] = others
    if (!other || this.#isToday(other)) return
    if (!first) {
      if (!others.some(record => this.#mayHaveLostMidnight(record))) this.#lacksMidnight = true
    } else if (eventsOf(others) > first.totalEvents) {
      this.#exceedsMidnight = true
    } else if (first.window === 'hourly' && !isFirstOfMonth(first) && firstHourOf(first, others)) {
      this.#hasMixture = true
    }
  }

  get says(): DailyWindows {
    if (this.#lacksMidnight) return 'against'
    // Only an aggregator of days writes the label; what exceeds it then is a write that was lost (D-14).
    if (this.#hasLabel) return 'counted'
    if (this.#exceedsMidnight) return 'against'
    return this.#hasMixture ? 'counted' : 'unknown'
  }

  /** Hour and day are two writes: of a day that is not over, one may be still to come. */
  #isToday({start}: UsageRecord): boolean {
    return start.slice(0, 10) === new Date(this.nowMs).toISOString().slice(0, 10)
  }

  /** The record of midnight is the oldest of its day, and the first that the table drops. */
  #mayHaveLostMidnight({start, ttlSeconds}: UsageRecord): boolean {
    if (ttlSeconds === undefined) return false
    const sinceMidnight = (Date.parse(start) / 1000) % DAY_SECONDS
    return ttlSeconds - sinceMidnight <= Math.floor(this.nowMs / 1000)
  }
}

const eventsOf = (records: readonly UsageRecord[]): number =>
  records.reduce((sum, {totalEvents}) => sum + totalEvents, 0)
