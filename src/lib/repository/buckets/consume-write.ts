import type {Amounts} from '../../core/bucket.js'
import type {RoomBounds} from '../../core/fullness.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import type {Rate} from '../../core/token-math.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {n} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {type BucketRecord, limitAttribute} from '../../schema/bucket-record.js'
import type {NamespaceTable} from '../table/table.js'
import {
  addConsumption,
  type BucketAddress,
  type BucketUpdate,
  countRequests,
  countWrite,
  markedUpdate,
  refuseExpired,
  requireLimitsRevision,
  requireShardCount,
  type WriteMark,
} from './writes.js'

const names = attributes.bucket

/** What the bucket must be like for a consumption that brings no refill. */
export interface RoomDemand {
  /** The state lies within one of these; without any, no time must have passed since the last refill. */
  readonly bounds: readonly RoomBounds[]
  /** The bounds are computed for so many shards. */
  readonly shardCount: number
  /** Gives up what was earned since the last refill, whatever that is: nothing of it can come back twice. */
  readonly forgoesRefill?: boolean
  /** The bucket whose limits the bounds rest on, as it was seen. */
  readonly seen?: BucketRecord | undefined
  /** The rates that the bounds rest on, where they were not seen in this bucket. */
  readonly supposed?: ReadonlyMap<string, Rate> | undefined
}

interface ConsumeOptions {
  readonly nowMs: number
  readonly requests: number
  readonly room: RoomDemand
  readonly repairPressure?: boolean
}

/** Consumption alone, without reading the item first: the only request of an admitted acquire. */
export function consumeUpdate(
  table: NamespaceTable,
  address: BucketAddress,
  amounts: Amounts,
  mark: WriteMark,
  {nowMs, requests, room, repairPressure}: ConsumeOptions,
): BucketUpdate {
  const e = new ExpressionBuilder()
  for (const [name, milli] of amounts) {
    if (milli === 0n) continue
    addConsumption(e, name, milli)
    demandTokens(e, name, milli, room)
  }
  demandRoom(
    e,
    room,
    nowMs,
    [...amounts.values()].some(milli => milli > 0n),
  )
  countWrite(e)
  countRequests(e, requests)
  if (repairPressure)
    e.copy(limitAttribute(WRITE_PRESSURE_LIMIT, 'tokens'), limitAttribute(WRITE_PRESSURE_LIMIT, 'capacity'))
  refuseExpired(e, nowMs)
  return markedUpdate(table, address, e, mark)
}

/** The balance covers the amount; with a single bound, the same term says that it is not too high. */
function demandTokens(e: ExpressionBuilder, name: string, milli: bigint, {bounds, supposed}: RoomDemand): void {
  const tk = e.name(limitAttribute(name, 'tokens'))
  const [only, another] = bounds
  const highest = another ? undefined : only?.highestMilli.get(name)
  const lowest = e.value(n(milli))
  e.condition(highest === undefined ? `${tk} >= ${lowest}` : `${tk} BETWEEN ${lowest} AND ${e.value(n(highest))}`)
  const rate = supposed?.get(name)
  if (!rate) return
  e.condition(`${e.name(limitAttribute(name, 'capacity'))} = ${e.value(n(rate.capacityMilli))}`)
  e.condition(`${e.name(limitAttribute(name, 'refillAmount'))} = ${e.value(n(rate.refillAmountMilli))}`)
  e.condition(`${e.name(limitAttribute(name, 'refillPeriod'))} = ${e.value(n(rate.refillPeriodMs))}`)
}

function demandRoom(e: ExpressionBuilder, room: RoomDemand, nowMs: number, takesTokens: boolean): void {
  const refilledAt = e.name(names.refilledAt)
  if (!takesTokens) {
    e.condition(`attribute_exists(${refilledAt})`)
    return
  }
  // The revision changes with the number of shards too.
  if (room.seen) requireLimitsRevision(e, room.seen)
  else requireShardCount(e, room.shardCount)
  if (room.forgoesRefill)
    e.set(names.refilledAt, n(nowMs))
      .remove(names.remainders)
      .condition(`${refilledAt} <= ${e.value(n(nowMs))}`)
  const since = (ms: number) => `${refilledAt} >= ${e.value(n(ms))}`
  if (room.bounds.length <= 1) e.condition(since(room.bounds[0]?.earliestRefillMs ?? nowMs))
  else {
    const within = ({earliestRefillMs, highestMilli}: RoomBounds) => [
      since(earliestRefillMs),
      ...[...highestMilli].map(([name, milli]) => `${e.name(limitAttribute(name, 'tokens'))} <= ${e.value(n(milli))}`),
    ]
    e.condition(room.bounds.map(each => within(each).join(' AND ')).join(' OR '))
  }
}
