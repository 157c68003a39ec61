import {isSamePeriod, type QuotaPeriod} from '../../core/buckets/kind-refill.js'
import {divideByRoom} from '../../core/buckets/shards.js'
import {ConditionFailed, Throttled, TransactionCancelled} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {bool, type Item, n, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {keys, wireKey} from '../../schema/keys.js'
import {ranges} from '../../schema/ranges.js'
import {
  decodeReservation,
  type Reservation,
  type ReservedTokens,
  reservationExpiry,
  spellReserved,
  spellReturned,
} from '../../schema/reservation-record.js'
import {readAll} from '../table/query.js'
import {type NamespaceTable, sendRepeatable} from '../table/table.js'
import {isRefused, transact, updateItem} from '../table/transact.js'
import {returnUpdate} from './adjust-write.js'
import {ceilingOf} from './plan.js'
import {readShards} from './split.js'
import type {BucketAddress, BucketUpdate} from './writes.js'

const names = attributes.reservation

interface ReservationKey {
  readonly holder: string
  readonly id: string
}

const NOTHING: readonly ReservedTokens[] = []

const addressOf = ({name, namespace}: NamespaceTable, {holder, id}: ReservationKey) => ({
  TableName: name,
  Key: wireKey(keys.reservation(namespace, holder, id)),
})

/** An attempt that arrives after the end of the reservation changes nothing. */
export async function storeReservation(
  table: NamespaceTable,
  key: ReservationKey,
  tokens: readonly ReservedTokens[],
): Promise<void> {
  const e = new ExpressionBuilder()
  // Planted fault: a reservation is stored again after its end
  e.condition(`attribute_not_exists(${e.name(names.ended)})`)
  e.condition(`attribute_not_exists(${e.name(names.returned)})`)
  e.set(names.tokens, s(spellReserved(tokens)))
  e.set(names.expiresAt, n(reservationExpiry(table.clock(), false)))
  await sendRepeatable(table, 'UpdateItem', {...addressOf(table, key), ...e.update()}).catch(error => {
    if (!(error instanceof ConditionFailed)) throw error
  })
}

/** From now on nobody may return its tokens. Resolves to those that others have returned before; repeatable. */
export async function endReservation(table: NamespaceTable, key: ReservationKey): Promise<readonly ReservedTokens[]> {
  const e = new ExpressionBuilder()
  e.condition(`attribute_not_exists(${e.name(names.returned)})`)
  e.set(names.ended, bool(true))
    .set(names.expiresAt, n(reservationExpiry(table.clock(), true)))
    .remove(names.tokens)
  const request = {
    ...{...addressOf(table, key), ...e.update()},
    ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const,
  }
  try {
    await sendRepeatable(table, 'UpdateItem', request)
    return NOTHING
  } catch (error) {
    if (!(error instanceof ConditionFailed)) throw error
    const {oldItem} = error
    return (oldItem && decodeReservation(oldItem as Item)?.returned) ?? NOTHING
  }
}

/** Reservations of a holder that nobody has ended or returned. */
export async function openReservations(table: NamespaceTable, holder: string): Promise<Reservation[]> {
  const e = new ExpressionBuilder()
  e.filter(`attribute_not_exists(${e.name(names.ended)}) AND attribute_not_exists(${e.name(names.returned)})`)
  const open: Reservation[] = []
  for await (const item of readAll(table, ranges.reservations(table.namespace, holder), e)) {
    const reservation = decodeReservation(item)
    if (reservation) open.push(reservation)
  }
  return open
}

const MOST_TRIES = 20

export interface ReturnedReservation {
  /** Bucket items that got some. */
  readonly addresses: readonly BucketAddress[]
  /** Without tokens of a former period or bucket, which do not come back. */
  readonly tokens: readonly ReservedTokens[]
}

/**
 * Returns the tokens of a dead holder's reservation, all or none, in the period that was charged. Resolves to `undefined`
 * if it was ended or returned before: repeating it changes nothing.
 */
export async function returnReservation(
  table: NamespaceTable,
  {holder, id, tokens}: Reservation,
): Promise<ReturnedReservation | undefined> {
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const {addresses, updates, returned} = await planReturns(table, tokens)
    const e = new ExpressionBuilder()
    e.condition(`attribute_exists(${e.name(names.tokens)})`)
    // Planted fault: reserved tokens are returned twice
    e.condition(`attribute_not_exists(${e.name(names.returned)})`)
    // Planted fault: reserved tokens that do not come back count as returned
    e.set(names.returned, s(spellReturned(returned)))
    const taken = updateItem({...addressOf(table, {holder, id}), ...e.update()})
    try {
      await transact(table, [taken, ...updates.map(updateItem)])
      return {addresses, tokens: returned.map(at => tokens[at] as ReservedTokens)}
    } catch (error) {
      if (isRefused(error, 0)) return undefined
      if (!(error instanceof TransactionCancelled)) throw error
    }
  }
  throw new Throttled('TransactWriteItems', new Error('the buckets change faster than they can be read'))
}

