import {CapacityMeter, meteredTransport} from '../dynamo/capacity.js'
import {readAddressPage, readShardsAt} from '../repository/buckets/pages.js'
import type {NamespaceTable} from '../repository/table/table.js'
import type {Item} from '../schema/attribute-value.js'
import {Catalogue} from './catalogue.js'
import {EntityNames} from './entity-names.js'
import type {PollFacts, WatchData, WatchScope} from './model.js'
import {affordableShards, isListingDue, MIN_UNITS_PER_SHARD, pageSize, planReads} from './poll-plan.js'
import {entityOf} from './reading.js'

/** The result of a poll. */
export type PollResult = Pick<WatchData, 'readings' | 'known' | 'names'> & {readonly lastPoll: PollFacts}

/** A listing of the index, one page per poll. */
interface Listing {
  /** Start key of the next page. */
  start: Item | undefined
  pages: number
  endedAtMs: number | undefined
}

/** Reads the buckets of a scope, poll by poll: sequential requests, bounded cost, no writes. */
export class BucketPoller {
  readonly #table: NamespaceTable
  readonly #scope: WatchScope
  readonly #meter = new CapacityMeter()
  readonly #catalogue = new Catalogue()
  readonly #names: EntityNames
  #listing: Listing = {start: undefined, pages: 0, endedAtMs: undefined}
  #isComplete = false
  #unitsPerAddress: number | undefined
  #unitsPerShard = MIN_UNITS_PER_SHARD
  #polls = 0

  constructor(table: NamespaceTable, scope: WatchScope) {
    const transport = meteredTransport(table.transport, this.#meter, table.clock)
    this.#table = {...table, transport}
    this.#names = new EntityNames(this.#table)
    this.#scope = scope
  }

  /** Read units of all polls so far, including failed ones. */
  get units(): number {
    return this.#meter.snapshot().read
  }

  /**
   * One poll: a page of the index if it is due, names that are new on the screen, then as many buckets as the budget allows.
   * Those that were read at `currentMs` or later are left out.
   */
  async poll(
    focus: ReadonlySet<string>,
    signal: AbortSignal,
    currentMs = Number.POSITIVE_INFINITY,
  ): Promise<PollResult> {
    const {clock} = this.#table
    const startedAtMs = clock()
    const before = this.#meter.snapshot()
    await this.#list(signal)
    await this.#names.load(
      Array.from(focus, id => entityOf(id)),
      signal,
    )
    const affordable = affordableShards(this.#meter.since(before).read, this.#unitsPerShard)
    const candidates = this.#catalogue.candidates()
    const due = candidates.filter(({readAtMs = Number.NEGATIVE_INFINITY}) => readAtMs < currentMs)
    const ids = planReads(due, focus, affordable)
    const bucketsRead = await this.#read(ids, signal)
    const {read: readUnits, calls} = this.#meter.since(before)
    const {count, unreadable} = this.#catalogue.size()
    const atMs = clock()
    this.#polls++
    return {
      readings: this.#catalogue.readings(),
      names: this.#names.names,
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

  /** Adds the next page of the index to the catalogue, if it is due. */
  async #list(signal: AbortSignal): Promise<void> {
    const {pages, endedAtMs} = this.#listing
    if (endedAtMs !== undefined) {
      if (!isListingDue({pages, endedAtMs}, this.#table.clock())) return
      this.#listing = {start: undefined, pages: 0, endedAtMs: undefined}
    }
    const before = this.#meter.snapshot()
    const page = {start: this.#listing.start, limit: pageSize(this.#unitsPerAddress), signal}
    const {addresses, next} = await readAddressPage(this.#table, this.#scope, page)
    if (addresses.length > 0) this.#unitsPerAddress = this.#meter.since(before).read / addresses.length
    this.#catalogue.addShards(addresses)
    this.#listing.start = next
    this.#listing.pages++
    if (next !== undefined) return
    this.#listing.endedAtMs = this.#table.clock()
    this.#isComplete = true
  }

  /** Reads these buckets; resolves to how many of them exist. */
  async #read(ids: readonly string[], signal: AbortSignal): Promise<number> {
    const before = this.#meter.snapshot()
    const addresses = this.#catalogue.addressesOf(ids)
    const stored = await readShardsAt(this.#table, addresses, signal)
    const unknown = this.#catalogue.unknownShards(stored)
    if (unknown.length > 0) stored.push(...(await readShardsAt(this.#table, unknown, signal)))
    const existing = this.#catalogue.update(ids, stored, this.#table.clock())
    const shards = addresses.length + unknown.length
    if (shards > 0) this.#unitsPerShard = Math.max(MIN_UNITS_PER_SHARD, this.#meter.since(before).read / shards)
    return existing
  }
}
