import {CapacityMeter, meteredTransport} from '../dynamo/capacity.js'
import {readAddressPage, readShardsAt} from '../repository/buckets/pages.js'
import type {NamespaceTable} from '../repository/table/table.js'
import type {Item} from '../schema/attribute-value.js'
import {Catalogue} from './catalogue.js'
import type {Knowledge, PollFacts, WatchScope} from './model.js'
import {affordableShards, isWalkDue, pageSize, planReads, USUAL_UNITS_PER_SHARD} from './poll-plan.js'

/** What a poll adds to what is known. */
export type PollResult = Pick<Knowledge, 'readings' | 'known'> & {readonly lastPoll: PollFacts}

/** A walk through the index, page by page, over as many polls as it takes. */
interface Walk {
  /** Where the next page starts. */
  start: Item | undefined
  pages: number
  endedAtMs: number | undefined
}

/** Reads the buckets of a scope, poll by poll: requests one after the other, at a bounded price, and no writes. */
export class BucketPoller {
  readonly #table: NamespaceTable
  readonly #scope: WatchScope
  readonly #meter = new CapacityMeter()
  readonly #catalogue = new Catalogue()
  #walk: Walk = {start: undefined, pages: 0, endedAtMs: undefined}
  #isComplete = false
  #unitsPerAddress: number | undefined
  #unitsPerShard = USUAL_UNITS_PER_SHARD
  #polls = 0

  constructor(table: NamespaceTable, scope: WatchScope) {
    const transport = meteredTransport(table.transport, this.#meter, table.clock)
    this.#table = {...table, transport}
    this.#scope = scope
  }

  /** Read units of all polls so far, those that failed included. */
  get units(): number {
    return this.#meter.snapshot().read
  }

  /** One poll: a page of the index if it is due, then as many buckets as can be afforded. */
  async poll(focus: ReadonlySet<string>, signal: AbortSignal): Promise<PollResult> {
    const {clock} = this.#table
    const startedAtMs = clock()
    const before = this.#meter.snapshot()
    await this.#learn(signal)
    const affordable = affordableShards(this.#meter.since(before).read, this.#unitsPerShard)
    const ids = planReads(this.#catalogue.candidates(), focus, affordable)
    const bucketsRead = await this.#read(ids, signal)
    const {read: readUnits, calls} = this.#meter.since(before)
    const {count, unreadable} = this.#catalogue.size()
    const atMs = clock()
    this.#polls++
    return {
      readings: this.#catalogue.readings(),
      known: {count, isComplete: this.#isComplete, unreadable},
      lastPoll: {
        number: this.#polls,
        atMs,
        durationMs: Math.max(0, atMs - startedAtMs),
        readUnits,
        calls,
        bucketsRead,
      },
    }
  }

  async #learn(signal: AbortSignal): Promise<void> {
    const walk = this.#walk
    const {endedAtMs} = walk
    if (endedAtMs !== undefined) {
      if (!isWalkDue({pages: walk.pages, endedAtMs}, this.#table.clock())) return
      this.#walk = {start: undefined, pages: 0, endedAtMs: undefined}
    }
    const before = this.#meter.snapshot()
    const page = {start: this.#walk.start, limit: pageSize(this.#unitsPerAddress), signal}
    const {addresses, next} = await readAddressPage(this.#table, this.#scope, page)
    if (addresses.length > 0) this.#unitsPerAddress = this.#meter.since(before).read / addresses.length
    this.#catalogue.learn(addresses)
    this.#walk.start = next
    this.#walk.pages++
    if (next !== undefined) return
    this.#walk.endedAtMs = this.#table.clock()
    this.#isComplete = true
  }

  /** How many of these buckets were there. */
  async #read(ids: readonly string[], signal: AbortSignal): Promise<number> {
    const before = this.#meter.snapshot()
    const addresses = this.#catalogue.addressesOf(ids)
    const stored = await readShardsAt(this.#table, addresses, signal)
    const unknown = this.#catalogue.unknownShards(stored)
    if (unknown.length > 0) stored.push(...(await readShardsAt(this.#table, unknown, signal)))
    const found = this.#catalogue.take(ids, stored, this.#table.clock())
    const shards = addresses.length + unknown.length
    if (shards > 0) this.#unitsPerShard = Math.max(USUAL_UNITS_PER_SHARD, this.#meter.since(before).read / shards)
    return found
  }
}
