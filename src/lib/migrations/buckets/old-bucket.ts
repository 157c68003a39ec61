import type {Item} from '../../schema/attribute-value.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {isLegibleBucket} from '../../schema/legacy/legible-bucket.js'
import {flatten} from '../../schema/legacy/modernise.js'
import {readNumber} from '../../schema/read.js'
import {type OldBucketItem, type OldLimit, partsOf, placeOf, together} from './old-bucket-parts.js'

/** What adjustments left of one limit in one place; millitokens, negative where more was taken than given back. */
export interface OldResidue {
  readonly place: string
  readonly tokensMilli: bigint
}

/** What all the old items of one entity and resource come to. */
export interface OldBucket {
  /** Of a limit that lies in several places, the one that was used last. */
  readonly limits: ReadonlyMap<string, OldLimit>
  /** The limit in the other places: clients may still use it there. */
  readonly others: ReadonlyMap<string, readonly OldLimit[]>
  readonly residue: ReadonlyMap<string, readonly OldResidue[]>
  /** Epoch seconds; the latest of its items, `undefined` when one of them lives for ever. */
  readonly ttlSeconds: number | undefined
  readonly cascade: boolean
  readonly parent: string | undefined
}

/**
 * Puts the old items of one entity and resource together. `unreadable` when one of them does not say what it holds: then
 * nobody knows what the bucket comes to.
 */
export function readOldBucket(items: readonly OldBucketItem[], nowMs: number): OldBucket | 'expired' | 'unreadable' {
  const alive = items.filter(({item}) => !isOldBucketExpired(item, nowMs))
  if (alive.length === 0) return 'expired'
  if (!alive.every(({item}) => isLegibleBucket(item))) return 'unreadable'
  const places = new Map<string, Map<string, OldLimit>>()
  const residue = new Map<string, OldResidue[]>()
  let record: BucketRecord | undefined
  for (const each of alive.sort(newestFirst)) {
    const parts = partsOf(each)
    const lastUsedMs = record?.state.refilledAtMs ?? -Infinity
    if (parts.record && parts.record.state.refilledAtMs > lastUsedMs) record = parts.record
    for (const [name, limit] of parts.limits) addLimit(places, name, limit)
    for (const [name, {tokensMilli}] of parts.residue) addResidue(residue, name, {place: restOf(each), tokensMilli})
  }
  const ttls = alive.map(({item}) => readNumber(flatten(item), 'ttl') ?? Infinity)
  const latest = Math.max(...ttls)
  return {
    ...choose(places),
    residue,
    ttlSeconds: latest === Infinity ? undefined : latest,
    cascade: record?.cascade ?? false,
    parent: record?.parent,
  }
}

/** Whether the table may drop an item by itself. */
export function isOldBucketExpired(item: Item, nowMs: number): boolean {
  const ttl = readNumber(flatten(item), 'ttl')
  return ttl !== undefined && ttl <= Math.floor(nowMs / 1000)
}

/** Shards came last; they are in the order of their numbers. */
function newestFirst({record: a}: OldBucketItem, {record: b}: OldBucketItem): number {
  if (a.shard !== undefined && b.shard !== undefined) return a.shard - b.shard
  return Number(b.shard !== undefined) - Number(a.shard !== undefined) || b.generation - a.generation
}

/** By limit and place; what shares a place are shards. */
function addLimit(places: Map<string, Map<string, OldLimit>>, name: string, limit: OldLimit): void {
  const known = places.get(name) ?? new Map<string, OldLimit>()
  const sibling = known.get(limit.place)
  places.set(name, known.set(limit.place, sibling ? together(sibling, limit) : limit))
}

/** The rest of a bucket has a place of its own in the marks: next to it another shard may be alive. */
const restOf = ({record}: OldBucketItem): string => `${placeOf(record)}/rest`

function addResidue(residue: Map<string, OldResidue[]>, name: string, added: OldResidue): void {
  const known = residue.get(name) ?? []
  const sibling = known.find(({place}) => place === added.place)
  const others = known.filter(({place}) => place !== added.place)
  residue.set(name, [...others, {...added, tokensMilli: added.tokensMilli + (sibling?.tokensMilli ?? 0n)}])
}

/** The one used last counts: it has been refilled last. Of two at the same instant, the newer layout. */
function choose(places: ReadonlyMap<string, ReadonlyMap<string, OldLimit>>): Pick<OldBucket, 'limits' | 'others'> {
  const limits = new Map<string, OldLimit>()
  const others = new Map<string, OldLimit[]>()
  for (const [name, byPlace] of places) {
    const [last, ...rest] = [...byPlace.values()].sort((a, b) => b.refilledAtMs - a.refilledAtMs)
    if (last) limits.set(name, last)
    if (rest.length > 0) others.set(name, rest)
  }
  return {limits, others}
}
