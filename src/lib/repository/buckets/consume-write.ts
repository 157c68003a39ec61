import {type Amounts, type BucketLimit, inForceAt} from '../../core/buckets/bucket.js'
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
import {type ReturnTarget, requireReturnTarget} from './adjust-write.js'
import {
  type BucketAddress,
  type BucketUpdate,
  countRequests,
  countWrite,
  markedUpdate,
  requireEnabled,
  requireShardCount,
  type WriteMark,
} from './writes.js'

const names = attributes.bucket

export interface AdmissionWrite {
  readonly nowMs: number
  readonly requests: number
  readonly limits: ReadonlyMap<string, LimitWrite>
  /** Its limits must be unchanged. `undefined`: an unread bucket. */
  readonly seen: BucketRecord | undefined
  /** Must be unchanged, if given. */
  readonly shardCount?: number | undefined
  readonly bounds: readonly StateBounds[]
  /** Requires that no calendar and no other client has changed the limits up to now. */
  readonly takesTokens: boolean
  /** A limit has a calendar, so the item must store the instant up to which it was evaluated. */
  readonly isScheduled?: boolean | undefined
  /** Only counts: the bucket must be bypassed still. */
  readonly isBypassed?: boolean
  /** The new refill instant in epoch ms, or by how much it moves on. */
  readonly refill?: {readonly toMs: number} | {readonly byMs: number} | undefined
  /** New expiry in epoch seconds; `null`: none; `undefined`: keep. */
  readonly ttlSeconds?: number | null | undefined
  /** Fills the balance of the write pressure, which other clients spend. */
  readonly repairsPressure: boolean
  /** Refunded in the same write. The balance must cover the amounts without the refund. */
  readonly returns?: Returns | undefined
}

/** In millitokens. */
interface LimitWrite {
  /** Added to the count of consumed tokens. */
  readonly countedMilli: bigint
  /** Added to the balance, unless that is set. */
  readonly addMilli: bigint
  readonly setMilli?: bigint | undefined
  /** Bounds of the balance before the write. */
  readonly lowestMilli?: bigint | undefined
  readonly highestMilli?: bigint | undefined
  /** Must be unchanged: other clients change it without a new revision, and keep the balance (S9). */
  readonly rate?: Rate | undefined
  /** The refill rate must be unchanged too, not only the capacity. */
  readonly needsRefill?: boolean
  /** Must still be soft: only a soft limit may go into debt. */
  readonly isSoft?: boolean
}

interface StateBounds {
  readonly earliestRefillMs?: number | undefined
  readonly latestRefillMs?: number | undefined
  readonly lowestMilli?: Amounts
  readonly highestMilli?: Amounts
}

export interface Returns {
  readonly amounts: Amounts
  readonly target: ReturnTarget
}

export function admissionUpdate(
  table: NamespaceTable,
  address: BucketAddress,
  write: AdmissionWrite,
  mark: WriteMark,
): BucketUpdate {
  const {nowMs, limits, seen, shardCount, bounds, isBypassed, refill, ttlSeconds, returns} = write
  const e = new ExpressionBuilder()
  for (const [name, limit] of limits) spellLimit(e, name, limit, nowMs)
  if (returns) requireReturnTarget(e, returns.amounts.keys(), returns.target, mark)
  if (bounds.length > 0) e.condition(bounds.map(each => spellBounds(e, each)).join(' OR '))
  if (shardCount !== undefined) requireShardCount(e, shardCount)
  // Planted fault: a bypassed request is counted by a late attempt as well
  if (seen) e.require(names.limitsRevision, seen.limitsRevision)
  else {
    // A late attempt must not find tokens refilled since, nor an instant that was set back (decision 26).
    const setBackFrom = e.name(names.setBackFrom)
    e.condition(`${e.name(names.refilledAt)} <= ${e.value(n(nowMs))}`)
    e.condition(`attribute_not_exists(${setBackFrom}) OR ${setBackFrom} <= ${e.value(n(nowMs))}`)
  }
  refuseExpired(e, nowMs, seen)
  requireEnabled(e, isBypassed ? seen : undefined)
  // Planted fault: a bypass does not end
  if (isBypassed) e.condition(`${e.name(names.bypass)} > ${e.value(n(nowMs))}`)
  if (write.takesTokens) requireValidity(e, nowMs, write)
  if (refill) {
    if ('toMs' in refill) e.set(names.refilledAt, n(refill.toMs))
    else e.add(names.refilledAt, n(refill.byMs))
    // Fractions are valid only for the instant they were stored with.
    e.remove(names.remainders)
  }
  if (ttlSeconds !== undefined) e.store(names.expiresAt, ttlSeconds === null ? undefined : n(ttlSeconds))
  if (write.repairsPressure)
    e.copy(limitAttribute(WRITE_PRESSURE_LIMIT, 'tokens'), limitAttribute(WRITE_PRESSURE_LIMIT, 'capacity'))
  countWrite(e)
  countRequests(e, write.requests)
  return markedUpdate(table, address, e, mark)
}

