import type {UsageRecord} from '../../schema/usage-record.js'
import {computeFirstHour, type DailyWindows, isFirstOfMonth, separateMidnight} from './merge.js'

const DAY_SECONDS = 86_400

/**
 * Collects evidence of daily windows from the days of a series. If days were counted, each hour was also counted in the
 * record of midnight; so no day has hours without that record, or more events in its other hours than in that record.
 */
export class DailyEvidence {
  #hasDailyLabel = false
  #hasMixedMidnight = false
  #lacksMidnight = false
  #exceedsMidnight = false

  constructor(readonly nowMs: number) {}

  add(records: readonly UsageRecord[]): void {
    const {midnight, others} = separateMidnight(records)
    const [first, another] = midnight
    // Two records of one instant have their window in the key: the aggregator that wrote them does not mix windows.
    if (another) return
    if (first?.window === 'daily') this.#hasDailyLabel = true
    const [other] = others
    if (!other || this.#isToday(other)) return
    if (!first) {
      if (!others.some(record => this.#midnightMayHaveExpired(record))) this.#lacksMidnight = true
    } else if (eventsOf(others) > first.totalEvents) {
      this.#exceedsMidnight = true
    } else if (first.window === 'hourly' && !isFirstOfMonth(first) && computeFirstHour(first, others)) {
      this.#hasMixedMidnight = true
    }
  }

  get conclusion(): DailyWindows {
    if (this.#lacksMidnight) return 'not counted'
    // Only an aggregator that counts days writes the label; a midnight record with too few events then lost a write (D-14).
    if (this.#hasDailyLabel) return 'counted'
    if (this.#exceedsMidnight) return 'not counted'
    return this.#hasMixedMidnight ? 'counted' : 'unknown'
  }

  /** Hour and day are two writes: until the day is over, one of them may be missing. */
  #isToday({start}: UsageRecord): boolean {
    return start.slice(0, 10) === new Date(this.nowMs).toISOString().slice(0, 10)
  }

  /** The record of midnight is the oldest of its day, so it expires first. */
  #midnightMayHaveExpired({start, ttlSeconds}: UsageRecord): boolean {
    if (ttlSeconds === undefined) return false
    const sinceMidnight = (Date.parse(start) / 1000) % DAY_SECONDS
    return ttlSeconds - sinceMidnight <= Math.floor(this.nowMs / 1000)
  }
}

const eventsOf = (records: readonly UsageRecord[]): number =>
  records.reduce((sum, {totalEvents}) => sum + totalEvents, 0)
