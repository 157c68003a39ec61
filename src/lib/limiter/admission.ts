import type {Amounts} from '../core/bucket.js'
import {shouldGrow} from '../core/shard-growth.js'
import {isRetryable} from '../dynamo/errors.js'
import {retrying} from '../dynamo/retry.js'
import {fillMissingShards, healShardCount, splitBucket} from '../repository/buckets/split.js'
import type {BucketAddress, WriteMark} from '../repository/buckets/writes.js'
import type {NamespaceTable} from '../repository/table/table.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import {negated} from './amounts.js'
import {BucketQueue} from './bucket-queue.js'
import {
  type AppliedLimits,
  type Family,
  type LimiterContext,
  type LimiterSettings,
  type Load,
  markSource,
} from './context.js'
import type {Deadline} from './deadline.js'
import type {EntityCache} from './entity-cache.js'
import {gather} from './gather.js'
import type {Grant, Holding} from './grant.js'
import {PendingRequest, ShardGone, type Verdict} from './pending-request.js'
import {explainRefusal, type Refusal} from './refusal.js'

/** Desks kept; the longest unused idle ones go first. */
const MOST_DESKS = 10_000

/** Shards asked one by one before all of them are looked at together. */
const SHARDS_TRIED = 3

export interface AdmissionOptions {
  readonly table: NamespaceTable
  readonly entities: EntityCache
  readonly settings: LimiterSettings
  /** Whether requests for one bucket share a write. */
  readonly merge: boolean
  readonly random: () => number
  readonly limitsOf: (entity: string, resource: string) => Promise<AppliedLimits>
  readonly familyOf: (entity: string) => Promise<Family>
}

export interface AdmissionRequest {
  readonly entity: string
  readonly resource: string
  readonly amounts: Amounts
  /** 0 when more is taken for a request that was counted before. */
  readonly requests: 0 | 1
  readonly level: 'entity' | 'parent'
  readonly patience: Deadline
}

/** Admits at one level: chooses the shard, tries others, gathers from all, and lets hot buckets grow. */
export class Admission implements LimiterContext {
  readonly table: NamespaceTable
  readonly settings: LimiterSettings
  readonly nextMark: () => WriteMark
  readonly limitsOf: AdmissionOptions['limitsOf']
  readonly familyOf: AdmissionOptions['familyOf']
  readonly #options: AdmissionOptions
  readonly #desks = new Map<string, BucketQueue>()
  readonly #growing = new Set<string>()
  readonly #gathering = new Map<string, Promise<void>>()
  readonly #background = new Set<Promise<void>>()

  constructor(options: AdmissionOptions) {
    this.#options = options
    this.table = options.table
    this.settings = options.settings
    this.limitsOf = options.limitsOf
    this.familyOf = options.familyOf
    this.nextMark = markSource(options.table.randomBytes)
  }

