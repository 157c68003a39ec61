import {type Amounts, type LimitState, neededUntilSeconds} from '../../core/buckets/bucket.js'
import {earnedBetween} from '../../core/buckets/kind-refill.js'
import {divideByWeight, shareOfLimit} from '../../core/buckets/shards.js'
import {type Balance, balanceClearingWith, loweredTogether, toTokens} from '../../core/token-math.js'
import type {StoredLesson} from '../../schema/kind-attributes.js'
import {type BucketPlan, type PlannedLimit, planBucket, plannedLimits, type SeenBucket} from '../buckets/plan.js'
import type {RewriteDecision} from '../buckets/rewrite.js'

/** Provider feedback for a bucket or one of its shards; amounts in millitokens. */
export interface ToldBalances {
  readonly left: Amounts
  readonly ageMs: number
  readonly refused?: {readonly amounts: Amounts; readonly clearsAtMs: number} | undefined
}

type Bounds = ReadonlyMap<string, Bound>

interface Bound {
  readonly balance: Balance
  readonly stored: StoredLesson
}

/** Divides `left` by what the shards hold, and refused amounts by their share of the capacity. */
export function toldToShards(
  {left, ageMs, refused}: ToldBalances,
  shards: readonly SeenBucket[],
  nowMs: number,
): readonly ToldBalances[] {
  const plans = shards.map(seen => planBucket(seen, nowMs))
  const held = (name: string) => plans.map(({changes}) => changes.get(name)?.after.tokensMilli ?? 0n)
  const capacities = (name: string) => plans.map(plan => shareOf(plan, name)?.capacityMilli ?? 0n)
  const earned = (name: string) => plans.reduce((sum, plan) => sum + earnedMilli(plan, name, ageMs), 0n)
  const leftOf = divided(left, (name, milli) => loweredTogether(held(name), milli + earned(name)))
  const refusedOf = divided(refused?.amounts ?? new Map(), (name, milli) => divideByWeight(milli, capacities(name)))
  return shards.map((_, at) => ({left: leftOf(at), ageMs, refused: refused && {...refused, amounts: refusedOf(at)}}))
}

function divided(
  amounts: Amounts,
  divide: (name: string, milli: bigint) => readonly bigint[] | undefined,
): (at: number) => Amounts {
  const parts = [...amounts].flatMap(([name, milli]) => {
    const each = divide(name, milli)
    return each ? [[name, each] as const] : []
  })
  return at => new Map(parts.map(([name, each]) => [name, each[at] ?? 0n]))
}

/** `undefined` when the shard holds no more than reported. */
export function planLesson(
  seen: SeenBucket,
  nowMs: number,
  part: ToldBalances,
  whole: ToldBalances,
): {readonly decision: RewriteDecision; readonly names: readonly string[]} | undefined {
  const plan = planBucket(seen, nowMs)
  const bounds = tooHigh(plan, boundsOf(part, plan, whole.left))
  return bounds.size === 0 ? undefined : {decision: lowering(plan, bounds), names: [...bounds.keys()]}
}

/** `told`: tokens left in the whole bucket. */
function boundsOf({left, refused}: ToldBalances, plan: BucketPlan, told: Amounts): Bounds {
  const {nowMs, refilledAtMs} = plan
  const bounds = new Map<string, Bound>()
  for (const [name, milli] of left) {
    if (refused?.amounts.has(name)) continue
    const stored = {atMs: nowMs, left: toTokens(told.get(name) ?? milli)}
    bounds.set(name, {balance: {tokensMilli: milli, remainder: 0n}, stored})
  }
  for (const [name, milli] of refused?.amounts ?? []) {
    const share = shareOf(plan, name)
    const clearsAtMs = refused?.clearsAtMs ?? nowMs
    // Refill begins at the stored instant, which a faster clock may have put ahead. Only a reset repays a quota's debt.
    if (!share || share.kind?.quota || share.refillAmountMilli <= 0n) continue
    const earned = earnedBetween(share, refilledAtMs, clearsAtMs)
    // Fractions are stored over the stored period, not the one a schedule has put in force.
    const {refillPeriodMs} = share.kind?.share?.whole ?? share
    bounds.set(name, {
      balance: balanceClearingWith(earned, refillPeriodMs, milli),
      stored: {atMs: nowMs, clearsAtMs},
    })
  }
  return bounds
}

function shareOf({seen, changes}: BucketPlan, name: string): LimitState | undefined {
  const change = changes.get(name)
  const {shard, shardCount} = seen.record
  return change && shareOfLimit(name, change.after, shard, shardCount)
}

function earnedMilli(plan: BucketPlan, name: string, ageMs: number): bigint {
  const share = shareOf(plan, name)
  return share ? earnedBetween(share, plan.refilledAtMs - ageMs, plan.refilledAtMs).tokensMilli : 0n
}

function tooHigh({changes}: BucketPlan, bounds: Bounds): Bounds {
  return new Map([...bounds].filter(([name, {balance}]) => isAbove(changes.get(name), balance)))
}

function isAbove(change: PlannedLimit | undefined, {tokensMilli, remainder}: Balance): boolean {
  // Planted fault: a lesson raises
  if (change?.kind !== 'keep') return false
  const {after} = change
  return after.tokensMilli > tokensMilli || (after.tokensMilli === tokensMilli && after.remainder > remainder)
}

/** Refills up to now, with some balances at their bounds. Consumption counters are unchanged. */
function lowering(plan: BucketPlan, bounds: Bounds): RewriteDecision {
  const changes = new Map(plan.changes)
  for (const [name, {balance}] of bounds) {
    const change = plan.changes.get(name) as PlannedLimit
    // Planted fault: a lesson lowers twice as far
    const creditMilli = change.creditMilli + balance.tokensMilli - change.after.tokensMilli
    changes.set(name, {...change, after: {...change.after, ...balance}, creditMilli})
  }
  const lowered = {...plan, changes}
  const lessons = new Map([...bounds].map(([name, {stored}]) => [name, stored]))
  const {ttlSeconds} = plan.seen.record
  // A bucket that is gone before its debt is repaid would start full.
  const needed = ttlSeconds === undefined ? undefined : neededUntilSeconds(plannedLimits(lowered), 1, plan.nowMs)
  const isShort = ttlSeconds !== undefined && needed !== undefined && needed > ttlSeconds
  // Planted fault: a lesson counts as a request
  return {plan: lowered, write: {amounts: new Map(), lessons, ...(isShort && {ttlSeconds: needed})}}
}
