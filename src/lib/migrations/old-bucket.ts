import type {LimitState} from '../core/bucket.js'
import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import {shareOfRate} from '../core/shards.js'
import {type Balance, refill} from '../core/token-math.js'
import type {Item} from '../schema/attribute-value.js'
import {type BucketRecord, decodeBucket} from '../schema/bucket-record.js'
import {decodeCompositeBucket, decodePerLimitBucket} from '../schema/legacy/legacy-buckets.js'
import {flatten} from '../schema/legacy/modernise.js'
import {readNumber} from '../schema/read.js'
import type {OldRecord} from './classify.js'

/** One stored item of an old bucket. */
export interface OldBucketItem {
  readonly item: Item
  readonly record: OldRecord & {readonly type: 'bucket'}
}

/** One limit of an old bucket, wherever it lay. */
export interface OldLimit {
  readonly state: LimitState
  readonly refilledAtMs: number
  /** Whether the item counts its consumption; the oldest releases did not. */
  readonly counted: boolean
  /** The item that a charge goes to. */
  readonly place: Item
  /** Whether an own item holds it. */
  readonly perLimit: boolean
}

/** What all the old items of one entity and resource come to. */
export interface OldBucket {
  readonly limits: ReadonlyMap<string, OldLimit>
  /** Epoch seconds; the latest of its items, `undefined` when one of them lives for ever. */
  readonly ttlSeconds: number | undefined
  readonly cascade: boolean
  readonly parent: string | undefined
  /** Limits that several generations hold: the newest counts. */
  readonly superseded: readonly string[]
}

/** Puts the old items of one entity and resource together; `undefined` when all of them have expired or are empty. */
export function readOldBucket(items: readonly OldBucketItem[], nowMs: number): OldBucket | undefined {
  const alive = items.filter(({item}) => !isExpired(item, nowMs))
  const limits = new Map<string, OldLimit>()
  const superseded = new Set<string>()
  let record: BucketRecord | undefined
  for (const {item} of alive.sort(newestFirst)) {
    const parts = partsOf(item)
    if (parts.record && !record) record = parts.record
    for (const [name, limit] of parts.limits) {
      const known = limits.get(name)
      if (!known) limits.set(name, limit)
      else if (parts.record && parts.record.shard > 0) limits.set(name, together(known, limit))
      else superseded.add(name)
    }
  }
  if (limits.size === 0) return undefined
  const ttls = alive.map(({item}) => readNumber(item, 'ttl') ?? Infinity)
  const latest = Math.max(...ttls)
  return {
    limits,
    ttlSeconds: latest === Infinity ? undefined : latest,
    cascade: record?.cascade ?? false,
    parent: record?.parent,
    superseded: [...superseded].sort(),
  }
}

/** What a limit holds once it has been refilled up to an instant; an earlier one changes nothing. */
export function levelAt({state, refilledAtMs}: OldLimit, atMs: number): Balance {
  return refill(state, state, atMs - refilledAtMs)
}

/** Whether the table may drop an item by itself. */
export function isExpired(item: Item, nowMs: number): boolean {
  const ttl = readNumber(flatten(item), 'ttl')
  return ttl !== undefined && ttl <= Math.floor(nowMs / 1000)
}

/** Shards came last; they are in the order of their numbers. */
function newestFirst({record: a}: OldBucketItem, {record: b}: OldBucketItem): number {
  if (a.shard !== undefined && b.shard !== undefined) return a.shard - b.shard
  return Number(b.shard !== undefined) - Number(a.shard !== undefined) || b.generation - a.generation
}

function partsOf(item: Item): {record: BucketRecord | undefined; limits: Map<string, OldLimit>} {
  const limits = new Map<string, OldLimit>()
  const single = decodePerLimitBucket(item)
  if (single) {
    const counted = 'total_consumed_milli' in flatten(item)
    if (isUsable(single.state))
      limits.set(single.limit, {...single, state: single.state, counted, place: item, perLimit: true})
    return {record: undefined, limits}
  }
  // The namespace does not matter here: only the state is read.
  const stored = decodeCompositeBucket(item, '?') ?? decodeBucket(item)
  if (stored?.kind !== 'bucket') return {record: undefined, limits}
  const {record} = stored
  for (const [name, state] of record.state.limits) {
    if (name === WRITE_PRESSURE_LIMIT) continue
    const counted = `b_${name}_tc` in item
    const {refilledAtMs} = record.state
    limits.set(name, {state: shareOf(name, state, record), refilledAtMs, counted, place: item, perLimit: false})
  }
  return {record, limits}
}

const isUsable = (state: LimitState): boolean =>
  state.capacityMilli > 0n && state.refillAmountMilli > 0n && state.refillPeriodMs > 0

function shareOf(name: string, state: LimitState, {shard, shardCount}: BucketRecord): LimitState {
  return {...state, ...shareOfRate(name, state, shard, shardCount)}
}

/** Two shards of one limit as one, at the later of their refill instants; charges go to the first. */
function together(one: OldLimit, other: OldLimit): OldLimit {
  const refilledAtMs = Math.max(one.refilledAtMs, other.refilledAtMs)
  const a = levelAt(one, refilledAtMs)
  const b = levelAt(other, refilledAtMs)
  return {
    ...one,
    refilledAtMs,
    state: {
      ...one.state,
      capacityMilli: one.state.capacityMilli + other.state.capacityMilli,
      refillAmountMilli: one.state.refillAmountMilli + other.state.refillAmountMilli,
      tokensMilli: a.tokensMilli + b.tokensMilli,
      consumedMilli: one.state.consumedMilli + other.state.consumedMilli,
      // Two shards may have earned a whole millitoken in fractions; half a millitoken less is nobody's loss.
      remainder: a.remainder > b.remainder ? a.remainder : b.remainder,
    },
  }
}
