import type {LimitState} from '../../core/buckets/bucket.js'
import type {KindedRate} from '../../core/limits/limit-kind.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {type Balance, refill, shareOfRate} from '../../core/token-math.js'
import type {Item} from '../../schema/attribute-value.js'
import {type BucketRecord, decodeBucket, limitAttribute, type Residue} from '../../schema/bucket-record.js'
import {decodeCompositeBucket, decodePerLimitBucket} from '../layouts/old-limit-parts.js'
import type {OldItem} from '../records/finding.js'

export interface OldLimit {
  readonly state: LimitState
  /** The limit over all shards, whether all of them still exist or not. */
  readonly whole: KindedRate
  readonly refilledAtMs: number
  /** Whether the item counts its consumption; the oldest releases did not. */
  readonly countsConsumption: boolean
  /** Location of the item as stored in marks, see {@link locationOf}. */
  readonly location: string
  /** The item that is charged. */
  readonly item: Item
  readonly isPerLimit: boolean
}

interface BucketParts {
  /** `undefined` for the item of a single limit, and for counters that are left of a bucket. */
  readonly record: BucketRecord | undefined
  readonly limits: ReadonlyMap<string, OldLimit>
  /** Counters that adjustments left of limits, or of a whole bucket, that are gone. */
  readonly residue: ReadonlyMap<string, Residue>
}

const NO_RESIDUE: ReadonlyMap<string, Residue> = new Map()

/** Decodes an item that is readable. */
export function decodeParts({item, record: identity}: OldItem<'bucket'>): BucketParts {
  const location = locationOf(identity)
  const single = decodePerLimitBucket(item)
  if (single) {
    const {limit, state, refilledAtMs, countsConsumption} = single
    const limits = new Map([
      [limit, {state, whole: state, refilledAtMs, countsConsumption, location, item, isPerLimit: true}],
    ])
    return {record: undefined, limits, residue: NO_RESIDUE}
  }
  const stored = decodeCompositeBucket(item) ?? decodeBucket(item)
  if (stored?.kind !== 'bucket') {
    return {record: undefined, limits: new Map(), residue: stored ? withoutWritePressure(stored.residue) : NO_RESIDUE}
  }
  const {record, incomplete} = stored
  const {shard, shardCount, state: bucket} = record
  const limits = new Map(
    [...withoutWritePressure(bucket.limits)].map(([name, whole]): [string, OldLimit] => {
      const state = {...whole, ...shareOfRate(name, whole, shard, shardCount)}
      const countsConsumption = limitAttribute(name, 'consumed') in item
      const refilledAtMs = bucket.refilledAtMs
      return [name, {state, whole, refilledAtMs, countsConsumption, location, item, isPerLimit: false}]
    }),
  )
  return {record, limits, residue: withoutWritePressure(incomplete)}
}

/** Location of an item of a bucket, as stored in marks: namespace id in its key, and layout. Shards share one location. */
export function locationOf({namespace = '', limit, shard}: OldItem<'bucket'>['record']): string {
  if (limit !== undefined) return `${namespace}/limits`
  return `${namespace}/${shard === undefined ? 'bucket' : 'shards'}`
}

/** Write pressure is not consumption of a client. */
function withoutWritePressure<T>(limits: ReadonlyMap<string, T>): Map<string, T> {
  return new Map([...limits].filter(([name]) => name !== WRITE_PRESSURE_LIMIT))
}

/** Balance of a limit refilled up to an instant; an instant before its last refill changes nothing. */
export function balanceAt({state, refilledAtMs}: Pick<OldLimit, 'state' | 'refilledAtMs'>, atMs: number): Balance {
  return refill(state, state, atMs - refilledAtMs)
}

/** Adds up two shards of one limit, at the later of their refill instants; charges go to the first one. */
export function addShard(one: OldLimit, other: OldLimit): OldLimit {
  const refilledAtMs = Math.max(one.refilledAtMs, other.refilledAtMs)
  const a = balanceAt(one, refilledAtMs)
  const b = balanceAt(other, refilledAtMs)
  return {
    ...one,
    refilledAtMs,
    state: {
      ...one.state,
      capacityMilli: one.state.capacityMilli + other.state.capacityMilli,
      refillAmountMilli: one.state.refillAmountMilli + other.state.refillAmountMilli,
      tokensMilli: a.tokensMilli + b.tokensMilli,
      consumedMilli: one.state.consumedMilli + other.state.consumedMilli,
      // Added up, the fractions could be a whole millitoken; dropping the smaller one loses at most half of that.
      remainder: a.remainder > b.remainder ? a.remainder : b.remainder,
    },
  }
}
