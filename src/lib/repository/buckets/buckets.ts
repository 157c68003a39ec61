import type {BucketLimit} from '../../core/buckets/bucket.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {batchGet} from '../../dynamo/batch.js'
import {queryItems} from '../../dynamo/paging.js'
import {type BucketRecord, decodeBucket, type StoredBucket} from '../../schema/bucket-record.js'
import {type ConfigScope, levelOf} from '../../schema/config-record.js'
import {keys, parseItemKey} from '../../schema/keys.js'
import {type KeyRange, ranges} from '../../schema/ranges.js'
import {getItem, type NamespaceTable} from '../table/table.js'
import {addressQuery, type CountedShard, countedShard} from './pages.js'
import type {BucketAddress} from './writes.js'

/** A larger shard count is another client's fault (D-1); then the index lists the existing shards. */
export const MAX_SHARDS = 1024

/** Bounds the memory of listing a whole namespace. */
const SHARDS_PER_READ = 100

const ADDRESSES_PER_PAGE = 1000

export interface ShardedBucket {
  readonly entity: string
  readonly resource: string
  /** As stored in shard 0; if that is missing, the largest count of any shard. */
  readonly shardCount: number
  /** Existing shards by number, including ghosts. */
  readonly shards: readonly CountedShard[]
}

interface FoundBucket {
  readonly entity: string
  readonly resource: string
  readonly known: Set<number>
}

interface WalkOptions {
  readonly signal?: AbortSignal | undefined
}

export interface BucketListing extends WalkOptions {
  readonly after?: string | undefined
  /** Stop after about this many buckets. Default: read all. */
  readonly wanted?: number | undefined
  /** Eventually consistent reads, at half the price. */
  readonly isEventual?: boolean | undefined
}

export function visibleLimits(record: BucketRecord): Map<string, BucketLimit> {
  return new Map([...record.state.limits].filter(([name]) => name !== WRITE_PRESSURE_LIMIT))
}

export function addressOf(stored: StoredBucket): BucketAddress {
  return stored.kind === 'bucket' ? stored.record : stored
}

export class Buckets {
  readonly #table: NamespaceTable

  constructor(table: NamespaceTable) {
    this.#table = table
  }

  async get(entity: string, resource: string, shard: number): Promise<StoredBucket | undefined> {
    const item = await getItem(this.#table, keys.bucket(this.#table.namespace, entity, resource, shard))
    return item && decodeBucket(item)
  }

  async find(entity: string, resource: string, options: WalkOptions = {}): Promise<ShardedBucket | undefined> {
    const known = new Set([0])
    for await (const address of this.#addressesOfEntity(entity, resource, options)) known.add(address.shard)
    const [bucket] = await this.#read([{entity, resource, known}], options)
    return bucket
  }

  /** Buckets without shard 0 are missing. */
  findMany(pairs: readonly Pick<ShardedBucket, 'entity' | 'resource'>[]): Promise<ShardedBucket[]> {
    return this.#read(
      pairs.map(({entity, resource}) => ({entity, resource, known: new Set([0])})),
      {},
    )
  }

  ofEntity(entity: string, options: WalkOptions = {}): AsyncGenerator<ShardedBucket, void> {
    return this.#gather(this.#addressesOfEntity(entity, undefined, options), options)
  }

  ofResource(resource: string, options: BucketListing = {}): AsyncGenerator<ShardedBucket, void> {
    return this.#gather(this.#addresses(ranges.bucketsOfResource(this.#table.namespace, resource), options), options)
  }

  ofNamespace(options: WalkOptions = {}): AsyncGenerator<ShardedBucket, void> {
    return this.#gather(this.#addresses(ranges.buckets(this.#table.namespace), options), options)
  }

  #addressesOfEntity(entity: string, resource: string | undefined, options: WalkOptions) {
    return this.#addresses(ranges.bucketsOfEntity(this.#table.namespace, entity, resource), options)
  }

  async *#addresses(
    range: Required<KeyRange>,
    {signal, after, wanted = ADDRESSES_PER_PAGE}: BucketListing,
  ): AsyncGenerator<BucketAddress, void> {
    const {transport, backoff} = this.#table
    const query = {...addressQuery(this.#table, range, after), Limit: Math.min(ADDRESSES_PER_PAGE, wanted)}
    for await (const item of queryItems(transport, query, {backoff, signal})) {
      const key = parseItemKey(item)
      if (key?.record === 'bucket') yield key
    }
  }

  /** In every index the shards of one bucket are adjacent, so a bucket is complete when the next begins. */
  async *#gather(addresses: AsyncIterable<BucketAddress>, options: BucketListing): AsyncGenerator<ShardedBucket, void> {
    const perRead = Math.min(SHARDS_PER_READ, options.wanted ?? SHARDS_PER_READ)
    let found: FoundBucket[] = []
    let count = 0
    for await (const {entity, resource, shard} of addresses) {
      let bucket = found.at(-1)
      if (bucket?.entity !== entity || bucket.resource !== resource) {
        if (count >= perRead) {
          yield* await this.#read(found, options)
          found = []
          count = 0
        }
        // An index is eventually consistent; shard 0 has the real number of shards.
        bucket = {entity, resource, known: new Set([0])}
        found.push(bucket)
      }
      bucket.known.add(shard)
      count++
    }
    yield* await this.#read(found, options)
  }

  async #read(found: readonly FoundBucket[], {signal, isEventual}: BucketListing): Promise<ShardedBucket[]> {
    const {transport, name, backoff, namespace} = this.#table
    const shardsOf = new Map(found.map(bucket => [bucketId(bucket), [] as CountedShard[]]))
    const read = async (missing: (bucket: FoundBucket) => Iterable<number>) => {
      const wanted = found.flatMap(bucket =>
        Array.from(missing(bucket), shard => keys.bucket(namespace, bucket.entity, bucket.resource, shard)),
      )
      const options = {backoff, consistent: !isEventual, signal}
      for (const item of (await batchGet(transport, name, wanted, options)).values()) {
        const stored = countedShard(item)
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

export function shardCountOf(shards: readonly StoredBucket[]): number {
  const counts = shards.map(shard => (shard.kind === 'bucket' ? shard.record.shardCount : 1))
  const first = shards.findIndex(shard => shard.kind === 'bucket' && shard.record.shard === 0)
  return counts[first] ?? Math.max(1, ...counts)
}

const bucketId = ({entity, resource}: Pick<BucketAddress, 'entity' | 'resource'>): string => `${entity}#${resource}`

/** Buckets that limits of a scope may apply to, including those with limits of a more specific level. */
export async function* bucketsOfScope(
  buckets: Buckets,
  scope: ConfigScope,
  signal?: AbortSignal,
): AsyncGenerator<ShardedBucket, void> {
  if (scope.level === 'system') yield* buckets.ofNamespace({signal})
  else if (scope.level === 'resource') yield* buckets.ofResource(scope.resource, {signal})
  else if (levelOf(scope) === 'entity_default') yield* buckets.ofEntity(scope.entity, {signal})
  else {
    const bucket = await buckets.find(scope.entity, scope.resource, {signal})
    if (bucket) yield bucket
  }
}
