import type {LimitState} from '../core/bucket.js'
import {rateOf} from '../core/limit.js'
import {toTokens} from '../core/token-math.js'
import {changesLimits, planBucket, plannedLimits, plannedTokens} from '../repository/buckets/plan.js'
import {createUpdate, type PlannedWrite, plannedUpdate} from '../repository/buckets/writes.js'
import type {BucketRecord, Residue} from '../schema/bucket-record.js'
import type {BucketWriter} from './bucket-writer.js'
import type {AppliedLimits, Family} from './context.js'
import {RequestTooLarge, unknownLimit} from './errors.js'
import {expiryOf, isExpiryInOrder} from './expiry.js'
import {chooseFitting, requestsOf, total} from './fit.js'
import {isBucketExpired, type KnownBucket} from './known-bucket.js'
import {type PendingRequest, ShardGone} from './pending-request.js'
import {plannedRecord} from './shard-room.js'

/** The first write of a bucket: full, less what fits. */
export async function createBucket(
  desk: BucketWriter,
  tickets: readonly PendingRequest[],
  known: KnownBucket & {exists: false},
): Promise<void> {
  const {office, address} = desk
  if (address.shard > 0) {
    const isThere = await office.fillShard(address)
    if (!isThere) for (const ticket of tickets) ticket.fail(new ShardGone())
    return desk.forget()
  }
  const [applied, family] = await Promise.all([
    office.limitsOf(address.entity, address.resource),
    office.familyOf(address.entity),
  ])
  desk.noteLimitsChecked(applied)
  const open = admissible(desk, tickets, applied)
  if (open.length === 0) return
  const nowMs = office.table.clock()
  const limits = new Map<string, LimitState>(
    applied.limits.map(limit => {
      const rate = rateOf(limit)
      // Tokens that were returned after the bucket had gone are added to this: together they must not exceed the capacity.
      const left = known.residue.get(limit.name)?.tokensMilli ?? 0n
      const tokensMilli = left > 0n ? rate.capacityMilli - left : rate.capacityMilli
      return [limit.name, {...rate, tokensMilli, remainder: 0n, consumedMilli: 0n}]
    }),
  )
  const {fitting, others} = chooseFitting(open, balancesOf(limits, known.residue))
  const record: BucketRecord = {
    namespace: office.table.namespace,
    ...address,
    shardCount: 1,
    ...family,
    ttlSeconds: expiryOf(office, applied, limits.values(), nowMs) ?? undefined,
    state: {refilledAtMs: nowMs, limits},
  }
  const mark = office.nextMark()
  const outcome = await desk.write(
    createUpdate(office.table, record, {amounts: total(fitting), requests: requestsOf(fitting)}, mark),
    mark,
  )
  if (!outcome.applied) return
  desk.admit(fitting)
  desk.refuseMisfits(others, nowMs)
}

export interface RewriteRules {
  /** The state seen may refuse. */
  readonly isCertain: boolean
  /** Others have come in between again and again. */
  readonly isContended: boolean
  /** No part of a credit may get lost to others who write at the same time; given up only after many tries. */
  readonly isExact: boolean
}

/** Refill, changed limits and consumption in one write, on condition that the bucket is as it was seen. */
export async function refillAndConsume(
  desk: BucketWriter,
  tickets: readonly PendingRequest[],
  known: KnownBucket & {exists: true},
  {isCertain, isExact}: RewriteRules,
): Promise<void> {
  const {office, address} = desk
  const [applied, family] = await Promise.all([
    office.limitsOf(address.entity, address.resource),
    office.familyOf(address.entity),
  ])
  desk.noteLimitsChecked(applied)
  const open = admissible(desk, tickets, applied)
  const nowMs = office.table.clock()
  const {record} = known.seen
  const plan = planBucket(known.seen, nowMs, applied.limits)
  const {fitting, others} = chooseFitting(open, plannedTokens(plan))
  if (fitting.length === 0 && !changesLimits(plan) && !isBucketExpired(record, nowMs)) {
    if (isCertain) return desk.refuseMisfits(open, nowMs)
    return desk.forget()
  }
  // Those left out need not wait until the others are served.
  if (isCertain) desk.refuse(others, nowMs, plannedRecord(plan, total(fitting)))
  const write: PlannedWrite = {
    amounts: total(fitting),
    requests: requestsOf(fitting),
    ttlSeconds: expiryOf(office, applied, plannedLimits(plan), nowMs),
    isExact,
    ...(isSameFamily(record, family) ? {} : {family: {cascade: family.cascade, parent: family.parent ?? null}}),
  }
  const mark = office.nextMark()
  const outcome = await desk.write(plannedUpdate(office.table, plan, write, mark), mark)
  if (!outcome.applied) return
  desk.admit(fitting)
  if (!isCertain) desk.refuseMisfits(others, nowMs)
}

/** The limits in force if they are those of the bucket, which then needs no write for their sake. */
export async function unchangedLimits(
  {office, address}: BucketWriter,
  {seen}: KnownBucket & {exists: true},
): Promise<AppliedLimits | undefined> {
  const [applied, family] = await Promise.all([
    office.limitsOf(address.entity, address.resource),
    office.familyOf(address.entity),
  ])
  const nowMs = office.table.clock()
  const plan = planBucket(seen, nowMs, applied.limits)
  const wanted = expiryOf(office, applied, plannedLimits(plan), nowMs)
  const isSame =
    !changesLimits(plan) && isSameFamily(seen.record, family) && isExpiryInOrder(seen.record.ttlSeconds, wanted, nowMs)
  return isSame ? applied : undefined
}

/** Balances together with what was left behind: full, or less by a debt. */
function balancesOf(
  limits: ReadonlyMap<string, LimitState>,
  residue: ReadonlyMap<string, Residue>,
): Map<string, bigint> {
  const balances = new Map<string, bigint>()
  for (const [name, {tokensMilli}] of limits) {
    balances.set(name, tokensMilli + (residue.get(name)?.tokensMilli ?? 0n))
  }
  return balances
}

/** Tickets that could be admitted some day; the others fail here and now. A parent is asked only for limits it has. */
function admissible(desk: BucketWriter, tickets: readonly PendingRequest[], applied: AppliedLimits): PendingRequest[] {
  const {entity, resource} = desk.address
  const capacities = new Map(applied.limits.map(limit => [limit.name, rateOf(limit).capacityMilli]))
  return tickets.filter(ticket => {
    // Given up while the configuration was read.
    if (ticket.isAbandoned) return false
    const unknown = [...ticket.amounts.keys()].filter(name => !capacities.has(name))
    if (unknown.length > 0 && !ticket.isLenient) {
      ticket.fail(unknownLimit(entity, resource, unknown, [...capacities.keys()]))
      return false
    }
    if (unknown.length > 0) ticket.keepOnly(name => capacities.has(name))
    for (const [name, milli] of ticket.amounts) {
      const capacityMilli = capacities.get(name) as bigint
      if (milli <= capacityMilli) continue
      ticket.fail(new RequestTooLarge(entity, resource, name, toTokens(milli), toTokens(capacityMilli)))
      return false
    }
    return true
  })
}

function isSameFamily(record: BucketRecord, family: Family): boolean {
  return record.cascade === family.cascade && record.parent === family.parent
}
