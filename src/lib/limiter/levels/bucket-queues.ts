import type {Amounts} from '../../core/buckets/bucket.js'
import {type BucketAddress, MARK_SLOTS, type WriteMark} from '../../repository/buckets/writes.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {Holders} from '../holders/holder.js'
import {Reaper} from '../holders/reaper.js'
import {Reservations} from '../holders/reservations.js'
import type {HeldSlots} from '../holders/slot-account.js'
import {NO_SLOTS} from '../holders/slot-account.js'
import {BucketQueue} from '../queue/bucket-queue.js'
import {
  Background,
  type EntityCache,
  FirstVisits,
  type QueueServices,
  ShardRepair,
  type ShardRepairOptions,
} from '../queue/queue-services.js'
import {explainRefusal, type Refusal} from '../queue/refuse.js'
import {RefusalTally} from '../refusal/tally.js'
import type {Grant, Holding} from '../request/grant.js'
import type {AppliedLimits, LimitSource} from '../request/limit-source.js'
import type {LimiterSettings} from '../request/options.js'
import {
  type Booking,
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
  /** In-flight limits of which it takes no slot. */
  readonly without?: ReadonlySet<string> | undefined
  readonly booking?: Booking | undefined
}

interface BucketQueuesOptions {
  readonly table: NamespaceTable
  readonly settings: LimiterSettings
  readonly limits: LimitSource
  readonly entities: EntityCache
}

/** Queues checked for eviction when one is added. Busy queues stay, whatever their number. */
const MOST_LOOKS = 8

export class BucketQueues {
  readonly services: QueueServices
  readonly refusals: RefusalTally
  readonly background = new Background()
  readonly #cacheSize: number
  /** Least recently used first. */
  readonly #queues = new Map<string, BucketQueue>()
  /** Refunds an abandoned request's charge; `settled` waits for it. */
  readonly #finish = (abandoned: PendingRequest) => void this.background.run(abandoned.finished())

  constructor(options: BucketQueuesOptions) {
    const {table, settings, limits, entities} = options
    this.#cacheSize = settings.cacheSize
    const forget: ShardRepairOptions['forget'] = ({entity, resource}, count) => {
      for (let shard = 0; shard <= count; shard++) this.find({entity, resource, shard})?.bucket.forget()
    }
    this.refusals = new RefusalTally({
      clock: table.clock,
      cacheSize: settings.cacheSize,
      flush: bucket => this.at({...bucket, shard: 0}).writeRefusals(),
    })
    const keepAlive = () => {
      for (const queue of this.#queues.values()) {
        const kept = queue.keepAlive()
        if (kept) void this.background.run(kept)
      }
    }
    const holders = new Holders(table, settings.writeTimeoutMs, keepAlive)
    const onReturned = (address: BucketAddress) => this.find(address)?.bucket.forget()
    const reaper = new Reaper({table, isOwn: id => holders.isOwn(id), onReturned})
    this.services = {
      table,
      settings,
      limits,
      entities,
      shards: new ShardRepair({table, entities, background: this.background, maxShards: settings.maxShards, forget}),
      refusals: this.refusals,
      firstVisits: new FirstVisits(table.clock),
      background: this.background,
      nextMark: markSource(table.randomBytes),
      holders,
      reaper,
      reservations: new Reservations({table, holders, onFirst: () => reaper.lookAround()}),
      refund: holding => this.refund([holding]),
    }
  }

