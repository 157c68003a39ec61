import {GROWTH_UNITS_PER_SECOND, type WriteCount, writesPerSecond} from '../../core/buckets/shard-growth.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {writeUnitsOf} from '../../schema/item-size.js'

/** A rate over a longer time means little for the present. */
const LONGEST_OBSERVATION_MS = 10_000

/** How long after a write of another client a bucket counts as shared with it. */
const SHARED_MS = 600_000

/** Measures the write rate of one bucket item over all clients, from the counter that every write increments. */
export class PressureGauge {
  #since: WriteCount | undefined
  #isCalm = false
  #isDrained = false
  #sharedAtMs = Number.NEGATIVE_INFINITY

  /** Write units per second since the last reading that was long enough ago; `undefined` when there is none yet. */
  observe(record: BucketRecord, atMs: number): number | undefined {
    const pressure = record.state.limits.get(WRITE_PRESSURE_LIMIT)
    if (!pressure) return undefined
    const now = {atMs, countMilli: pressure.consumedMilli}
    if (pressure.tokensMilli < pressure.capacityMilli) this.#sharedAtMs = atMs
    this.#isDrained = pressure.tokensMilli * 2n < pressure.capacityMilli
    const writes = this.#since && writesPerSecond(this.#since, now)
    const rate = writes === undefined ? undefined : writes * writeUnitsOf(record)
    if (rate !== undefined) this.#isCalm = rate < GROWTH_UNITS_PER_SECOND
    const isOver =
      this.#since &&
      (rate !== undefined ||
        now.countMilli < this.#since.countMilli ||
        atMs - this.#since.atMs > LONGEST_OBSERVATION_MS)
    if (!this.#since || isOver) this.#since = now
    return rate
  }

  /**
   * Whether other clients than zael use the bucket: only they spend the pressure limit. They split it themselves when it
   * is overloaded, and those of 0.10 credit shard 0 as if it were the whole bucket, so a split by zael would admit more
   * than the limit.
   */
  isShared(nowMs: number): boolean {
    return nowMs - this.#sharedAtMs < SHARED_MS
  }

  /**
   * Clients that spend the pressure limit but never refill it would take a calm bucket for an overloaded one and keep
   * splitting it; refilling it costs nothing when it is part of the next write.
   */
  get needsRepair(): boolean {
    return this.#isCalm && this.#isDrained
  }
}
