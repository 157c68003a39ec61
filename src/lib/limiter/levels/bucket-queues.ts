import type {Amounts} from '../../core/buckets/bucket.js'
import {grantedForFewer, shouldGrow} from '../../core/buckets/shards.js'
import {kindedRateOf} from '../../core/calendar/kind-definition.js'
import type {Limit} from '../../core/limits/limit.js'
import type {KindedRate} from '../../core/limits/limit-kind.js'
import {spreadSessions} from '../../repository/buckets/session-spread.js'
import {type BucketAddress, MARK_SLOTS, type WriteMark} from '../../repository/buckets/writes.js'
import {Lru} from '../../repository/table/lru.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {type Family, isOlderGeneration} from '../../schema/family.js'
import {BucketQueue} from '../queue/bucket-queue.js'
import type {SeenLoad} from '../queue/known-bucket.js'
import {FirstVisits, type QueueServices, ShardRepair} from '../queue/queue-services.js'
import {explainRefusal, type Refusal} from '../queue/refuse.js'
import {RefusalTally} from '../refusal/tally.js'
import type {Holding} from '../request/grant.js'
import type {AppliedLimits, LimitSource} from '../request/limit-source.js'
import type {LimiterSettings} from '../request/options.js'
import {
  type Deadline,
  type Demand,
  PendingRequest,
  type QueueAnswer,
  type Refused,
  ShardGone,
} from '../request/pending-request.js'

export interface BucketRequest {
  readonly entity: string
  readonly resource: string
  readonly amounts: Amounts
  readonly requests: 0 | 1
  readonly level: Demand['level']
  readonly isStrict: boolean
  readonly deadline: Deadline
}

interface BucketQueuesOptions {
  readonly table: NamespaceTable
  readonly settings: LimiterSettings
  readonly limits: LimitSource
  readonly entities: EntityCache
}

export class BucketQueues {
  readonly services: QueueServices
  readonly refusals: RefusalTally
  readonly #options: BucketQueuesOptions
  readonly #queues = new Map<string, BucketQueue>()
  /** Keys of queues without work, least recently used first. Only these may be dropped. */
  readonly #idle = new Set<string>()
  /** The last bucket seen per resource: most entities have the same limits. */
  readonly #lastOfResource: Lru<BucketRecord>
  readonly #changing = new Set<string>()
  readonly #background = new Set<Promise<void>>()
  /** Refunds an abandoned request's charge; `settled` waits for it. */
  readonly #finish = (abandoned: PendingRequest) => void this.run(abandoned.finished())

  constructor(options: BucketQueuesOptions) {
    const {table, settings, limits, entities} = options
    this.#options = options
    const {cacheSize} = settings
    this.#lastOfResource = new Lru({clock: table.clock, ttlMs: Number.POSITIVE_INFINITY, maxEntries: cacheSize})
    const shards = new ShardRepair({
      table,
      counts: entities,
      maxShards: settings.maxShards,
      onShardsChanged: ({entity, resource}, count) => {
        for (let shard = 0; shard <= count; shard++) this.find({entity, resource, shard})?.forget()
      },
    })
    const supposed: QueueServices['supposed'] = (address, last, inForce) => {
      const {entity, resource} = address
      const applied = inForce ?? limits.atHand(address)
      const seen = last ?? this.#lastOfResource.get(resource)
      const rates = applied
        ? ratesOf(applied.limits, table.clock())
        : (seen?.state.limits ?? new Map<string, KindedRate>())
      return {rates, shardCount: entities.shardCount(entity, resource)}
    }
    const onOpened: QueueServices['onOpened'] = (record, opened, startMs) =>
      void this.run(spreadSessions(table, record, opened, startMs))
    this.refusals = new RefusalTally({
      clock: table.clock,
      cacheSize,
      flush: bucket => this.at({...bucket, shard: 0}).writeRefusals(),
    })
    const nextMark = markSource(table.randomBytes)
    this.services = {
      table,
      settings,
      limits,
      shards,
      refusals: this.refusals,
      firstVisits: new FirstVisits(table.clock),
      nextMark,
      supposed,
      onSeen: (address, seen) => this.#onSeen(address, seen),
      onBusy: key => this.#idle.delete(key),
      onIdle: key => this.#keep(key),
      onOpened,
      giveBack: (address, amounts, charged) => this.run(this.at(address).giveBack(amounts, 0, charged)),
    }
  }

