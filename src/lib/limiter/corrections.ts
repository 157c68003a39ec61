import {type Amounts, expiresAtSeconds} from '../core/bucket.js'
import {hasOverflowed} from '../core/fullness.js'
import {type BucketPlan, planBucket} from '../repository/buckets/plan.js'
import {
  adjustUpdate,
  type BucketAddress,
  type BucketUpdate,
  carriesMark,
  type WriteMark,
} from '../repository/buckets/writes.js'
import type {NamespaceTable} from '../repository/table/table.js'
import type {Item} from '../schema/attribute-value.js'
import {type BucketRecord, decodeBucket} from '../schema/bucket-record.js'
import {type KnownBucket, type KnownState, shareOfRecord} from './known-bucket.js'

/** A charge or return after the fact, waiting in a queue. */
export interface Correction {
  readonly amounts: Amounts
  /** Change of the number of admitted requests. */
  readonly requests: number
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** Where a correction is written. */
interface CorrectionTarget {
  readonly table: NamespaceTable
  readonly address: BucketAddress
  readonly bucket: Pick<KnownBucket, 'state' | 'slotMark'>
  readonly ttlMultiplier: number
}

/**
 * The write of a correction, and the one to send after a lost answer: tokens must not be returned twice, so a repetition
 * needs proof that the first try was not applied.
 */
export function correctionUpdates(
  {table, address, bucket, ttlMultiplier}: CorrectionTarget,
  deltas: Amounts,
  requests: number,
  mark: WriteMark,
  nowMs: number,
): {update: BucketUpdate; repetition: BucketUpdate} {
  const {state, slotMark: since} = bucket
  const ttlSeconds = state?.exists ? expiryForDebt(state.seen.record, deltas, ttlMultiplier, nowMs) : undefined
  const update = adjustUpdate(table, address, deltas, mark, {ttlSeconds, requests})
  const returnsTokens = [...deltas.values()].some(milli => milli < 0n)
  if (!returnsTokens) return {update, repetition: update}
  const slotUnchanged = {since}
  return {update, repetition: adjustUpdate(table, address, deltas, mark, {ttlSeconds, requests, slotUnchanged})}
}

/** What to try again after a correction was refused: without the limits that are gone, `undefined` if that is no reason. */
export function remainingCorrection(
  deltas: Amounts,
  item: Item | undefined,
  mark: WriteMark,
): Map<string, bigint> | undefined {
  const stored = item && decodeBucket(item)
  if (carriesMark(item, mark) || stored?.kind !== 'bucket') return undefined
  const remaining = [...deltas].filter(([name]) => stored.record.state.limits.has(name))
  // Refused although every limit is there: a repetition that could not prove that the first try was lost.
  return remaining.length === deltas.size ? undefined : new Map(remaining)
}

/**
 * Tokens were taken just now without a refill: if the bucket had overflowed by then, a rewrite that moves its refill
 * instant, so that the overflow does not come back (decision 10).
 */
export function planOverflow(state: KnownState | undefined, taken: Amounts, nowMs: number): BucketPlan | undefined {
  if (!state?.exists || !hasOverflowed(shareOfRecord(state.seen.record), taken, nowMs)) return undefined
  return planBucket(state.seen, nowMs, undefined, taken)
}

/**
 * The expiry that a charge after the fact needs, in epoch seconds: expiry must not forgive a debt, so the bucket is kept
 * until the debt could be repaid. `undefined` when the stored one will do.
 */
function expiryForDebt(
  record: BucketRecord,
  deltas: Amounts,
  ttlMultiplier: number,
  nowMs: number,
): number | undefined {
  if (record.ttlSeconds === undefined) return undefined
  const charged = [...shareOfRecord(record).limits].map(([name, limit]) => ({
    ...limit,
    tokensMilli: limit.tokensMilli - (deltas.get(name) ?? 0n),
  }))
  const needed = expiresAtSeconds(charged, ttlMultiplier, nowMs)
  return charged.some(limit => limit.tokensMilli < 0n) && needed > record.ttlSeconds ? needed : undefined
}
