import {STAMP_MS} from '../../core/limits/limit-kind.js'
import type {BucketAddress} from '../../repository/buckets/writes.js'
import type {LimitsInForce} from '../request/limit-source.js'
import {differsFrom, hasLimits, isUpToDate} from './apply-limits.js'
import type {KnownBucket, KnownState} from './known-bucket.js'
import type {QueueServices} from './queue-services.js'

interface LimitsRead {
  readonly inForce: LimitsInForce
  /** If bypassed: epoch ms until which the configuration need not be read again. */
  readonly bypassUntilMs: number | undefined
  readonly clockMs: number
}

/** Compares a bucket with the configuration and reads the limits to write to it (decision 25). */
export class LimitChecks {
  readonly #services: QueueServices
  readonly #address: BucketAddress
  readonly #bucket: KnownBucket

  constructor(services: QueueServices, address: BucketAddress, bucket: KnownBucket) {
    this.#services = services
    this.#address = address
    this.#bucket = bucket
  }

  /** Before the first check is due: a cached configuration that differs casts doubt on the bucket. */
  compareAtHand(): undefined {
    const bucket = this.#bucket
    const {state} = bucket
    if (!state?.exists || bucket.hasCheckedLimits) return
    const applied = this.#services.limits.atHand(this.#address, this.#limitsMs())
    if (applied && !hasLimits(state.seen, applied)) bucket.noteDoubt()
  }

  async check(): Promise<LimitsInForce> {
    const bucket = this.#bucket
    const {state} = bucket
    const {limits, settings} = this.#services
    const inForce = await limits.inForce(this.#address, {atMs: this.#limitsMs()})
    const nowMs = this.#now()
    if (state?.exists && isUpToDate(state.seen, inForce, settings, nowMs))
      bucket.noteLimitsChecked(inForce.applied, nowMs)
    return inForce
  }

  async read(state: KnownState): Promise<LimitsRead> {
    const {limits, settings} = this.#services
    const address = this.#address
    const {seenAtMs} = this.#bucket
    const [sinceMs, readAtMs] = [performance.now(), this.#now()]
    const atMs = this.#limitsMs()
    // Limits read before the bucket was seen may be older than its own and never replace them (decision 25).
    const newest = {after: seenAtMs, atMs}
    const mayBeOld = !state.exists || state.seen.record.validUntilMs === 0
    let inForce = await limits.inForce(address, mayBeOld ? newest : {atMs})
    if (!mayBeOld && differsFrom(state.seen, inForce)) inForce = await limits.inForce(address, newest)
    // A missing or unstamped bucket does not show whether the switch was lifted since it was read.
    const isStamped = state.exists && state.seen.record.isDisabled
    if (inForce.applied.disabledAt !== undefined && !isStamped)
      inForce = await limits.inForce(address, {after: performance.now() - settings.denyCacheMs, atMs})
    // The stamp of a bypass expires relative to the configuration read.
    if (inForce.applied.isBypassed) inForce = await limits.inForce(address, {after: sinceMs, atMs})
    const bypassUntilMs = inForce.applied.isBypassed ? readAtMs + STAMP_MS : undefined
    const clockMs = this.#now()
    this.#bucket.noteLimitsChecked(inForce.applied, clockMs)
    return {inForce, bypassUntilMs, clockMs}
  }

  #now(): number {
    return this.#services.table.clock()
  }

  /** Epoch ms. A boost that a faster clock ended stays ended: limits that come and go would be full each time. */
  #limitsMs(): number {
    const {state} = this.#bucket
    return Math.max(this.#now(), state?.exists ? state.seen.record.state.refilledAtMs : 0)
  }
}
