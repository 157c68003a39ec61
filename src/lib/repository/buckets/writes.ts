import type {Amounts} from '../../core/bucket.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {shareOfRate} from '../../core/shards.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import type {OperationInput} from '../../dynamo/transport.js'
import {type AttributeValue, bool, type Item, n, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {
  type BucketRecord,
  encodeBucket,
  encodeRemainders,
  LIMIT_FIELDS,
  limitAttribute,
  markAttribute,
  WRITE_PRESSURE_PER_WRITE,
} from '../../schema/bucket-record.js'
import {keys, wireKey, withoutKey} from '../../schema/keys.js'
import {readString} from '../../schema/read.js'
import type {NamespaceTable, Table} from '../table/table.js'
import {type BucketPlan, changesLimits, type PlannedLimit} from './plan.js'

const names = attributes.bucket

/** One shard of one bucket. */
export interface BucketAddress {
  readonly entity: string
  readonly resource: string
  readonly shard: number
}

export type BucketUpdate = OperationInput<'UpdateItem'>

/**
 * Marks a write, so that a repetition of it is recognised: every write is conditional on its mark not being there yet.
 * With eight slots, writers of different processes seldom overwrite each other's mark.
 */
export interface WriteMark {
  readonly slot: number
  readonly nonce: string
}

export const MARK_SLOTS = 8

/** A mark that no other write has. */
export function newMark(table: Pick<Table, 'randomBytes'>): WriteMark {
  const [slot = 0, ...nonce] = table.randomBytes(9)
  return {slot: slot % MARK_SLOTS, nonce: Buffer.from(nonce).toString('base64url')}
}

/** The mark in a slot of an item, to tell later whether anything was written there since. */
export function markIn(item: Item | undefined, slot: number): string | undefined {
  return item && readString(item, markAttribute(slot))
}

/** Whether an item contains a write: then a repetition of the write was refused because it had been applied. */
export function carriesMark(item: Item | undefined, mark: WriteMark): boolean {
  return markIn(item, mark.slot) === mark.nonce
}

/**
 * The first write of a bucket. An UpdateItem, because acquire-only permissions allow no PutItem, and with ADD for the
 * balances, so that counters left behind by a refund are carried over.
 */
export function createUpdate(
  table: NamespaceTable,
  record: BucketRecord,
  {amounts, requests}: {readonly amounts: Amounts; readonly requests: number},
  mark: WriteMark,
): BucketUpdate {
  const e = new ExpressionBuilder()
  const added = new Map<string, bigint>()
  for (const [name, limit] of record.state.limits) {
    if (name === WRITE_PRESSURE_LIMIT) continue
    const milli = amounts.get(name) ?? 0n
    added.set(limitAttribute(name, 'tokens'), limit.tokensMilli - milli)
    added.set(limitAttribute(name, 'consumed'), milli)
  }
  for (const [name, value] of Object.entries(withoutKey(encodeBucket(record)))) {
    const milli = added.get(name)
    if (milli === undefined) e.set(name, value)
    else e.add(name, n(milli))
  }
  e.set(names.limitsRevision, s(mark.nonce)).set(names.incarnation, s(mark.nonce))
  countRequests(e, requests)
  e.condition(`attribute_not_exists(${e.name(names.refilledAt)})`)
  return markedUpdate(table, record, e, mark)
}

/** What a planned write stores besides balances and limits; absent fields stay as they are. */
export interface PlannedWrite {
  readonly amounts: Amounts
  /** Requests admitted by this write. */
  readonly requests?: number
  /** Epoch seconds, or `null` for a bucket that never expires. */
  readonly ttlSeconds?: number | null
  /** `null` for no parent. */
  readonly family?: {readonly cascade: boolean; readonly parent: string | null}
  /** The bucket is filled: tokens taken before do not come back to it. */
  readonly isReset?: boolean
  /** A credit that was cut at the capacity is right only for the balance that was read: require that it is unchanged. */
  readonly isExact?: boolean
}

/** Refill, consumption and changed limits in one write, valid only for the bucket exactly as it was read. */
export function plannedUpdate(
  table: NamespaceTable,
  plan: BucketPlan,
  write: PlannedWrite,
  mark: WriteMark,
): BucketUpdate {
  const {record} = plan.seen
  const e = new ExpressionBuilder()
  e.condition(`${e.name(names.refilledAt)} = ${e.value(n(record.state.refilledAtMs))}`)
  // A split does not move the refill instant, but changes what this shard may be credited.
  requireShardCount(e, record.shardCount)
  requireLimitsRevision(e, record)
  if (changesLimits(plan) || write.family) e.set(names.limitsRevision, s(mark.nonce))
  if (write.isReset) e.set(names.incarnation, s(mark.nonce))
  if (plan.refilledAtMs !== record.state.refilledAtMs) e.set(names.refilledAt, n(plan.refilledAtMs))
  for (const [name, change] of plan.changes) {
    planLimit(e, name, change, write.amounts.get(name) ?? 0n)
    guardLimit(e, name, change, plan, write)
  }
  countRequests(e, write.requests ?? 0)
  setOrRemove(e, names.remainders, remaindersOf(plan))
  if (write.ttlSeconds !== undefined)
    setOrRemove(e, names.expiresAt, write.ttlSeconds === null ? undefined : n(write.ttlSeconds))
  if (write.family) {
    e.set(names.cascade, bool(write.family.cascade))
    setOrRemove(e, names.parent, write.family.parent === null ? undefined : s(write.family.parent))
  }
  return markedUpdate(table, record, e, mark)
}

function planLimit(e: ExpressionBuilder, name: string, change: PlannedLimit, milli: bigint): void {
  if (change.kind === 'remove') {
    for (const field of LIMIT_FIELDS) e.remove(limitAttribute(name, field))
    return
  }
  if (change.parametersChanged) {
    e.set(limitAttribute(name, 'capacity'), n(change.after.capacityMilli))
    e.set(limitAttribute(name, 'refillAmount'), n(change.after.refillAmountMilli))
    e.set(limitAttribute(name, 'refillPeriod'), n(change.after.refillPeriodMs))
  }
  const gain = change.creditMilli - milli
  if (gain !== 0n || change.kind === 'init') e.add(limitAttribute(name, 'tokens'), n(gain))
  if (name === WRITE_PRESSURE_LIMIT) countWrite(e)
  else if (milli !== 0n || change.kind === 'init') e.add(limitAttribute(name, 'consumed'), n(milli))
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
  const tk = limitAttribute(name, 'tokens')
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
    // A limit clamped without time passing leaves the refill instant, which then guards nothing; of a credit cut at the
    // capacity, requests since would lose the rest. Either way the balance itself must be unchanged.
    e.condition(`${e.name(tk)} = ${e.value(n(stored.tokensMilli))}`)
  } else if (milli > change.creditMilli) {
    // Others may have consumed since; the net amount taken must still be there.
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

/** Takes tokens of one limit, or returns them. */
export function addConsumption(e: ExpressionBuilder, name: string, milli: bigint): void {
  e.add(limitAttribute(name, 'tokens'), n(-milli)).add(limitAttribute(name, 'consumed'), n(milli))
}

/**
 * Counts this write; two readings of the count give the item's write rate. The balance of the pressure limit is left to
 * the clients that spend it.
 */
export function countWrite(e: ExpressionBuilder): void {
  e.add(limitAttribute(WRITE_PRESSURE_LIMIT, 'consumed'), n(WRITE_PRESSURE_PER_WRITE))
}

/** Usage is counted per admitted request, of which one write may serve many. */
export function countRequests(e: ExpressionBuilder, requests: number): void {
  if (requests !== 0) e.add(names.requests, n(requests))
}

function setOrRemove(e: ExpressionBuilder, name: string, value: AttributeValue | undefined): void {
  if (value === undefined) e.remove(name)
  else e.set(name, value)
}

/** Skips an expired bucket, which DynamoDB may not have deleted yet. */
export function refuseExpired(e: ExpressionBuilder, nowMs: number): void {
  const expiresAt = e.name(names.expiresAt)
  e.condition(`attribute_not_exists(${expiresAt}) OR ${expiresAt} > ${e.value(n(Math.floor(nowMs / 1000)))}`)
}

/** Clients that do not shard leave the count out. */
export function requireShardCount(e: ExpressionBuilder, count: number): void {
  const stored = e.name(names.shardCount)
  const isSame = `${stored} = ${e.value(n(count))}`
  e.condition(count === 1 ? `attribute_not_exists(${stored}) OR ${isSame}` : isSame)
}

/** Neither limits nor family have changed since the bucket was seen: what follows from older ones is void (decision 25). */
export function requireLimitsRevision(
  e: ExpressionBuilder,
  {limitsRevision}: Pick<BucketRecord, 'limitsRevision'>,
): void {
  requireText(e, names.limitsRevision, limitsRevision)
}

/** An attribute has this value, or is missing. */
export function requireText(e: ExpressionBuilder, attribute: string, value: string | undefined): void {
  const stored = e.name(attribute)
  e.condition(value === undefined ? `attribute_not_exists(${stored})` : `${stored} = ${e.value(s(value))}`)
}

/** Completes an update with the key, the mark and the answers that every write asks for. */
export function markedUpdate(
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
