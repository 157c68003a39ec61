import type {Amounts} from '../../core/buckets/bucket.js'
import type {RoomBounds} from '../../core/buckets/fullness.js'
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
export function demandTokens(
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

export function requireSoft(e: ExpressionBuilder, name: string, nowMs: number): void {
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
