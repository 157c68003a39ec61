import type {Amounts} from '../../core/buckets/bucket.js'
import {Throttled, TransactionCancelled} from '../../dynamo/errors.js'
import {fillMissingShards, healShardCount, splitBucket} from '../../repository/buckets/split.js'
import type {BucketAddress, WriteMark} from '../../repository/buckets/writes.js'
import {Lru} from '../../repository/table/lru.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import type {RefusalTally} from '../refusal/tally.js'
import type {ChargedItem} from '../request/grant.js'
import type {AppliedLimits, LimitSource} from '../request/limit-source.js'
import type {LimiterSettings} from '../request/options.js'
import type {SeenLoad} from './known-bucket.js'
import type {SupposedBucket} from './next-step.js'

export interface QueueServices {
  readonly table: NamespaceTable
  readonly settings: LimiterSettings
  readonly limits: LimitSource
  readonly shards: ShardRepair
  readonly refusals: RefusalTally
  readonly firstVisits: FirstVisits
  readonly nextMark: () => WriteMark
  /** Predicted state of an unread bucket, from its last seen record and the limits it must have. */
  readonly supposed: (
    address: BucketAddress,
    last: BucketRecord | undefined,
    applied: AppliedLimits | undefined,
  ) => SupposedBucket
  readonly onSeen: (address: BucketAddress, seen: SeenLoad) => void
  readonly onBusy: (key: string) => void
  readonly onIdle: (key: string) => void
  /** A write opened sessions of a bucket with several shards; `opened` has their lengths in ms. */
  readonly onOpened: (record: BucketRecord, opened: ReadonlyMap<string, number>, startMs: number) => void
  /** Refunds tokens of another item; never rejects. */
  readonly giveBack: (address: BucketAddress, amounts: Amounts, charged: ChargedItem) => Promise<void>
}

const MOST_RESOURCES = 1000

/** First writes wasted, less useful ones, from which on buckets are read first; and the maximum of this count. */
const [ENOUGH_IN_VAIN, MOST_IN_VAIN] = [4, 8]

/** Reads unseen buckets first if writes are wasted: one costs ten eventually consistent reads (decision 37). */
export class FirstVisits {
  readonly #inVain: Lru<number>

  constructor(clock: () => number) {
    this.#inVain = new Lru({clock, ttlMs: Number.POSITIVE_INFINITY, maxEntries: MOST_RESOURCES})
  }

  readFirst(resource: string): boolean {
    return (this.#inVain.get(resource) ?? 0) >= ENOUGH_IN_VAIN
  }

  note(resource: string, isInVain: boolean): void {
    const count = (this.#inVain.get(resource) ?? 0) + (isInVain ? 1 : -1)
    this.#inVain.set(resource, Math.min(Math.max(0, count), MOST_IN_VAIN))
  }
}

interface ShardCounts {
  shardCount(entity: string, resource: string): number
  setShardCount(entity: string, resource: string, count: number): void
}

interface ShardRepairOptions {
  readonly table: NamespaceTable
  readonly counts: ShardCounts
  readonly maxShards: number
  /** Known states of shards 0 to `count` were computed with another share. */
  readonly onShardsChanged: (bucket: Omit<BucketAddress, 'shard'>, count: number) => void
}

export class ShardRepair {
  readonly #options: ShardRepairOptions

  constructor(options: ShardRepairOptions) {
    this.#options = options
  }

  /** Creates missing shards from tokens of the others; false if the bucket has no such shard. */
  async fill(address: BucketAddress): Promise<boolean> {
    const {table, counts, maxShards, onShardsChanged} = this.#options
    const {entity, resource, shard} = address
    const count = await asOutage(fillMissingShards(table, entity, resource, maxShards))
    if (count > maxShards) await this.repairCount(address)
    else counts.setShardCount(entity, resource, Math.max(1, count))
    onShardsChanged(address, count)
    return shard < counts.shardCount(entity, resource)
  }

  async repairCount(address: BucketAddress): Promise<void> {
    const {table, maxShards} = this.#options
    this.#setCount(address, await asOutage(healShardCount(table, address.entity, address.resource, maxShards)))
  }

  async grow(address: BucketAddress, count: number): Promise<void> {
    this.#setCount(address, await splitBucket(this.#options.table, address.entity, address.resource, count))
  }

  #setCount(address: BucketAddress, count: number): void {
    const {counts, onShardsChanged} = this.#options
    counts.setShardCount(address.entity, address.resource, count)
    onShardsChanged(address, count)
  }
}

/** To callers, losing every race is an outage: requests end in a decision, not in a conflict. */
function asOutage<T>(work: Promise<T>): Promise<T> {
  return work.catch(error => {
    throw error instanceof TransactionCancelled ? new Throttled('acquire', error) : error
  })
}
