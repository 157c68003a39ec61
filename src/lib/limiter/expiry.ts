import {type LimitState, lifetimeSeconds} from '../core/bucket.js'
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
  return Math.floor(nowMs / 1000) + lifetimeSeconds(limits, bucketTtlMultiplier)
}

/** The limits that a plan leaves in the bucket. */
export function plannedLimits(plan: BucketPlan): LimitState[] {
  return [...plan.changes.values()].flatMap(({kind, after}) => (kind === 'remove' ? [] : [after]))
}
