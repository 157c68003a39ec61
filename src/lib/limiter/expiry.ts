import {expiresAtSeconds, type LimitState} from '../core/bucket.js'
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
