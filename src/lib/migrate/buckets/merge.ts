import type {LimitState} from '../../core/buckets/bucket.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import type {BucketMarks, ChargedBucket, LimitMark} from '../../schema/migration-marks.js'
import type {OldBucket, OldResidue} from './old-bucket.js'
import {balanceAt, type OldLimit} from './old-bucket-parts.js'

type BucketTarget = Pick<BucketRecord, 'namespace' | 'entity' | 'resource' | 'cascade' | 'parent'>

interface MergedBucket {
  readonly record: BucketRecord
  readonly marks: BucketMarks
}

/**
 * One bucket made of the old items, at the latest of their refill instants: no limit goes back in time or gains more than
 * its rate. Its consumption starts at 0, because that of the old items has been counted as usage already.
 */
export function mergeBucket(old: OldBucket, target: BucketTarget): MergedBucket {
  const refilledAtMs = Math.max(...[...old.limits.values()].map(limit => limit.refilledAtMs))
  const limits = new Map<string, LimitState>()
  const marks = new Map<string, Map<string, LimitMark>>()
  for (const [name, limit] of old.limits) {
    const residues = old.residue.get(name) ?? []
    const balance = balanceAt(limit, refilledAtMs)
    const tokensMilli = residues.reduce((sum, residue) => sum + residue.tokensMilli, balance.tokensMilli)
    limits.set(name, {...limit.state, ...balance, tokensMilli, consumedMilli: 0n})
    const charged = {consumedMilli: 0n, tokensMilli, shards: 1}
    const all = [limit, ...(old.others.get(name) ?? [])]
    marks.set(
      name,
      new Map([
        ...all.map((each): [string, LimitMark] => [each.location, markOf(each, charged)]),
        ...residues.map((residue): [string, LimitMark] => [residue.location, markOfResidue(residue)]),
      ]),
    )
  }
  const record = {...target, shard: 0, shardCount: 1, ttlSeconds: old.ttlSeconds, state: {refilledAtMs, limits}}
  return {record, marks}
}

export function markOf(
  {state, refilledAtMs, countsConsumption}: OldLimit,
  charged: ChargedBucket | undefined,
): LimitMark {
  return {
    oldConsumed: countsConsumption ? state.consumedMilli : undefined,
    oldTokens: state.tokensMilli,
    oldRefilledAtMs: refilledAtMs,
    charged: countsConsumption ? charged : undefined,
  }
}

/** Records that the new bucket contains what adjustments left behind; that is never refilled or charged. */
export function markOfResidue({tokensMilli}: OldResidue): LimitMark {
  return {oldConsumed: undefined, oldTokens: tokensMilli, oldRefilledAtMs: 0, charged: undefined}
}