export interface ReturnPlan {
  readonly addresses: readonly BucketAddress[]
  readonly updates: readonly BucketUpdate[]
  /** Positions in the tokens. Tokens of a former period or bucket do not come back. */
  readonly returned: readonly number[]
}

/** The tokens that one bucket item gets back. */
interface ShardReturn {
  readonly record: BucketRecord
  readonly amounts: Map<string, bigint>
  readonly periods: Map<string, QuotaPeriod>
  readonly highestMilli: Map<string, bigint>
}

/** Adds the tokens to the buckets that gave them. Negative amounts are charged. */
export async function planReturns(
  table: NamespaceTable,
  tokens: readonly ReservedTokens[],
  isDelegated = false,
): Promise<ReturnPlan> {
  const buckets = new Map<string, Promise<ReadonlyMap<number, BucketRecord>>>()
  const returns = new Map<string, ShardReturn>()
  const returned: number[] = []
  for (const [at, reserved] of tokens.entries()) {
    const {entity, resource, shard, limit} = reserved
    const key = `${entity}#${resource}`
    let reading = buckets.get(key)
    if (!reading) {
      reading = readBucket(table, entity, resource, shard)
      buckets.set(key, reading)
    }
    const shards = await reading
    const record = shards.get(shard)
    if (!record || !mayReturn(reserved, record)) continue
    returned.push(at)
    const planned = (each: BucketRecord) => returns.get(`${key}#${each.shard}`)?.amounts.get(limit) ?? 0n
    for (const [each, milli] of partsOver(reserved, record, shards, {nowMs: table.clock(), planned})) {
      const place = `${key}#${each.shard}`
      const known = returns.get(place)
      const change = known ?? {record: each, amounts: new Map(), periods: new Map(), highestMilli: new Map()}
      returns.set(place, change)
      const sum = (change.amounts.get(limit) ?? 0n) + milli
      change.amounts.set(limit, sum)
      if (reserved.period) change.periods.set(limit, reserved.period)
      const {state} = each
      const stored = state.limits.get(limit)
      // The room must still be there: another refund may have taken it.
      if (each.shardCount > 1 && stored) change.highestMilli.set(limit, stored.tokensMilli)
    }
  }
  const updates = Array.from(returns.values(), ({record, amounts, periods, highestMilli}) => {
    const {incarnation, validUntilMs} = record
    return returnUpdate(table, record, amounts, {incarnation, validUntilMs, periods, highestMilli, isDelegated})
  })
  const addresses = Array.from(returns.values(), ({record: {entity, resource, shard}}) => ({entity, resource, shard}))
  return {addresses, updates, returned}
}

/** All shards of a bucket, of which `shard` is one: after a split, a shard may have no room for what it gave. */
export async function readBucket(
  table: NamespaceTable,
  entity: string,
  resource: string,
  shard: number,
): Promise<ReadonlyMap<number, BucketRecord>> {
  const some = await readShards(table, entity, resource, shard + 1)
  const count = Math.max(...Array.from(some.values(), record => record.shardCount), 1)
  return count > shard + 1 ? readShards(table, entity, resource, count) : some
}

/** Whether the bucket item still has the period that the tokens were taken from. */
export function mayReturn({limit, incarnation, period}: ReservedTokens, record: BucketRecord): boolean {
  if (record.unsupported) return false
  // Planted fault: reserved tokens go to a bucket that did not give them
  if (record.incarnation !== incarnation) return false
  const stored = record.state.limits.get(limit)
  if (!period) return stored !== undefined && !stored.kind?.quota
  // Planted fault: reserved tokens go to a later period
  return isSamePeriod(period, stored, record.state.refilledAtMs)
}

/** The item that gave the tokens gets what it has room for, the others the rest. */
function partsOver(
  reserved: ReservedTokens,
  record: BucketRecord,
  shards: ReadonlyMap<number, BucketRecord>,
  {nowMs, planned}: {readonly nowMs: number; readonly planned: (record: BucketRecord) => bigint},
): [BucketRecord, bigint][] {
  const {milli, shard} = reserved
  const room = (each: BucketRecord): bigint => {
    const limit = each.state.limits.get(reserved.limit)
    const left = limit ? ceilingOf(reserved.limit, limit, each, nowMs) - limit.tokensMilli - planned(each) : 0n
    return left > 0n ? left : 0n
  }
  const ownRoom = record.shardCount > 1 ? room(record) : milli
  if (ownRoom >= milli) return [[record, milli]]
  const others = [...shards.values()].filter(each => each.shard !== shard && mayReturn(reserved, each))
  const parts = divideByRoom(milli - ownRoom, others.map(room))
  const given = parts.reduce((sum, part) => sum + part, 0n)
  const all: [BucketRecord, bigint][] = [[record, milli - given]]
  for (const [at, part] of parts.entries()) if (part > 0n) all.push([others[at] as BucketRecord, part])
  return all
}
