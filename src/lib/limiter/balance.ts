import {type Amounts, type BucketState, instantAt, refillBucket} from '../core/buckets/bucket.js'
import {availableTogether, boughtTogether, shareOfBucket, timeUntilFull} from '../core/buckets/shards.js'
import {wholeRateAt} from '../core/limits/limit-kind.js'
import {type LimitState, type LimitStates, shareUsed} from '../core/limits/limit-state.js'
import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import {toTokens} from '../core/token-math.js'
import type {SlotLimit} from '../schema/slot-attributes.js'
import type {Grant} from './request/grant.js'

/** Balances of the entity's limits, computed from its writes; of a parent where it has less of the same limit. */
export function balancesOf([own, ...shared]: readonly Grant[], nowMs: number): LimitStates {
  if (!own) return {}
  const balances = levelBalances(own, 'entity', nowMs)
  for (const grant of shared) {
    for (const [name, theirs] of levelBalances(grant, 'parent', nowMs)) {
      const lowest = balances.get(name)
      if (lowest && theirs.available < lowest.available) balances.set(name, theirs)
    }
  }
  // DynamoDB returns attributes in any order.
  return Object.fromEntries([...balances].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** Of all limits of all levels, by the same balances. */
export function shareUsedOf(grants: readonly Grant[], nowMs: number): number | undefined {
  return shareUsed(grants.flatMap(grant => [...levelBalances(grant, 'entity', nowMs).values()]))
}

export function noteCharge(grant: Grant, deltas: Amounts, nowMs: number): void {
  const [charged, ...others] = sharesOf(grant)
  if (charged) grant.shares = [less(refillBucket(charged, nowMs), deltas), ...others]
}

function sharesOf({record, shards = [record], shares}: Grant): readonly BucketState[] {
  return shares ?? shards.map(({state, shard, shardCount}) => shareOfBucket(state, shard, shardCount))
}

/** Accepted charges count at once, refunds when written: never show more than there is (L6). */
function lessAccepted(
  {accepted, holdings}: Grant,
  [charged, ...others]: readonly BucketState[],
): readonly BucketState[] {
  if (!charged) return []
  const isTaken = accepted && !holdings[0]?.isBypassed
  return [isTaken ? less(charged, accepted.charges) : charged, ...others]
}

function less(bucket: BucketState, takenMilli: Amounts): BucketState {
  const limits = new Map(bucket.limits)
  for (const [name, milli] of takenMilli) {
    const limit = limits.get(name)
    if (limit) limits.set(name, {...limit, tokensMilli: limit.tokensMilli - milli})
  }
  return {...bucket, limits}
}

function levelBalances(grant: Grant, level: LimitState['level'], nowMs: number): Map<string, LimitState> {
  const {entity, resource, state} = grant.record
  const shares = lessAccepted(
    grant,
    sharesOf(grant).map(share => refillBucket(share, nowMs)),
  )
  const balances = new Map<string, LimitState>()
  for (const [name, stored] of state.limits) {
    if (name === WRITE_PRESSURE_LIMIT) continue
    const limit = {...stored, ...wholeRateAt(stored, instantAt(state, nowMs)).rate}
    const capacityMilli = withTopUps(shares, name, limit.capacityMilli)
    balances.set(name, {
      name,
      entity,
      resource,
      level,
      capacity: toTokens(capacityMilli),
      available: toTokens(wholeBalance(shares, name, capacityMilli)),
      fullAfterMs: timeUntilFull(shares, name, nowMs),
      refillAmount: toTokens(limit.refillAmountMilli),
      refillPeriodSeconds: limit.refillPeriodMs / 1000,
      requested: 0,
      exceeded: false,
      retryAfterMs: 0,
    })
  }
  for (const [name, {capacity, free}] of slotsSeen(grant)) {
    const rate = {refillAmount: 0, refillPeriodSeconds: 0, fullAfterMs: null}
    const decided = {requested: 0, exceeded: false, retryAfterMs: 0, inFlight: true} as const
    balances.set(name, {name, entity, resource, level, capacity, available: free, ...rate, ...decided})
  }
  return balances
}

/** Shard 0 has the slots of all shards. */
function slotsSeen({record, shards = [record]}: Grant): Iterable<readonly [string, SlotLimit]> {
  return shards.find(({shard}) => shard === 0)?.slots?.limits ?? []
}

/** Assumes that the top-ups of unseen shards are as large for their capacity. */
function withTopUps(shares: readonly BucketState[], name: string, capacityMilli: bigint): bigint {
  const bought = boughtTogether(shares, name)
  const seen = seenCapacity(shares, name) - bought
  return capacityMilli + (seen > 0n ? (bought * capacityMilli) / seen : bought)
}

function seenCapacity(shares: readonly BucketState[], name: string): bigint {
  return shares.reduce((sum, {limits}) => sum + (limits.get(name)?.capacityMilli ?? 0n), 0n)
}

/** Assumes that unseen shards are as full as the seen ones. */
function wholeBalance(shares: readonly BucketState[], name: string, capacityMilli: bigint): bigint {
  const heldMilli = availableTogether(shares, name)
  const seenMilli = seenCapacity(shares, name)
  const wholeMilli = heldMilli <= 0n || seenMilli === 0n ? heldMilli : (heldMilli * capacityMilli) / seenMilli
  return wholeMilli < capacityMilli ? wholeMilli : capacityMilli
}
