import type {Amounts, BucketLimit} from '../../core/buckets/bucket.js'
import {isSoftAt, STAMP_MS} from '../../core/limits/limit-kind.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import type {OperationInput} from '../../dynamo/transport.js'
import {type AttributeValue, bool, type Item, n, readString, s} from '../../schema/attribute-value.js'
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
import type {AccessSwitch} from '../../schema/config-record.js'
import {type Family, generationAttributes} from '../../schema/family.js'
import {keys, wireKey, withoutKey} from '../../schema/keys.js'
import {encodeFeedback, feedbackAttribute, type StoredFeedback} from '../../schema/kind-attributes.js'
import {bucketRefusals, type RefusalCounts} from '../../schema/refusal-counts.js'
import {slotAttribute} from '../../schema/slot-attributes.js'
import type {NamespaceTable, Table} from '../table/table.js'
import {expiryOfPeriod, planKinds, stampBypass} from './kind-write.js'
import {type BucketPlan, ceilingOf, changesLimits, type PlannedLimit, rulesAt} from './plan.js'

const names = attributes.bucket

export interface BucketAddress {
  readonly entity: string
  readonly resource: string
  readonly shard: number
}

export type BucketUpdate = OperationInput<'UpdateItem'>

/** Shows later whether a write was applied. Eight slots make overwriting another process's mark unlikely. */
export interface WriteMark {
  readonly slot: number
  readonly nonce: string
  /**
   * Greater than all marks of the process. Marks increase: from `nonce` up to here are this write and later ones
   * (decision 8).
   */
  readonly upTo?: string
  /** For a repetition: the slot must still hold this mark from before, so at most one try applies (decision 26). */
  readonly repeats?: {readonly slotMark: string | undefined}
  readonly refusals?: RefusalCounts | undefined
  readonly slots?: SlotsWrite | undefined
}

/** Slots of in-flight limits that a holder takes or returns in the same write. */
export interface SlotsWrite {
  readonly holder: string
  /** The holder's account as last seen, which must be unchanged; `undefined`: it has none. */
  readonly before: string | undefined
  /** `undefined`: the holder has no slots left. */
  readonly after: string | undefined
  /** Per limit with a change: slots taken (negative: returned), and the stored capacity, which must be unchanged. */
  readonly taken: ReadonlyMap<string, {readonly count: number; readonly capacity: number | undefined}>
}

export const MARK_SLOTS = 8

/** For writes beside those of queues: a queue's write that is delivered twice must find its own mark in its slot (S6). */
export const GATHER_SLOT = 8

export function newMark(table: Pick<Table, 'randomBytes'>): WriteMark {
  const [slot = 0, ...nonce] = table.randomBytes(9)
  return {slot: slot % MARK_SLOTS, nonce: Buffer.from(nonce).toString('base64url')}
}

export function markIn(item: Item | undefined, slot: number): string | undefined {
  return item && readString(item, markAttribute(slot))
}

/** If so, a repetition was refused because the write had already been applied. */
export function carriesMark(item: Item | undefined, {slot, nonce}: WriteMark): boolean {
  if (!item) return false
  // A later write may own the slot while revision or creation still names this one.
  // Planted fault: an applied write counts as refused
  return [markAttribute(slot), names.limitsRevision, names.incarnation].some(name => readString(item, name) === nonce)
}

/** UpdateItem, because acquire-only permissions lack PutItem; ADD keeps counters that a refund left behind. */
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
    added.set(limitAttribute(name, 'tokens'), limit.tokensMilli - (record.bypassUntilMs === undefined ? milli : 0n))
    added.set(limitAttribute(name, 'consumed'), milli)
  }
  for (const [name, value] of Object.entries(withoutKey(encodeBucket(record)))) {
    const milli = added.get(name)
    if (milli === undefined) e.set(name, value)
    else e.add(name, n(milli))
  }
  e.set(names.incarnation, s(mark.nonce))
  countRequests(e, requests)
  // Planted fault: a bucket is created over another
  e.condition(`attribute_not_exists(${e.name(names.refilledAt)})`)
  return markedUpdate(table, record, e, mark, {isRevision: true})
}

