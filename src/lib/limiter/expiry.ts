import {expiresAtSeconds, type LimitState} from '../core/bucket.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import type {AppliedLimits, LimiterContext} from './context.js'
import {shareOfRecord} from './known-bucket.js'

/** Epoch seconds after which the table may drop a bucket, or `null`: limits made for one entity keep it for ever. */
export function expiryOf(
  office: LimiterContext,
  applied: AppliedLimits,
  limits: Iterable<LimitState>,
  nowMs: number,
): number | null {
  const {bucketTtlMultiplier} = office.settings
  if (applied.source === 'entity' || bucketTtlMultiplier <= 0) return null
  return expiresAtSeconds(limits, bucketTtlMultiplier, nowMs)
}

/** The expiry of a full bucket that is used now; `undefined` for one that lives for ever. */
export function renewedExpiry(record: BucketRecord, multiplier: number, nowMs: number): number | undefined {
  if (record.ttlSeconds === undefined || multiplier <= 0) return undefined
  return expiresAtSeconds(shareOfRecord(record).limits.values(), multiplier, nowMs)
}

/** Whether an expiry is as it should be, and so far away that it need not be renewed yet. */
export function isExpiryInOrder(ttlSeconds: number | undefined, wanted: number | null, nowMs: number): boolean {
  if (wanted === null || ttlSeconds === undefined) return (wanted === null) === (ttlSeconds === undefined)
  const nowSeconds = nowMs / 1000
  return (ttlSeconds - nowSeconds) * 2 >= wanted - nowSeconds
}
