import {type Amounts, inForceAt, type LimitState} from '../../core/buckets/bucket.js'
import type {FullnessBounds, SharedTake} from '../../core/buckets/fullness.js'
import {shareOfBucket} from '../../core/buckets/shards.js'
import {isSoftAt} from '../../core/limits/limit-kind.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {n} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {type BucketRecord, limitAttribute} from '../../schema/bucket-record.js'
import type {NamespaceTable} from '../table/table.js'
import {demandTokens, requireSoft} from './consume-write.js'
import {requireEnabled, requireValidity} from './kind-write.js'
import {
  addConsumption,
  type BucketUpdate,
  countRequests,
  countWrite,
  markedUpdate,
  refuseExpired,
  requireCapacity,
  requireLimitsRevision,
  requireShardCount,
  type WriteMark,
} from './writes.js'

const names = attributes.bucket

interface FullBucketWrite {
  readonly amounts: Amounts
  readonly requests: number
  readonly nowMs: number
  /** New expiry in epoch seconds; `null`: none; `undefined`: keep. */
  readonly ttlSeconds: number | null | undefined
}

/**
 * Within the bounds the rates are full again, whatever others wrote: each balance is the capacity minus the amount. Quotas
 * are charged as in any other write.
 */
export function fullBucketUpdate(
  table: NamespaceTable,
  record: BucketRecord,
  bounds: readonly FullnessBounds[],
  {amounts, requests, nowMs, ttlSeconds}: FullBucketWrite,
  mark: WriteMark,
): BucketUpdate {
  const e = new ExpressionBuilder()
  const within = ({latestRefillMs, lowestMilli}: FullnessBounds) => [
    `${e.name(names.refilledAt)} <= ${e.value(n(latestRefillMs))}`,
    // Planted fault: a bucket that is not full counts as full
    ...[...lowestMilli].map(([name, milli]) => `${e.name(limitAttribute(name, 'tokens'))} >= ${e.value(n(milli))}`),
  ]
  e.condition(bounds.map(each => within(each).join(' AND ')).join(' OR '))
  requireShardCount(e, record.shardCount)
  // A limit added meanwhile would lose what it has earned.
  requireLimitsRevision(e, record)
  refuseExpired(e, nowMs, record)
  requireEnabled(e)
  requireValidity(e, nowMs, {seen: record})
  e.set(names.refilledAt, n(nowMs)).remove(names.remainders)
  if (ttlSeconds === null) e.remove(names.expiresAt)
  else if (ttlSeconds !== undefined) e.set(names.expiresAt, n(ttlSeconds))
  const share = inForceAt(shareOfBucket(record.state, record.shard, record.shardCount), nowMs)
  for (const [name, stored] of record.state.limits) {
    if (name === WRITE_PRESSURE_LIMIT) continue
    const full = share.limits.get(name)?.capacityMilli ?? 0n
    const milli = amounts.get(name) ?? 0n
    if (stored.kind?.quota) {
      if (milli === 0n) continue
      addConsumption(e, name, milli)
      const atMost = {earliestRefillMs: 0, highestMilli: new Map([[name, full]])}
      demandTokens(e, name, milli, {bounds: [atMost], shardCount: record.shardCount, seen: record}, nowMs)
      continue
    }
    requireParameters(e, name, stored)
    // Planted fault: a full bucket is not charged
    e.set(limitAttribute(name, 'tokens'), n(full - milli))
    if (milli !== 0n) e.add(limitAttribute(name, 'consumed'), n(milli))
  }
  // It shares the refill instant and fills up quickly.
  if (record.state.limits.has(WRITE_PRESSURE_LIMIT))
    e.copy(limitAttribute(WRITE_PRESSURE_LIMIT, 'tokens'), limitAttribute(WRITE_PRESSURE_LIMIT, 'capacity'))
  countWrite(e)
  countRequests(e, requests)
  return markedUpdate(table, record, e, mark)
}

interface SharedWrite {
  readonly amounts: Amounts
  readonly requests: number
  readonly nowMs: number
  readonly repairPressure: boolean
}

/** Consumption that holds for every state that others can have left since the bucket was seen. */
export function sharedTakeUpdate(
  table: NamespaceTable,
  record: BucketRecord,
  {stepMs, earliestRefillMs, latestRefillMs, limits}: SharedTake,
  {amounts, requests, nowMs, repairPressure}: SharedWrite,
  mark: WriteMark,
): BucketUpdate {
  const e = new ExpressionBuilder()
  const refilledAt = e.name(names.refilledAt)
  e.condition(`${refilledAt} >= ${e.value(n(earliestRefillMs))}`)
  if (latestRefillMs !== undefined) e.condition(`${refilledAt} <= ${e.value(n(latestRefillMs))}`)
  requireShardCount(e, record.shardCount)
  requireLimitsRevision(e, record)
  refuseExpired(e, nowMs, record)
  requireEnabled(e)
  requireValidity(e, nowMs, {seen: record})
  // Fractions are valid only for the instant they were stored with.
  if (stepMs > 0) e.add(names.refilledAt, n(stepMs)).remove(names.remainders)
  for (const [name, {lowestMilli, highestMilli, addMilli, setMilli}] of limits) {
    const stored = record.state.limits.get(name) as LimitState
    requireParameters(e, name, stored)
    const tokens = limitAttribute(name, 'tokens')
    if (lowestMilli !== undefined) e.condition(`${e.name(tokens)} >= ${e.value(n(lowestMilli))}`)
    if (highestMilli !== undefined) e.condition(`${e.name(tokens)} <= ${e.value(n(highestMilli))}`)
    if (setMilli !== undefined) e.set(tokens, n(setMilli))
    else if (addMilli !== 0n) e.add(tokens, n(addMilli))
    const milli = amounts.get(name) ?? 0n
    if (milli > 0n && isSoftAt(stored, nowMs)) requireSoft(e, name, nowMs)
    if (milli !== 0n) e.add(limitAttribute(name, 'consumed'), n(milli))
  }
  if (repairPressure)
    e.copy(limitAttribute(WRITE_PRESSURE_LIMIT, 'tokens'), limitAttribute(WRITE_PRESSURE_LIMIT, 'capacity'))
  countWrite(e)
  countRequests(e, requests)
  return markedUpdate(table, record, e, mark)
}

/** Bounds hold for these parameters only; other clients change them without a new revision. */
function requireParameters(e: ExpressionBuilder, name: string, stored: LimitState): void {
  requireCapacity(e, name, stored)
  e.condition(`${e.name(limitAttribute(name, 'refillAmount'))} = ${e.value(n(stored.refillAmountMilli))}`)
  e.condition(`${e.name(limitAttribute(name, 'refillPeriod'))} = ${e.value(n(stored.refillPeriodMs))}`)
}
