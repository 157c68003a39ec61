import {batchGet} from '../../dynamo/batch.js'
import {CapacityMeter, type CapacityTotals, meteredTransport} from '../../dynamo/capacity.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import {configuredResources} from '../../insight/lookup/known-names.js'
import {recentStart} from '../../insight/usage/refused.js'
import {readAddressPage, readShardsAt, usedBuckets} from '../../repository/buckets/pages.js'
import {EndedCopies} from '../../repository/limits/ended-copies.js'
import {readLimitUnits, type UnitsByLimit} from '../../repository/limits/units.js'
import {readChargedLevels} from '../../repository/namespaces/open-namespace.js'
import {NamespaceRepository} from '../../repository/repository.js'
import {type NamespaceTable, type Table, untilAborted} from '../../repository/table/table.js'
import {type Item, readString} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {keys} from '../../schema/keys.js'
import {MOST_LEVELS} from '../../schema/namespace-record.js'
import type {PollFacts, WatchData, WatchScope} from '../model/model.js'
import {Catalogue} from './catalogue.js'
import {PackedReadings} from './packed-readings.js'
import {
  affordableShards,
  isListingDue,
  MAX_PAGE,
  MIN_UNITS_PER_SHARD,
  ONCE_LISTING_UNITS,
  ONCE_UNITS,
  type PollCandidate,
  pageSize,
  planReads,
  USED_LISTING_UNITS,
  USED_UNITS,
} from './poll-plan.js'
import {bucketId, entityOf, trimmedRecord} from './reading.js'

/** Buckets of ended boosts to resolve in one poll, at up to five read units each. */
const COPIES_PER_POLL = 5

export type PollResult = Pick<WatchData, 'readings' | 'known' | 'names'> & {readonly lastPoll: PollFacts}

interface Polled {
  readonly readings: WatchData['readings']
  readonly size: {readonly count: number; readonly unreadable: number}
  readonly existing: number
  readonly usedFirst?: PollFacts['usedFirst']
}