  /** Use it synchronously: idle queues may be dropped, and two busy ones of an item overwrite each other's marks. */
  at(address: BucketAddress): BucketQueue {
    const key = queueKey(address)
    const known = this.#queues.get(key)
    if (known && !known.isIdle) return known
    if (known) this.#queues.delete(key)
    else this.#shrink(this.#cacheSize - 1, MOST_LOOKS)
    const queue = known ?? new BucketQueue(this.services, address)
    this.#queues.set(key, queue)
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
    for (const queue of this.#queues.values()) if (queue.bucket.isTrusted) count++
    return count
  }

  /** Keeps the queues: settlements and refusals may be pending in them. */
  invalidate(): void {
    for (const queue of this.#queues.values()) queue.invalidate()
  }

  /** No call if the shard is known to refuse. A missing shard falls back to shard 0. Throws after the deadline. */
  ask(
    shard: number,
    request: BucketRequest,
    known = new KnownRefusals(this, request),
  ): QueueAnswer | Promise<QueueAnswer> {
    const {entity, resource, amounts, requests, level, isStrict, deadline, without, booking} = request
    const refused = known.by(shard)
    if (refused) return refused
    deadline.check()
    const takesSlots = shard === 0 && requests === 1
    const pending = new PendingRequest(amounts, level, requests, isStrict, this.#finish, takesSlots, without, booking)
    this.at({entity, resource, shard}).ask(pending)
    deadline.watch(pending)
    if (shard === 0) return pending.answer
    return pending.answer.then(
      answer => ('holdings' in answer ? this.withSlots(request, answer) : answer),
      error => {
        if (error instanceof ShardGone) return this.ask(0, request)
        throw error
      },
    )
  }

  /** Shard 0 has the slots of all shards. A request that another shard admitted takes them there, or is refunded. */
  async withSlots(request: BucketRequest, grant: Grant): Promise<QueueAnswer> {
    const {entity, resource, amounts, level, requests, without, deadline} = request
    const [first] = grant.holdings
    if (!grant.record.slots || requests === 0 || !first || first.isBypassed) return grant
    const pending = new PendingRequest(amounts, level, 0, false, this.#finish, true, without)
    pending.charge({...first, heldMilli: new Map(), requests: 0})
    try {
      deadline.check()
      this.at({entity, resource, shard: 0}).ask(pending)
      deadline.watch(pending)
      const answer = await pending.answer
      if ('holdings' in answer) {
        first.slots = answer.holdings[0]?.slots
        return grant
      }
      await this.refund(grant.holdings)
      return answer
    } catch (error) {
      void this.refund(grant.holdings)
      throw error
    }
  }

  settle(holding: Holding, deltas: Amounts, requests: number, onRetry?: () => void): Promise<void> {
    return this.at(holding.address).settle(deltas, requests, holding, onRetry)
  }

  settleSoon(holding: Holding, deltas: Amounts, onRetry?: () => void): Promise<void> {
    return this.at(holding.address).settleSoon(deltas, holding, onRetry)
  }

  /** With `isSoon`, batched with other writes for a moment. */
  returnSlots(slots: HeldSlots, isSoon = false): Promise<void> {
    return this.at(slots.address).returnSlots(slots, isSoon)
  }

  /** Writes pending settlements now: of all queues, or of those with the given holdings. */
  hurry(holdings?: readonly Holding[]): void {
    const queues = holdings?.map(({address}) => this.find(address)) ?? this.#queues.values()
    for (const queue of queues) queue?.hurry()
  }

  /** Never rejects. */
  async refund(holdings: readonly Holding[]): Promise<void> {
    const returns = holdings.map(holding => {
      const {heldMilli, requests, slots} = holding
      Object.assign(holding, {heldMilli: new Map(), requests: 0, slots: undefined})
      const returned = slots && this.returnSlots(slots)
      const isCharged = heldMilli.size > 0 || requests > 0
      const refunded = isCharged ? this.at(holding.address).refund(heldMilli, requests, holding) : undefined
      return this.background.run(Promise.all([refunded, returned]))
    })
    await Promise.all(returns)
  }

  /** No request and no settlement follows. */
  async end(): Promise<void> {
    this.services.reaper.close()
    await this.services.holders.end()
  }

  async settled(): Promise<void> {
    for (;;) {
      const running = [...this.#queues.values()].flatMap(queue => queue.running ?? [])
      if (this.background.isIdle && running.length === 0) break
      await Promise.all([this.background.settled(), ...running])
    }
    this.#shrink(this.#cacheSize, this.#queues.size)
  }

  /** Drops idle queues. One with work counts as used just now: an item must never have two. */
  #shrink(size: number, mostLooks: number): void {
    let looks = 0
    for (const [key, queue] of this.#queues) {
      if (this.#queues.size <= size || looks++ === mostLooks) return
      this.#queues.delete(key)
      if (!queue.isIdle) this.#queues.set(key, queue)
    }
  }
}

/** Shards known to refuse a request without a call. Lookups are cached: create a new one after every call. */
export class KnownRefusals implements Demand {
  readonly shardCount: number
  readonly asked: Amounts
  amounts: Amounts
  readonly level: Demand['level']
  readonly isStrict: boolean
  readonly takesSlots: boolean
  readonly without: ReadonlySet<string> | undefined
  readonly booking: Booking | undefined
  slots = NO_SLOTS
  /** `null`: not known to refuse. `undefined`: not looked up yet. */
  readonly #byShard: (Refused | null | undefined)[]

  constructor(
    readonly queues: BucketQueues,
    readonly request: BucketRequest,
  ) {
    this.shardCount = queues.services.entities.shardCount(request.entity, request.resource)
    // Preallocated: a growing array reserves room for many more.
    this.#byShard = new Array(this.shardCount)
    this.asked = request.amounts
    this.amounts = request.amounts
    this.level = request.level
    this.isStrict = request.isStrict
    this.takesSlots = request.requests === 1
    this.without = request.without
    this.booking = request.booking
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
    const refusal = explainRefusal({records, amounts: this.amounts, slots: this.slots, nowMs, source}, this.level)
    return refusal.statuses.some(status => status.exceeded) ? refusal : undefined
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

function queueKey({entity, resource, shard}: BucketAddress): string {
  return `${entity}#${resource}#${shard}`
}
