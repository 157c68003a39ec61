import {type Amounts, type BucketLimit, chooseFitting, sumAmounts} from '../../core/buckets/bucket.js'
import {boughtMilli} from '../../core/buckets/kind-refill.js'
import {kindedRateOf} from '../../core/calendar/kind-definition.js'
import {type Limit, rateOf} from '../../core/limits/limit.js'
import {isRenewalDue, isSameLimit} from '../../core/limits/limit-kind.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {toMilli, toTokens} from '../../core/token-math.js'
import {validityOf} from '../../repository/buckets/kind-write.js'
import {
  changesLimits,
  givableMilli,
  hasSlotsOf,
  isFull,
  planBucket,
  plannedLimits,
  plannedTokens,
  type SeenBucket,
  shardExpiry,
  startingLimit,
} from '../../repository/buckets/plan.js'
import {plannedRecord} from '../../repository/buckets/rewrite.js'
import {type BucketAddress, createUpdate, type PlannedWrite, plannedUpdate} from '../../repository/buckets/writes.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import type {BucketRecord, Residue} from '../../schema/bucket-record.js'
import {isSameFamily} from '../../schema/family.js'
import type {Slots} from '../holders/slot-account.js'
import {RequestTooLarge, unknownLimit} from '../refusal/errors.js'
import type {AppliedLimits, LimitsInForce} from '../request/limit-source.js'
import type {LimiterSettings} from '../request/options.js'
import {type PendingRequest, requestCount} from '../request/pending-request.js'
import {bookInOrder, canBook} from './booking.js'
import {isBucketExpired, type KnownState} from './known-bucket.js'
import {basisOf, type QueueStep, refuseMisfits, type WriteStep} from './next-step.js'

export interface LimitStepInput {
  readonly state: KnownState
  readonly table: NamespaceTable
  readonly address: BucketAddress
  readonly requests: readonly PendingRequest[]
  readonly inForce: LimitsInForce
  /** Limits of the parent, if a strict request names limits that the bucket lacks. */
  readonly shared?: ReadonlySet<string>
  readonly bypassUntilMs?: number | undefined
  readonly settings: LimiterSettings
  /** The instant of the decision, and the clock: see `StepInput`. */
  readonly nowMs: number
  readonly clockMs: number
  readonly isCertain: boolean
  /** Lose no refill to concurrent writers; false only after many rounds. */
  readonly isExact: boolean
}

interface LimitPlan {
  readonly step: QueueStep | undefined
  readonly impossible: ReadonlyMap<PendingRequest, Error>
}

export function planWithLimits(input: LimitStepInput): LimitPlan {
  const {state, address, inForce, isCertain, shared} = input
  const impossible = new Map<PendingRequest, Error>()
  const possible: PendingRequest[] = []
  let isUndecided = false
  for (const request of input.requests) {
    if (request.isAbandoned) continue
    const reason =
      impossibility(address, request.amounts, inForce.applied, possibleTopUps(state, input.nowMs), shared) ??
      tooManySlots(address, request.slots, inForce.applied)
    if (!reason) possible.push(request)
    // An operator may have bypassed or raised the limit, or topped up the quota: the next step rereads the bucket.
    else if (!isCertain && reason instanceof RequestTooLarge) isUndecided = true
    else impossible.set(request, reason)
  }
  if (isUndecided && possible.length === 0) return {impossible, step: {kind: 'forget'}}
  if (state.exists) return {impossible, step: planRewrite(state.seen, possible, input)}
  return {impossible, step: possible.length === 0 ? undefined : planCreation(state.residue, possible, input)}
}

export function impossibility(
  {entity, resource}: Pick<BucketAddress, 'entity' | 'resource'>,
  amounts: Amounts,
  {limits, isBypassed = false}: Pick<AppliedLimits, 'limits' | 'isBypassed'>,
  topUps: Amounts = new Map(),
  shared: Iterable<string> = [],
): Error | undefined {
  const capacities = new Map(limits.map(limit => [limit.name, largestCapacity(limit) + (topUps.get(limit.name) ?? 0n)]))
  const soft = new Set(limits.filter(limit => limit.soft).map(({name}) => name))
  const unknown = [...amounts.keys()].filter(name => !capacities.has(name))
  if (unknown.length > 0) return unknownLimit(entity, resource, unknown, [...capacities.keys(), ...shared])
  for (const [name, milli] of amounts) {
    const capacityMilli = capacities.get(name) as bigint
    // Planted fault: the whole capacity is too large
    if (milli > capacityMilli && !soft.has(name) && !isBypassed)
      return new RequestTooLarge(entity, resource, name, toTokens(milli), toTokens(capacityMilli))
  }
  return undefined
}

export function tooManySlots(
  {entity, resource}: Pick<BucketAddress, 'entity' | 'resource'>,
  slots: Slots,
  {inFlight}: AppliedLimits,
): Error | undefined {
  for (const [name, count] of slots) {
    const capacity = inFlight.get(name) ?? count
    if (count > capacity) return new RequestTooLarge(entity, resource, name, count, capacity)
  }
  return undefined
}

