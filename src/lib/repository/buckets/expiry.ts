import {expiresAtSeconds, LIFETIME_MULTIPLIER, type LimitState} from '../../core/buckets/bucket.js'
import type {Level} from '../../core/limits/resolve.js'
import type {BucketRecord} from '../../schema/bucket-record.js'

/**
 * Whether a shard is the first of several, which never expires. The others come back from its tokens; without it, the next
 * request would begin a whole bucket beside them, and what they hold would exist twice.
 */
export const isFirstOfSeveral = ({shard, shardCount}: Pick<BucketRecord, 'shard' | 'shardCount'>): boolean =>
  shard === 0 && shardCount > 1

interface Lifetime {
  readonly source: Level | 'default' | undefined
  /** With the share of the shard. */
  readonly limits: Iterable<LimitState>
  /** How often it may fill up untouched; 0 for buckets that never expire. */
  readonly multiplier?: number
  readonly nowMs: number
}

/** Epoch seconds after which the table may drop a shard that lies untouched, or `null`: limits made for one entity never expire. */
export function shardExpiry(
  shard: Pick<BucketRecord, 'shard' | 'shardCount'>,
  {source, limits, multiplier = LIFETIME_MULTIPLIER, nowMs}: Lifetime,
): number | null {
  if (source === 'entity' || multiplier <= 0 || isFirstOfSeveral(shard)) return null
  return expiresAtSeconds(limits, multiplier, nowMs)
}
