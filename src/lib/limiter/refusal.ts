import {type Amounts, refillBucket} from '../core/bucket.js'
import {toTokens} from '../core/token-math.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import type {AppliedLimits} from './context.js'
import type {RefusalStatus} from './errors.js'
import {shareOfRecord} from './known-bucket.js'
import {availableTogether, timeUntilTogether} from './shard-room.js'

/** Why a request was not admitted at one level. */
export interface Refusal {
  readonly statuses: readonly RefusalStatus[]
  readonly retryAfterMs: number
}

/** A refusal as one or several shards of a bucket explain it. */
export interface RefusedBy {
  readonly records: readonly BucketRecord[]
  readonly amounts: Amounts
  readonly nowMs: number
  readonly source: AppliedLimits['source'] | undefined
}

/** Turns the states that refused into statuses and a wait that is true: what is available is what all of them hold. */
export function explainRefusal({records, amounts, nowMs, source}: RefusedBy, level: RefusalStatus['level']): Refusal {
  const states = records.map(record => refillBucket(shareOfRecord(record), nowMs))
  const first = records[0] as BucketRecord
  const statuses = [...amounts].map(([name, milli]): RefusalStatus => {
    const availableMilli = availableTogether(states, name)
    const rate = first.state.limits.get(name)
    const exceeded = availableMilli < milli
    const [available, requested] = [toTokens(availableMilli), toTokens(milli)]
    return {
      name,
      entity: first.entity,
      resource: first.resource,
      level,
      shard: records.length === 1 ? first.shard : undefined,
      source,
      capacity: toTokens(rate?.capacityMilli ?? 0n),
      refillAmount: toTokens(rate?.refillAmountMilli ?? 0n),
      refillPeriodSeconds: (rate?.refillPeriodMs ?? 0) / 1000,
      available,
      requested,
      deficit: exceeded ? requested - available : 0,
      exceeded,
      retryAfterMs: exceeded ? timeUntilTogether(records, new Map([[name, milli]]), nowMs) : 0,
    }
  })
  // Nothing exceeded means that competitors were faster on every try: there is room by now.
  return {statuses, retryAfterMs: Math.max(1, ...statuses.map(status => status.retryAfterMs))}
}