/** Absent fields stay as they are. */
export interface PlannedWrite {
  readonly amounts: Amounts
  readonly requests?: number
  readonly ttlSeconds?: number | null
  readonly family?: Family
  /** The limits are the configuration's, read after the bucket: other clients need not compare again. */
  readonly isCompared?: boolean
  /** The switch was read after the bucket: stamps of another switch are removed. */
  readonly opens?: boolean
  /** With `opens`: bypass until this instant, in epoch ms. Amounts are counted but not taken. */
  readonly bypassUntilMs?: number | undefined
  /** An operator reset or topped up limits: plans of others are void. */
  readonly isOperation?: boolean
  /** The bucket is filled: tokens taken before are not refunded to it. */
  readonly isReset?: boolean
  readonly feedback?: ReadonlyMap<string, StoredFeedback>
  /** Require an unchanged balance: a credit that was cut at the capacity is right only for that balance. */
  readonly isExact?: boolean
  /** May leave a debt: how much others may have taken since the bucket was seen. */
  readonly slackMilli?: Amounts | undefined
}

export function plannedUpdate(
  table: NamespaceTable,
  plan: BucketPlan,
  write: PlannedWrite,
  mark: WriteMark,
): BucketUpdate {
  const {record} = plan.seen
  const e = new ExpressionBuilder()
  // Planted fault: a rewrite does not check the refill instant
  e.condition(`${e.name(names.refilledAt)} = ${e.value(n(record.state.refilledAtMs))}`)
  // A split keeps the refill instant, but changes this shard's share.
  requireShardCount(e, record.shardCount)
  // Planted fault: a rewrite does not check whether the limits have changed
  e.require(names.limitsRevision, record.limitsRevision)
  // The tokens may belong to a request that was counted elsewhere: on another shard, or earlier.
  const takesTokens = [...write.amounts.values()].some(milli => milli > 0n)
  const isUsed = takesTokens || (write.requests ?? 0) > 0 || write.isCompared === true
  if (isUsed) requireEnabled(e, record)
  // The switch was read after the bucket; changing it again changes the revision.
  if (write.opens && record.isDisabled) e.remove(names.disabled)
  if (write.opens) stampBypass(e, record, write.bypassUntilMs, plan.nowMs)
  const taken: Amounts = write.bypassUntilMs === undefined ? write.amounts : new Map()
  if (write.isReset) e.set(names.incarnation, s(mark.nonce))
  // Planted fault: a rewrite does not move the refill instant
  if (plan.refilledAtMs !== record.state.refilledAtMs) e.set(names.refilledAt, n(plan.refilledAtMs))
  // Attempts that were ruled out by the later instant stay ruled out (decision 26).
  const latestMs = Math.max(record.state.refilledAtMs, record.setBackFromMs ?? 0)
  // Planted fault: a refill instant that is set back lets earlier attempts through
  if (plan.refilledAtMs < record.state.refilledAtMs) e.set(names.setBackFrom, n(latestMs))
  if (plan.slots) planSlots(e, plan.slots, record)
  for (const [name, change] of plan.changes) {
    planLimit(e, name, change, write.amounts.get(name) ?? 0n, taken.get(name) ?? 0n)
    guardLimit(e, name, change, plan, {...write, amounts: taken})
  }
  planKinds(e, plan, isUsed)
  countRequests(e, write.requests ?? 0)
  e.store(names.remainders, remaindersOf(plan))
  const {ttlSeconds = expiryOfPeriod(plan)} = write
  if (ttlSeconds !== undefined) e.store(names.expiresAt, ttlSeconds === null ? undefined : n(ttlSeconds))
  if (write.family) storeFamily(e, write.family, record)
  for (const [name, feedback] of write.feedback ?? []) e.set(feedbackAttribute(name), encodeFeedback(feedback))
  // A reset or top-up voids older plans. So does feedback by a slow clock, which leaves the refill instant.
  const isStill = plan.refilledAtMs === record.state.refilledAtMs
  const voidsPlans = write.isOperation === true || (write.feedback !== undefined && isStill)
  const isRevision = changesLimits(plan) || write.family !== undefined || voidsPlans
  return markedUpdate(table, record, e, mark, {isRevision})
}

/** Sets capacities. Free slots change by as much, and may become negative; those of a new limit are counted. */
function planSlots(
  e: ExpressionBuilder,
  wanted: ReadonlyMap<string, number>,
  {shard, slots}: Pick<BucketRecord, 'shard' | 'slots'>,
): void {
  const accounts = [...(slots?.accounts ?? [])]
  for (const [name, {capacity}] of slots?.limits ?? []) {
    const next = wanted.get(name)
    const attribute = slotAttribute.capacity(name)
    e.require(attribute, capacity)
    if (next === capacity) continue
    e.store(attribute, next === undefined ? undefined : n(next))
    if (next === undefined) e.remove(slotAttribute.free(name))
    // Planted fault: a changed capacity does not change the free slots
    else if (shard === 0) e.add(slotAttribute.free(name), n(next - capacity))
  }
  for (const [name, capacity] of wanted) {
    if (slots?.limits.has(name)) continue
    const attribute = slotAttribute.capacity(name)
    e.require(attribute, undefined).set(attribute, n(capacity))
    if (shard !== 0) continue
    const holders = accounts.filter(([, {held}]) => held.has(name))
    for (const [holder, {text}] of holders) e.require(slotAttribute.account(holder), text)
    // Planted fault: slots in use are free when their limit is set again
    const held = holders.reduce((sum, [, account]) => sum + (account.held.get(name) ?? 0), 0)
    e.set(slotAttribute.free(name), n(capacity - held))
  }
}

