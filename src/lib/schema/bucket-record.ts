import type {BucketState, LimitState} from '../core/bucket.js'
import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import type {Rate} from '../core/token-math.js'
import {bool, type Item, n, s} from './attribute-value.js'
import {indexKeys, keys, parseItemKey} from './keys.js'
import {readBigInt, readBoolean, readNumber, readString} from './read.js'
import {decodeRemainders, encodeRemainders, REMAINDERS} from './remainders.js'

/** One shard of one bucket, as stored. Parameters in `state` are undivided, whatever the shard count. */
export interface BucketRecord {
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  readonly shard: number
  /** How many shards there are; shard 0 has the last word. */
  readonly shardCount: number
  readonly cascade: boolean
  readonly parent: string | undefined
  /** Epoch seconds; absent when the bucket must not expire. */
  readonly ttlSeconds: number | undefined
  /** Includes the write-pressure limit. */
  readonly state: BucketState
}

/** What another client left of a limit or of a whole bucket: counters without the parameters that give them meaning. */
export interface Residue {
  readonly tokensMilli: bigint
  readonly consumedMilli: bigint
}

export type StoredBucket =
  | {
      readonly kind: 'bucket'
      readonly record: BucketRecord
      /** Limits with counters but without usable parameters; they must be healed, not computed with. */
      readonly incomplete: ReadonlyMap<string, Residue>
    }
  | {
      /** A stub that a refund created after the item was gone: no refill instant, in no index. */
      readonly kind: 'ghost'
      readonly namespace: string
      readonly entity: string
      readonly resource: string
      readonly shard: number
      readonly residue: ReadonlyMap<string, Residue>
    }

/** Attribute of one field of one limit: tokens, capacity, refill amount (milli), refill period (ms), total consumed. */
export function limitAttribute(limit: string, field: 'tk' | 'cp' | 'ra' | 'rp' | 'tc'): string {
  return `b_${limit}_${field}`
}

/** Net number of requests that writes to this item have admitted. Clients that do not know it leave it as it is. */
export const REQUEST_COUNT = 'rq'

/** `undefined` where no client that counts requests has written yet. */
export const readRequestCount = (item: Item): number | undefined => readNumber(item, REQUEST_COUNT)

/** Millitokens consumed so far, net, per limit; write pressure is nobody's consumption. */
export function readConsumption(item: Item): Map<string, bigint> {
  const consumed = new Map<string, bigint>()
  for (const attribute of Object.keys(item)) {
    const limit = /^b_(.+)_tc$/.exec(attribute)?.[1]
    const milli = limit === undefined || limit === WRITE_PRESSURE_LIMIT ? undefined : readBigInt(item, attribute)
    if (milli !== undefined) consumed.set(limit as string, milli)
  }
  return consumed
}

/** Parameters of the write-pressure limit on every item: 1,000 writes, regained every second. */
export const WRITE_PRESSURE_RATE: Rate = {
  capacityMilli: 1_000_000n,
  refillAmountMilli: 1_000_000n,
  refillPeriodMs: 1000,
}

/** One admitted write counts this much write pressure, in millitokens. */
export const WRITE_PRESSURE_PER_WRITE = 1000n

/** The full item. A bucket without write pressure gets a fresh one: peers cannot use an item that lacks it. */
export function encodeBucket(record: BucketRecord): Item {
  const {namespace, entity, resource, shard, state} = record
  const {PK, SK} = keys.bucket(namespace, entity, resource, shard)
  const indexes = {
    ...indexKeys.bucketOfResource(namespace, resource, entity, shard),
    ...indexKeys.bucketOfEntity(namespace, entity, resource, shard),
    ...indexKeys.bucketInNamespace(namespace, entity, resource, shard),
  }
  const item: Item = {
    PK: s(PK),
    SK: s(SK),
    entity_id: s(entity),
    resource: s(resource),
    rf: n(state.refilledAtMs),
    shard_count: n(record.shardCount),
    cascade: bool(record.cascade),
  }
  for (const [name, value] of Object.entries(indexes)) item[name] = s(value)
  if (record.parent !== undefined) item.parent_id = s(record.parent)
  if (record.ttlSeconds !== undefined) item.ttl = n(record.ttlSeconds)
  for (const [name, limit] of state.limits) encodeLimit(item, name, limit)
  if (!state.limits.has(WRITE_PRESSURE_LIMIT)) encodeLimit(item, WRITE_PRESSURE_LIMIT, freshWritePressure())
  const remainders = encodeRemainders(state)
  if (remainders !== undefined) item[REMAINDERS] = s(remainders)
  return item
}