  /** Use it synchronously: idle queues may be dropped, and two busy ones of an item overwrite each other's marks. */
  at(address: BucketAddress): BucketQueue {
    const key = queueKey(address)
    const known = this.#queues.get(key)
    if (known) {
      if (this.#idle.delete(key)) this.#idle.add(key)
      return known
    }
    const queue = new BucketQueue(this.services, address, key)
    this.#makeRoom()
    this.#queues.set(key, queue)
    this.#idle.add(key)
    return queue
  }

  find(address: BucketAddress): BucketQueue | undefined {
    return this.#queues.get(queueKey(address))
  }

  get size(): number {
    return this.#queues.size
  }

  get knownStates(): number {
    let count = 0
    for (const queue of this.#queues.values()) if (queue.isTrusted) count++
    return count
  }

  /** Keeps the queues: settlements and refusals may be pending in them. */
  invalidate(): void {
    this.#lastOfResource.clear()
    for (const queue of this.#queues.values()) queue.invalidate()
  }

  get resources(): number {
    return this.#lastOfResource.size
  }

  knownRefusals(request: BucketRequest): KnownRefusals {
    return new KnownRefusals(this, request, this.#options.entities.shardCount(request.entity, request.resource))
  }

  /** No call if the shard is known to refuse. A missing shard falls back to shard 0. Throws after the deadline. */
  ask(shard: number, request: BucketRequest, known = this.knownRefusals(request)): QueueAnswer | Promise<QueueAnswer> {
    const {entity, resource, amounts, requests, level, isStrict, deadline} = request
    const refused = known.by(shard)
    if (refused) return refused
    deadline.check()
    const pending = new PendingRequest(amounts, level, requests, isStrict, this.#finish)
    this.at({entity, resource, shard}).ask(pending)
    deadline.watch(pending)
    if (shard === 0) return pending.answer
    return pending.answer.catch(error => {
      if (error instanceof ShardGone) return this.ask(0, request)
      throw error
    })
  }

  correct(holding: Holding, deltas: Amounts): Promise<void> {
    return this.at(holding.address).correct(deltas, 0, holding)
  }

  correctSoon(holding: Holding, deltas: Amounts): Promise<void> {
    return this.at(holding.address).correctSoon(deltas, holding)
  }

  /** Writes pending settlements now: of all queues, or of those with the given holdings. */
  hurry(holdings?: readonly Holding[]): void {
    const queues = holdings?.map(({address}) => this.find(address)) ?? this.#queues.values()
    for (const queue of queues) queue?.hurry()
  }

  /** Never rejects. */
  async refund(holdings: readonly Holding[]): Promise<void> {
    const returns = holdings.map(holding => {
      const {heldMilli, requests} = holding
      holding.heldMilli = new Map()
      holding.requests = 0
      return this.run(this.at(holding.address).giveBack(heldMilli, requests, holding))
    })
    await Promise.all(returns)
  }

  /** Tracks background work and ignores its failure; `settled` waits for it. */
  run(work: Promise<unknown>): Promise<void> {
    const done: Promise<void> = work.then(
      () => {},
      () => {},
    )
    this.#background.add(done)
    return done.finally(() => this.#background.delete(done))
  }

  async settled(): Promise<void> {
    for (;;) {
      const running = [...this.#queues.values()].flatMap(queue => queue.running ?? [])
      if (this.#background.size === 0 && running.length === 0) return
      await Promise.all([...this.#background, ...running])
    }
  }

  #onSeen(address: BucketAddress, {record, unitsPerSecond, isShared, largestRequestMilli}: SeenLoad): void {
    const {entities, settings} = this.#options
    const {shards} = this.services
    const {maxShards} = settings
    const {shardCount, state} = record
    if (shardCount > maxShards) {
      entities.notice({...record, shardCount: 1})
      this.#changeShards(address, () => shards.repairCount(address))
      return
    }
    entities.notice(record)
    this.#lastOfResource.set(address.resource, record)
    const isBehind = address.shard > 0 && shardCount < entities.shardCount(address.entity, address.resource)
    if (isBehind || grantedForFewer(record, this.#options.table.clock()).length > 0)
      this.#changeShards(address, () => shards.fill(address))
    if (unitsPerSecond === undefined) return
    const load = {unitsPerSecond, shardCount, limits: state.limits, largestRequestMilli, maxShards, isShared}
    if (shouldGrow(load).grow) this.#changeShards(address, () => shards.grow(address, shardCount))
  }

  /** At most one repair or split of a bucket runs at a time; further ones are triggered again later. */
  #changeShards({entity, resource}: BucketAddress, work: () => Promise<unknown>): void {
    const key = JSON.stringify([entity, resource])
    if (this.#changing.has(key)) return
    this.#changing.add(key)
    void this.run(work().finally(() => this.#changing.delete(key)))
  }

  /** Drops idle queues only: more queues than the cache size may have work at once. */
  #makeRoom(): void {
    for (const key of this.#idle) {
      if (this.#queues.size < this.#options.settings.cacheSize) return
      this.#queues.delete(key)
      this.#idle.delete(key)
    }
  }

  #keep(key: string): void {
    if (!this.#queues.has(key)) return
    if (this.#queues.size > this.#options.settings.cacheSize) this.#queues.delete(key)
    else this.#idle.add(key)
  }
}

/** Shards known to refuse a request without a call. Lookups are cached: create a new one after every call. */
export class KnownRefusals implements Demand {
  readonly asked: Amounts
  amounts: Amounts
  readonly level: Demand['level']
  readonly isStrict: boolean
  /** `null`: not known to refuse. `undefined`: not looked up yet. */
  readonly #byShard: (Refused | null | undefined)[]

  constructor(
    readonly queues: BucketQueues,
    readonly request: BucketRequest,
    readonly shardCount: number,
  ) {
    // Preallocated: a growing array reserves room for many more.
    this.#byShard = new Array(shardCount)
    this.asked = request.amounts
    this.amounts = request.amounts
    this.level = request.level
    this.isStrict = request.isStrict
  }

  by(shard: number): Refused | undefined {
    const known = this.#byShard[shard]
    if (known !== undefined) return known ?? undefined
    const {entity, resource} = this.request
    const refused = this.queues.find({entity, resource, shard})?.knownRefusal(this)
    this.#byShard[shard] = refused ?? null
    return refused
  }

  byAll(): Refusal | undefined {
    const records: BucketRecord[] = []
    let source: AppliedLimits['source'] | undefined
    let count = this.shardCount
    for (let shard = 0; shard < count; shard++) {
      const refused = this.by(shard)
      if (!refused) return undefined
      records.push(refused.record)
      source ??= refused.source
      // This process may have missed a split: the other shards may hold enough.
      count = Math.max(count, refused.record.shardCount)
    }
    const nowMs = this.queues.services.table.clock()
    const refusal = explainRefusal({records, amounts: this.amounts, nowMs, source}, this.level)
    return refusal.statuses.some(status => status.exceeded) ? refusal : undefined
  }
}

export class EntityCache {
  readonly #families: Lru<Family>
  /** Cascade by entity and resource, if it differs from the entity's other buckets. Every response shows it again. */
  readonly #policies: Lru<boolean>
  /** By entity and resource, unless 1. Never expires: the states of refusing shards are remembered as well. */
  readonly #shardCounts: Lru<number>

  constructor(options: {clock: () => number; ttlMs: number; maxEntries: number}) {
    this.#families = new Lru(options)
    this.#policies = new Lru({...options, ttlMs: Number.POSITIVE_INFINITY})
    this.#shardCounts = new Lru({...options, ttlMs: Number.POSITIVE_INFINITY})
  }

  get size(): number {
    return Math.max(this.#families.size, this.#policies.size, this.#shardCounts.size)
  }

  clear(): void {
    for (const cache of [this.#families, this.#policies, this.#shardCounts]) cache.clear()
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
    // Only shard 0 proves that there are fewer shards; the others may be behind.
    const before = this.shardCount(entity, resource)
    const count = record.shard === 0 ? shardCount : Math.max(before, shardCount)
    if (count !== before) this.setShardCount(entity, resource, count)
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

/** Marks unique across processes: a random stem and a counter. */
export function markSource(randomBytes: (count: number) => Uint8Array): () => WriteMark {
  const stem = Buffer.from(randomBytes(6)).toString('base64url')
  const slot = (randomBytes(1)[0] as number) % MARK_SLOTS
  const upTo = `${stem}~`
  let count = 0
  return () => {
    const digits = (count++).toString(36)
    // With their number first, more digits sort after fewer.
    return {slot, nonce: `${stem}${digits.length.toString(36)}${digits}`, upTo}
  }
}

const ratesOf = (limits: readonly Limit[], nowMs: number): Map<string, KindedRate> =>
  new Map(limits.map(limit => [limit.name, kindedRateOf(limit, nowMs)]))

function queueKey({entity, resource, shard}: BucketAddress): string {
  return `${entity}#${resource}#${shard}`
}
