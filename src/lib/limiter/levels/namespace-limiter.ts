import {type Amounts, sumAmounts} from '../../core/buckets/bucket.js'
import {withoutStack} from '../../core/errors.js'
import {groupBy} from '../../core/group-by.js'
import {longestOf} from '../../core/limits/limit-state.js'
import type {BucketName} from '../../core/names.js'
import {Aborted} from '../../dynamo/errors.js'
import {visibleLimits} from '../../repository/buckets/buckets.js'
import {readRealShards} from '../../repository/buckets/split.js'
import type {ConfigCache} from '../../repository/limits/cache.js'
import {ConfigResolver} from '../../repository/limits/resolver.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {chargedParent} from '../../schema/family.js'
import {MOST_LEVELS} from '../../schema/namespace-record.js'
import {exceedsCapacity, NO_SLOTS, type Slots, slotsWanted, sumSlots} from '../holders/slot-account.js'
import {impossibility, tooManySlots, topUpsOf} from '../queue/apply-limits.js'
import {needsLimits} from '../queue/known-bucket.js'
import {EntityCache} from '../queue/queue-services.js'
import {explainRefusal, lacksSlots, type Refusal} from '../queue/refuse.js'
import {RateLimitExceeded, RequestTooLarge, ResourceDisabled, unknownLimit} from '../refusal/errors.js'
import {type Grant, isCharged} from '../request/grant.js'
import type {LevelsSetting} from '../request/levels-setting.js'
import {LimitSource} from '../request/limit-source.js'
import type {LimiterSettings} from '../request/options.js'
import type {Booking, Deadline, Refused} from '../request/pending-request.js'
import {BucketQueues, type BucketRequest, KnownRefusals} from './bucket-queues.js'
import {ShardGatherer} from './gather.js'

const ONLY_SHARD = [0] as const

const SHARDS_TRIED = 3

interface NamespaceLimiterOptions {
  readonly table: NamespaceTable
  /** The same table, for reads that no write needs. Default: `table`. */
  readonly reading?: NamespaceTable
  readonly cache: ConfigCache
  readonly settings: LimiterSettings
  readonly levels: LevelsSetting
  readonly random: () => number
}

export interface EntityRequest {
  readonly entity: string
  readonly resource: string
  readonly amounts: Amounts
  /** 0 when a lease takes more for a request already counted. */
  readonly requests: 0 | 1
  readonly isStrict: boolean
  readonly deadline: Deadline
  /** In-flight limits of which it takes no slot. */
  readonly without?: ReadonlySet<string> | undefined
  readonly booking?: Booking | undefined
}

export interface CacheEntries {
  readonly queues: number
  readonly resources: number
  readonly seen: number
  readonly entities: number
  readonly configs: number
  readonly refusals: number
}

/** One cache of a limiter. */
export interface CacheUse {
  /** Cached records, including expired and absent ones. */
  readonly entries: number
  /** Records found in the cache, or in a read of another request that was under way. */
  readonly hits: number
  /** Records that were read. */
  readonly misses: number
}

/** The caches of a limiter. Counts start when the limiter first uses its namespace. */
export interface CacheStats {
  /** Stored limits, switches and settings: one record per scope. */
  readonly configs: CacheUse
  /** Stored entities with their parents. */
  readonly entities: CacheUse
  /** Known bucket states, one per shard. `refusals`: requests that they refused, without a write. */
  readonly buckets: {readonly entries: number; readonly refusals: number}
}

export type EntityAnswer = readonly Grant[] | RateLimitExceeded

/** Charges an entity and its ancestors, or none of them: if one refuses, the others are refunded. */
export class NamespaceLimiter {
  readonly table: NamespaceTable
  readonly settings: LimiterSettings
  readonly levels: LevelsSetting
  readonly resolver: ConfigResolver
  readonly limits: LimitSource
  readonly queues: BucketQueues
  readonly #configs: ConfigCache
  readonly #entities: EntityCache
  readonly #gatherer: ShardGatherer
  readonly #random: () => number
  #localRefusals = 0

