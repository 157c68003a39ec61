import type {LimitState} from '../../core/buckets/bucket.js'
import {divideByRoom, divideByWeight, shareOfLimit} from '../../core/buckets/shards.js'
import type {Limit} from '../../core/limits/limit.js'
import {grantCountOf, wholeRateAt} from '../../core/limits/limit-kind.js'
import {MILLI, toMilli, toTokens} from '../../core/token-math.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {type BucketPlan, ceilingOf, type PlannedLimit, planBucket, type SeenBucket} from '../buckets/plan.js'
import {
  limitNames,
  type OperationBasis,
  type PlannedOperation,
  requireCountable,
  requireKnown,
  type TokensByLimit,
} from './record.js'

/**
 * A quota gets exactly the amount until its next reset, each shard in proportion to its granted part. A closed session
 * is opened, because its first use would discard the amount. Other limits get whole tokens, up to their capacity.
 */
export function planTopUp(asked: TokensByLimit, {shards, limits, nowMs}: OperationBasis): PlannedOperation {
  const plans = shards.map(seen => openedFor(asked, seen, limits, nowMs))
  requireKnown([...asked.keys()], limitNames(plans))
  const changes = plans.map(plan => new Map(plan.changes))
  const amounts = new Map<string, number>()
  for (const [name, tokens] of asked) {
    const holders = plans.flatMap((plan, index) => {
      const change = plan.changes.get(name)
      return change && change.kind !== 'remove' ? [{index, change, record: plan.seen.record}] : []
    })
    const isQuota = holders.some(({change}) => change.after.kind?.quota)
    const milli = isQuota
      ? divideByWeight(
          BigInt(tokens),
          holders.map(({change, record}) => slotsOf(name, change.after, record, nowMs)),
        ).map(part => part * MILLI)
      : divideAmongRooms(
          tokens,
          holders.map(({change, record}) => roomOf(name, change.after, record, nowMs)),
        )
    for (const [at, {index, change, record}] of holders.entries()) {
      const part = milli[at] ?? 0n
      if (part > 0n) changes[index]?.set(name, credited(name, change, part, record, nowMs))
    }
    amounts.set(name, toTokens(sumOf(milli)))
  }
  const planned = plans.map((plan, index) => ({...plan, changes: changes[index] ?? plan.changes}))
  for (const name of asked.keys()) {
    const ceilings = planned.flatMap(({seen, changes}) => {
      const after = changes.get(name)?.after
      return after ? [ceilingOf(name, after, seen.record, nowMs)] : []
    })
    requireCountable(name, sumOf(ceilings))
  }
  return {plans: planned, amounts, isWhole: false}
}

/** Millitokens by shard: as many whole tokens as fit, in proportion to the rooms. */
function divideAmongRooms(tokens: number, rooms: readonly bigint[]): bigint[] {
  return divideByRoom(toMilli(Math.min(tokens, toTokens(sumOf(rooms)))), rooms)
}

const sumOf = (amounts: readonly bigint[]): bigint => amounts.reduce((a, b) => a + b, 0n)

function openedFor(
  asked: TokensByLimit,
  seen: SeenBucket,
  limits: readonly Limit[] | undefined,
  nowMs: number,
): BucketPlan {
  const plan = planBucket(seen, nowMs, limits)
  const used = planBucket(seen, nowMs, limits, {opensSessions: true})
  const changes = [...plan.changes].map(
    ([name, change]) => [name, asked.has(name) ? (used.changes.get(name) ?? change) : change] as const,
  )
  return {...plan, changes: new Map(changes)}
}

/** Parts of the allowance granted to a shard; several if it was granted its part before the last splits. */
function slotsOf(name: string, after: LimitState, {shard, shardCount}: BucketRecord, nowMs: number): bigint {
  const slots = Math.floor(shardCount / grantOf(name, after, {shard, shardCount}, nowMs))
  return BigInt(Math.max(1, slots))
}

function grantOf(
  name: string,
  after: LimitState,
  {shard, shardCount}: Pick<BucketRecord, 'shard' | 'shardCount'>,
  nowMs: number,
): number {
  return grantCountOf(shareOfLimit(name, after, shard, shardCount), wholeRateAt(after, nowMs).rate.capacityMilli)
}

/** Millitokens up to the shard's capacity. */
function roomOf(name: string, after: LimitState, record: BucketRecord, nowMs: number): bigint {
  const room = ceilingOf(name, after, record, nowMs) - after.tokensMilli
  return room > 0n ? room : 0n
}

/** Stores the shard count of the grant: it cannot be derived once the quota holds more. */
function credited(
  name: string,
  change: PlannedLimit,
  milli: bigint,
  record: BucketRecord,
  nowMs: number,
): PlannedLimit {
  const {after} = change
  const {kind} = after
  const quota = kind?.quota && {
    ...kind.quota,
    grantCount: grantOf(name, after, record, nowMs),
    topUpMilli: (kind.quota.topUpMilli ?? 0n) + milli,
  }
  return {
    ...change,
    creditMilli: change.creditMilli + milli,
    after: {...after, tokensMilli: after.tokensMilli + milli, ...(kind && quota && {kind: {...kind, quota}})},
  }
}

/** Clients before 0.17 do not know top-ups of quotas. */
export function raisesQuota({plans}: PlannedOperation): boolean {
  return plans.some(({seen, changes}) =>
    [...changes].some(([name, {after}]) => {
      const before = seen.record.state.limits.get(name)?.kind?.quota?.topUpMilli ?? 0n
      return (after.kind?.quota?.topUpMilli ?? 0n) > before
    }),
  )
}
