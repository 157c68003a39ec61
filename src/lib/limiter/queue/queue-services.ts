import {grantedForFewer, shouldGrow} from '../../core/buckets/shards.js'
import {kindedRateOf} from '../../core/calendar/kind-definition.js'
import type {KindedRate} from '../../core/limits/limit-kind.js'
import {Throttled, TransactionCancelled} from '../../dynamo/errors.js'
import {fillMissingShards, healShardCount, splitBucket} from '../../repository/buckets/split.js'
import type {BucketAddress, WriteMark} from '../../repository/buckets/writes.js'
import {Lru} from '../../repository/table/lru.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {type Family, isOlderGeneration} from '../../schema/family.js'
import type {Holders} from '../holders/holder.js'
import type {Reaper} from '../holders/reaper.js'
import type {Reservations} from '../holders/reservations.js'
import type {RefusalTally} from '../refusal/tally.js'
import type {Holding} from '../request/grant.js'
import type {AppliedLimits, LimitSource} from '../request/limit-source.js'
import type {LimiterSettings} from '../request/options.js'
import type {SeenLoad} from './known-bucket.js'
import type {SupposedBucket} from './next-step.js'

export interface QueueServices {
  readonly table: NamespaceTable
  readonly settings: LimiterSettings
  readonly limits: LimitSource
  readonly entities: EntityCache
  readonly shards: ShardRepair
  readonly refusals: RefusalTally
  readonly firstVisits: FirstVisits
  readonly background: Background
  readonly nextMark: () => WriteMark
  readonly holders: Holders
  readonly reaper: Reaper
  readonly reservations: Reservations
  /** Refunds a charge and returns its slots; never rejects. */
  readonly refund: (holding: Holding) => Promise<void>
}

const MOST_RESOURCES = 1000

/** Wasted minus useful first writes: from this count on, buckets are read first; and its maximum. */
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

/** Work that no caller waits for. Its failures are ignored. */
export class Background {
  readonly #running = new Set<Promise<void>>()

  get isIdle(): boolean {
    return this.#running.size === 0
  }