  constructor({table, reading = table, cache, settings, levels, random}: NamespaceLimiterOptions) {
    const {clock} = table
    const {defaultLimits, configCheckMs, cacheSize} = settings
    this.table = table
    this.settings = settings
    this.levels = levels
    this.#configs = cache
    this.resolver = new ConfigResolver(reading, cache)
    this.limits = new LimitSource({
      table: reading,
      resolver: this.resolver,
      defaultLimits,
      levels,
      cacheMs: configCheckMs,
      cacheSize,
    })
    this.#entities = new EntityCache({clock, ttlMs: configCheckMs, maxEntries: cacheSize})
    this.queues = new BucketQueues({table, settings, limits: this.limits, entities: this.#entities})
    this.#gatherer = new ShardGatherer(this.queues)
    this.#random = random
  }

  get cacheEntries(): CacheEntries {
    const {size: queues, refusals} = this.queues
    const {size: seen, resources} = this.#entities
    const {size: configs} = this.#configs.statistics
    return {queues, resources, seen, entities: this.limits.size, configs, refusals: refusals.waiting}
  }

  get cacheStats(): CacheStats {
    const {hits, misses, size: entries} = this.#configs.statistics
    return {
      configs: {entries, hits, misses},
      entities: this.limits.cacheUse,
      buckets: {entries: this.queues.knownStates, refusals: this.#localRefusals},
    }
  }

  invalidate(): void {
    this.levels.expire()
    this.limits.invalidate()
    this.#entities.clear()
    this.queues.invalidate()
  }

  /** Returns the grants of the entity and its charged ancestors, nearest first; or the refusal, which is not thrown. */
  acquire(request: EntityRequest): EntityAnswer | Promise<EntityAnswer> {
    const answer = this.#acquire(request)
    return request.isStrict ? this.#requireCharged(request, answer) : answer
  }

  /** A limit that a strict request names may have been removed, or the entity moved, since the limits were read. */
  async #requireCharged({entity, resource, amounts}: EntityRequest, asked: EntityAnswer | Promise<EntityAnswer>) {
    const answer = await asked
    if (answer instanceof RateLimitExceeded) return answer
    const unknown = [...amounts.keys()].filter(name => !answer.some(grant => isCharged(grant, name)))
    if (unknown.length === 0) return answer
    await this.queues.refund(answer.flatMap(({holdings}) => holdings))
    const known = answer.flatMap(({record}) => [...visibleLimits(record).keys()])
    throw unknownLimit(entity, resource, unknown, known)
  }

  #acquire(request: EntityRequest): EntityAnswer | Promise<EntityAnswer> {
    const expected = this.#expectedAncestors(request)
    const own = new KnownRefusals(this.queues, atLevel(request, request.entity))
    if (expected.length > 0) return this.#acquireShared(request, own, expected)
    const refusal = own.byAll()
    if (!refusal) return this.#acquireOwn(request, own)
    this.#localRefusals++
    return exceeded([refusal])
  }

  async #acquireOwn(request: EntityRequest, known: KnownRefusals): Promise<EntityAnswer> {
    // Same as `#admit`, inlined: most requests need no more.
    const [first, ...others] = this.#someShards(known.shardCount)
    const answer = await this.queues.ask(first, known.request, known)
    const own = 'holdings' in answer ? answer : await this.#admitElsewhere(known.request, answer, others)
    if ('statuses' in own) return this.#exceeded(request, [own])
    return this.#isConfirmed([own]) ? [own] : this.#chargedAsStored(request, [own])
  }

