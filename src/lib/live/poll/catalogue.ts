import {groupBy} from '../../core/group-by.js'
import {addressOf, MAX_SHARDS, type ShardedBucket, shardCountOf} from '../../repository/buckets/buckets.js'
import type {CountedShard, ShardAddress} from '../../repository/buckets/pages.js'
import type {StoredBucket} from '../../schema/bucket-record.js'
import {MOST_LEVELS} from '../../schema/namespace-record.js'
import type {Reading, Readings} from '../model/model.js'
import type {PollCandidate} from './poll-plan.js'
import {bucketId, compactRecord, nextReading} from './reading.js'

const NONE: ReadonlySet<number> = new Set()
const ONLY_FIRST: readonly number[] = [0]

/** Also the candidate itself, because each poll considers all of ten thousand entries. */
class CatalogueEntry implements PollCandidate {
  readonly id: string
  readonly entity: string
  readonly resource: string
  /** Shards to read. The index lags; shard 0 has the current count. */
  numbers: readonly number[] = ONLY_FIRST
  /** Shards that were not found; only the index can restore them. */
  absent: ReadonlySet<number> = NONE
  reading: Reading | undefined = undefined
  /** Epoch ms of the last read, if no item had a state. */
  unreadableAtMs: number | undefined = undefined

  constructor(id: string, {entity, resource}: Omit<ShardAddress, 'shard'>) {
    this.id = id
    this.entity = entity
    this.resource = resource
  }

  get shards(): number {
    return this.numbers.length
  }

  get readAtMs(): number | undefined {
    return this.unreadableAtMs ?? this.reading?.readAtMs
  }

  get isActive(): boolean {
    return this.reading !== undefined && isInUse(this.reading)
  }
}

export class Catalogue {
  readonly #entries = new Map<string, CatalogueEntry>()
  readonly #gone = new Map<string, Reading>()

  readonly #form: typeof compactRecord
  mostLevels: number

  constructor(readings: Iterable<Reading> = [], form = compactRecord, mostLevels: number = MOST_LEVELS.parent) {
    this.#form = form
    this.mostLevels = mostLevels
    for (const reading of readings) {
      const entry = new CatalogueEntry(reading.id, reading.bucket)
      entry.reading = reading
      rememberShards(entry, reading.bucket)
      this.#entries.set(reading.id, entry)
    }
  }

  size(): {count: number; unreadable: number} {
    let unreadable = 0
    for (const entry of this.#entries.values()) if (entry.unreadableAtMs !== undefined) unreadable++
    return {count: this.#entries.size - unreadable, unreadable}
  }

  resources(): Set<string> {
    return new Set(Array.from(this.#entries.values(), ({resource}) => resource))
  }

  addShards(addresses: readonly ShardAddress[]): void {
    for (const address of addresses) {
      const {shard} = address
      const id = bucketId(address)
      let entry = this.#entries.get(id)
      if (!entry) {
        entry = new CatalogueEntry(id, address)
        this.#entries.set(id, entry)
      }
      if (!entry.numbers.includes(shard)) entry.numbers = [...entry.numbers, shard]
    }
  }

  candidates(): PollCandidate[] {
    return [...this.#entries.values()]
  }

  addressesOf(ids: readonly string[]): ShardAddress[] {
    return ids.flatMap(id => {
      const entry = this.#entries.get(id)
      return entry ? entry.numbers.map(shard => ({entity: entry.entity, resource: entry.resource, shard})) : []
    })
  }

  unknownShards(stored: readonly StoredBucket[]): ShardAddress[] {
    return [...byBucket(stored)].flatMap(([id, shards]) => {
      const entry = this.#entries.get(id)
      if (!entry) return []
      const count = Math.min(shardCountOf(shards), MAX_SHARDS)
      const counted = Array.from({length: count}, (_, shard) => shard)
      const unknown = counted.filter(shard => !entry.numbers.includes(shard) && !entry.absent.has(shard))
      return unknown.map(shard => ({entity: entry.entity, resource: entry.resource, shard}))
    })
  }

  /** Returns how many of them exist. A deleted bucket stays for one more poll. */
  update(ids: readonly string[], stored: readonly CountedShard[], readAtMs: number): number {
    const found = byBucket(stored)
    let existing = 0
    this.#gone.clear()
    for (const id of ids) {
      const entry = this.#entries.get(id)
      if (!entry) continue
      const shards = found.get(id) ?? []
      if (!shards.some(({kind}) => kind === 'bucket')) {
        if (entry.reading) this.#gone.set(id, {...entry.reading, isGone: true})
        entry.reading = undefined
        if (shards.length > 0) entry.unreadableAtMs = readAtMs
        else this.#entries.delete(id)
        continue
      }
      existing++
      entry.unreadableAtMs = undefined
      shards.sort((a, b) => addressOf(a).shard - addressOf(b).shard)
      const {entity, resource} = entry
      const bucket = {entity, resource, shardCount: shardCountOf(shards), shards}
      entry.reading = nextReading(entry.reading, bucket, readAtMs, this.#form, this.mostLevels)
      rememberShards(entry, bucket)
    }
    return existing
  }

  readings(): Readings {
    const readings = new Map(this.#gone)
    for (const [id, {reading}] of this.#entries) if (reading) readings.set(id, reading)
    return readings
  }
}

function isInUse({ratePerSecond, used}: Reading): boolean {
  if (ratePerSecond.size === 0) return (used.at(-1) ?? 0) > 0
  for (const rate of ratePerSecond.values()) if (rate !== 0) return true
  return false
}

/** Remembers absent shards too: reading one costs as much as reading an existing one. */
function rememberShards(entry: CatalogueEntry, {shards, shardCount}: ShardedBucket): void {
  const present = shards.map(shard => addressOf(shard).shard)
  entry.numbers = present.length === 1 && present[0] === 0 ? ONLY_FIRST : [...new Set([0, ...present])]
  const counted = Array.from({length: Math.min(shardCount, MAX_SHARDS)}, (_, shard) => shard)
  const absent = counted.filter(shard => shard !== 0 && !present.includes(shard))
  entry.absent = absent.length === 0 ? NONE : new Set(absent)
}

const byBucket = <T extends StoredBucket>(stored: readonly T[]): Map<string, T[]> =>
  groupBy(stored, shard => bucketId(addressOf(shard)))