interface Listing {
  start: Item | undefined
  pages: number
  endedAtMs: number | undefined
}

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
    const transport = meteredTransport(table.transport, this.#meter)
    this.#table = {...table, transport}
    this.#names = new EntityNames(this.#table)
    this.#facts = new NamespaceFacts(this.#table)
    this.#scope = scope
  }

  get cost(): Pick<CapacityTotals, 'read' | 'calls'> {
    return this.#meter.snapshot()
  }

  get currencies(): WatchData['units'] {
    return this.#facts.units
  }

  async loadFacts(signal: AbortSignal): Promise<void> {
    await this.#facts.load(signal)
    this.#catalogue.mostLevels = this.#facts.mostLevels
  }

  async poll(focus: ReadonlySet<string>, signal: AbortSignal): Promise<PollResult> {
    return this.#counted(async before => {
      await this.#list(this.#catalogue, signal)
      await this.#names.load(
        Array.from(focus, id => entityOf(id)),
        signal,
      )
      const affordable = affordableShards(this.#meter.since(before).read, this.#unitsPerShard)
      const chosen = planReads(this.#catalogue.candidates(), focus, affordable)
      const existing = await this.#read(this.#catalogue, chosen, signal)
      return {existing, readings: this.#catalogue.readings(), size: this.#catalogue.size()}
    })
  }

  /** For a poll that no other follows. Reads buckets with recent usage first: every refused bucket has some. */
  async pollOnce(signal: AbortSignal): Promise<PollResult> {
    return this.#counted(async before => {
      const spent = () => this.#meter.since(before).read
      do await this.#list(this.#catalogue, signal)
      while (this.#listing.start !== undefined && spent() < ONCE_LISTING_UNITS)
      const affordable = (units: number) => affordableShards(spent(), this.#unitsPerShard, units)
      const shardsOf = (candidates: readonly PollCandidate[]) => candidates.reduce((sum, {shards}) => sum + shards, 0)
      const isAll = this.#isComplete && shardsOf(this.#catalogue.candidates()) <= affordable(ONCE_UNITS)
      const used = isAll || this.#scope.kind === 'entity' ? undefined : await this.#findUsed(signal)
      const first = used?.ids ?? new Set()
      const candidates = this.#catalogue
        .candidates()
        .toSorted((a, b) => Number(first.has(b.id)) - Number(first.has(a.id)))
      const inUse = shardsOf(candidates.slice(0, first.size))
      const most = Math.max(affordable(ONCE_UNITS), Math.min(inUse, affordable(USED_UNITS)))
      const chosen = planReads(candidates, new Set(), most)
      const existing = await this.#read(this.#catalogue, chosen, signal)
      const areRead = chosen.filter(id => first.has(id)).length === first.size
      const usedFirst = used && {since: used.since, isComplete: used.isComplete && areRead}
      return {existing, readings: this.#catalogue.readings(), size: this.#catalogue.size(), usedFirst}
    })
  }

  async #findUsed(signal: AbortSignal): Promise<{ids: Set<string>; since: string; isComplete: boolean}> {
    const before = this.#meter.snapshot()
    const since = recentStart(this.#table.clock())
    const ids = new Set<string>()
    for (const resource of await this.#resources(signal)) {
      for await (const address of usedBuckets(this.#table, resource, since, signal)) {
        ids.add(bucketId(address))
        this.#catalogue.addShards([address])
        if (this.#meter.since(before).read > USED_LISTING_UNITS) return {ids, since, isComplete: false}
      }
    }
    return {ids, since, isComplete: true}
  }

  /** Known so far: the index may not be listed to its end. */
  async #resources(signal: AbortSignal): Promise<readonly string[]> {
    if (this.#scope.kind === 'resource') return [this.#scope.resource]
    const configured = await configuredResources(new NamespaceRepository(untilAborted(this.#table, signal), undefined))
    return [...new Set([...this.#catalogue.resources(), ...configured])]
  }

  /** Reads every bucket once, page by page, at any cost. Keeps only packed readings; later polls do not know them. */
  async pollAll(signal: AbortSignal): Promise<PollResult> {
    return this.#counted(async () => {
      const readings = new PackedReadings()
      const others = new Set<string>()
      let unreadable = 0
      do {
        const page = new Catalogue([], trimmedRecord, this.#facts.mostLevels)
        const ids = new Set(await this.#list(page, signal))
        for (const id of ids) if (readings.has(id) || others.has(id)) ids.delete(id)
        await this.#read(page, [...ids], signal, Number.POSITIVE_INFINITY)
        for (const reading of page.readings().values()) readings.add(reading)
        for (const id of ids) if (!readings.has(id)) others.add(id)
        unreadable += page.size().unreadable
      } while (this.#listing.start !== undefined)
      return {readings, size: {count: readings.size, unreadable}, existing: readings.size}
    })
  }

  async pollAgain({readings: before, known}: PollResult, signal: AbortSignal): Promise<PollResult> {
    return this.#counted(async () => {
      const readings = new PackedReadings()
      let {unreadable} = known
      for await (const some of chunksOf(before.values(), MAX_PAGE)) {
        const page = new Catalogue(some, trimmedRecord, this.#facts.mostLevels)
        const ids = some.map(({id}) => id)
        await this.#read(page, ids, signal, Number.POSITIVE_INFINITY)
        for (const reading of page.readings().values()) if (!reading.isGone) readings.add(reading)
        unreadable += page.size().unreadable
      }
      const count = known.count - before.size + readings.size
      return {readings, size: {count, unreadable}, existing: readings.size}
    })
  }

  async #counted(work: (before: CapacityTotals) => Promise<Polled>): Promise<PollResult> {
    const {clock} = this.#table
    const startedAtMs = clock()
    const before = this.#meter.snapshot()
    const {readings, size, existing, usedFirst} = await work(before)
    const {read: readUnits, calls} = this.#meter.since(before)
    const atMs = clock()
    this.#polls++
    return {
      readings,
      names: this.#names.names,
      known: {count: size.count, isComplete: this.#isComplete, unreadable: size.unreadable},
      lastPoll: {
        number: this.#polls,
        atMs,
        durationMs: Math.max(0, atMs - startedAtMs),
        readUnits,
        calls,
        bucketsRead: existing,
        usedFirst,
      },
    }
  }

  async #list(catalogue: Catalogue, signal: AbortSignal): Promise<string[]> {
    const {pages, endedAtMs} = this.#listing
    if (endedAtMs !== undefined) {
      if (!isListingDue({pages, endedAtMs}, this.#table.clock())) return []
      this.#listing = {start: undefined, pages: 0, endedAtMs: undefined}
    }
    const before = this.#meter.snapshot()
    const page = {start: this.#listing.start, limit: pageSize(this.#unitsPerAddress), signal}
    const {addresses, next} = await readAddressPage(this.#table, this.#scope, page)
    if (addresses.length > 0) this.#unitsPerAddress = this.#meter.since(before).read / addresses.length
    catalogue.addShards(addresses)
    this.#listing.start = next
    this.#listing.pages++
    if (next === undefined) {
      this.#listing.endedAtMs = this.#table.clock()
      this.#isComplete = true
    }
    return addresses.map(bucketId)
  }

  async #read(
    catalogue: Catalogue,
    ids: readonly string[],
    signal: AbortSignal,
    copies = COPIES_PER_POLL,
  ): Promise<number> {
    const before = this.#meter.snapshot()
    const addresses = catalogue.addressesOf(ids)
    const stored = await readShardsAt(this.#table, addresses, signal)
    const unknown = catalogue.unknownShards(stored)
    if (unknown.length > 0) stored.push(...(await readShardsAt(this.#table, unknown, signal)))
    const shown = (await this.#facts.copies?.inForce(stored, copies)) ?? stored
    const existing = catalogue.update(ids, shown, this.#table.clock())
    const shards = addresses.length + unknown.length
    if (shards > 0) this.#unitsPerShard = Math.max(MIN_UNITS_PER_SHARD, this.#meter.since(before).read / shards)
    return existing
  }
}

export interface SnapshotOptions {
  readonly signal: AbortSignal
  /** Reads the same buckets again after this pause: rates need two readings. `undefined`: reads once. */
  readonly againAfterMs?: number | undefined
  /** Every bucket at any cost; otherwise up to `ONCE_UNITS`, or `USED_UNITS` for buckets in use. */
  readonly isWhole?: boolean | undefined
}

/** Retries as usual, because no later poll follows. The facts cover all requests. */
export async function takeReadings(
  repository: NamespaceRepository,
  table: Table,
  scope: WatchScope,
  {signal, againAfterMs, isWhole = false}: SnapshotOptions,
): Promise<PollResult & Pick<WatchData, 'units'>> {
  const poller = new BucketPoller({...table, namespace: repository.id}, scope)
  await poller.loadFacts(signal)
  const startedAtMs = table.clock()
  let result = isWhole ? await poller.pollAll(signal) : await poller.pollOnce(signal)
  if (againAfterMs !== undefined && result.readings.size > 0) {
    await table.backoff.sleep(againAfterMs, signal)
    const {usedFirst} = result.lastPoll
    result = await poller.pollAgain(result, signal)
    result = {...result, lastPoll: {...result.lastPoll, usedFirst}}
  }
  const durationMs = Math.max(0, result.lastPoll.atMs - startedAtMs)
  const {read: readUnits, calls} = poller.cost
  const lastPoll = {...result.lastPoll, durationMs, readUnits, calls}
  return {...result, units: poller.currencies, lastPoll}
}

/** The facts rarely change, and cost three reads. */
const INTERVAL_MS = 30_000

class NamespaceFacts {
  readonly #table: NamespaceTable
  #loadedAtMs = Number.NEGATIVE_INFINITY
  units: UnitsByLimit = new Map()
  mostLevels: number = MOST_LEVELS.parent
  /** Shows buckets of ended boosts under the limits in force; `undefined` before the first load. */
  copies: EndedCopies | undefined

  constructor(table: NamespaceTable) {
    this.#table = table
  }

  async load(signal: AbortSignal): Promise<void> {
    const nowMs = this.#table.clock()
    if (nowMs - this.#loadedAtMs < INTERVAL_MS) return
    const table = untilAborted(this.#table, signal)
    const [units, levels] = await Promise.all([readLimitUnits(table), readChargedLevels(table)])
    this.mostLevels = MOST_LEVELS[levels]
    const isSame = units.size === this.units.size && [...units].every(([name, unit]) => this.units.get(name) === unit)
    if (!isSame) this.units = units
    this.copies = await EndedCopies.read(table)
    this.#loadedAtMs = nowMs
  }
}

const NAMES_PER_POLL = 20

class EntityNames {
  readonly #table: NamespaceTable
  readonly #known = new Set<string>()
  #names: ReadonlyMap<string, string> = new Map()

  constructor(table: NamespaceTable) {
    this.#table = table
  }

  /** Without names equal to the id. The same object until a name is added. */
  get names(): ReadonlyMap<string, string> {
    return this.#names
  }

  async load(entities: Iterable<string>, signal: AbortSignal): Promise<void> {
    const unknown = [...new Set(entities)].filter(entity => !this.#known.has(entity)).slice(0, NAMES_PER_POLL)
    if (unknown.length === 0) return
    const {transport, name, backoff, namespace} = this.#table
    const wanted = unknown.map(entity => keys.entity(namespace, entity))
    const projection = [attributes.entity.entity, attributes.entity.name]
    const items = await batchGet(transport, name, wanted, {backoff, signal, projection})
    for (const entity of unknown) this.#known.add(entity)
    const found = [...items.values()].flatMap((item): [string, string][] => {
      const [entity, text] = projection.map(attribute => readString(item, attribute))
      return entity !== undefined && text && text !== entity ? [[entity, text]] : []
    })
    if (found.length > 0) this.#names = new Map([...this.#names, ...found])
  }
}
