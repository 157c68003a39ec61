import {shouldGrow} from '../core/buckets/shards.js'
import {PressureGauge} from '../repository/buckets/plan.js'
import {fillMissingShards, healShardCount, readShards, splitBucket} from '../repository/buckets/split.js'
import {Lru} from '../repository/table/lru.js'
import type {Table} from '../repository/table/table.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import {type BucketChange, FRESH_MS, type ShardId, shardKey} from './bucket-change.js'

const MAX_GAUGES = 20_000

interface TrackedShard {
  readonly gauge: PressureGauge
  readonly shardCount: number
}

export interface GrowthCandidate extends Omit<ShardId, 'shard'> {
  readonly record: BucketRecord
  /** Of the busiest shard, from fresh records; `undefined` if there are too few measurements. */
  readonly unitsPerSecond: number | undefined
  readonly isShared: boolean
  /** Shard 0 shows a higher shard count than before. */
  readonly hasGrown: boolean
  readonly largestRequestMilli: ReadonlyMap<string, bigint>
}

export class PressureMonitor {
  readonly #tracked: Lru<TrackedShard>
  readonly #clock: () => number

  constructor(clock: () => number) {
    this.#clock = clock
    // Entries never expire by age: an old reading only lowers the rate.
    this.#tracked = new Lru({maxEntries: MAX_GAUGES, ttlMs: Number.POSITIVE_INFINITY, clock: () => 0})
  }

  observe(changes: readonly BucketChange[]): GrowthCandidate[] {
    const candidates = new Map<string, GrowthCandidate>()
    for (const change of changes) {
      if (change.after.kind !== 'bucket') continue
      const {namespace, entity, resource, atMs} = change
      const {record} = change.after
      const key = shardKey({...change, shard: 0})
      const known = candidates.get(key)
      const isFresh = this.#clock() - atMs <= FRESH_MS
      const {gauge} = this.#trackedFor(change, record)
      const rate = gauge.observe(record, atMs)
      candidates.set(key, {
        namespace,
        entity,
        resource,
        record: known && known.record.shardCount > record.shardCount ? known.record : record,
        unitsPerSecond: higher(known?.unitsPerSecond, isFresh ? rate : undefined),
        isShared: known?.isShared === true || gauge.isShared(atMs),
        hasGrown: known?.hasGrown === true || (change.shard === 0 && record.shardCount > change.shardsBefore),
        largestRequestMilli: largest(known?.largestRequestMilli, change),
      })
    }
    return [...candidates.values()]
  }

  /** Whether another client drained a shard's pressure limit although the shard is rarely written. */
  needsRepair(shard: ShardId): boolean {
    return this.#tracked.get(shardKey(shard))?.gauge.needsRepair ?? false
  }

  /** AWS record times are whole seconds, so readings span exactly the writes between. A split restarts measuring. */
  #trackedFor(change: BucketChange, record: BucketRecord): TrackedShard {
    const key = shardKey(change)
    let tracked = this.#tracked.get(key)
    if (tracked?.shardCount !== record.shardCount) {
      tracked = {gauge: new PressureGauge(), shardCount: record.shardCount}
      this.#tracked.set(key, tracked)
    }
    return tracked
  }
}

/** `completed`: shards were created or the count corrected after another client raised it. */
type GrowthOutcome = 'split' | 'completed' | 'unchanged'

/** Doubles the shards of a busy bucket and moves its tokens. Also creates shards that another client only announced. */
export async function growBucket(table: Table, candidate: GrowthCandidate, maxShards: number): Promise<GrowthOutcome> {
  const {namespace, entity, resource, record, unitsPerSecond, hasGrown, largestRequestMilli, isShared} = candidate
  const {shardCount, state} = record
  if (record.unsupported) return 'unchanged'
  const namespaceTable = {...table, namespace}
  if (shardCount > maxShards) {
    if (hasGrown) await healShardCount(namespaceTable, entity, resource, maxShards)
    return hasGrown ? 'completed' : 'unchanged'
  }
  if (hasGrown) await fillMissingShards(namespaceTable, entity, resource, maxShards)
  const isSplit =
    unitsPerSecond !== undefined &&
    shouldGrow({unitsPerSecond, shardCount, limits: state.limits, largestRequestMilli, maxShards, isShared}).grow &&
    // The image may predate a split that already reduced the load.
    (await readShards(namespaceTable, entity, resource, 1)).get(0)?.shardCount === shardCount &&
    (await splitBucket(namespaceTable, entity, resource, shardCount)) > shardCount
  return isSplit ? 'split' : hasGrown ? 'completed' : 'unchanged'
}

function higher(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || (b !== undefined && b > a) ? b : a
}

/** One write may serve many requests: divide its amount among them. */
function largest(known: ReadonlyMap<string, bigint> | undefined, change: BucketChange): Map<string, bigint> {
  const requests = BigInt(Math.max(1, change.admitted))
  const amounts = new Map(known)
  for (const [limit, milli] of change.consumedMilli) {
    const perRequest = (milli + requests - 1n) / requests
    if (perRequest > (amounts.get(limit) ?? 0n)) amounts.set(limit, perRequest)
  }
  return amounts
}