/** A schedule may allow more than the base capacity. */
function largestCapacity(limit: Limit): bigint {
  const {capacityMilli} = rateOf(limit)
  const scheduled = (limit.schedule ?? []).map(entry =>
    toMilli('scale' in entry ? Math.ceil(limit.capacity * entry.scale) : (entry.capacity ?? limit.capacity)),
  )
  return scheduled.reduce((most, milli) => (milli > most ? milli : most), capacityMilli)
}

export function topUpsOf(records: readonly BucketRecord[], atMs: number): Map<string, bigint> {
  const sums = new Map<string, bigint>()
  for (const {state} of records) {
    for (const [name, limit] of state.limits)
      sums.set(name, (sums.get(name) ?? 0n) + boughtMilli(limit, state.refilledAtMs, atMs))
  }
  return sums
}

/** More than any top-up. */
const UNKNOWN_TOP_UP = 10n ** 30n

/** Top-ups that may exist: one of several shards does not show those of the others. */
function possibleTopUps(state: KnownState, nowMs: number): Map<string, bigint> {
  if (!state.exists) return new Map()
  const {record} = state.seen
  if (record.shardCount === 1) return topUpsOf([record], nowMs)
  return new Map([...record.state.limits].map(([name, {kind}]) => [name, kind?.quota ? UNKNOWN_TOP_UP : 0n]))
}

/** Creates a full bucket, less the fitting requests. Under a bypass all fit and take nothing. */
function planCreation(
  residue: ReadonlyMap<string, Residue>,
  requests: readonly PendingRequest[],
  {table, address, inForce, settings, nowMs, isCertain, bypassUntilMs}: LimitStepInput,
): QueueStep {
  const isBypassed = bypassUntilMs !== undefined
  const limits = new Map<string, BucketLimit>()
  const balances = new Map<string, bigint>()
  for (const limit of inForce.applied.limits) {
    const full = startingLimit(limit.name, kindedRateOf(limit, nowMs), {shard: 0, shardCount: 1}, nowMs, !isBypassed)
    // The write adds to tokens refunded after the bucket was gone: together they must not exceed the capacity.
    const left = residue.get(limit.name)?.tokensMilli ?? 0n
    const tokensMilli = left > 0n ? full.tokensMilli - left : full.tokensMilli
    limits.set(limit.name, {...full, tokensMilli})
    balances.set(limit.name, givableMilli({...full, tokensMilli: tokensMilli + left}, nowMs))
  }
  const {fitting, others} = isBypassed ? {fitting: requests, others: []} : chooseFitting(requests, balances)
  const record: BucketRecord = {
    namespace: table.namespace,
    ...address,
    shardCount: 1,
    ...inForce.family,
    ttlSeconds: expiryOf({shard: 0, shardCount: 1}, inForce.applied, limits.values(), settings, nowMs) ?? undefined,
    state: {refilledAtMs: nowMs, limits},
    validUntilMs: validityOf({refilledAtMs: nowMs, limits}, nowMs),
    bypassUntilMs,
    slots: freshSlots(inForce.applied.inFlight),
  }
  // A schedule window may hold less than requested: neither a bucket nor a session starts with a refusal.
  if (fitting.length === 0 && residue.size === 0)
    return isCertain ? {kind: 'refuse', requests, record, nowMs} : {kind: 'forget'}
  // Planted fault: the first request is not charged
  const write = {amounts: sumAmounts(fitting), requests: requestCount(fitting)}
  const update: WriteStep['update'] = mark => createUpdate(table, record, write, mark)
  return {kind: 'create', update, basis: {kind: 'absence'}, admits: fitting, isBypassed, leftOver: others, nowMs}
}

function freshSlots(inFlight: Slots): BucketRecord['slots'] {
  if (inFlight.size === 0) return undefined
  const limits = new Map([...inFlight].map(([name, capacity]) => [name, {capacity, free: capacity}]))
  return {limits, accounts: new Map()}
}