  async #acquireShared(request: EntityRequest, own: KnownRefusals, expected: readonly string[]): Promise<EntityAnswer> {
    const known = [own, ...expected.map(entity => new KnownRefusals(this.queues, atLevel(request, entity)))]
    const refusals = known.flatMap(level => level.byAll() ?? [])
    if (refusals.length > 0) {
      const refusal = await this.#exceeded(request, refusals)
      if (this.#hasOtherAncestors(request, expected)) return this.#acquire(request)
      this.#localRefusals++
      return refusal
    }
    const asked = known.map(level => this.#admit(level))
    return this.#charge(request, asked, expected)
  }

  /** Charges all levels or none, as far as the charged buckets confirm the expected ancestors. */
  async #charge(
    request: EntityRequest,
    asked: readonly Promise<Grant | Refusal>[],
    expected: readonly string[],
  ): Promise<EntityAnswer> {
    const grants = await this.#allOrNothing(request, asked).catch(error => {
      if (isDecision(error) && this.#hasOtherAncestors(request, expected)) return undefined
      throw error
    })
    // A parent that the entity left, or that is no longer charged, must not refuse.
    // Planted fault: a former parent refuses
    if (!grants || (grants instanceof RateLimitExceeded && this.#hasOtherAncestors(request, expected)))
      return this.#acquire(request)
    const isDone = grants instanceof RateLimitExceeded || this.#isConfirmed(grants)
    return isDone ? grants : this.#chargedAsStored(request, grants)
  }

  /** Whether every charged bucket names the next charged level as its parent. */
  #isConfirmed(grants: readonly Grant[]): boolean {
    return this.#lastConfirmed(grants) === -1 && !(this.levels.isDue && this.#namesThird(grants))
  }

  /** Index of the level whose bucket names another parent than the one charged; -1 if there is none. */
  #lastConfirmed(grants: readonly Grant[]): number {
    return grants.findIndex((_, at) => this.#nextOf(grants, at) !== grants[at + 1]?.record.entity)
  }

