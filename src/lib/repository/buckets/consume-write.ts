import {type Amounts, inForceAt, type LimitState} from '../../core/buckets/bucket.js'
import type {FullnessBounds, RoomBounds, SharedTake} from '../../core/buckets/fullness.js'
import {shareOfBucket} from '../../core/buckets/shards.js'
import {isSoftAt} from '../../core/limits/limit-kind.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import type {Rate} from '../../core/token-math.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {n} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {type BucketRecord, limitAttribute} from '../../schema/bucket-record.js'
import {kindAttribute} from '../../schema/kind-attributes.js'
import type {NamespaceTable} from '../table/table.js'
import {giveBack, type ReturnTarget} from './adjust-write.js'
import {requireEnabled, requireValidity} from './kind-write.js'
import {
  addConsumption,
  type BucketAddress,
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

/** If no tokens are taken, the refill instant does not matter. */
const ANY_TIME: RoomBounds = {earliestRefillMs: 0, highestMilli: new Map()}

export interface RoomDemand {
  /** The state lies within one of these; if empty, no time may have passed since the last refill. */
  readonly bounds: readonly RoomBounds[]
  readonly shardCount: number
  readonly seen?: BucketRecord | undefined
  /** A limit taken from has a calendar, so a stored instant up to which it was evaluated is required. */
  readonly isScheduled?: boolean
  /** The rates that the bounds rest on, if not seen in this bucket. */
  readonly supposed?: ReadonlyMap<string, Rate> | undefined
}

interface ConsumeOptions {
  readonly nowMs: number
  readonly requests: number
  readonly room: RoomDemand
  readonly repairPressure?: boolean
  /** Refunded in the same write; the balance must cover the amounts without it. */
  readonly returns?: Returns | undefined
}

export interface Returns {
  readonly amounts: Amounts
  readonly target: ReturnTarget
}

/** Consumes without reading the item first: the only request of an admitted acquire. */
export function consumeUpdate(
  table: NamespaceTable,
  address: BucketAddress,
  amounts: Amounts,
  mark: WriteMark,
  {nowMs, requests, room, repairPressure, returns}: ConsumeOptions,
): BucketUpdate {
  const e = new ExpressionBuilder()
  for (const [name, milli] of amounts) {
    if (milli === 0n) continue
    // Planted fault: what is returned with a request is taken again
    const change = milli - (returns?.amounts.get(name) ?? 0n)
    if (change !== 0n) addConsumption(e, name, change)
    demandTokens(e, name, milli, room, nowMs)
  }
  if (returns) giveBack(e, amounts, returns.amounts, returns.target, mark)
  const takesTokens = [...amounts.values()].some(milli => milli > 0n)
  demandRoom(e, room, nowMs, takesTokens)
  countWrite(e)
  countRequests(e, requests)
  if (repairPressure)
    e.copy(limitAttribute(WRITE_PRESSURE_LIMIT, 'tokens'), limitAttribute(WRITE_PRESSURE_LIMIT, 'capacity'))
  refuseExpired(e, nowMs, room.seen)
  requireEnabled(e)
  if (takesTokens) requireValidity(e, nowMs, room)
  return markedUpdate(table, address, e, mark)
}

/** The balance covers the amount; with a single bound, the same term also checks that it is not too high. */
function demandTokens(
  e: ExpressionBuilder,
  name: string,
  milli: bigint,
  {bounds, seen, supposed}: RoomDemand,
  nowMs: number,
): void {
  const tk = e.name(limitAttribute(name, 'tokens'))
  const [only, another] = bounds
  const highest = another ? undefined : only?.highestMilli.get(name)
  const limit = seen?.state.limits.get(name)
  // Other clients lower it without a new revision, and leave the balance (S9). Also, the limit is there.
  // Planted fault: a charge does not ask whether another client has lowered the capacity
  if (limit) requireCapacity(e, name, limit)
  if (limit && isSoftAt(limit, nowMs)) {
    // It may go into debt, but overflowed tokens must not come back.
    requireSoft(e, name, nowMs)
    if (highest !== undefined) e.condition(`${tk} <= ${e.value(n(highest))}`)
    return
  }
  // Planted fault: a charge does not check the balance
  const lowest = e.value(n(milli))
  e.condition(highest === undefined ? `${tk} >= ${lowest}` : `${tk} BETWEEN ${lowest} AND ${e.value(n(highest))}`)
  const rate = supposed?.get(name)
  if (!rate) return
  requireCapacity(e, name, rate)
  e.condition(`${e.name(limitAttribute(name, 'refillAmount'))} = ${e.value(n(rate.refillAmountMilli))}`)
  if (rate.refillAmountMilli === 0n) return
  e.condition(`${e.name(limitAttribute(name, 'refillPeriod'))} = ${e.value(n(rate.refillPeriodMs))}`)
}

function requireSoft(e: ExpressionBuilder, name: string, nowMs: number): void {
  e.condition(`attribute_exists(${e.name(limitAttribute(name, 'tokens'))})`)
  e.condition(`${e.name(kindAttribute(name, 'softUntil'))} > ${e.value(n(nowMs))}`)
}

/** A late attempt that a later refill instant had ruled out. */
function refuseSetBack(e: ExpressionBuilder, nowMs: number): void {
  const setBackFrom = e.name(names.setBackFrom)
  e.condition(`attribute_not_exists(${setBackFrom}) OR ${setBackFrom} <= ${e.value(n(nowMs))}`)
}

function demandRoom(e: ExpressionBuilder, room: RoomDemand, nowMs: number, takesTokens: boolean): void {
  const refilledAt = e.name(names.refilledAt)
  const bounds = takesTokens ? room.bounds : [ANY_TIME]
  // The revision also changes with the number of shards.
  if (room.seen) requireLimitsRevision(e, room.seen)
  else if (takesTokens) requireShardCount(e, room.shardCount)
  // Without a seen revision, a late attempt must not find tokens refilled since (decision 26).
  if (!room.seen) {
    e.condition(`${refilledAt} <= ${e.value(n(nowMs))}`)
    refuseSetBack(e, nowMs)
  }
  const since = (ms: number) => `${refilledAt}>=${e.value(n(ms))}`
  // Planted fault: what has overflowed can be taken as well
  if (bounds.length <= 1) e.condition(since(bounds[0]?.earliestRefillMs ?? nowMs))
  else {
    const within = ({earliestRefillMs, highestMilli}: RoomBounds) => [
      since(earliestRefillMs),
      ...[...highestMilli].map(([name, milli]) => `${e.name(limitAttribute(name, 'tokens'))} <= ${e.value(n(milli))}`),
    ]
    e.condition(bounds.map(each => within(each).join(' AND ')).join(' OR '))
  }
}

interface BypassOptions {
  readonly nowMs: number
  readonly requests: number
  readonly repairPressure: boolean
}

/** Counts requests on a bypassed bucket. Takes no tokens, so balances and calendars don't matter. */
export function bypassUpdate(
  table: NamespaceTable,
  seen: BucketRecord,
  amounts: Amounts,
  mark: WriteMark,
  {nowMs, requests, repairPressure}: BypassOptions,
): BucketUpdate {
  const e = new ExpressionBuilder()
  for (const [name, milli] of amounts) {
    if (milli === 0n) continue
    e.add(limitAttribute(name, 'consumed'), n(milli))
    // Otherwise a limit that another client removed would come back as a counter without parameters.
    e.condition(`attribute_exists(${e.name(limitAttribute(name, 'capacity'))})`)
  }
  countWrite(e)
  countRequests(e, requests)
  if (repairPressure)
    e.copy(limitAttribute(WRITE_PRESSURE_LIMIT, 'tokens'), limitAttribute(WRITE_PRESSURE_LIMIT, 'capacity'))
  // Planted fault: a bypassed request is counted by a late attempt as well
  requireLimitsRevision(e, seen)
  refuseExpired(e, nowMs, seen)
  requireEnabled(e, seen)
  // Planted fault: a bypass does not end
  e.condition(`${e.name(names.bypass)} > ${e.value(n(nowMs))}`)
  return markedUpdate(table, seen, e, mark)
}

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
