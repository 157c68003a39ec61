import {shouldGrow} from '../core/shard-growth.js'
import {PressureGauge} from '../repository/buckets/pressure-gauge.js'
import {fillMissingShards, healShardCount, readShards, splitBucket} from '../repository/buckets/split.js'
import {Lru} from '../repository/table/lru.js'
import type {Table} from '../repository/table/table.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import type {BucketChange, ShardId} from './bucket-change.js'
import {FRESH_MS, shardKey} from './refill.js'

/** Shards whose write rate is followed at a time; those not written longest are forgotten first. */
const MOST_GAUGES = 20_000

/** How fast one shard is written, as far as the stream has told. */
interface Watched {
  readonly gauge: PressureGauge
  readonly shardCount: number
}

/** A bucket whose shards the stream says something about. */
export interface GrowthCandidate extends Omit<ShardId, 'shard'> {
  /** As seen last. */
  readonly record: BucketRecord
  /** Write units of the shard that is written most, and fresh; `undefined` while too little has been seen. */
  readonly unitsPerSecond: number | undefined
  /** Shard 0 says that there are more shards than before. */
  readonly hasGrown: boolean
  readonly largestRequestMilli: ReadonlyMap<string, bigint>
}

/** Measures how often every shard is written, from batch to batch. */
export class PressureWatch {
  readonly #watched: Lru<Watched>
  readonly #clock: () => number

  constructor(clock: () => number) {
    this.#clock = clock
    // Nothing expires by age: a reading from long ago only gives a low rate.
    this.#watched = new Lru({maxEntries: MOST_GAUGES, ttlMs: Number.POSITIVE_INFINITY, clock: () => 0})
  }

  /** The buckets of a batch, with what it tells about their shards. */
  observe(changes: readonly BucketChange[]): GrowthCandidate[] {
    const candidates = new Map<string, GrowthCandidate>()
    for (const change of changes) {
      if (change.after.kind !== 'bucket') continue
      const {namespace, entity, resource, atMs} = change
      const {record} = change.after
      const key = shardKey({...change, shard: 0})
      const so = candidates.get(key)
      const isFresh = this.#clock() - atMs <= FRESH_MS
      const rate = this.#read(change, record)
      candidates.set(key, {
        namespace,
        entity,
        resource,
        record: so && so.record.shardCount > record.shardCount ? so.record : record,
        unitsPerSecond: higher(so?.unitsPerSecond, isFresh ? rate : undefined),
        hasGrown: so?.hasGrown === true || (change.shard === 0 && record.shardCount > change.shardsBefore),
        largestRequestMilli: largest(so?.largestRequestMilli, change),
      })
    }
    return [...candidates.values()]
  }

  /** Whether another client has drained the pressure limit of a shard that is written at leisure. */
  needsRepair(shard: ShardId): boolean {
    return this.#watched.get(shardKey(shard))?.gauge.needsRepair ?? false
  }

  /**
   * AWS tells time in whole seconds: only the first change of a second differs in time from the reading before, and
   * between two such readings lie exactly the writes of the seconds between. A split starts a new measurement: what was
   * written before it says nothing about the load after it.
   */
  #read(change: BucketChange, record: BucketRecord): number | undefined {
    const key = shardKey(change)
    let watched = this.#watched.get(key)
    if (watched?.shardCount !== record.shardCount) {
      watched = {gauge: new PressureGauge(), shardCount: record.shardCount}
      this.#watched.set(key, watched)
    }
    return watched.gauge.observe(record, change.atMs)
  }
}

/** What became of a bucket that may have too few shards. */
export type GrowthOutcome = 'split' | 'completed' | 'unchanged'

/**
 * Doubles a bucket that is written too often, moving tokens, not making any; and makes the shards that another client
 * has only announced.
 */
export async function growBucket(table: Table, candidate: GrowthCandidate, maxShards: number): Promise<GrowthOutcome> {
  const {namespace, entity, resource, record, unitsPerSecond, hasGrown, largestRequestMilli} = candidate
  const {shardCount, state} = record
  const namespaceTable = {...table, namespace}
  if (shardCount > maxShards) {
    if (hasGrown) await healShardCount(namespaceTable, entity, resource, maxShards)
    return hasGrown ? 'completed' : 'unchanged'
  }
  if (hasGrown) await fillMissingShards(namespaceTable, entity, resource, maxShards)
  const isSplit =
    unitsPerSecond !== undefined &&
    shouldGrow({unitsPerSecond, shardCount, limits: state.limits, largestRequestMilli, maxShards}).grow &&
    // The record may be from before a split that has brought relief since.
    (await readShards(namespaceTable, entity, resource, 1)).get(0)?.shardCount === shardCount &&
    (await splitBucket(namespaceTable, entity, resource, shardCount)) > shardCount
  return isSplit ? 'split' : hasGrown ? 'completed' : 'unchanged'
}

function higher(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || (b !== undefined && b > a) ? b : a
}

/** One write may serve many requests; each of them asked for its part. */
function largest(so: ReadonlyMap<string, bigint> | undefined, change: BucketChange): Map<string, bigint> {
  const requests = BigInt(Math.max(1, change.admitted))
  const known = new Map(so)
  for (const [limit, milli] of change.consumedMilli) {
    const each = (milli + requests - 1n) / requests
    if (each > (known.get(limit) ?? 0n)) known.set(limit, each)
  }
  return known
}
