import type {Amounts} from '../../core/bucket.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {shareOfRate} from '../../core/shards.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import type {OperationInput} from '../../dynamo/transport.js'
import {type AttributeValue, bool, type Item, n, s} from '../../schema/attribute-value.js'
import {
  type BucketRecord,
  encodeBucket,
  limitAttribute,
  REQUEST_COUNT,
  WRITE_PRESSURE_PER_WRITE,
} from '../../schema/bucket-record.js'
import {keys} from '../../schema/keys.js'
import {readString} from '../../schema/read.js'
import {encodeRemainders, REMAINDERS} from '../../schema/remainders.js'
import {type NamespaceTable, wireKey} from '../table/table.js'
import type {BucketPlan, PlannedLimit} from './plan.js'

/** One shard of one bucket. */
export interface BucketAddress {
  readonly entity: string
  readonly resource: string
  readonly shard: number
}

export type BucketUpdate = OperationInput<'UpdateItem'>

/**
 * Marks a write, so that a repetition of it is recognised: the condition of every write demands that the mark is not
 * there yet. Eight slots keep writers of different processes from erasing each other's mark at once.
 */
export interface WriteMark {
  readonly slot: number
  readonly nonce: string
}

export const MARK_SLOTS = 8

const markAttribute = (slot: number): string => `wn_${slot}`

/** Whether an item that refused a write refused it because that write is already in it. */
export function carriesMark(item: Item | undefined, mark: WriteMark): boolean {
  return item !== undefined && readString(item, markAttribute(mark.slot)) === mark.nonce
}

/** Consumption alone, without a look at the item: the one call of an admitted request. */
export function consumeUpdate(
  table: NamespaceTable,
  address: BucketAddress,
  amounts: Amounts,
  mark: WriteMark,
  options: {nowMs: number; requests: number; repairPressure?: boolean},
): BucketUpdate {
  const e = new ExpressionBuilder()
  for (const [name, milli] of amounts) {
    if (milli === 0n) continue
    addConsumption(e, name, milli)
    e.condition(`${e.name(limitAttribute(name, 'tk'))} >= ${e.value(n(milli))}`)
  }
  countWrite(e)
  countRequests(e, options.requests)
  if (options.repairPressure)
    e.copy(limitAttribute(WRITE_PRESSURE_LIMIT, 'tk'), limitAttribute(WRITE_PRESSURE_LIMIT, 'cp'))
  e.condition(`attribute_exists(${e.name('rf')})`)
  const ttl = e.name('ttl')
  e.condition(`attribute_not_exists(${ttl}) OR ${ttl} > ${e.value(n(Math.floor(options.nowMs / 1000)))}`)
  return finish(table, address, e, mark)
}

/** The mark that an item shows in a slot, to tell later whether anybody has written there since. */
export function markIn(item: Item | undefined, slot: number): string | undefined {
  return item && readString(item, markAttribute(slot))
}

/**
 * Returns or charges after the fact, into debt if need be; a bucket that is gone stays gone. With `slotUnchanged` it is
 * only applied while the slot of its mark still shows what it showed before the first try: tokens must not be returned
 * twice, so a repetition needs proof that the first try was never applied.
 */
export function adjustUpdate(
  table: NamespaceTable,
  address: BucketAddress,
  deltas: Amounts,
  mark: WriteMark,
  options: {
    readonly slotUnchanged?: {readonly since: string | undefined}
    /** New expiry in epoch seconds, for a debt that outlives the old one. */
    readonly ttlSeconds?: number | undefined
    /** Change of the number of admitted requests. */
    readonly requests?: number
  } = {},
): BucketUpdate {
  const {slotUnchanged, ttlSeconds, requests = 0} = options
  const e = new ExpressionBuilder()
  if (ttlSeconds !== undefined) e.set('ttl', n(ttlSeconds))
  if (slotUnchanged) {
    const slot = e.name(markAttribute(mark.slot))
    const {since} = slotUnchanged
    e.condition(since === undefined ? `attribute_not_exists(${slot})` : `${slot} = ${e.value(s(since))}`)
  }
  for (const [name, milli] of deltas) {
    if (milli === 0n) continue
    addConsumption(e, name, milli)
    // Without this, a limit removed meanwhile would come back as counters without parameters.
    e.condition(`attribute_exists(${e.name(limitAttribute(name, 'cp'))})`)
  }
  countWrite(e)
  countRequests(e, requests)
  e.condition(`attribute_exists(${e.name('rf')})`)
  return finish(table, address, e, mark)
}

