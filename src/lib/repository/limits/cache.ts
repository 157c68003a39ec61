import {unlessStopped} from '../../dynamo/abort.js'
import {classifyError} from '../../dynamo/classify.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {type ConfigRecord, decodeConfig} from '../../schema/config-record.js'
import {keyId} from '../../schema/keys.js'
import {Lru} from '../table/lru.js'

export interface ConfigCacheOptions {
  /** Epoch milliseconds. */
  readonly clock: () => number
  /** Default: 60 s; 0 reads the table every time. */
  readonly ttlMs?: number | undefined
  /** Default: 10,000 records, including absent ones. */
  readonly maxEntries?: number | undefined
  /** Whether to cache that a record is absent. Default: yes. */
  readonly keepsAbsent?: (() => boolean) | undefined
}

export interface ConfigCacheStatistics {
  /** Includes records whose read is shared with another caller. */
  readonly hits: number
  readonly misses: number
  readonly size: number
  readonly evictions: number
}

/** Reads all keys or fails; a key missing from the result has no item. */
export type FetchConfigs = (keys: readonly Key[]) => Promise<ReadonlyMap<string, Item>>

type ConfigsByKey = ReadonlyMap<string, ConfigRecord | undefined>

interface Known {
  readonly record: ConfigRecord | undefined
  /** Start of the read by `performance.now()`, which is never set back. */
  readonly readFromMs: number
}

interface Flight {
  readonly records: Promise<ConfigsByKey>
  readonly readFromMs: number
}

export interface CachedReadOptions {
  /** Only reads that began after this `performance.now()` instant count. */
  readonly after?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/** Nobody joins a slower read: the next caller reads again. */
const LONGEST_FLIGHT_MS = 2_000

/** May serve several namespaces. Shared reads never delay cached keys (D-40); only complete reads are cached (D-38). */
export class ConfigCache {
  readonly #known: Lru<Known>
  readonly #lastSystem: Lru<Known>
  readonly #flights = new Map<string, Flight>()
  readonly #keepsNothing: boolean
  readonly #keepsAbsent: () => boolean
  #hits = 0
  #misses = 0

  constructor({clock, ttlMs = 60_000, maxEntries = 10_000, keepsAbsent = () => true}: ConfigCacheOptions) {
    this.#known = new Lru({clock, ttlMs, maxEntries})
    this.#lastSystem = new Lru({clock, ttlMs: Number.POSITIVE_INFINITY, maxEntries})
    this.#keepsNothing = ttlMs <= 0
    this.#keepsAbsent = keepsAbsent
  }

  /** Reads are shared, so they continue when one caller aborts. */
  async read(
    keys: readonly Key[],
    fetch: FetchConfigs,
    {after = Number.NEGATIVE_INFINITY, signal}: CachedReadOptions = {},
  ): Promise<ConfigsByKey> {
    const records = new Map<string, ConfigRecord | undefined>()
    const awaited = new Map<string, Flight>()
    const missing: Key[] = []
    for (const key of keys) {
      const id = keyId(key)
      const known = this.#known.get(id)
      const flight = this.#underWay(id)
      if (known !== undefined && known.readFromMs > after) records.set(id, known.record)
      else if (flight !== undefined && flight.readFromMs > after) awaited.set(id, flight)
      else missing.push(key)
    }
    this.#hits += keys.length - missing.length
    this.#misses += missing.length
    if (missing.length > 0) {
      if (signal?.aborted) throw stopped(signal)
      const flight = this.#take(missing, fetch)
      for (const key of missing) awaited.set(keyId(key), flight)
    }
    if (awaited.size > 0) {
      // All at once, so that no rejection stays unhandled.
      const reads = [...awaited.values()].map(flight => flight.records)
      const answers = await unlessStopped(Promise.all(reads), {signal}).catch(error => {
        throw signal?.aborted ? stopped(signal) : error
      })
      for (const [at, id] of [...awaited.keys()].entries()) records.set(id, answers[at]?.get(id))
    }
    return records
  }

  peek(keys: readonly Key[]): ConfigsByKey | undefined {
    const records = new Map<string, ConfigRecord | undefined>()
    for (const key of keys) {
      const known = this.#known.get(keyId(key))
      if (known === undefined) return undefined
      records.set(keyId(key), known.record)
    }
    return records
  }

  lastKnown(key: Key): ConfigRecord | undefined {
    return this.#lastSystem.get(keyId(key))?.record
  }

  /** Default: all keys. A pending read may hold the old record, so its result is not cached either. */
  invalidate(key?: Key): void {
    if (key === undefined) {
      this.#known.clear()
      this.#flights.clear()
      return
    }
    this.#known.delete(keyId(key))
    this.#flights.delete(keyId(key))
  }

  get statistics(): ConfigCacheStatistics {
    const {size, evictions} = this.#known
    return {hits: this.#hits, misses: this.#misses, size, evictions}
  }

  #underWay(id: string): Flight | undefined {
    const flight = this.#flights.get(id)
    return flight && performance.now() - flight.readFromMs < LONGEST_FLIGHT_MS ? flight : undefined
  }

  #take(keys: readonly Key[], fetch: FetchConfigs): Flight {
    const ids = keys.map(keyId)
    const readFromMs = performance.now()
    const records = fetch(keys).then(
      items => {
        const records = new Map<string, ConfigRecord | undefined>()
        for (const id of ids) {
          const item = items.get(id)
          const known = {record: item && decodeConfig(item), readFromMs}
          records.set(id, known.record)
          this.#remember(id, known, flight)
        }
        return records
      },
      error => {
        for (const id of ids) if (this.#flights.get(id) === flight) this.#flights.delete(id)
        throw error
      },
    )
    const flight = {records, readFromMs}
    if (!this.#keepsNothing) for (const id of ids) this.#flights.set(id, flight)
    return flight
  }

  #remember(id: string, known: Known, flight: Flight): void {
    if (known.record?.scope.level === 'system' || this.#lastSystem.get(id)) this.#lastSystem.set(id, known)
    if (this.#flights.get(id) !== flight) return
    this.#flights.delete(id)
    if (known.record || this.#keepsAbsent()) this.#known.set(id, known)
    else this.#known.delete(id)
  }
}

/** A deadline counts as an outage; an abort by the caller does not. */
function stopped(signal: AbortSignal): Error {
  return classifyError(signal.reason, 'BatchGetItem', {signal})
}