function planLimit(
  e: ExpressionBuilder,
  name: string,
  change: PlannedLimit,
  countedMilli: bigint,
  takenMilli: bigint,
): void {
  if (change.kind === 'remove') {
    for (const field of LIMIT_FIELDS) e.remove(limitAttribute(name, field))
    return
  }
  if (change.parametersChanged) {
    e.set(limitAttribute(name, 'capacity'), n(change.after.capacityMilli))
    e.set(limitAttribute(name, 'refillAmount'), n(change.after.refillAmountMilli))
    e.set(limitAttribute(name, 'refillPeriod'), n(change.after.refillPeriodMs))
  }
  const gain = change.creditMilli - takenMilli
  if (gain !== 0n || change.kind === 'init') e.add(limitAttribute(name, 'tokens'), n(gain))
  if (name === WRITE_PRESSURE_LIMIT) countWrite(e)
  // Planted fault: charges of a rewrite are not counted
  else if (countedMilli !== 0n || change.kind === 'init') e.add(limitAttribute(name, 'consumed'), n(countedMilli))
}

/**
 * Conditions under which a limit's part of a plan still holds. Write pressure is only a signal and needs no condition.
 */
function guardLimit(
  e: ExpressionBuilder,
  name: string,
  change: PlannedLimit,
  plan: BucketPlan,
  {amounts, isExact = false, isOperation = false, feedback, slackMilli}: PlannedWrite,
): void {
  if (name === WRITE_PRESSURE_LIMIT || change.kind === 'remove') return
  const {seen, refilledAtMs, nowMs} = plan
  const milli = amounts.get(name) ?? 0n
  const tk = limitAttribute(name, 'tokens')
  if (change.kind === 'init') {
    const residue = seen.incomplete.get(name)
    e.condition(residue ? `${e.name(tk)} = ${e.value(n(residue.tokensMilli))}` : `attribute_not_exists(${e.name(tk)})`)
    return
  }
  const {state} = seen.record
  const stored = state.limits.get(name)
  // Other clients lower it without a new revision (S9).
  const usesCapacity = milli > 0n || change.creditMilli > 0n || change.parametersChanged
  // Planted fault: a rewrite does not ask whether another client has lowered the capacity
  if (stored && usesCapacity) e.require(limitAttribute(name, 'capacity'), stored.capacityMilli)
  // Before or after the change: the credit was cut at the capacity in force until now.
  const ruleMs = rulesAt(change.after, plan)
  const ceilings = [change.after, stored ?? change.after].map(limit => ceilingOf(name, limit, seen.record, ruleMs))
  const isFull = ceilings.some(ceiling => change.after.tokensMilli >= ceiling)
  const isMoved = refilledAtMs !== state.refilledAtMs
  // Under contention an operator's change gives up exactness: tokens taken meanwhile count for the new period.
  const isGranted = change.creditMilli !== 0n || beginsPeriod(stored, change.after, state.refilledAtMs, refilledAtMs)
  const isRestored = change.after.kind?.quota !== undefined && isGranted && (isExact || !isOperation)
  const isLowered = feedback?.has(name) ?? false
  if (stored && (isLowered || isRestored || (isMoved ? isExact && isFull : change.creditMilli !== 0n))) {
    // The balance must be unchanged. A clamp without elapsed time keeps the refill instant, requests since would lose
    // the rest of a cut credit, and feedback from a slow clock may have taken the same tokens.
    e.condition(`${e.name(tk)} = ${e.value(n(stored.tokensMilli))}`)
    return
  }
  // Others may have consumed since: the net amount must still be there.
  const slack = slackMilli?.get(name)
  const lowest = slack === undefined || !stored ? milli - change.creditMilli : stored.tokensMilli - slack
  if ((slack !== undefined || milli > change.creditMilli) && !isSoftAt(change.after, nowMs))
    e.condition(`${e.name(tk)} >= ${e.value(n(lowest))}`)
  if (!stored || change.creditMilli <= 0n) return
  // Others may have refunded since: the credit must not exceed the capacity.
  const highest = ceilings.map(each => each - change.creditMilli).reduce((a, b) => (a < b ? a : b))
  e.condition(`${e.name(tk)} <= ${e.value(n(highest > stored.tokensMilli ? highest : stored.tokensMilli))}`)
}

