import {Throttled, TransactionCancelled} from '../../dynamo/errors.js'
import {fillMissingShards, healShardCount, splitBucket} from '../../repository/buckets/split.js'
import type {BucketAddress} from '../../repository/buckets/writes.js'
import type {NamespaceTable} from '../../repository/table/table.js'

interface ShardCounts {
  shardCount(entity: string, resource: string): number
  setShardCount(entity: string, resource: string, count: number): void
}

interface ShardRepairOptions {
  readonly table: NamespaceTable
  readonly counts: ShardCounts
  readonly maxShards: number
  /** What was known of shards 0 to `count` was computed with another share. */
  readonly onShardsChanged: (bucket: Omit<BucketAddress, 'shard'>, count: number) => void
}

export class ShardRepair {
  readonly #options: ShardRepairOptions

  constructor(options: ShardRepairOptions) {
    this.#options = options
  }

  /** Creates the shards that are missing, from tokens of the others; false when the bucket has no such shard. */
  async fill(address: BucketAddress): Promise<boolean> {
    const {table, counts, maxShards, onShardsChanged} = this.#options
    const {entity, resource, shard} = address
    const count = await asOutage(fillMissingShards(table, entity, resource, maxShards))
    if (count > maxShards) await this.repairCount(address)
    else counts.setShardCount(entity, resource, Math.max(1, count))
    onShardsChanged(address, count)
    return shard < counts.shardCount(entity, resource)
  }

  /** Sets a stored number of shards that is above the maximum to the shards that exist. */
  async repairCount(address: BucketAddress): Promise<void> {
    const {table, maxShards} = this.#options
    this.#setCount(address, await asOutage(healShardCount(table, address.entity, address.resource, maxShards)))
  }

  /** Doubles `count` shards. */
  async grow(address: BucketAddress, count: number): Promise<void> {
    this.#setCount(address, await splitBucket(this.#options.table, address.entity, address.resource, count))
  }

  #setCount(address: BucketAddress, count: number): void {
    const {counts, onShardsChanged} = this.#options
    counts.setShardCount(address.entity, address.resource, count)
    onShardsChanged(address, count)
  }
}

/** Competitors that were faster every time are an outage to callers: requests end in a decision, not in a conflict. */
function asOutage<T>(work: Promise<T>): Promise<T> {
  return work.catch(error => {
    throw error instanceof TransactionCancelled ? new Throttled('acquire', error) : error
  })
}
