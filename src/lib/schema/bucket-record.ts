import {type BucketLimit, type BucketState, hasKinds} from '../core/buckets/bucket.js'
import type {Bypassable, LimitKind} from '../core/limits/limit-kind.js'
import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import type {Rate} from '../core/token-math.js'
import {
  bool,
  type Item,
  n,
  readBigInt,
  readBoolean,
  readExpiry,
  readNumber,
  readString,
  s,
  texts,
} from './attribute-value.js'
import {attributes, remembering} from './attributes.js'
import {generationAttributes, type ParentGeneration, readGeneration} from './family.js'
import {indexKeys, keys, parseItemKey, wireKey} from './keys.js'
import {decodeKind, encodeCalendars, encodeKindState, isKindAttribute} from './kind-attributes.js'
import {bucketFeatures, type CarriedFeature, isForeign, unsupportedOf} from './peer-features.js'
import {type BucketSlots, decodeSlots, encodeSlots, isSlotAttribute} from './slot-attributes.js'

/** One shard of a bucket. `state` has the undivided parameters, whatever the shard count. */
export interface BucketRecord extends Bypassable {
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  readonly shard: number
  /** Shard 0 is authoritative. */
  readonly shardCount: number
  readonly cascade: boolean
  readonly parent: string | undefined
  /** Epoch seconds; absent if the bucket must not expire. */
  readonly ttlSeconds: number | undefined
  /** Includes the write-pressure limit. */
  readonly state: BucketState
  /** The write that last changed limits, parent, cascade or the shard count; absent if no client has marked it. */
  readonly limitsRevision?: string | undefined
  /** The creation or reset that filled it: earlier reservations are not refunded. Absent if no client has marked it. */
  readonly incarnation?: string | undefined
  /** Epoch ms until which balances and rates hold as stored. 0: the configuration may have changed. Absent if plain. */
  readonly validUntilMs?: number | undefined
  /** Epoch ms: the latest refill instant that a reset or correction has set back. Absent if none has. */
  readonly setBackFromMs?: number | undefined
  readonly isDisabled?: true | undefined
  /** Absent without in-flight limits. */
  readonly slots?: BucketSlots | undefined
  /** The generation of `parent` and `cascade`; absent if no client counts moves. */
  readonly parentGeneration?: ParentGeneration | undefined
  /** Features that zael does not support: the bucket must not be used. Absent if there are none. */
  readonly unsupported?: readonly CarriedFeature[] | undefined
  /** Attributes of other clients, which a copy of the item keeps. Absent if there are none. */
  readonly foreign?: Item | undefined
}

/** Counters without parameters, left by another client. */
export interface Residue {
  readonly tokensMilli: bigint
  readonly consumedMilli: bigint
}

export type StoredBucket =
  | {
      readonly kind: 'bucket'
      readonly record: BucketRecord
      /** Limits with counters but without usable parameters. Repair them before use. */
      readonly incomplete: ReadonlyMap<string, Residue>
    }
  | {
      /** Created by a refund after the item was deleted: no refill instant, in no index. */
      readonly kind: 'ghost'
      readonly namespace: string
      readonly entity: string
      readonly resource: string
      readonly shard: number
      readonly residue: ReadonlyMap<string, Residue>
    }

const names = attributes.bucket

const FIELDS = {tokens: 'tk', capacity: 'cp', refillAmount: 'ra', refillPeriod: 'rp', consumed: 'tc'} as const

/** Amounts in millitokens, the refill period in ms; `consumed` is a lifetime total. */
type LimitField = keyof typeof FIELDS

export const LIMIT_FIELDS = Object.keys(FIELDS) as LimitField[]

const LIMIT_PREFIX = 'b_'

const attributesOf = remembering((limit): Readonly<Record<LimitField, string>> => {
  const of = (field: LimitField) => `${LIMIT_PREFIX}${limit}_${FIELDS[field]}`
  const [tokens, capacity, consumed] = [of('tokens'), of('capacity'), of('consumed')]
  return {tokens, capacity, refillAmount: of('refillAmount'), refillPeriod: of('refillPeriod'), consumed}
})