/** Refunds to the previous period must not be carried into the new one. */
function beginsPeriod(before: BucketLimit | undefined, {kind}: BucketLimit, fromMs: number, toMs: number): boolean {
  const {session, resets} = kind?.quota ?? {}
  if (session) return session.appliedMs !== before?.kind?.quota?.session?.appliedMs
  return (resets?.lastMs(toMs) ?? fromMs) > fromMs
}

function remaindersOf(plan: BucketPlan): AttributeValue | undefined {
  const limits = new Map(
    [...plan.changes].filter(([, {kind}]) => kind !== 'remove').map(([name, {after}]) => [name, after]),
  )
  const text = encodeRemainders({refilledAtMs: plan.refilledAtMs, limits})
  return text === undefined ? undefined : s(text)
}

export function addConsumption(e: ExpressionBuilder, name: string, milli: bigint): void {
  // Planted fault: charges are not counted
  e.add(limitAttribute(name, 'tokens'), n(-milli)).add(limitAttribute(name, 'consumed'), n(milli))
}

/** Two readings of the count give the write rate. Only the clients that spend the limit change its balance. */
export function countWrite(e: ExpressionBuilder): void {
  e.add(limitAttribute(WRITE_PRESSURE_LIMIT, 'consumed'), n(WRITE_PRESSURE_PER_WRITE))
}

export function countRequests(e: ExpressionBuilder, requests: number): void {
  if (requests !== 0) e.add(names.requests, n(requests))
}

export function storeFamily(e: ExpressionBuilder, family: Family, seen: Family): void {
  e.set(names.cascade, bool(family.cascade))
  e.store(names.parent, family.parent === undefined ? undefined : s(family.parent))
  const generation = family.parentGeneration && generationAttributes(family.parentGeneration)
  for (const [name, value] of Object.entries(generation ?? {})) e.set(name, value)
  requireFamily(e, seen)
}

/** Other clients change the family without a new revision. An older generation never replaces a later one. */
export function requireFamily(e: ExpressionBuilder, {cascade, parent, parentGeneration}: Family): void {
  const stored = e.name(names.cascade)
  const isSame = `${stored} = ${e.value(bool(cascade))}`
  e.condition(cascade ? isSame : `attribute_not_exists(${stored}) OR ${isSame}`)
  e.require(names.parent, parent)
  e.require(names.parentGeneration, parentGeneration?.moves)
  e.require(names.parentIncarnation, parentGeneration?.incarnation)
}

/** Clients that do not shard omit the count. */
export function requireShardCount(e: ExpressionBuilder, count: number): void {
  const stored = e.name(names.shardCount)
  const isSame = `${stored} = ${e.value(n(count))}`
  e.condition(count === 1 ? `attribute_not_exists(${stored}) OR ${isSame}` : isSame)
}

/** Not disabled or bypassed since it was seen: other clients then stamp neither refill instant nor revision. */
export function requireEnabled(e: ExpressionBuilder, seen?: Pick<BucketRecord, 'isDisabled' | 'bypassUntilMs'>): void {
  // Planted fault: a write does not ask whether the switch was thrown
  if (!seen?.isDisabled) e.condition(`attribute_not_exists(${e.name(names.disabled)})`)
  if (seen?.bypassUntilMs === undefined) e.condition(`attribute_not_exists(${e.name(names.bypass)})`)
}

/** Also requires unchanged validity and bypass instants: otherwise a copy of the bucket would be wrong. */
export function requireOpen(
  e: ExpressionBuilder,
  seen: Pick<BucketRecord, 'validUntilMs' | 'isDisabled' | 'bypassUntilMs'>,
): void {
  requireEnabled(e, seen)
  if (seen.bypassUntilMs !== undefined) e.require(names.bypass, seen.bypassUntilMs)
  e.require(names.validUntil, seen.validUntilMs)
}