  run(work: Promise<unknown>): Promise<void> {
    const done: Promise<void> = work.then(
      () => {},
      () => {},
    )
    this.#running.add(done)
    return done.finally(() => this.#running.delete(done))
  }

  async settled(): Promise<void> {
    await Promise.all(this.#running)
  }
}

export class EntityCache {
  readonly #families: Lru<Family>
  /** Cascade by entity and resource, if it differs from the entity's other buckets. Every response shows it again. */
  readonly #policies: Lru<boolean>
  /** By entity and resource, unless 1. Never expires: the states of refusing shards are remembered as well. */
  readonly #shardCounts: Lru<number>
  /** The last bucket seen per resource: most entities have the same limits. */
  readonly #lastOfResource: Lru<BucketRecord>
  readonly #clock: () => number

  constructor(options: {clock: () => number; ttlMs: number; maxEntries: number}) {
    this.#families = new Lru(options)
    this.#policies = new Lru({...options, ttlMs: Number.POSITIVE_INFINITY})
    this.#shardCounts = new Lru({...options, ttlMs: Number.POSITIVE_INFINITY})
    this.#lastOfResource = new Lru({...options, ttlMs: Number.POSITIVE_INFINITY})
    this.#clock = options.clock
  }

  get size(): number {
    return Math.max(this.#families.size, this.#policies.size, this.#shardCounts.size)
  }

  clear(): void {
    for (const cache of [this.#families, this.#policies, this.#shardCounts, this.#lastOfResource]) cache.clear()
  }

  get resources(): number {
    return this.#lastOfResource.size
  }

  /** Assumes that an unseen resource has the family of the entity's other buckets. */
  family(entity: string, resource: string): Family | undefined {
    const family = this.#families.get(entity)
    const cascade = family && this.#policies.get(`${entity}#${resource}`)
    return cascade === undefined ? family : {...family, parent: family?.parent, cascade}
  }

  /** A shard that a move has not reached yet still names the previous parent. */
  familyOf(record: BucketRecord): Family {
    const known = this.#families.get(record.entity)
    const isOutdated = known && isOlderGeneration(record.parentGeneration, known.parentGeneration)
    return isOutdated ? {...known, cascade: record.cascade} : record
  }

  shardCount(entity: string, resource: string): number {
    return this.#shardCounts.get(`${entity}#${resource}`) ?? 1
  }

  notice(record: BucketRecord): void {
    const {entity, resource, shardCount} = record
    this.noticeFamily(record)
    this.#lastOfResource.set(resource, record)
    // Only shard 0 proves that there are fewer shards; the others may be behind.
    const before = this.shardCount(entity, resource)
    const count = record.shard === 0 ? shardCount : Math.max(before, shardCount)
    if (count !== before) this.setShardCount(entity, resource, count)
  }

  /** Predicted state of an unread bucket, from its last seen record and the limits that it must have. */
  suppose(
    {entity, resource}: BucketAddress,
    last: BucketRecord | undefined,
    applied: AppliedLimits | undefined,
  ): SupposedBucket {
    const seen = last ?? this.#lastOfResource.get(resource)
    const nowMs = this.#clock()
    const rates = applied
      ? new Map(applied.limits.map(limit => [limit.name, kindedRateOf(limit, nowMs)]))
      : (seen?.state.limits ?? new Map<string, KindedRate>())
    return {rates, shardCount: this.shardCount(entity, resource)}
  }

  noticeFamily({entity, resource, cascade, parent, parentGeneration}: BucketRecord): void {
    const known = this.#families.get(entity)
    if (isOlderGeneration(parentGeneration, known?.parentGeneration)) return
    const isKnown = known?.parent === parent && !isOlderGeneration(known?.parentGeneration, parentGeneration)
    if (!known || !isKnown) this.#families.set(entity, {cascade, parent, parentGeneration})
    const key = `${entity}#${resource}`
    if (!known || !isKnown || known.cascade === cascade) this.#policies.delete(key)
    else if (this.#policies.get(key) !== cascade) this.#policies.set(key, cascade)
  }

  setShardCount(entity: string, resource: string, count: number): void {
    const key = `${entity}#${resource}`
    if (count === 1) this.#shardCounts.delete(key)
    else this.#shardCounts.set(key, count)
  }
}

export interface ShardRepairOptions {
  readonly table: NamespaceTable
  readonly entities: EntityCache
  readonly background: Background
  readonly maxShards: number
  /** Known states of shards 0 to `count` were computed with another share. */
  readonly forget: (bucket: Omit<BucketAddress, 'shard'>, count: number) => void
}

/** Splits hot buckets, and repairs the shards of others. */
export class ShardRepair {
  readonly #options: ShardRepairOptions
  readonly #changing = new Set<string>()

  constructor(options: ShardRepairOptions) {
    this.#options = options
  }

  notice(address: BucketAddress, {record, unitsPerSecond, isShared, largestRequestMilli}: SeenLoad): void {
    const {table, entities, maxShards} = this.#options
    const {shardCount, state} = record
    if (shardCount > maxShards) {
      entities.notice({...record, shardCount: 1})
      this.#change(address, () => this.repairCount(address))
      return
    }
    entities.notice(record)
    const isBehind = address.shard > 0 && shardCount < entities.shardCount(address.entity, address.resource)
    if (isBehind || grantedForFewer(record, table.clock()).length > 0) this.#change(address, () => this.fill(address))
    if (unitsPerSecond === undefined) return
    const load = {unitsPerSecond, shardCount, limits: state.limits, largestRequestMilli, maxShards, isShared}
    if (shouldGrow(load).grow) this.#change(address, () => this.#grow(address, shardCount))
  }

  /** Creates missing shards from tokens of the others; false if the bucket has no such shard. */
  async fill(address: BucketAddress): Promise<boolean> {
    const {table, entities, maxShards, forget} = this.#options
    const {entity, resource, shard} = address
    const count = await asOutage(fillMissingShards(table, entity, resource, maxShards))
    if (count > maxShards) await this.repairCount(address)
    else entities.setShardCount(entity, resource, Math.max(1, count))
    forget(address, count)
    return shard < entities.shardCount(entity, resource)
  }

  async repairCount(address: BucketAddress): Promise<void> {
    const {table, maxShards} = this.#options
    this.#setCount(address, await asOutage(healShardCount(table, address.entity, address.resource, maxShards)))
  }

  async #grow(address: BucketAddress, count: number): Promise<void> {
    this.#setCount(address, await splitBucket(this.#options.table, address.entity, address.resource, count))
  }

  #setCount(address: BucketAddress, count: number): void {
    const {entities, forget} = this.#options
    entities.setShardCount(address.entity, address.resource, count)
    forget(address, count)
  }

  /** At most one repair or split of a bucket runs at a time; further ones are triggered again later. */
  #change({entity, resource}: BucketAddress, work: () => Promise<unknown>): void {
    const key = JSON.stringify([entity, resource])
    if (this.#changing.has(key)) return
    this.#changing.add(key)
    void this.#options.background.run(work().finally(() => this.#changing.delete(key)))
  }
}

/** To callers, losing every race is an outage: requests end in a decision, not in a conflict. */
function asOutage<T>(work: Promise<T>): Promise<T> {
  return work.catch(error => {
    throw error instanceof TransactionCancelled ? new Throttled('acquire', error) : error
  })
}