export const limitAttribute = (limit: string, field: LimitField): string => attributesOf(limit)[field]

function limitOf(attribute: string, field: LimitField): string | undefined {
  if (!attribute.startsWith(LIMIT_PREFIX) || !attribute.endsWith(FIELDS[field])) return undefined
  const end = attribute.length - FIELDS[field].length - 1
  return end > LIMIT_PREFIX.length && attribute[end] === '_' ? attribute.slice(LIMIT_PREFIX.length, end) : undefined
}

interface AttributeTraits {
  readonly limit: string | undefined
  readonly isOfKind: boolean
  readonly isForeign: boolean
  readonly isSlot: boolean
}

/** One pass over all attributes: this runs for every response. */
const traitsOf = remembering(
  (attribute): AttributeTraits => ({
    limit: limitOf(attribute, 'tokens'),
    isOfKind: isKindAttribute(attribute),
    isForeign: isForeign(attribute),
    isSlot: isSlotAttribute(attribute),
  }),
)

interface ItemTraits {
  readonly limits: string[]
  mayHaveKinds: boolean
  hasSlots: boolean
  foreign: Item | undefined
}

function traitsOfItem(item: Item): ItemTraits {
  const traits: ItemTraits = {limits: [], mayHaveKinds: false, hasSlots: false, foreign: undefined}
  for (const attribute of Object.keys(item)) {
    const {limit, isOfKind, isForeign: isOthers, isSlot} = traitsOf(attribute)
    if (limit !== undefined) traits.limits.push(limit)
    if (isOfKind) traits.mayHaveKinds = true
    if (isSlot) traits.hasSlots = true
    if (!isOthers) continue
    traits.foreign ??= {}
    traits.foreign[attribute] = item[attribute] as Item[string]
  }
  return traits
}

export const markAttribute = (slot: number): string => `wn_${slot}`

export const readShardCount = (item: Item): number => readNumber(item, names.shardCount) ?? 1

/** `undefined` if no client that counts requests has written yet. */
export const readRequestCount = (item: Item): number | undefined => readNumber(item, names.requests)

export function readConsumption(item: Item): Map<string, bigint> {
  const consumed = new Map<string, bigint>()
  for (const attribute of Object.keys(item)) {
    const limit = limitOf(attribute, 'consumed')
    const milli = limit === undefined || limit === WRITE_PRESSURE_LIMIT ? undefined : readBigInt(item, attribute)
    if (milli !== undefined) consumed.set(limit as string, milli)
  }
  return consumed
}

export const WRITE_PRESSURE_RATE: Rate = {
  capacityMilli: 1_000_000n,
  refillAmountMilli: 1_000_000n,
  refillPeriodMs: 1000,
}

export const WRITE_PRESSURE_PER_WRITE = 1000n

/** Adds write pressure if missing: other clients cannot use an item without it. */
export function encodeBucket(record: BucketRecord): Item {
  const {namespace, entity, resource, shard, state} = record
  // Assigning one by one is faster than spreading. Runs for every measured write.
  const item: Item = wireKey(keys.bucket(namespace, entity, resource, shard))
  if (record.foreign !== undefined) Object.assign(item, record.foreign)
  item[names.entity] = s(entity)
  item[names.resource] = s(resource)
  item[names.refilledAt] = n(state.refilledAtMs)
  item[names.shardCount] = n(record.shardCount)
  item[names.cascade] = bool(record.cascade)
  Object.assign(item, bucketIndexKeys(record))
  if (record.parent !== undefined) item[names.parent] = s(record.parent)
  if (record.ttlSeconds !== undefined) item[names.expiresAt] = n(record.ttlSeconds)
  if (record.incarnation !== undefined) item[names.incarnation] = s(record.incarnation)
  if (record.limitsRevision !== undefined) item[names.limitsRevision] = s(record.limitsRevision)
  if (record.validUntilMs !== undefined) item[names.validUntil] = n(record.validUntilMs)
  if (record.setBackFromMs !== undefined) item[names.setBackFrom] = n(record.setBackFromMs)
  if (record.bypassUntilMs !== undefined) item[names.bypass] = n(record.bypassUntilMs)
  if (record.parentGeneration !== undefined) Object.assign(item, generationAttributes(record.parentGeneration))
  if (record.slots !== undefined) Object.assign(item, encodeSlots(record.slots, shard))
  for (const [name, limit] of state.limits) encodeLimit(item, name, limit)
  if (hasKinds(state)) encodeKinds(item, state)
  if (!state.limits.has(WRITE_PRESSURE_LIMIT)) encodeLimit(item, WRITE_PRESSURE_LIMIT, freshWritePressure())
  const remainders = encodeRemainders(state)
  if (remainders !== undefined) item[names.remainders] = s(remainders)
  return item
}

