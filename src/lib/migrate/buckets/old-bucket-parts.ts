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
  /** Over all shards, existing or not. */
  readonly whole: KindedRate
  readonly refilledAtMs: number
  readonly countsConsumption: boolean
  readonly location: string
  readonly item: Item
  readonly isPerLimit: boolean
}

interface BucketParts {
  /** `undefined` for the item of a single limit, and for residue. */
  readonly record: BucketRecord | undefined
  readonly limits: ReadonlyMap<string, OldLimit>
  /** Counters that adjustments left of a deleted limit or bucket. */
  readonly residue: ReadonlyMap<string, Residue>
}

const NO_RESIDUE: ReadonlyMap<string, Residue> = new Map()

/** The item must be readable. */
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

/** As stored in marks: namespace id in the key, and layout. Shards share one location. */
export function locationOf({namespace = '', limit, shard}: OldItem<'bucket'>['record']): string {
  if (limit !== undefined) return `${namespace}/limits`
  return `${namespace}/${shard === undefined ? 'bucket' : 'shards'}`
}

function withoutWritePressure<T>(limits: ReadonlyMap<string, T>): Map<string, T> {
  return new Map([...limits].filter(([name]) => name !== WRITE_PRESSURE_LIMIT))
}

/** An instant before the last refill changes nothing. */
export function balanceAt({state, refilledAtMs}: Pick<OldLimit, 'state' | 'refilledAtMs'>, atMs: number): Balance {
  return refill(state, state, atMs - refilledAtMs)
}

/** At the later refill instant. Charges go to `one`. */
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
      // The sum could exceed a whole millitoken. Dropping the smaller one loses at most half.
      remainder: a.remainder > b.remainder ? a.remainder : b.remainder,
    },
  }
}
