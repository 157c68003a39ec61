import {windowStart} from '../core/window.js'
import type {Table} from '../repository/table/table.js'
import type {UsageGroup} from './usage.js'

/**
 * New usage records of one resource per second and process. Their index entries are all under one key, which takes 1,000 a
 * second, and so are those of new buckets, whose requests wait for them.
 */
const PER_SECOND = 250

/** New records are paced this long after the full hour, in ms: later they come one by one. */
const PACED_MS = 60_000

/** Buckets remembered; beyond that they are forgotten, and counted as new once more. */
const MOST_KNOWN = 100_000

/**
 * Spreads the first usage records of an hour. All buckets in use get theirs with the first batch after the full hour; written
 * at once, they would be throttled, and requests of new buckets with them.
 */
export class NewRecordPace {
  readonly #table: Pick<Table, 'clock' | 'backoff'>
  #hour = ''
  readonly #known = new Set<string>()
  /** By resource, when its next record may be written; epoch ms. */
  readonly #nextMs = new Map<string, number>()

  constructor(table: Pick<Table, 'clock' | 'backoff'>) {
    this.#table = table
  }

  /** Resolves when the record of a group may be written; at once unless the record is new and others came before it. */
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