function encodeKinds(item: Item, {limits}: BucketState): void {
  const kinds = new Map([...limits].map(([name, {kind}]) => [name, kind]))
  const stored = [encodeCalendars(kinds), ...[...kinds].map(([name, kind]) => encodeKindState(name, kind))]
  for (const [attribute, value] of stored.flatMap(each => [...each])) if (value) item[attribute] = value
}

export function bucketIndexKeys({
  namespace,
  entity,
  resource,
  shard,
}: Pick<BucketRecord, 'namespace' | 'entity' | 'resource' | 'shard'>): Item {
  return {
    ...texts(indexKeys.bucketOfResource(namespace, resource, entity, shard)),
    ...texts(indexKeys.bucketOfEntity(namespace, entity, resource, shard)),
    ...texts(indexKeys.bucketInNamespace(namespace, entity, resource, shard)),
  }
}

export function freshWritePressure(): BucketLimit {
  return {...WRITE_PRESSURE_RATE, tokensMilli: WRITE_PRESSURE_RATE.capacityMilli, remainder: 0n, consumedMilli: 0n}
}

export function decodeBucket(item: Item): StoredBucket | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'bucket') return undefined
  const {namespace, entity, resource, shard} = key
  const refilledAtMs = readNumber(item, names.refilledAt)
  const traits = traitsOfItem(item)
  const {limits, incomplete} = decodeLimits(item, traits, refilledAtMs)
  if (refilledAtMs === undefined) return {kind: 'ghost', namespace, entity, resource, shard, residue: incomplete}
  const record: Mutable<BucketRecord> = {
    namespace,
    entity,
    resource,
    shard,
    shardCount: readShardCount(item),
    cascade: readBoolean(item, names.cascade) ?? false,
    parent: readString(item, names.parent),
    ttlSeconds: readExpiry(item, names.expiresAt),
    state: {refilledAtMs, limits},
    limitsRevision: readString(item, names.limitsRevision),
    incarnation: readString(item, names.incarnation),
  }
  if (names.validUntil in item) record.validUntilMs = readNumber(item, names.validUntil) ?? 0
  if (names.setBackFrom in item) record.setBackFromMs = readNumber(item, names.setBackFrom) ?? 0
  const parentGeneration = readGeneration(item)
  if (parentGeneration) record.parentGeneration = parentGeneration
  if (names.disabled in item) record.isDisabled = true
  if (names.bypass in item) record.bypassUntilMs = readNumber(item, names.bypass) ?? 0
  if (traits.hasSlots) record.slots = decodeSlots(item, shard)
  if (traits.foreign) addForeign(record, item, traits.foreign)
  return {kind: 'bucket', record, incomplete}
}

type Mutable<T> = {-readonly [K in keyof T]: T[K]}

function addForeign(record: Mutable<BucketRecord>, item: Item, foreign: Item): void {
  record.foreign = foreign
  const unsupported = unsupportedOf(bucketFeatures(item))
  if (unsupported.length > 0) record.unsupported = unsupported
}

function encodeLimit(item: Item, name: string, limit: BucketLimit): void {
  item[limitAttribute(name, 'tokens')] = n(limit.tokensMilli)
  item[limitAttribute(name, 'capacity')] = n(limit.capacityMilli)
  item[limitAttribute(name, 'refillAmount')] = n(limit.refillAmountMilli)
  item[limitAttribute(name, 'refillPeriod')] = n(limit.refillPeriodMs)
  item[limitAttribute(name, 'consumed')] = n(limit.consumedMilli)
}

