import {type Amounts, type BucketState, type Decision, refillBucket, tryConsumeBucket} from '../core/bucket.js'
import {boundsOfFullness, type FullnessBounds} from '../core/fullness.js'
import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import {shareOfBucket} from '../core/shards.js'
import {toMilli} from '../core/token-math.js'
import type {SeenBucket} from '../repository/buckets/plan.js'
import type {Item} from '../schema/attribute-value.js'
import {type BucketRecord, decodeBucket, type Residue} from '../schema/bucket-record.js'

/** The last state of a bucket item that an answer has shown. */
export type KnownBucket =
  | {readonly exists: true; readonly atMs: number; readonly seen: SeenBucket}
  /** There is no bucket, or only counters that a refund left behind. */
  | {readonly exists: false; readonly atMs: number; readonly residue: ReadonlyMap<string, Residue>}

/** Reads an answer; `item` is undefined when there was none. */
export function knownFrom(item: Item | undefined, atMs: number): KnownBucket {
  const stored = item && decodeBucket(item)
  if (!item || !stored) return {exists: false, atMs, residue: new Map()}
  if (stored.kind === 'ghost') return {exists: false, atMs, residue: stored.residue}
  return {exists: true, atMs, seen: stored}
}

/** Stored balances, without the refill since. */
export function storedTokens(record: BucketRecord): Map<string, bigint> {
  return new Map([...record.state.limits].map(([name, limit]) => [name, limit.tokensMilli]))
}

/** What this shard would answer at an instant, by arithmetic alone. */
export function decideLocally(record: BucketRecord, amounts: Amounts, nowMs: number): Decision {
  return tryConsumeBucket(shareOfRecord(record), amounts, nowMs)
}

/** The part of a bucket's parameters that belongs to this shard. */
export function shareOfRecord(record: BucketRecord): BucketState {
  return shareOfBucket(record.state, record.shard, record.shardCount)
}

/** Whether the table may drop the item at any moment: it must be renewed before it is used. */
export function isBucketExpired(record: BucketRecord, nowMs: number): boolean {
  return record.ttlSeconds !== undefined && record.ttlSeconds <= Math.floor(nowMs / 1000)
}

/** Whether tokens that were returned late lie above what the shard may hold: the next write must cut them off. */
export function isOverfull(record: BucketRecord): boolean {
  for (const [name, limit] of shareOfRecord(record).limits) {
    if (name !== WRITE_PRESSURE_LIMIT && limit.tokensMilli > limit.capacityMilli) return true
  }
  return false
}

/**
 * Whether a limit asked for has filled up since the last refill. Consuming without a refill would then give back later
 * what has overflowed: twice the capacity at once.
 */
export function hasFilledUp(record: BucketRecord, names: Iterable<string>, nowMs: number): boolean {
  if (nowMs <= record.state.refilledAtMs) return false
  const {limits} = refillBucket(shareOfRecord(record), nowMs)
  for (const name of names) {
    const limit = limits.get(name)
    if (limit && limit.tokensMilli >= limit.capacityMilli) return true
  }
  return false
}

/** Every limit takes fifteen operators of the 300, and some 150 of the 4,096 characters, that an expression may have. */
const MOST_LIMITS_IN_BOUNDS = 12

/** Bounds within which the bucket is full whoever has used it meanwhile, if it is full by what was seen and serves all. */
export function fullnessFor(seen: SeenBucket, amounts: Amounts, nowMs: number): FullnessBounds[] {
  if (seen.incomplete.size > 0 || seen.record.state.limits.size > MOST_LIMITS_IN_BOUNDS) return []
  const share = shareOfRecord(seen.record)
  const isEnough = [...amounts].every(([name, milli]) => milli <= (share.limits.get(name)?.capacityMilli ?? 0n))
  return isEnough ? boundsOfFullness(share, amounts, nowMs) : []
}

/** Whether a bucket from which tokens were taken a moment ago had overflowed before. */
export function hasOverflown(record: BucketRecord, taken: Amounts, nowMs: number): boolean {
  if (nowMs <= record.state.refilledAtMs) return false
  const {limits} = refillBucket(shareOfRecord(record), nowMs)
  return [...taken].some(([name, milli]) => {
    const limit = limits.get(name)
    return milli > 0n && limit !== undefined && limit.tokensMilli + milli > limit.capacityMilli
  })
}

/** Names that the bucket does not know. */
export function missingNames(record: BucketRecord, amounts: Amounts): string[] {
  return [...amounts.keys()].filter(name => !record.state.limits.has(name))
}

/** Whether a limit could never hold the amount, whatever the number of shards. */
export function isTooLarge(record: BucketRecord, amounts: Amounts): boolean {
  return [...amounts].some(([name, milli]) => milli > (record.state.limits.get(name)?.capacityMilli ?? toMilli(0)))
}