/**
 * The first write of a bucket. An UpdateItem, because acquire-only permissions allow no PutItem, and with ADD for the
 * balances, so that counters which a refund left behind are carried over.
 */
export function createUpdate(
  table: NamespaceTable,
  record: BucketRecord,
  {amounts, requests}: {readonly amounts: Amounts; readonly requests: number},
  mark: WriteMark,
): BucketUpdate {
  const e = new ExpressionBuilder()
  const {PK, SK, ...attributes} = encodeBucket(record)
  const added = new Map<string, bigint>()
  for (const [name, limit] of record.state.limits) {
    if (name === WRITE_PRESSURE_LIMIT) continue
    const milli = amounts.get(name) ?? 0n
    added.set(limitAttribute(name, 'tk'), limit.tokensMilli - milli)
    added.set(limitAttribute(name, 'tc'), milli)
  }
  for (const [name, value] of Object.entries(attributes)) {
    const milli = added.get(name)
    if (milli === undefined) e.set(name, value)
    else e.add(name, n(milli))
  }
  countRequests(e, requests)
  e.condition(`attribute_not_exists(${e.name('rf')})`)
  return finish(table, record, e, mark)
}

/** What a planned write stores besides balances and limits; what is absent stays as it is. */
export interface PlannedWrite {
  readonly amounts: Amounts
  /** Requests admitted by this write. */
  readonly requests?: number
  /** Epoch seconds, or `null` to let the bucket live for ever. */
  readonly ttlSeconds?: number | null
  /** `null` for no parent. */
  readonly family?: {readonly cascade: boolean; readonly parent: string | null}
  /** A credit that was cut at the capacity is right only for the balance seen: demand that it is still the same. */
  readonly isExact?: boolean
}

/** Refill, consumption and changed limits in one write, valid only for the bucket exactly as it was seen. */
export function plannedUpdate(
  table: NamespaceTable,
  plan: BucketPlan,
  write: PlannedWrite,
  mark: WriteMark,
): BucketUpdate {
  const {record} = plan.seen
  const e = new ExpressionBuilder()
  const rf = e.name('rf')
  e.condition(`${rf} = ${e.value(n(record.state.refilledAtMs))}`)
  // A split leaves the refill instant alone, and changes what this shard may be credited.
  const shards = e.name('shard_count')
  const isSeen = `${shards} = ${e.value(n(record.shardCount))}`
  e.condition(record.shardCount === 1 ? `attribute_not_exists(${shards}) OR ${isSeen}` : isSeen)
  if (plan.refilledAtMs !== record.state.refilledAtMs) e.set('rf', n(plan.refilledAtMs))
  for (const [name, change] of plan.changes) {
    planLimit(e, name, change, write.amounts.get(name) ?? 0n)
    guardLimit(e, name, change, plan, write)
  }
  countRequests(e, write.requests ?? 0)
  setOrRemove(e, REMAINDERS, remaindersOf(plan))
  if (write.ttlSeconds !== undefined) setOrRemove(e, 'ttl', write.ttlSeconds === null ? undefined : n(write.ttlSeconds))
  if (write.family) {
    e.set('cascade', bool(write.family.cascade))
    setOrRemove(e, 'parent_id', write.family.parent === null ? undefined : s(write.family.parent))
  }
  return finish(table, record, e, mark)
}

function planLimit(e: ExpressionBuilder, name: string, change: PlannedLimit, milli: bigint): void {
  if (change.kind === 'remove') {
    for (const field of ['tk', 'cp', 'ra', 'rp', 'tc'] as const) e.remove(limitAttribute(name, field))
    return
  }
  if (change.parametersChanged) {
    e.set(limitAttribute(name, 'cp'), n(change.after.capacityMilli))
    e.set(limitAttribute(name, 'ra'), n(change.after.refillAmountMilli))
    e.set(limitAttribute(name, 'rp'), n(change.after.refillPeriodMs))
  }
  const gain = change.creditMilli - milli
  if (gain !== 0n || change.kind === 'init') e.add(limitAttribute(name, 'tk'), n(gain))
  if (name === WRITE_PRESSURE_LIMIT) countWrite(e)
  else if (milli !== 0n || change.kind === 'init') e.add(limitAttribute(name, 'tc'), n(milli))
}