  /** Refunds levels that the charged buckets no longer name, and charges those learnt from their answers. */
  async #chargedAsStored(request: EntityRequest, grants: readonly Grant[]): Promise<EntityAnswer> {
    if (this.levels.isDue) await this.#refreshLevels(request, grants)
    const last = this.#lastConfirmed(grants)
    if (last === -1) return grants
    const kept = grants.slice(0, last + 1)
    const next = this.#nextOf(grants, last)
    const path = kept.map(({record}) => record.entity)
    const late = next === undefined ? [] : [next, ...this.#knownAncestors([...path, next], request.resource)]
    const again = grants.slice(last + 1)
    const former = again.filter(({record}) => !late.includes(record.entity))
    // Planted fault: a former parent stays charged
    void this.queues.refund(former.flatMap(({holdings}) => holdings))
    const asked = late.map(entity => {
      const grant = again.find(({record}) => record.entity === entity)
      return grant ?? this.#admit(new KnownRefusals(this.queues, atLevel(request, entity)))
    })
    if (late.length === 0) return kept
    return this.#charge(
      request,
      [...kept, ...asked].map(each => Promise.resolve(each)),
      [...path.slice(1), ...late],
    )
  }

  /** The parent to charge after the level at this index, as its bucket says. */
  #nextOf(grants: readonly Grant[], at: number): string | undefined {
    // Planted fault: a grandparent is not charged
    if (at + 1 >= this.levels.most) return undefined
    const parent = chargedParent(this.#entities.familyOf((grants[at] as Grant).record))
    // Other clients can create cycles.
    return grants.slice(0, at + 1).some(({record}) => record.entity === parent) ? undefined : parent
  }

  #namesThird([, parent]: readonly Grant[]): boolean {
    return parent !== undefined && chargedParent(this.#entities.familyOf(parent.record)) !== undefined
  }

  async #refreshLevels({deadline}: EntityRequest, grants: readonly Grant[]): Promise<void> {
    try {
      await deadline.until(this.levels.refresh())
    } catch (error) {
      void this.queues.refund(grants.flatMap(({holdings}) => holdings))
      throw error
    }
  }

  /** Charges all parts or none: refunds if one refuses or fails, and asks none if one is known to refuse. */
  async acquireTogether(
    requests: readonly EntityRequest[],
    deadline: Deadline,
  ): Promise<readonly (readonly Grant[])[] | RateLimitExceeded> {
    if (this.#areKnownToRefuse(requests)) {
      const expected = await Promise.all(requests.map(request => this.#refusalExpected(request)))
      const refusals = await this.#refusalsTogether(
        requests,
        expected.filter(refusal => refusal !== undefined),
      )
      if (refusals.length > 0) return exceeded(refusals)
    }
    const outcomes = await Promise.allSettled(requests.map(request => this.acquire(request)))
    const answers = outcomes.flatMap(outcome => (outcome.status === 'fulfilled' ? [outcome.value] : []))
    const refusals = answers.filter(answer => answer instanceof RateLimitExceeded)
    const charged = answers.flatMap(answer => (answer instanceof RateLimitExceeded ? [] : [answer]))
    const isCharged = charged.length === requests.length
    const tooLarge = isCharged ? await this.#tooLargeTogether(requests, charged) : undefined
    if (isCharged && !tooLarge) {
      showLatest(charged.flat())
      return charged
    }
    const refunds = charged.map(grants => this.queues.refund(grants.flatMap(grant => grant.holdings)))
    const failure = outcomes.find(outcome => outcome.status === 'rejected')
    if (tooLarge || failure) throw tooLarge ?? failure?.reason
    // A caller that retries after the wait must not find the charges still there.
    await deadline.until(Promise.all(refunds)).catch(() => {})
    return exceeded(await this.#refusalsTogether(requests, refusals))
  }

  /** The parts of a request that charge one of these buckets; the first of its resource if no ancestors are known. */
  partsThatCharge<Part extends BucketName>(buckets: readonly BucketName[], parts: readonly Part[]): Part[] {
    const charging = new Set<Part>()
    for (const bucket of buckets) {
      const candidates = parts.filter(({resource}) => resource === bucket.resource)
      const known = candidates.filter(part => this.#levelsOf(part).some(({entity}) => entity === bucket.entity))
      for (const part of known.length > 0 ? known : candidates.slice(0, 1)) charging.add(part)
    }
    return parts.filter(part => charging.has(part))
  }

  #levelsOf({entity, resource}: BucketName): BucketName[] {
    return [entity, ...this.#expectedAncestors({entity, resource})].map(each => ({entity: each, resource}))
  }

  #areKnownToRefuse(requests: readonly EntityRequest[]): boolean {
    const levels = this.#allLevels(requests)
    return [...levels, ...chargedTwice(levels).map(sumOf)].some(
      level => new KnownRefusals(this.queues, level).byAll() !== undefined,
    )
  }

  #allLevels(requests: readonly EntityRequest[]): BucketRequest[] {
    return requests.flatMap(request => this.#levelsOf(request).map(({entity}) => atLevel(request, entity)))
  }

  /** For a bucket that several parts charge, the refusal of their sum: its wait is longer. */
  async #refusalsTogether(
    requests: readonly EntityRequest[],
    refusals: readonly Refusal[],
  ): Promise<readonly Refusal[]> {
    const shared = chargedTwice(this.#allLevels(requests))
    if (shared.length === 0) return refusals
    const sums = (await Promise.all(shared.map(levels => this.#refusalOfSum(levels)))).flatMap(sum => sum ?? [])
    const summed = new Set(sums.flatMap(({statuses}) => statuses.map(bucketKey)))
    const others = refusals.map(({statuses, retryAfterMs}) => ({
      statuses: statuses.filter(status => !summed.has(bucketKey(status))),
      retryAfterMs,
    }))
    return [...others, ...sums]
  }

  #refusalOfSum(levels: readonly BucketRequest[]): Promise<Refusal | undefined> {
    const demands = levels.map(({amounts: asked, without}) => ({asked, without, takesSlots: true}))
    const slots = (record: BucketRecord) => sumSlots(demands.map(demand => ({slots: slotsWanted(demand, record)})))
    return this.#refusalUnlessUnknown(sumOf(levels), slots)
  }

  /** Not even a full bucket holds the sum: it was admitted only because the bucket refilled between two charges. */
  async #tooLargeTogether(
    requests: readonly EntityRequest[],
    charged: readonly (readonly Grant[])[],
  ): Promise<unknown> {
    const all = charged.flatMap((grants, at) =>
      grants.map(({record}) => ({...atLevel(requests[at] as EntityRequest, record.entity), record})),
    )
    for (const levels of chargedTwice(all)) {
      const [{record}] = levels as [(typeof all)[0]]
      const known = [...sumAmounts(levels)].filter(([name]) => record.state.limits.has(name))
      if (!needsLimits(record, new Map(known), this.table.clock())) continue
      try {
        await this.#refusalOfSum(levels)
      } catch (error) {
        return error
      }
    }
    return undefined
  }

  /** The refusal a request would get, without making it; `undefined` if it would be admitted or nothing is known. */
  async #refusalExpected(request: EntityRequest): Promise<RateLimitExceeded | undefined> {
    const refusals = await this.#refusalsOf(request, new Map())
    return refusals.length > 0 ? exceeded(refusals) : undefined
  }

  #expectedAncestors({entity, resource}: BucketName): readonly string[] {
    const parent = chargedParent(this.#entities.family(entity, resource))
    if (parent === undefined || parent === entity) return NO_ANCESTORS
    return this.levels.most === MOST_LEVELS.parent
      ? [parent]
      : [parent, ...this.#knownAncestors([entity, parent], resource)]
  }

  /** The charged ancestors of the last entity of a path, nearest first, as far as they are known. */
  #knownAncestors(path: readonly string[], resource: string): string[] {
    const known: string[] = []
    const all = [...path]
    while (all.length < this.levels.most) {
      const parent = chargedParent(this.#entities.family(all.at(-1) as string, resource))
      if (parent === undefined || all.includes(parent)) break
      all.push(parent)
      known.push(parent)
    }
    return known
  }

  /** Whether another ancestor is known by now than one of those asked. */
  #hasOtherAncestors({entity, resource}: EntityRequest, asked: readonly string[]): boolean {
    const path = [entity, ...asked]
    return asked.some((ancestor, at) => {
      const family = this.#entities.family(path[at] as string, resource)
      return at + 1 >= this.levels.most || (family !== undefined && chargedParent(family) !== ancestor)
    })
  }

  async #admit(known: KnownRefusals): Promise<Grant | Refusal> {
    const [first, ...others] = this.#someShards(known.shardCount)
    const answer = await this.queues.ask(first, known.request, known)
    return 'holdings' in answer ? answer : this.#admitElsewhere(known.request, answer, others)
  }

  async #admitElsewhere(request: BucketRequest, first: Refused, shards: readonly number[]): Promise<Grant | Refusal> {
    const {entity, resource, level, deadline} = request
    deadline.check()
    let refused = first
    for (const shard of shards) {
      // All shards share the slots.
      if (lacksSlots(refused)) break
      const answer = await this.queues.ask(shard, request)
      if ('holdings' in answer) return answer
      deadline.check()
      refused = answer
    }
    const {record, amounts, slots, nowMs, source} = refused
    // Only the refusal names the parent of a bucket not created yet; the parent's wait counts as well.
    this.#entities.noticeFamily(record)
    const count = Math.max(this.#entities.shardCount(entity, resource), record.shardCount)
    if (count === 1 || lacksSlots(refused))
      return explainRefusal({records: [record], amounts, slots, nowMs, source}, level)
    const gathering = this.#gather(request, count)
    try {
      return await deadline.until(gathering)
    } finally {
      // An abandoned gather continues and refunds what it takes; closing waits for it.
      if (deadline.isOver) void this.queues.background.run(gathering)
    }
  }

  async #gather(request: BucketRequest, count: number): Promise<Grant | Refusal> {
    const gathered = await this.#gatherer.gather(request, count)
    const answer = 'holdings' in gathered ? await this.queues.withSlots(request, gathered) : gathered
    return 'record' in answer && !('holdings' in answer) ? explainRefusal(groundsOf(answer), request.level) : answer
  }

  #someShards(count: number): readonly [number, ...number[]] {
    if (count === 1) return ONLY_SHARD
    const shards = Array.from({length: count}, (_, shard) => shard)
    const tried = Array.from({length: Math.min(count, SHARDS_TRIED)}, () => {
      const [shard] = shards.splice(Math.floor(this.#random() * shards.length), 1)
      return shard as number
    })
    return tried as [number, ...number[]]
  }

  async #allOrNothing(request: EntityRequest, asked: readonly Promise<Grant | Refusal>[]): Promise<EntityAnswer> {
    const outcomes = await Promise.allSettled(asked)
    const answers = outcomes.flatMap(outcome => (outcome.status === 'fulfilled' ? [outcome.value] : []))
    const grants = answers.filter(answer => 'holdings' in answer)
    if (grants.length === asked.length) return grants
    // Planted fault: a refused parent leaves its child charged
    const refunds = grants.map(grant => this.queues.refund(grant.holdings))
    const failure = outcomes.find(outcome => outcome.status === 'rejected')
    if (failure) throw failure.reason
    // A caller that retries after the wait, maybe in another process, must not find the charge still there.
    if (refunds.length > 0) await request.deadline.until(Promise.all(refunds)).catch(() => {})
    const refusals = answers.filter(answer => 'statuses' in answer)
    return this.#exceeded(request, refusals, grants)
  }

  /** Adds the waits of levels not asked. The refusal stands even if these are not known in time. */
  async #exceeded(
    request: EntityRequest,
    refusals: readonly Refusal[],
    charged: readonly Grant[] = [],
  ): Promise<RateLimitExceeded> {
    // A level that was charged and refunded would admit: it adds no wait.
    const answered = new Map<string, Refusal | undefined>(charged.map(({record}) => [record.entity, undefined]))
    for (const refusal of refusals) {
      const [status] = refusal.statuses
      if (!status) return exceeded(refusals)
      answered.set(status.entity, refusal)
    }
    const all = await this.#refusalsOf(request, answered)
    return exceeded(all.length > 0 ? all : refusals)
  }

  /** The refusals of all levels, nearest first: those answered, and those that the others would give. */
  async #refusalsOf(request: EntityRequest, answered: Map<string, Refusal | undefined>): Promise<Refusal[]> {
    const levels = new Set([request.entity])
    for (;;) {
      // Reading one level may evict another from the cache.
      for (const ancestor of this.#expectedAncestors(request)) levels.add(ancestor)
      const others = [...levels].filter(entity => !answered.has(entity))
      if (others.length === 0) return [...levels].flatMap(entity => answered.get(entity) ?? [])
      const found = await Promise.all(others.map(entity => this.#refusalUnlessUnknown(atLevel(request, entity))))
      // Reading them may have shown further levels.
      for (const [at, entity] of others.entries()) answered.set(entity, found[at])
    }
  }

  async #refusalUnlessUnknown(
    level: BucketRequest,
    slots?: (record: BucketRecord) => Slots,
  ): Promise<Refusal | undefined> {
    return level.deadline.until(this.#expectedRefusal(level, slots)).catch(error => {
      if (isDecision(error) || error instanceof Aborted) throw error
      return undefined
    })
  }

  /** The refusal of a level not asked; `undefined` if it would admit. Throws `RequestTooLarge` if it never could. */
  async #expectedRefusal(
    {entity, resource, amounts, level}: BucketRequest,
    slotsOf: (record: BucketRecord) => Slots = () => NO_SLOTS,
  ): Promise<Refusal | undefined> {
    const records = this.#seenRecords(entity, resource) ?? (await this.#readRecords(entity, resource))
    const [first] = records
    const slots = first ? slotsOf(first) : NO_SLOTS
    if (!first || needsLimits(first, amounts, this.table.clock()) || exceedsCapacity(slots, first.slots))
      await this.#checkCapacity(entity, resource, amounts, records, slots)
    if (!first) return undefined
    const nowMs = this.table.clock()
    const refusal = explainRefusal({records, amounts, slots, nowMs, source: undefined}, level)
    return refusal.statuses.some(status => status.exceeded) ? refusal : undefined
  }

  async #checkCapacity(
    entity: string,
    resource: string,
    amounts: Amounts,
    records: readonly BucketRecord[],
    slots: Slots,
  ): Promise<void> {
    const applied = await this.limits.limitsOf(entity, resource)
    const known = new Map([...amounts].filter(([name]) => applied.limits.some(limit => limit.name === name)))
    const reason =
      impossibility({entity, resource}, known, applied, topUpsOf(records, this.table.clock())) ??
      tooManySlots({entity, resource}, slots, applied)
    if (reason) throw reason
  }

  #seenRecords(entity: string, resource: string): BucketRecord[] | undefined {
    const records: BucketRecord[] = []
    for (let shard = 0; shard < (records[0]?.shardCount ?? 1); shard++) {
      const bucket = this.queues.find({entity, resource, shard})?.bucket
      const state = bucket?.isFresh(this.table.clock()) ? bucket.state : undefined
      if (!state) return undefined
      if (!state.exists || state.seen.record.shardCount > this.settings.maxShards) return []
      records.push(state.seen.record)
    }
    return records
  }

  async #readRecords(entity: string, resource: string): Promise<BucketRecord[]> {
    const sinceMs = this.table.clock()
    const shards = await readRealShards(this.table, entity, resource, this.settings.maxShards)
    for (const [shard, record] of shards) {
      this.queues.at({entity, resource, shard}).bucket.learnRecord(record, sinceMs, this.table.clock())
      this.#entities.noticeFamily(record)
    }
    return [...shards.values()]
  }
}

