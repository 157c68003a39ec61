import type {LimitState} from '../core/bucket.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import type {BucketMarks, LimitMark} from '../schema/migration-marks.js'
import {levelAt, type OldBucket, type OldLimit} from './old-bucket.js'

/** Where a bucket belongs today, and what its entity says. */
export interface BucketHome {
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  readonly cascade: boolean
  readonly parent: string | undefined
}

/** Today's bucket out of an old one, and the marks that go with it. */
export interface MergedBucket {
  readonly record: BucketRecord
  readonly marks: BucketMarks
}

/**
 * One bucket out of what the old items hold, at the latest of their refill instants: no limit goes back in time and none
 * gains more than its rate. Consumption starts at nothing: the old items' has been counted as usage already.
 */
export function mergeBucket(old: OldBucket, home: BucketHome): MergedBucket {
  const refilledAtMs = Math.max(...[...old.limits.values()].map(limit => limit.refilledAtMs))
  const limits = new Map<string, LimitState>()
  const marks = new Map<string, LimitMark>()
  for (const [name, limit] of old.limits) {
    limits.set(name, {...limit.state, ...levelAt(limit, refilledAtMs), consumedMilli: 0n})
    marks.set(name, markOf(limit, 0n))
  }
  const record = {...home, shard: 0, shardCount: 1, ttlSeconds: old.ttlSeconds, state: {refilledAtMs, limits}}
  return {record, marks}
}

/** Says that an old limit, as it stands, and so much of the new one's consumption are in both. */
export function markOf({state, refilledAtMs, counted}: OldLimit, newConsumed: bigint): LimitMark {
  return {
    oldConsumed: counted ? state.consumedMilli : undefined,
    oldTokens: state.tokensMilli,
    oldRefilledAtMs: refilledAtMs,
    newConsumed,
  }
}
