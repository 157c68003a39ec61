import type {LimitState} from '../../core/bucket.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import type {BucketMarks, ChargedBucket, LimitMark} from '../../schema/migration-marks.js'
import type {OldBucket, OldResidue} from './old-bucket.js'
import {levelAt, type OldLimit} from './old-bucket-parts.js'

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
  const marks = new Map<string, Map<string, LimitMark>>()
  for (const [name, limit] of old.limits) {
    const residue = old.residue.get(name) ?? []
    const level = levelAt(limit, refilledAtMs)
    const tokensMilli = residue.reduce((sum, rest) => sum + rest.tokensMilli, level.tokensMilli)
    limits.set(name, {...limit.state, ...level, tokensMilli, consumedMilli: 0n})
    const charged = {consumedMilli: 0n, tokensMilli, shards: 1}
    const everywhere = [limit, ...(old.others.get(name) ?? [])]
    marks.set(
      name,
      new Map([
        ...everywhere.map((each): [string, LimitMark] => [each.place, markOf(each, charged)]),
        ...residue.map((rest): [string, LimitMark] => [rest.place, markOfResidue(rest)]),
      ]),
    )
  }
  const record = {...home, shard: 0, shardCount: 1, ttlSeconds: old.ttlSeconds, state: {refilledAtMs, limits}}
  return {record, marks}
}

/** Says that an old limit, as it stands, is in the new bucket, and the new one as given in the old. */
export function markOf({state, refilledAtMs, counted}: OldLimit, charged: ChargedBucket | undefined): LimitMark {
  return {
    oldConsumed: counted ? state.consumedMilli : undefined,
    oldTokens: state.tokensMilli,
    oldRefilledAtMs: refilledAtMs,
    charged: counted ? charged : undefined,
  }
}

/** Says that what adjustments left is in the new bucket; it is never refilled and bears nothing. */
export function markOfResidue({tokensMilli}: OldResidue): LimitMark {
  return {oldConsumed: undefined, oldTokens: tokensMilli, oldRefilledAtMs: 0, charged: undefined}
}