const groundsOf = ({record, ...grounds}: Refused) => ({...grounds, records: [record]})

const NO_ANCESTORS: readonly string[] = []

const bucketKey = ({entity, resource}: BucketName): string => `${entity}#${resource}`

/** The levels of each bucket that several parts charge: themselves, or as the parent of others. */
const chargedTwice = <Level extends BucketRequest>(levels: readonly Level[]): Level[][] =>
  [...groupBy(levels, bucketKey).values()].filter(same => same.length > 1)

const sumOf = (levels: readonly BucketRequest[]): BucketRequest => ({
  ...((levels.find(({level}) => level === 'entity') ?? levels[0]) as BucketRequest),
  amounts: sumAmounts(levels),
})

/** Grants of the same item show its balance after the later charge (L6). */
function showLatest(grants: readonly Grant[]): void {
  const used = ({record: {state}}: Grant) =>
    [...state.limits.values()].reduce((sum, each) => sum + each.consumedMilli, 0n)
  for (const same of groupBy(grants, ({record}) => `${bucketKey(record)}#${record.shard}`).values()) {
    const latest = same.reduce((one, other) => (used(other) > used(one) ? other : one))
    for (const grant of same) grant.record = latest.record
  }
}

/** Field by field is faster than spreading; runs for every request. */
function atLevel(
  {entity: own, resource, amounts, requests, isStrict, deadline, without, booking}: EntityRequest,
  entity: string,
): BucketRequest {
  const level = entity === own ? 'entity' : 'parent'
  const isOwnStrict = isStrict && level === 'entity'
  return {entity, resource, amounts, requests, level, isStrict: isOwnStrict, deadline, without, booking}
}

function exceeded(refusals: readonly Refusal[]): RateLimitExceeded {
  const [first, ...others] = refusals as readonly [Refusal, ...Refusal[]]
  const statuses = others.length === 0 ? first.statuses : refusals.flatMap(refusal => refusal.statuses)
  const retryAfterMs = longestOf(refusals.map(refusal => refusal.retryAfterMs))
  return withoutStack(() => new RateLimitExceeded(statuses, retryAfterMs))
}

/** Whether the configuration refuses, as opposed to an outage. */
function isDecision(error: unknown): boolean {
  return error instanceof RequestTooLarge || error instanceof ResourceDisabled
}
