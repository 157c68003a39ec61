import {addressOf, MAX_SHARDS, shardCountOf} from '../repository/buckets/buckets.js'
import type {ShardAddress} from '../repository/buckets/pages.js'
import type {StoredBucket} from '../schema/bucket-record.js'
import type {Reading} from './model.js'
import type {PollCandidate} from './poll-plan.js'
import {bucketId, nextReading} from './reading.js'

const NONE: ReadonlySet<number> = new Set()
const ONLY_FIRST: readonly number[] = [0]

/** A bucket of which an index told. Ten thousand are candidates with every poll, so each is its own. */
class Entry implements PollCandidate {
  readonly id: string
  readonly entity: string
  readonly resource: string
  /** Those to read. An index lags behind; shard 0 says how many there are. */
  numbers: readonly number[] = ONLY_FIRST
  /** Those that were looked for in vain; only the index brings them back. */
  absent: ReadonlySet<number> = NONE
  reading: Reading | undefined = undefined
  /** Epoch ms when only items without a state were found, the last time it was looked for. */
  unreadableAtMs: number | undefined = undefined

  constructor(id: string, {entity, resource}: ShardAddress) {
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

/** Every bucket that is known, where its shards are, and what was read of it last. */
export class Catalogue {
  readonly #entries = new Map<string, Entry>()
  readonly #gone = new Map<string, Reading>()

  /** Buckets that are known, and those besides of which nothing can be read. */
  size(): {count: number; unreadable: number} {
    let unreadable = 0
    for (const entry of this.#entries.values()) if (entry.unreadableAtMs !== undefined) unreadable++
    return {count: this.#entries.size - unreadable, unreadable}
  }

  /** Takes down what an index told. */
  learn(addresses: readonly ShardAddress[]): void {
    for (const address of addresses) {
      const {shard} = address
      const id = bucketId(address)
      let entry = this.#entries.get(id)
      if (!entry) {
        entry = new Entry(id, address)
        this.#entries.set(id, entry)
      }
      if (!entry.numbers.includes(shard)) entry.numbers = [...entry.numbers, shard]
    }
  }

  candidates(): PollCandidate[] {
    return [...this.#entries.values()]
  }

  /** Where the known shards of some buckets are. */
  addressesOf(ids: readonly string[]): ShardAddress[] {
    return ids.flatMap(id => {
      const entry = this.#entries.get(id)
      return entry ? entry.numbers.map(shard => ({entity: entry.entity, resource: entry.resource, shard})) : []
    })
  }

  /** Shards that the buckets which were read tell of, and of which nobody knew. */
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

  /**
   * Takes down what was found where these buckets are, and says how many there were. One of which nothing is left is gone,
   * and stays for one more poll.
   */
  take(ids: readonly string[], stored: readonly StoredBucket[], readAtMs: number): number {
    const found = byBucket(stored)
    let taken = 0
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
      taken++
      entry.unreadableAtMs = undefined
      shards.sort((a, b) => addressOf(a).shard - addressOf(b).shard)
      const {entity, resource} = entry
      const bucket = {entity, resource, shardCount: shardCountOf(shards), shards}
      entry.reading = nextReading(entry.reading, bucket, readAtMs)
      noteShards(
        entry,
        shards.map(shard => addressOf(shard).shard),
        bucket.shardCount,
      )
    }
    return taken
  }

  /** By id; those that are gone once more. */
  readings(): ReadonlyMap<string, Reading> {
    const readings = new Map(this.#gone)
    for (const [id, {reading}] of this.#entries) if (reading) readings.set(id, reading)
    return readings
  }
}

/** Something was consumed between its last readings; or before the first, as far as it has not been refilled since. */
function isInUse({ratePerSecond, used}: Reading): boolean {
  if (ratePerSecond.size === 0) return (used.at(-1) ?? 0) > 0
  for (const rate of ratePerSecond.values()) if (rate !== 0) return true
  return false
}

/** Looking again and again for shards that are not there would cost as much as those that are. */
function noteShards(entry: Entry, present: readonly number[], shardCount: number): void {
  entry.numbers = present.length === 1 && present[0] === 0 ? ONLY_FIRST : [...new Set([0, ...present])]
  const counted = Array.from({length: Math.min(shardCount, MAX_SHARDS)}, (_, shard) => shard)
  const absent = counted.filter(shard => shard !== 0 && !present.includes(shard))
  entry.absent = absent.length === 0 ? NONE : new Set(absent)
}

function byBucket(stored: readonly StoredBucket[]): Map<string, StoredBucket[]> {
  const found = new Map<string, StoredBucket[]>()
  for (const shard of stored) {
    const id = bucketId(addressOf(shard))
    const shards = found.get(id)
    if (shards) shards.push(shard)
    else found.set(id, [shard])
  }
  return found
}