function decodeLimits(item: Item, {limits: stored, mayHaveKinds}: ItemTraits, refilledAtMs: number | undefined) {
  const limits = new Map<string, BucketLimit>()
  const incomplete = new Map<string, Residue>()
  for (const name of stored) {
    const field = attributesOf(name)
    const tokensMilli = readBigInt(item, field.tokens) ?? 0n
    const consumedMilli = readBigInt(item, field.consumed) ?? 0n
    const capacityMilli = readBigInt(item, field.capacity) ?? 0n
    // Zero means a quota; a missing amount means damage.
    const refillAmountMilli = readBigInt(item, field.refillAmount) ?? -1n
    const refillPeriodMs = readNumber(item, field.refillPeriod) ?? 0
    if (refilledAtMs === undefined || capacityMilli <= 0n || refillAmountMilli < 0n || refillPeriodMs <= 0) {
      incomplete.set(name, {tokensMilli, consumedMilli})
    } else {
      const kind = mayHaveKinds ? decodeKind(item, name) : undefined
      const limit = {capacityMilli, refillAmountMilli, refillPeriodMs, tokensMilli, consumedMilli, remainder: 0n}
      limits.set(name, kind ? {...limit, kind: refillAmountMilli > 0n ? withoutQuota(kind) : kind} : limit)
    }
  }
  const remainders = readString(item, names.remainders)
  if (refilledAtMs === undefined || remainders === undefined) return {limits, incomplete}
  for (const [name, {remainder, refillPeriodMs}] of decodeRemainders(remainders, refilledAtMs)) {
    const limit = limits.get(name)
    // The period must match: otherwise the numerator means another fraction.
    if (limit && limit.refillPeriodMs === refillPeriodMs) limits.set(name, {...limit, remainder})
  }
  return {limits, incomplete}
}

/** A limit that refills has no resets, whatever is stored. */
function withoutQuota({quota: _, ...kind}: LimitKind): LimitKind {
  return kind
}

/**
 * Spelled `<refill instant>|name:remainder/period,…`; `undefined` when there are none. Other clients ignore it.
 * When one moves the refill instant, the tag no longer matches: the fractions are void and nothing is credited twice.
 */
export function encodeRemainders(state: BucketState): string | undefined {
  const parts: string[] = []
  for (const [name, limit] of state.limits) {
    if (limit.remainder > 0n) parts.push(`${name}:${limit.remainder}/${limit.refillPeriodMs}`)
  }
  return parts.length === 0 ? undefined : `${state.refilledAtMs}|${parts.join(',')}`
}

export function hasReadableRemainders(item: Item): boolean {
  const text = readString(item, names.remainders)
  if (text === undefined) return !(names.remainders in item)
  const [tag = '', list = ''] = text.split('|')
  const isFraction = (part: string) => {
    const match = /^.+:(\d+)\/(\d+)$/.exec(part)
    return match !== null && BigInt(match[1] as string) < BigInt(match[2] as string)
  }
  return /^\d+$/.test(tag) && list.split(',').every(isFraction)
}

/** Ignores malformed parts, and everything if the tag is not `refilledAtMs`. */
function decodeRemainders(
  text: string,
  refilledAtMs: number,
): Map<string, {remainder: bigint; refillPeriodMs: number}> {
  const remainders = new Map<string, {remainder: bigint; refillPeriodMs: number}>()
  const [tag, list = ''] = text.split('|')
  if (tag !== String(refilledAtMs)) return remainders
  for (const part of list.split(',')) {
    const match = /^(.+):(\d+)\/(\d+)$/.exec(part)
    if (!match) continue
    const remainder = BigInt(match[2] as string)
    const refillPeriodMs = Number(match[3])
    if (remainder < BigInt(refillPeriodMs)) remainders.set(match[1] as string, {remainder, refillPeriodMs})
  }
  return remainders
}
