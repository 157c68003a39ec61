import type {LimitState} from '../../core/bucket.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {shareOfRate} from '../../core/shards.js'
import {type Balance, refill} from '../../core/token-math.js'
import type {Item} from '../../schema/attribute-value.js'
import {type BucketRecord, decodeBucket, limitAttribute, type Residue} from '../../schema/bucket-record.js'
import {decodeCompositeBucket, decodePerLimitBucket} from '../../schema/legacy/buckets.js'
import {flatten} from '../../schema/legacy/modernise.js'
import type {OldRecord} from '../records/classify.js'

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
  /** In which of the old places it lies, as marks name it. */
  readonly place: string
  /** The item that a charge goes to. */
  readonly item: Item
  /** Whether an own item holds it. */
  readonly perLimit: boolean
}

/** What one item holds. */
export interface BucketParts {
  /** `undefined` for the item of a single limit, and for what is no more than the rest of a bucket. */
  readonly record: BucketRecord | undefined
  readonly limits: ReadonlyMap<string, OldLimit>
  /** What adjustments left of limits, or of a whole bucket, that are gone. */
  readonly residue: ReadonlyMap<string, Residue>
}

const NO_RESIDUE: ReadonlyMap<string, Residue> = new Map()

/** Takes apart an item that can be read. */
export function partsOf({item, record: identity}: OldBucketItem): BucketParts {
  const place = placeOf(identity)
  const single = decodePerLimitBucket(item)
  if (single) {
    const {limit, state, refilledAtMs} = single
    const counted = 'total_consumed_milli' in flatten(item)
    const limits = new Map([[limit, {state, refilledAtMs, counted, place, item, perLimit: true}]])
    return {record: undefined, limits, residue: NO_RESIDUE}
  }
  // The namespace does not matter here: only the state is read.
  const stored = decodeCompositeBucket(item, '?') ?? decodeBucket(item)
  if (stored?.kind !== 'bucket') {
    return {record: undefined, limits: new Map(), residue: stored ? ofClients(stored.residue) : NO_RESIDUE}
  }
  const {record, incomplete} = stored
  const {refilledAtMs, limits: stated} = record.state
  const {shard, shardCount} = record
  const limits = new Map(
    [...ofClients(stated)].map(([name, whole]): [string, OldLimit] => {
      const state = {...whole, ...shareOfRate(name, whole, shard, shardCount)}
      const counted = limitAttribute(name, 'consumed') in item
      return [name, {state, refilledAtMs, counted, place, item, perLimit: false}]
    }),
  )
  return {record, limits, residue: ofClients(incomplete)}
}

/** Names the place of an item within its bucket: the spelling of the namespace, and the layout. Shards share one. */
export function placeOf({namespace = '', limit, shard}: OldBucketItem['record']): string {
  if (limit !== undefined) return `${namespace}/limits`
  return `${namespace}/${shard === undefined ? 'bucket' : 'shards'}`
}

/** Write pressure is nobody's consumption. */
function ofClients<T>(limits: ReadonlyMap<string, T>): Map<string, T> {
  return new Map([...limits].filter(([name]) => name !== WRITE_PRESSURE_LIMIT))
}

/** What a limit holds once it has been refilled up to an instant; an earlier one changes nothing. */
export function levelAt({state, refilledAtMs}: Pick<OldLimit, 'state' | 'refilledAtMs'>, atMs: number): Balance {
  return refill(state, state, atMs - refilledAtMs)
}

/** Two shards of one limit as one, at the later of their refill instants; charges go to the first. */
export function together(one: OldLimit, other: OldLimit): OldLimit {
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
