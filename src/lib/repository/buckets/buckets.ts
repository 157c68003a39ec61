import type {LimitState} from '../../core/bucket.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {batchGet} from '../../dynamo/batch.js'
import {queryItems} from '../../dynamo/paging.js'
import {type BucketRecord, decodeBucket, type StoredBucket} from '../../schema/bucket-record.js'
import {indexKeys, keys, parseItemKey} from '../../schema/keys.js'
import {getItem, type NamespaceTable} from '../table/table.js'
import {addressQuery} from './index.js'
import type {BucketAddress} from './writes.js'

/** Beyond this a shard count is an accident of another client (D-1), and the index tells which shards exist. */
export const MAX_SHARDS = 1024

/** Shards read together; bounds the memory of a walk through a whole namespace. */
const SHARDS_PER_READ = 100

/** One bucket with all its shards. */
export interface ShardedBucket {
  readonly entity: string
  readonly resource: string
  /** As shard 0 says; where it is missing, the most any shard says. */
  readonly shardCount: number
  /** Those that exist, by number; what refunds left of a shard that is gone is a ghost. */
  readonly shards: readonly StoredBucket[]
}

/** A bucket of which an index told, with the shards known so far. */
interface FoundBucket {
  readonly entity: string
  readonly resource: string
  readonly known: Set<number>
}

/** How to stop a walk. */
export interface WalkOptions {
  readonly signal?: AbortSignal | undefined
}

/** Limits of a bucket as users know them: without the one that measures write pressure. */
export function visibleLimits(record: BucketRecord): Map<string, LimitState> {
  return new Map([...record.state.limits].filter(([name]) => name !== WRITE_PRESSURE_LIMIT))
}

/** Where a stored bucket or ghost is. */
export function addressOf(stored: StoredBucket): BucketAddress {
  return stored.kind === 'bucket' ? stored.record : stored
}

/** The buckets of one namespace, as they are stored. Looking writes nothing. */
export class Buckets {
  readonly #table: NamespaceTable

  constructor(table: NamespaceTable) {
    this.#table = table
  }

  /** One shard; `undefined` when it does not exist. */
  async get(entity: string, resource: string, shard: number): Promise<StoredBucket | undefined> {
    const item = await getItem(this.#table, keys.bucket(this.#table.namespace, entity, resource, shard))
    return item && decodeBucket(item)
  }

  /** One bucket with all its shards; `undefined` when nothing of it exists. */
  async find(entity: string, resource: string, options: WalkOptions = {}): Promise<ShardedBucket | undefined> {
    const known = new Set([0])
    for await (const address of this.#addressesOfEntity(entity, resource, options)) known.add(address.shard)
    const [bucket] = await this.#read([{entity, resource, known}], options)
    return bucket
  }

  /** All buckets of an entity. */
  ofEntity(entity: string, options: WalkOptions = {}): AsyncGenerator<ShardedBucket, void> {
    return this.#gather(this.#addressesOfEntity(entity, undefined, options), options)
  }

  /** All buckets of a resource by entity, from the first entity after `after` on. */
  ofResource(
    resource: string,
    options: WalkOptions & {readonly after?: string | undefined} = {},
  ): AsyncGenerator<ShardedBucket, void> {
    const {GSI2PK} = indexKeys.bucketOfResource(this.#table.namespace, resource, '', 0)
    return this.#gather(this.#addresses('GSI2', GSI2PK, 'BUCKET#', options), options)
  }

  /** All buckets of the namespace. */
  ofNamespace(options: WalkOptions = {}): AsyncGenerator<ShardedBucket, void> {
    return this.#gather(this.#addresses('GSI4', this.#table.namespace, 'BUCKET#', options), options)
  }

  #addressesOfEntity(entity: string, resource: string | undefined, options: WalkOptions) {
    const {GSI3PK} = indexKeys.bucketOfEntity(this.#table.namespace, entity, '', 0)
    return this.#addresses('GSI3', GSI3PK, resource === undefined ? 'BUCKET#' : `BUCKET#${resource}#`, options)
  }

  /** What an index knows. Only keys are taken from it, so it does not matter what else it projects. */
  async *#addresses(
    index: 'GSI2' | 'GSI3' | 'GSI4',
    partition: string,
    prefix: string,
    {signal, after}: WalkOptions & {readonly after?: string | undefined},
  ): AsyncGenerator<BucketAddress, void> {
    const {transport, backoff} = this.#table
    const query = addressQuery(this.#table, {index, partition, prefix, after})
    for await (const item of queryItems(transport, query, {backoff, signal})) {
      const key = parseItemKey(item)
      if (key?.record === 'bucket') yield key
    }
  }

  /** In every index the shards of one bucket lie next to each other, so a bucket is complete when another one begins. */
  async *#gather(addresses: AsyncIterable<BucketAddress>, options: WalkOptions): AsyncGenerator<ShardedBucket, void> {
    let found: FoundBucket[] = []
    let count = 0
    for await (const {entity, resource, shard} of addresses) {
      let bucket = found.at(-1)
      if (bucket?.entity !== entity || bucket.resource !== resource) {
        if (count >= SHARDS_PER_READ) {
          yield* await this.#read(found, options)
          found = []
          count = 0
        }
        // An index lags behind; shard 0 says how many there are.
        bucket = {entity, resource, known: new Set([0])}
        found.push(bucket)
      }
      bucket.known.add(shard)
      count++
    }
    yield* await this.#read(found, options)
  }

  /** Reads the shards that are known, then those that shard 0 tells of besides. */
  async #read(found: readonly FoundBucket[], {signal}: WalkOptions): Promise<ShardedBucket[]> {
    const {transport, name, backoff, namespace} = this.#table
    const shardsOf = new Map(found.map(bucket => [bucketId(bucket), [] as StoredBucket[]]))
    const read = async (missing: (bucket: FoundBucket) => Iterable<number>) => {
      const wanted = found.flatMap(bucket =>
        Array.from(missing(bucket), shard => keys.bucket(namespace, bucket.entity, bucket.resource, shard)),
      )
      for (const item of (await batchGet(transport, name, wanted, {backoff, consistent: true, signal})).values()) {
        const stored = decodeBucket(item)
        if (stored) shardsOf.get(bucketId(addressOf(stored)))?.push(stored)
      }
    }
    await read(bucket => bucket.known)
    const countOf = (bucket: FoundBucket) => shardCountOf(shardsOf.get(bucketId(bucket)) ?? [])
    await read(bucket => {
      const counted = Array.from({length: Math.min(countOf(bucket), MAX_SHARDS)}, (_, shard) => shard)
      return counted.filter(shard => !bucket.known.has(shard))
    })
    return found.flatMap(bucket => {
      const shards = shardsOf.get(bucketId(bucket)) ?? []
      if (shards.length === 0) return []
      shards.sort((a, b) => addressOf(a).shard - addressOf(b).shard)
      return [{entity: bucket.entity, resource: bucket.resource, shardCount: shardCountOf(shards), shards}]
    })
  }
}

/** Shard 0 has the last word; where it is missing, the most that any shard says. */
export function shardCountOf(shards: readonly StoredBucket[]): number {
  const counts = shards.map(shard => (shard.kind === 'bucket' ? shard.record.shardCount : 1))
  const first = shards.findIndex(shard => shard.kind === 'bucket' && shard.record.shard === 0)
  return counts[first] ?? Math.max(1, ...counts)
}

const bucketId = ({entity, resource}: Pick<BucketAddress, 'entity' | 'resource'>): string => `${entity}#${resource}`