  /** A grant, or why not. */
  async admit(request: AdmissionRequest): Promise<Grant | Refusal> {
    const {entity, resource, level, patience} = request
    const count = this.#options.entities.shardCount(entity, resource)
    const refused: (Verdict & {admitted: false})[] = []
    for (const shard of this.#someShards(count)) {
      const verdict = await this.#ask({entity, resource, shard}, request)
      if (verdict.admitted) return grantOf(verdict)
      refused.push(verdict)
      patience.check()
    }
    const last = refused.at(-1) as Verdict & {admitted: false}
    const countNow = this.#options.entities.shardCount(entity, resource)
    if (countNow === 1) return explainRefusal({...last, records: [last.record]}, level)
    return this.#left(
      this.#oneByOne(entity, resource, () => this.#gather({...request, amounts: last.amounts}, countNow)),
      patience,
    )
  }

  /** All shards together. What is read is remembered, so that those who wait behind need no look of their own. */
  async #gather(request: AdmissionRequest, count: number): Promise<Grant | Refusal> {
    const {entity, resource, amounts, requests, level, patience} = request
    patience.check()
    const known = this.knownRefusal(request)
    if (known) return known
    const gathered = await gather(this, {
      entity,
      resource,
      count,
      amounts,
      requests,
      fromOne: async (record, sinceMs) => {
        const address = {entity, resource, shard: record.shard}
        this.desk(address).learnRecord(record, sinceMs)
        const verdict = await this.#ask(address, request)
        return verdict.admitted ? grantOf(verdict) : undefined
      },
      // What the desk knows is from before the transaction.
      wrote: (shard, mark) => this.desk({entity, resource, shard}).forget(mark),
    })
    if ('grant' in gathered) {
      const {entries} = gathered.grant
      // Nobody waits any more: what was taken goes back before the reason is thrown.
      if (patience.isOver) this.refund(entries)
      patience.check()
      return gathered.grant
    }
    for (const record of gathered.records) {
      this.desk({entity, resource, shard: record.shard}).learnRecord(record, gathered.sinceMs)
    }
    return explainRefusal({...gathered, amounts}, level)
  }

  /** Looks at all shards of one bucket come one after the other: side by side they would only disturb each other. */
  async #oneByOne<T>(entity: string, resource: string, work: () => Promise<T>): Promise<T> {
    const key = `${entity}#${resource}`
    const mine = (this.#gathering.get(key) ?? Promise.resolve()).then(work)
    const tail = mine.then(
      () => {},
      () => {},
    )
    this.#gathering.set(key, tail)
    try {
      return await mine
    } finally {
      if (this.#gathering.get(key) === tail) this.#gathering.delete(key)
    }
  }

  /** A refusal that needs no call, because all that is known of every shard is too little. */
  knownRefusal({
    entity,
    resource,
    amounts,
    level,
  }: Omit<AdmissionRequest, 'patience' | 'requests'>): Refusal | undefined {
    if (!this.#options.merge) return undefined
    const count = this.#options.entities.shardCount(entity, resource)
    const records: BucketRecord[] = []
    let source: AppliedLimits['source'] | undefined
    const ticket = new PendingRequest(amounts, level === 'parent')
    for (let shard = 0; shard < count; shard++) {
      const desk = this.#desks.get(deskKey({entity, resource, shard}))
      const denial = desk?.denial(ticket)
      if (!denial || denial.admitted) return undefined
      records.push(denial.record)
      source ??= denial.source
    }
    const nowMs = this.table.clock()
    const refusal = explainRefusal({records, amounts: ticket.amounts, nowMs, source}, level)
    return refusal.statuses.some(status => status.exceeded) ? refusal : undefined
  }

  async refund(entries: readonly Holding[]): Promise<void> {
    const returns = entries.map(entry => {
      const deltas = negated(entry.heldMilli)
      const requests = -entry.requests
      entry.heldMilli.clear()
      entry.requests = 0
      const attempt = () => this.desk(entry.address).correct(deltas, requests)
      return this.#run(retrying(attempt, {...this.table.backoff, attempts: 10, retryable: isRetryable}))
    })
    await Promise.all(returns)
  }

  /** Resolves when nothing is under way: no write, no refund, no split. */
  async settled(): Promise<void> {
    for (;;) {
      const serving = [...this.#desks.values()].flatMap(desk => desk.serving ?? [])
      if (this.#background.size === 0 && serving.length === 0) return
      await Promise.all([...this.#background, ...serving])
    }
  }

  /** The conversation with one bucket item. */
  desk(address: BucketAddress): BucketQueue {
    if (!this.#options.merge) return new BucketQueue(this, address)
    const key = deskKey(address)
    const known = this.#desks.get(key)
    const desk = known ?? new BucketQueue(this, address)
    if (known) this.#desks.delete(key)
    this.#desks.set(key, desk)
    if (this.#desks.size > MOST_DESKS) this.#dismissIdle()
    return desk
  }

  noticed(address: BucketAddress, record: BucketRecord, {unitsPerSecond, largestRequestMilli}: Load): void {
    const {entities} = this.#options
    const isSane = record.shardCount <= this.settings.maxShards
    entities.notice(isSane ? record : {...record, shardCount: 1})
    if (!isSane) this.#once(address, () => this.healShardCount(address))
    const isBehind = address.shard > 0 && record.shardCount < entities.shardCount(address.entity, address.resource)
    if (isSane && isBehind) this.#once(address, async () => void (await this.fillShard(address)))
    if (!isSane || unitsPerSecond === undefined) return
    const {maxShards} = this.settings
    const {shardCount, state} = record
    const answer = shouldGrow({unitsPerSecond, shardCount, limits: state.limits, largestRequestMilli, maxShards})
    if (answer.grow) this.#once(address, () => this.#grow(address, record.shardCount))
  }

  async fillShard(address: BucketAddress): Promise<boolean> {
    const {entity, resource, shard} = address
    const {maxShards} = this.settings
    const count = await fillMissingShards(this.table, entity, resource, maxShards)
    if (count > maxShards) await this.healShardCount(address)
    else this.#options.entities.setShardCount(entity, resource, Math.max(1, count))
    this.#forget(entity, resource, count)
    return shard < this.#options.entities.shardCount(entity, resource)
  }

  async healShardCount({entity, resource}: BucketAddress): Promise<void> {
    const count = await healShardCount(this.table, entity, resource, this.settings.maxShards)
    this.#options.entities.setShardCount(entity, resource, count)
    this.#forget(entity, resource, count)
  }

  async #grow({entity, resource}: BucketAddress, count: number): Promise<void> {
    const grown = await splitBucket(this.table, entity, resource, count)
    this.#options.entities.setShardCount(entity, resource, grown)
    this.#forget(entity, resource, grown)
  }

  async #ask(address: BucketAddress, request: AdmissionRequest): Promise<Verdict> {
    const {amounts, requests, level, patience} = request
    const desk = this.desk(address)
    const ticket = new PendingRequest(amounts, level === 'parent', requests)
    const denial = desk.denial(ticket)
    if (denial) return denial
    patience.watch(ticket)
    if (ticket.isAbandoned) return ticket.answer
    desk.ask(ticket)
    return ticket.answer.catch(error => {
      if (ticket.isAbandoned) this.#run(ticket.finished())
      if (error instanceof ShardGone) return this.#ask({...address, shard: 0}, request)
      throw error
    })
  }

  /** Waits as long as the caller wants to; what it leaves behind is seen to, and waited for when the limiter closes. */
  async #left<T>(work: Promise<T>, patience: Deadline): Promise<T> {
    try {
      return await patience.until(work)
    } finally {
      if (patience.isOver) this.#run(work)
    }
  }

  *#someShards(count: number): Generator<number> {
    const shards = Array.from({length: count}, (_, shard) => shard)
    for (let tries = Math.min(count, SHARDS_TRIED); tries > 0; tries--) {
      const [shard] = shards.splice(Math.floor(this.#options.random() * shards.length), 1)
      yield shard as number
    }
  }

  /** What was known of these shards was computed with another share. */
  #forget(entity: string, resource: string, count: number): void {
    for (let shard = 0; shard <= count; shard++) this.#desks.get(deskKey({entity, resource, shard}))?.forget()
  }

  /** At most one repair or split of a bucket at a time; it never holds up a request, and pressure brings the next. */
  #once({entity, resource}: BucketAddress, work: () => Promise<void>): void {
    const key = JSON.stringify([entity, resource])
    if (this.#growing.has(key)) return
    this.#growing.add(key)
    this.#run(work().finally(() => this.#growing.delete(key)))
  }

  /** Work that no request waits for; what finally fails was tried often enough. */
  #run(work: Promise<unknown>): Promise<void> {
    const done: Promise<void> = work.then(
      () => {},
      () => {},
    )
    this.#background.add(done)
    return done.finally(() => this.#background.delete(done))
  }

  #dismissIdle(): void {
    for (const [key, desk] of this.#desks) {
      if (this.#desks.size <= MOST_DESKS) return
      if (!desk.serving) this.#desks.delete(key)
    }
  }
}

function deskKey({entity, resource, shard}: BucketAddress): string {
  return `${entity}#${resource}#${shard}`
}

function grantOf({address, amounts, requests, record}: Verdict & {admitted: true}): Grant {
  return {entries: [{address, heldMilli: new Map(amounts), requests}], record}
}