export function markedUpdate(
  table: NamespaceTable,
  address: BucketAddress,
  e: ExpressionBuilder,
  mark: WriteMark,
  {isRevision = false}: {readonly isRevision?: boolean} = {},
): BucketUpdate {
  const {slot, nonce, upTo, repeats, refusals, slots} = mark
  const attribute = markAttribute(slot)
  e.set(attribute, s(nonce))
  if (refusals) countRefusals(e, refusals)
  if (slots) spellSlots(e, slots)
  // Planted fault: a repetition leaves the first try valid
  if (isRevision || repeats) e.set(names.limitsRevision, s(nonce))
  // Planted fault: a repetition is not recognised
  if (repeats) e.require(attribute, repeats.slotMark)
  const stored = e.name(attribute)
  // A second delivery finds its own mark or a later one of its process. Another process that shares the slot may hide it.
  const isEarlier = `attribute_not_exists(${stored}) OR ${stored}<${e.value(s(nonce))}`
  // Planted fault: a write that is delivered twice is applied twice
  if (!repeats && upTo !== undefined) e.condition(`${isEarlier} OR ${stored}>${e.value(s(upTo))}`)
  return {
    TableName: table.name,
    Key: wireKey(keys.bucket(table.namespace, address.entity, address.resource, address.shard)),
    ...e.update(),
    ReturnValues: 'ALL_NEW',
    ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
  }
}

function spellSlots(e: ExpressionBuilder, {holder, before, after, taken}: SlotsWrite): void {
  const account = slotAttribute.account(holder)
  // Planted fault: a write takes slots whatever the account
  e.require(account, before).store(account, after === undefined ? undefined : s(after))
  for (const [name, {count, capacity}] of taken) {
    e.require(slotAttribute.capacity(name), capacity)
    // A limit that was removed meanwhile has no free slots. If it is set again, they are counted from the accounts.
    if (capacity === undefined) continue
    const free = slotAttribute.free(name)
    e.add(free, n(-count))
    // Planted fault: slots are taken although none is free
    if (count > 0) e.condition(`${e.name(free)} >= ${e.value(n(count))}`)
  }
}

/** Only slots change: late for a request that is charged already, or returned alone. */
export function slotsUpdate(
  table: NamespaceTable,
  address: BucketAddress,
  seen: Pick<BucketRecord, 'limitsRevision'>,
  mark: WriteMark,
): BucketUpdate {
  const e = new ExpressionBuilder()
  e.require(names.limitsRevision, seen.limitsRevision)
  e.condition(`attribute_exists(${e.name(names.refilledAt)})`)
  countWrite(e)
  // The new revision rules out earlier writes of unknown outcome (decision 26).
  return markedUpdate(table, address, e, mark, {isRevision: mark.slots === undefined})
}

function countRefusals(e: ExpressionBuilder, refusals: RefusalCounts): void {
  const {added, lastAt} = bucketRefusals(refusals)
  for (const [attribute, count] of added) e.add(attribute, n(count))
  if (lastAt[1] > 0) e.set(lastAt[0], n(lastAt[1]))
  const {unsettled} = refusals
  if (!unsettled) return
  const {unsettled: count, unsettledAt} = attributes.refusals
  e.add(count, n(unsettled.settlements)).set(unsettledAt, n(unsettled.lastAtMs))
}

/** Writes only the mark's refusals; never creates a bucket. The revision admits at most one attempt (decision 26). */
export function refusalUpdate(
  table: NamespaceTable,
  address: BucketAddress,
  seen: Pick<BucketRecord, 'limitsRevision'>,
  mark: WriteMark,
): BucketUpdate {
  const e = new ExpressionBuilder()
  e.require(names.limitsRevision, seen.limitsRevision)
  e.condition(`attribute_exists(${e.name(attributes.bucket.refilledAt)})`)
  return markedUpdate(table, address, e, mark)
}

interface StampedSwitch {
  readonly access: AccessSwitch
  readonly readAtMs: number
  /** Epoch ms at which the switch expires. */
  readonly untilMs?: number | undefined
}

/** The new revision voids older plans. With `seen`, refused if the switch was changed since. Never creates a bucket. */
export function stampUpdate(
  table: NamespaceTable,
  address: BucketAddress,
  {access, readAtMs, untilMs = Infinity}: StampedSwitch,
  mark: WriteMark,
  seen?: BucketRecord,
): BucketUpdate {
  const e = new ExpressionBuilder()
  // Planted fault: the switch is not stamped on buckets
  if (access === 'disabled') e.set(names.disabled, bool(true))
  else e.remove(names.disabled)
  if (access === 'bypass') e.set(names.bypass, n(Math.min(readAtMs + STAMP_MS, untilMs)))
  else e.remove(names.bypass)
  e.condition(`attribute_exists(${e.name(names.refilledAt)})`)
  if (seen) e.require(names.limitsRevision, seen.limitsRevision)
  return markedUpdate(table, address, e, mark, {isRevision: true})
}
