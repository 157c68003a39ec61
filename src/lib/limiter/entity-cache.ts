import {Lru} from '../repository/table/lru.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import type {Family} from './context.js'

interface KnownEntity extends Family {
  readonly shardCounts: Map<string, number>
}

/** What answers have shown of entities: whom they share a budget with, and how many shards their buckets have. */
export class EntityCache {
  readonly #entities: Lru<KnownEntity>

  constructor(options: {clock: () => number; ttlMs: number; maxEntries?: number}) {
    this.#entities = new Lru({maxEntries: 10_000, ...options})
  }

  family(entity: string): Family | undefined {
    return this.#entities.get(entity)
  }

  /** 1 as long as nothing else was seen. */
  shardCount(entity: string, resource: string): number {
    return this.#entities.get(entity)?.shardCounts.get(resource) ?? 1
  }

  /** Learns from the state of a bucket. */
  notice(record: BucketRecord): void {
    const {entity, resource, cascade, parent, shardCount} = record
    const known = this.#entities.get(entity)
    // Only shard 0 has the last word on fewer shards; the others may be behind.
    const before = known?.shardCounts.get(resource) ?? 1
    const count = record.shard === 0 ? shardCount : Math.max(before, shardCount)
    if (known && known.cascade === cascade && known.parent === parent && before === count) return
    const shardCounts = new Map(known?.shardCounts).set(resource, count)
    this.#entities.set(entity, {cascade, parent, shardCounts})
  }

  setShardCount(entity: string, resource: string, count: number): void {
    this.#entities.get(entity)?.shardCounts.set(resource, count)
  }

  forget(entity: string): void {
    this.#entities.delete(entity)
  }
}