/** Refuses an expired bucket that DynamoDB has not deleted yet. A seen one must still have an expiry, or none. */
function refuseExpired(e: ExpressionBuilder, nowMs: number, seen?: Pick<BucketRecord, 'ttlSeconds'>): void {
  const expiresAt = e.name(names.expiresAt)
  if (seen && seen.ttlSeconds === undefined) {
    e.condition(`attribute_not_exists(${expiresAt})`)
    return
  }
  const isAhead = `${expiresAt}>${e.value(n(Math.floor(nowMs / 1000)))}`
  e.condition(seen ? isAhead : `attribute_not_exists(${expiresAt}) OR ${isAhead}`)
}

/** No calendar has changed the bucket up to now, and no client asks zael to read the configuration first. */
function requireValidity(
  e: ExpressionBuilder,
  nowMs: number,
  {seen, isScheduled = false}: {readonly seen?: BucketRecord | undefined; readonly isScheduled?: boolean | undefined},
): void {
  const stored = e.name(names.validUntil)
  const isExpected = isScheduled || seen?.validUntilMs !== undefined
  // Planted fault: a charge does not ask whether a calendar has changed something
  e.condition(isExpected ? `${stored}>${e.value(n(nowMs))}` : `attribute_not_exists(${stored})`)
}

function spellLimit(
  e: ExpressionBuilder,
  name: string,
  {countedMilli, addMilli, setMilli, lowestMilli, highestMilli, rate, needsRefill, isSoft}: LimitWrite,
  nowMs: number,
): void {
  const tokens = limitAttribute(name, 'tokens')
  if (setMilli !== undefined) e.set(tokens, n(setMilli))
  else if (addMilli !== 0n) e.add(tokens, n(addMilli))
  // Planted fault: charges of requests are not counted
  if (countedMilli !== 0n) e.add(limitAttribute(name, 'consumed'), n(countedMilli))
  if (rate) e.require(limitAttribute(name, 'capacity'), rate.capacityMilli)
  if (rate && needsRefill) {
    e.require(limitAttribute(name, 'refillAmount'), rate.refillAmountMilli)
    if (rate.refillAmountMilli !== 0n) e.require(limitAttribute(name, 'refillPeriod'), rate.refillPeriodMs)
  }
  if (isSoft) {
    e.condition(`attribute_exists(${e.name(tokens)})`)
    e.condition(`${e.name(kindAttribute(name, 'softUntil'))} > ${e.value(n(nowMs))}`)
  }
  if (lowestMilli !== undefined && highestMilli !== undefined)
    e.condition(`${e.name(tokens)} BETWEEN ${e.value(n(lowestMilli))} AND ${e.value(n(highestMilli))}`)
  else if (lowestMilli !== undefined) e.condition(`${e.name(tokens)} >= ${e.value(n(lowestMilli))}`)
  else if (highestMilli !== undefined) e.condition(`${e.name(tokens)} <= ${e.value(n(highestMilli))}`)
}

function spellBounds(e: ExpressionBuilder, bounds: StateBounds): string {
  const {earliestRefillMs, latestRefillMs, lowestMilli = [], highestMilli = []} = bounds
  const terms: string[] = []
  if (earliestRefillMs !== undefined) terms.push(`${e.name(names.refilledAt)}>=${e.value(n(earliestRefillMs))}`)
  if (latestRefillMs !== undefined) terms.push(`${e.name(names.refilledAt)}<=${e.value(n(latestRefillMs))}`)
  // Planted fault: a bucket that is not full counts as full
  for (const [name, milli] of lowestMilli) terms.push(`${e.name(limitAttribute(name, 'tokens'))}>=${e.value(n(milli))}`)
  for (const [name, milli] of highestMilli)
    terms.push(`${e.name(limitAttribute(name, 'tokens'))}<=${e.value(n(milli))}`)
  return terms.join(' AND ')
}

export interface RoomDemand {
  /** The state lies within one of these; if empty, no time may have passed since the last refill. */
  readonly bounds: readonly RoomBounds[]
  readonly shardCount: number
  readonly seen?: BucketRecord | undefined
  readonly isScheduled?: boolean
  /** The rates that the bounds rest on, if not seen in this bucket. */
  readonly supposed?: ReadonlyMap<string, Rate> | undefined
}

interface AdmissionOptions {
  readonly nowMs: number
  readonly requests: number
  readonly repairsPressure: boolean
}

/** Without a charge, any refill instant will do. */
const ANY_TIME: readonly StateBounds[] = [{earliestRefillMs: 0}]

