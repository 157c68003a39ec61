import {CapacityMeter, type CapacityTotals, meteredTransport} from '../dynamo/capacity.js'
import {chunksOf} from '../dynamo/concurrency.js'
import {readAddressPage, readShardsAt} from '../repository/buckets/pages.js'
import type {NamespaceTable} from '../repository/table/table.js'
import type {Item} from '../schema/attribute-value.js'
import {Catalogue} from './catalogue.js'
import {EntityNames} from './entity-names.js'
import type {PollFacts, WatchData, WatchScope} from './model.js'
import {NamespaceFacts} from './namespace-facts.js'
import {affordableShards, isListingDue, MAX_PAGE, MIN_UNITS_PER_SHARD, pageSize, planReads} from './poll-plan.js'
import {bucketId, entityOf} from './reading.js'

/** Buckets whose limits are looked up in one poll because a boost is over, at up to five read units each. */
const COPIES_PER_POLL = 5

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
  readonly #facts: NamespaceFacts
  #listing: Listing = {start: undefined, pages: 0, endedAtMs: undefined}
  #isComplete = false
  #unitsPerAddress: number | undefined
  #unitsPerShard = MIN_UNITS_PER_SHARD
  #polls = 0

  constructor(table: NamespaceTable, scope: WatchScope) {
    const transport = meteredTransport(table.transport, this.#meter, table.clock)
    this.#table = {...table, transport}
    this.#names = new EntityNames(this.#table)
    this.#facts = new NamespaceFacts(this.#table)
    this.#scope = scope
  }

  /** Read units and calls of everything so far, including failed polls. */
  get cost(): Pick<CapacityTotals, 'read' | 'calls'> {
    return this.#meter.snapshot()
  }

  /** The currency of limits that are counted in money, by name. */
  get currencies(): WatchData['units'] {
    return this.#facts.units
  }

  /** Reads what has to be known besides the buckets, if that is due: currencies, and limits that have ended. */
  loadFacts(signal: AbortSignal): Promise<void> {
    return this.#facts.load(signal)
  }

  /** One poll: a page of the index if it is due, names that are new on the screen, then as many buckets as the budget allows. */
  async poll(focus: ReadonlySet<string>, signal: AbortSignal): Promise<PollResult> {
    return this.#counted(async before => {
      await this.#list(signal)
      await this.#names.load(
        Array.from(focus, id => entityOf(id)),
        signal,
      )
      const affordable = affordableShards(this.#meter.since(before).read, this.#unitsPerShard)
      return this.#read(planReads(this.#catalogue.candidates(), focus, affordable), signal)
    })
  }

  /** Lists the whole index and reads every bucket once, a page at a time, whatever it costs. */
  async pollAll(signal: AbortSignal): Promise<PollResult> {
    return this.#counted(async () => {
      const done = new Set<string>()
      let existing = 0
      do {
        const ids = new Set(await this.#list(signal))
        for (const id of ids) if (done.has(id)) ids.delete(id)
        existing += await this.#read([...ids], signal, Number.POSITIVE_INFINITY)
        for (const id of ids) done.add(id)
      } while (this.#listing.start !== undefined)
      return existing
    })
  }

  /** Reads all buckets again that were read before, and no others. */
  async pollAgain(signal: AbortSignal): Promise<PollResult> {
    return this.#counted(async () => {
      let existing = 0
      for await (const ids of chunksOf(this.#catalogue.readings().keys(), MAX_PAGE)) {
        existing += await this.#read(ids, signal, Number.POSITIVE_INFINITY)
      }
      return existing
    })
  }

  /** The result of work that reads buckets and returns how many of them exist. */
  async #counted(work: (before: CapacityTotals) => Promise<number>): Promise<PollResult> {
    const {clock} = this.#table
    const startedAtMs = clock()
    const before = this.#meter.snapshot()
    const bucketsRead = await work(before)
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

  /** Adds the next page of the index to the catalogue, if it is due; the buckets on it. */
  async #list(signal: AbortSignal): Promise<string[]> {
    const {pages, endedAtMs} = this.#listing
    if (endedAtMs !== undefined) {
      if (!isListingDue({pages, endedAtMs}, this.#table.clock())) return []
      this.#listing = {start: undefined, pages: 0, endedAtMs: undefined}
    }
    const before = this.#meter.snapshot()
    const page = {start: this.#listing.start, limit: pageSize(this.#unitsPerAddress), signal}
    const {addresses, next} = await readAddressPage(this.#table, this.#scope, page)
    if (addresses.length > 0) this.#unitsPerAddress = this.#meter.since(before).read / addresses.length
    this.#catalogue.addShards(addresses)
    this.#listing.start = next
    this.#listing.pages++
    if (next === undefined) {
      this.#listing.endedAtMs = this.#table.clock()
      this.#isComplete = true
    }
    return addresses.map(bucketId)
  }

  /** Reads these buckets, and the limits of so many for which a boost is over; resolves to how many of them exist. */
  async #read(ids: readonly string[], signal: AbortSignal, copies = COPIES_PER_POLL): Promise<number> {
    const before = this.#meter.snapshot()
    const addresses = this.#catalogue.addressesOf(ids)
    const stored = await readShardsAt(this.#table, addresses, signal)
    const unknown = this.#catalogue.unknownShards(stored)
    if (unknown.length > 0) stored.push(...(await readShardsAt(this.#table, unknown, signal)))
    const shown = (await this.#facts.copies?.inForce(stored, copies)) ?? stored
    const existing = this.#catalogue.update(ids, shown, this.#table.clock())
    const shards = addresses.length + unknown.length
    if (shards > 0) this.#unitsPerShard = Math.max(MIN_UNITS_PER_SHARD, this.#meter.since(before).read / shards)
    return existing
  }
}