/** Conditions under which a limit's part of a plan still holds. Write pressure is only a signal and needs none. */
function guardLimit(
  e: ExpressionBuilder,
  name: string,
  change: PlannedLimit,
  {seen, refilledAtMs}: BucketPlan,
  {amounts, isExact = false}: PlannedWrite,
): void {
  if (name === WRITE_PRESSURE_LIMIT || change.kind === 'remove') return
  const milli = amounts.get(name) ?? 0n
  const tk = limitAttribute(name, 'tk')
  if (change.kind === 'init') {
    const residue = seen.incomplete.get(name)
    e.condition(residue ? `${e.name(tk)} = ${e.value(n(residue.tokensMilli))}` : `attribute_not_exists(${e.name(tk)})`)
    return
  }
  const {state, shard, shardCount} = seen.record
  const stored = state.limits.get(name)
  // Full before or after the limit is changed: the credit was cut at the capacity that was in force until now.
  const isFull = [change.after, ...(stored ? [stored] : [])].some(
    rate => change.after.tokensMilli >= shareOfRate(name, rate, shard, shardCount).capacityMilli,
  )
  const isMoved = refilledAtMs !== state.refilledAtMs
  if (stored && (isMoved ? isExact && isFull : change.creditMilli !== 0n)) {
    // Clamped without time passing, the refill instant stays and guards nothing; cut at the capacity, the rest of the
    // credit would be lost to those who have consumed since. Either way the balance itself must be as it was seen.
    e.condition(`${e.name(tk)} = ${e.value(n(stored.tokensMilli))}`)
  } else if (milli > change.creditMilli) {
    // Others may have consumed since; what is taken on balance must still be there.
    e.condition(`${e.name(tk)} >= ${e.value(n(milli - change.creditMilli))}`)
  }
}

function remaindersOf(plan: BucketPlan): AttributeValue | undefined {
  const limits = new Map(
    [...plan.changes].filter(([, {kind}]) => kind !== 'remove').map(([name, {after}]) => [name, after]),
  )
  const text = encodeRemainders({refilledAtMs: plan.refilledAtMs, limits})
  return text === undefined ? undefined : s(text)
}

function addConsumption(e: ExpressionBuilder, name: string, milli: bigint): void {
  e.add(limitAttribute(name, 'tk'), n(-milli)).add(limitAttribute(name, 'tc'), n(milli))
}

/**
 * Counts this write; two readings of the count give the item's write rate. The balance of the pressure limit is left to
 * the clients that spend it: nobody but them takes it for more than a number.
 */
export function countWrite(e: ExpressionBuilder): void {
  e.add(limitAttribute(WRITE_PRESSURE_LIMIT, 'tc'), n(WRITE_PRESSURE_PER_WRITE))
}

/** Usage is counted per admitted request, of which one write may serve many. */
export function countRequests(e: ExpressionBuilder, requests: number): void {
  if (requests !== 0) e.add(REQUEST_COUNT, n(requests))
}

function setOrRemove(e: ExpressionBuilder, name: string, value: AttributeValue | undefined): void {
  if (value === undefined) e.remove(name)
  else e.set(name, value)
}

/** The key, the mark and the answers that every write asks for. */
export function finish(
  table: NamespaceTable,
  address: BucketAddress,
  e: ExpressionBuilder,
  mark: WriteMark,
): BucketUpdate {
  const attribute = markAttribute(mark.slot)
  const nonce = s(mark.nonce)
  e.set(attribute, nonce)
  e.condition(`attribute_not_exists(${e.name(attribute)}) OR ${e.name(attribute)} <> ${e.value(nonce)}`)
  return {
    TableName: table.name,
    Key: wireKey(keys.bucket(table.namespace, address.entity, address.resource, address.shard)),
    ...e.update(),
    ReturnValues: 'ALL_NEW',
    ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
  }
}
