import {expiresAtSeconds, type LimitState} from '../core/bucket.js'
import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import {shareOfRate} from '../core/shards.js'
import type {BucketPlan} from '../repository/bucket-plan.js'
import type {AppliedLimits, Office} from './office.js'

/** Epoch seconds after which the table may drop a bucket, or `null`: limits made for one entity keep it for ever. */
export function expiryOf(
  office: Office,
  applied: AppliedLimits,
  limits: Iterable<LimitState>,
  nowMs: number,
): number | null {
  const {bucketTtlMultiplier} = office.settings
  if (applied.source === 'entity' || bucketTtlMultiplier <= 0) return null
  return expiresAtSeconds(limits, bucketTtlMultiplier, nowMs)
}

/** The limits that a plan leaves in the bucket, as this shard has them: it repays a debt at its own share of the rate. */
export function plannedLimits({seen, changes}: BucketPlan): LimitState[] {
  const {shard, shardCount} = seen.record
  return [...changes].flatMap(([name, {kind, after}]) =>
    kind === 'remove' || name === WRITE_PRESSURE_LIMIT
      ? []
      : [{...after, ...shareOfRate(name, after, shard, shardCount)}],
  )
}