/** Takes stored tokens, also from an unread bucket. Usually the only request of an admitted acquire. */
export function takeStored(
  amounts: Amounts,
  {bounds, seen, supposed, shardCount, isScheduled}: RoomDemand,
  options: AdmissionOptions & {readonly returns?: Returns | undefined},
): AdmissionWrite {
  const {nowMs, requests, repairsPressure, returns} = options
  const [first, another] = bounds
  const limits = new Map<string, LimitWrite>()
  let takesTokens = false
  for (const [name, milli] of amounts) {
    if (milli === 0n) continue
    takesTokens ||= milli > 0n
    const limit = seen?.state.limits.get(name)
    const isSoft = limit !== undefined && isSoftAt(limit, nowMs)
    // Planted fault: a refund batched with a request is taken again
    const countedMilli = milli - (returns?.amounts.get(name) ?? 0n)
    // Planted fault: a charge does not check the balance
    const lowestMilli = isSoft ? undefined : milli
    // Overflowed tokens must not come back. A single bound is checked with the balance.
    const highestMilli = another ? undefined : first?.highestMilli.get(name)
    // Planted fault: a charge does not ask whether another client has lowered the capacity
    const rate = limit ?? supposed?.get(name)
    const addMilli = -countedMilli
    limits.set(name, {countedMilli, addMilli, lowestMilli, highestMilli, rate, needsRefill: !limit, isSoft})
  }
  for (const [name, milli] of returns?.amounts ?? [])
    if (!limits.has(name)) limits.set(name, {countedMilli: -milli, addMilli: milli})
  // Planted fault: the overflow can be taken too
  const single = [{earliestRefillMs: first?.earliestRefillMs ?? nowMs}]
  // Field by field, which is faster than spreading.
  return {
    nowMs,
    requests,
    limits,
    seen,
    // The revision also changes with the number of shards.
    shardCount: seen || !takesTokens ? undefined : shardCount,
    bounds: !takesTokens ? ANY_TIME : another ? bounds : single,
    takesTokens,
    isScheduled,
    repairsPressure,
    returns,
  }
}

/** Counts requests on a bypassed bucket. Takes no tokens, so balances and calendars don't matter. */
export function countBypassed(amounts: Amounts, seen: BucketRecord, options: AdmissionOptions): AdmissionWrite {
  const limits = new Map<string, LimitWrite>()
  // With its rate: otherwise a limit that another client removed would come back as a counter without parameters.
  for (const [name, countedMilli] of amounts)
    if (countedMilli !== 0n) limits.set(name, {countedMilli, addMilli: 0n, rate: seen.state.limits.get(name)})
  return {...options, limits, seen, bounds: [], takesTokens: false, isBypassed: true}
}

/**
 * Within the bounds the rates are full again, whatever others wrote: each balance is the capacity minus the amount. Quotas
 * are charged as in any other write.
 */
export function takeFromFull(
  amounts: Amounts,
  seen: BucketRecord,
  bounds: readonly FullnessBounds[],
  {nowMs, requests, ttlSeconds}: Pick<AdmissionWrite, 'nowMs' | 'requests' | 'ttlSeconds'>,
): AdmissionWrite {
  const {state, shard, shardCount} = seen
  const share = inForceAt(shareOfBucket(state, shard, shardCount), nowMs)
  const limits = new Map<string, LimitWrite>()
  for (const [name, rate] of state.limits) {
    if (name === WRITE_PRESSURE_LIMIT) continue
    const full = share.limits.get(name)?.capacityMilli ?? 0n
    const milli = amounts.get(name) ?? 0n
    if (!rate.kind?.quota) {
      // Planted fault: a full bucket is not charged
      const setMilli = full - milli
      limits.set(name, {countedMilli: milli, addMilli: 0n, setMilli, rate, needsRefill: true})
    } else if (milli !== 0n) {
      const isSoft = isSoftAt(rate, nowMs)
      const lowestMilli = isSoft ? undefined : milli
      limits.set(name, {countedMilli: milli, addMilli: -milli, lowestMilli, highestMilli: full, rate, isSoft})
    }
  }
  // The write pressure shares the refill instant and fills up quickly.
  const repairsPressure = state.limits.has(WRITE_PRESSURE_LIMIT)
  const refill = {toMs: nowMs}
  return {nowMs, requests, ttlSeconds, limits, seen, shardCount, bounds, takesTokens: true, refill, repairsPressure}
}

/** Valid for every state that other clients can have written since the bucket was read. */
export function takeShared(
  amounts: Amounts,
  seen: BucketRecord,
  take: SharedTake,
  options: AdmissionOptions,
): AdmissionWrite {
  const {stepMs, earliestRefillMs, latestRefillMs} = take
  const limits = new Map<string, LimitWrite>()
  for (const [name, limit] of take.limits) {
    const rate = seen.state.limits.get(name) as BucketLimit
    const countedMilli = amounts.get(name) ?? 0n
    const isSoft = countedMilli > 0n && isSoftAt(rate, options.nowMs)
    limits.set(name, {...limit, countedMilli, rate, needsRefill: true, isSoft})
  }
  const bounds = [{earliestRefillMs, latestRefillMs}]
  const refill = stepMs > 0 ? {byMs: stepMs} : undefined
  return {...options, limits, seen, shardCount: seen.shardCount, bounds, takesTokens: true, refill}
}