/** Refills, changes limits or switch, and consumes in one write, on condition that the bucket is unchanged. */
function planRewrite(
  seen: SeenBucket,
  requests: readonly PendingRequest[],
  {table, inForce, settings, nowMs, clockMs, isCertain, isExact, bypassUntilMs}: LimitStepInput,
): QueueStep {
  const {record} = seen
  const {applied, family} = inForce
  const isBypassed = bypassUntilMs !== undefined
  const {inFlight} = applied
  const used = planBucket(seen, nowMs, applied.limits, {opensSessions: !isBypassed, inFlight})
  const planned = plannedTokens(used)
  // Refill begins when the clock has passed the instant of the bucket.
  const refillsFromMs = Math.max(used.refilledAtMs, clockMs)
  const isBookable = !isBypassed && inFlight.size === 0 && canBook(record, requests)
  const booked = isBookable
    ? bookInOrder(requests, planned, new Map([...used.changes].map(([name, {after}]) => [name, after])), refillsFromMs)
    : undefined
  const {fitting, others} = isBypassed
    ? {fitting: requests, others: []}
    : booked
      ? {fitting: booked.admits, others: booked.others}
      : chooseFitting(requests, planned)
  // A session opens only with its first use.
  const plan = fitting.length > 0 ? used : planBucket(seen, nowMs, applied.limits, {inFlight})
  const isSwitched = !record.isDisabled && isBypassed === (record.bypassUntilMs !== undefined)
  // A full expired bucket need not be kept: it would be recreated the same. Debts are kept.
  const isKept = isBucketExpired(record, nowMs) && !isFull(used)
  if (fitting.length === 0 && !changesLimits(plan) && !isKept && isSwitched) {
    return isCertain ? refuseMisfits(requests, record, nowMs) : {kind: 'forget'}
  }
  const amounts = sumAmounts(fitting)
  const write: PlannedWrite = {
    amounts,
    requests: requestCount(fitting),
    ttlSeconds: expiryOf(record, applied, plannedLimits(plan), settings, nowMs),
    isExact,
    isCompared: true,
    opens: true,
    bypassUntilMs,
    slackMilli: booked?.slackMilli,
    ...(isSameFamily(record, family) ? {} : {family}),
  }
  const update: WriteStep['update'] = mark => plannedUpdate(table, plan, write, mark)
  const changesSlots = plan.slots !== undefined
  const step = {
    kind: 'rewrite',
    update,
    basis: basisOf(record),
    admits: fitting,
    isBooked: booked !== undefined,
    isBypassed,
    changesSlots,
    nowMs,
  } as const
  // A certain state refuses the others at once, without waiting for the write.
  if (!isCertain) return {...step, leftOver: others}
  // The write ends a bypass that is over.
  const left = {...plannedRecord(plan, amounts), bypassUntilMs}
  return {...step, refused: {kind: 'refuse', requests: others, record: left, nowMs}}
}

/** Whether limits, switch or family differ, or may differ, from the configuration. */
export function differsFrom(seen: SeenBucket, inForce: LimitsInForce): boolean {
  return seen.record.validUntilMs !== undefined || !isInLine(seen, inForce)
}

export function isInLine(seen: SeenBucket, {applied, family}: LimitsInForce): boolean {
  return isSameFamily(seen.record, family) && hasLimits(seen, applied)
}

/** Whether limits and switch match exactly. */
export function hasLimits(
  {record, incomplete}: SeenBucket,
  {limits, inFlight, disabledAt, isBypassed = false}: AppliedLimits,
): boolean {
  if (!hasSlotsOf(record, inFlight)) return false
  if (record.isDisabled !== (disabledAt === undefined ? undefined : true)) return false
  if (isBypassed !== (record.bypassUntilMs !== undefined)) return false
  const stored = record.state.limits
  const count = stored.size - (stored.has(WRITE_PRESSURE_LIMIT) ? 1 : 0)
  if (incomplete.size > 0 || count !== limits.length) return false
  return limits.every(limit => {
    const now = stored.get(limit.name)
    return now !== undefined && isSameLimit(now, kindedRateOf(limit, 0))
  })
}

export function isUpToDate(
  seen: SeenBucket,
  {applied, family}: LimitsInForce,
  settings: LimiterSettings,
  nowMs: number,
): boolean {
  const plan = planBucket(seen, nowMs, applied.limits, {inFlight: applied.inFlight})
  const wanted = expiryOf(seen.record, applied, plannedLimits(plan), settings, nowMs)
  return (
    seen.record.validUntilMs !== 0 &&
    seen.record.isDisabled === undefined &&
    applied.disabledAt === undefined &&
    (applied.isBypassed ? !isRenewalDue(seen.record, nowMs) : seen.record.bypassUntilMs === undefined) &&
    // Planted fault: changed limits are never noticed
    !changesLimits(plan) &&
    isSameFamily(seen.record, family) &&
    isExpiryFarOff(seen.record.ttlSeconds, wanted, nowMs)
  )
}

/** Epoch seconds after which the table may drop a shard; `null`: never. */
export function expiryOf(
  shard: Pick<BucketRecord, 'shard' | 'shardCount'>,
  {source}: AppliedLimits,
  limits: Iterable<BucketLimit>,
  {bucketTtlMultiplier}: LimiterSettings,
  nowMs: number,
): number | null {
  return shardExpiry(shard, {source, limits, multiplier: bucketTtlMultiplier, nowMs})
}

/** Whether the expiry is present if wanted, with at least half its time left. */
export function isExpiryFarOff(ttlSeconds: number | undefined, wanted: number | null, nowMs: number): boolean {
  if (wanted === null || ttlSeconds === undefined) return (wanted === null) === (ttlSeconds === undefined)
  const nowSeconds = nowMs / 1000
  return (ttlSeconds - nowSeconds) * 2 >= wanted - nowSeconds
}