/** Write pressure as every new item starts with it. */
export function freshWritePressure(): LimitState {
  return {...WRITE_PRESSURE_RATE, tokensMilli: WRITE_PRESSURE_RATE.capacityMilli, remainder: 0n, consumedMilli: 0n}
}

/** Reads a bucket item of the current layout; `undefined` when the key is not a bucket's. */
export function decodeBucket(item: Item): StoredBucket | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'bucket') return undefined
  const {namespace, entity, resource, shard} = key
  const refilledAtMs = readNumber(item, 'rf')
  const {limits, incomplete} = decodeLimits(item, refilledAtMs)
  if (refilledAtMs === undefined) return {kind: 'ghost', namespace, entity, resource, shard, residue: incomplete}
  return {
    kind: 'bucket',
    record: {
      namespace,
      entity,
      resource,
      shard,
      shardCount: readNumber(item, 'shard_count') ?? 1,
      cascade: readBoolean(item, 'cascade') ?? false,
      parent: readString(item, 'parent_id'),
      ttlSeconds: readNumber(item, 'ttl'),
      state: {refilledAtMs, limits},
    },
    incomplete,
  }
}

function encodeLimit(item: Item, name: string, limit: LimitState): void {
  item[limitAttribute(name, 'tk')] = n(limit.tokensMilli)
  item[limitAttribute(name, 'cp')] = n(limit.capacityMilli)
  item[limitAttribute(name, 'ra')] = n(limit.refillAmountMilli)
  item[limitAttribute(name, 'rp')] = n(limit.refillPeriodMs)
  item[limitAttribute(name, 'tc')] = n(limit.consumedMilli)
}

function decodeLimits(item: Item, refilledAtMs: number | undefined) {
  const limits = new Map<string, LimitState>()
  const incomplete = new Map<string, Residue>()
  for (const attribute of Object.keys(item)) {
    if (!attribute.startsWith('b_') || !attribute.endsWith('_tk')) continue
    const name = attribute.slice(2, -3)
    const tokensMilli = readBigInt(item, attribute) ?? 0n
    const consumedMilli = readBigInt(item, limitAttribute(name, 'tc')) ?? 0n
    const capacityMilli = readBigInt(item, limitAttribute(name, 'cp')) ?? 0n
    const refillAmountMilli = readBigInt(item, limitAttribute(name, 'ra')) ?? 0n
    const refillPeriodMs = readNumber(item, limitAttribute(name, 'rp')) ?? 0
    if (refilledAtMs === undefined || capacityMilli <= 0n || refillAmountMilli <= 0n || refillPeriodMs <= 0) {
      incomplete.set(name, {tokensMilli, consumedMilli})
    } else {
      limits.set(name, {capacityMilli, refillAmountMilli, refillPeriodMs, tokensMilli, consumedMilli, remainder: 0n})
    }
  }
  if (refilledAtMs !== undefined) {
    for (const [name, {remainder, refillPeriodMs}] of decodeRemainders(readString(item, REMAINDERS), refilledAtMs)) {
      const limit = limits.get(name)
      // A period changed since by another client would give the numerator another worth.
      if (limit && limit.refillPeriodMs === refillPeriodMs) limits.set(name, {...limit, remainder})
    }
  }
  return {limits, incomplete}
}

/** Attribute of the refill instant that all limits of a bucket share. */
export const REFILL_INSTANT = 'rf'

/** How many shards a bucket has, as one of its items says. */
export const readShardCount = (item: Item): number => readNumber(item, 'shard_count') ?? 1
