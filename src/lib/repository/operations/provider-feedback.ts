import {type Amounts, type BucketLimit, neededUntilSeconds} from '../../core/buckets/bucket.js'
import {earnedBetween} from '../../core/buckets/kind-refill.js'
import {divideByWeight, shareOfLimit} from '../../core/buckets/shards.js'
import {type Consumption, checkConsumption} from '../../core/limits/limit.js'
import {checkEntityId, checkResourceName} from '../../core/names.js'
import {checkMs} from '../../core/text/duration.js'
import {type Balance, balanceClearingWith, loweredTogether, toTokens} from '../../core/token-math.js'
import type {StoredFeedback} from '../../schema/kind-attributes.js'
import {type BucketPlan, type PlannedLimit, planBucket, plannedLimits, type SeenBucket} from '../buckets/plan.js'
import {type Rewrite, type RewriteDecision, rewriteStoredBucket} from '../buckets/rewrite.js'
import {readSeenShards} from '../buckets/split.js'
import type {NamespaceTable} from '../table/table.js'
import {bucketContended} from './operation.js'

/** Feedback from an external limiter of the same requests, such as a provider's response headers. */
export interface ProviderFeedback<Name extends string = string> {
  readonly entity: string
  readonly resource: string
  /** Whole tokens left, by limit. */
  readonly left?: Consumption<Name>
  /** Age of `left` in ms: tokens refilled since are added. @default 0 */
  readonly ageMs?: number
  /** A refused request, and when it would be admitted. */
  readonly refused?: {
    /** Amounts that it requested of the exceeded limits, minus those still charged to the bucket. */
    readonly consume: Consumption<Name>
    /** From now, in ms. Capped at an hour, so that a wrong number cannot block everyone for days. */
    readonly retryAfterMs: number
  }
}

/** The effect of provider feedback. */
export interface ProviderFeedbackResult<Name extends string = string> {
  /** Limits of which the bucket held more than reported; empty if the feedback was known. */
  readonly lowered: readonly Name[]
}

const LONGEST_WAIT_MS = 3_600_000

/** A bucket is split a few times at most while feedback is written. */
const MOST_TRIES = 5

/** Only lowers balances, with one conditional write per shard; a minimum makes repetitions and races harmless. */
export async function applyFeedback<Name extends string>(
  table: NamespaceTable,
  feedback: ProviderFeedback<Name>,
  options: {readonly mostShards: number},
): Promise<ProviderFeedbackResult<Name>> {
  const entity = checkEntityId(feedback.entity)
  const resource = checkResourceName(feedback.resource)
  const reported = balancesOf(feedback, table.clock())
  const lowered = new Set<string>()
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    if (await lowerShards(table, {entity, resource}, reported, options.mostShards, lowered))
      return {lowered: [...lowered].sort() as Name[]}
  }
  throw bucketContended({entity, resource})
}

/** False if a shard was split before its write: a split moves tokens. */
async function lowerShards(
  table: NamespaceTable,
  {entity, resource}: Pick<ProviderFeedback, 'entity' | 'resource'>,
  reported: ReportedBalances,
  mostShards: number,
  lowered: Set<string>,
): Promise<boolean> {
  const first = (await readSeenShards(table, entity, resource, [0])).get(0)
  if (!first) return true
  const count = Math.min(first.record.shardCount, mostShards)
  const numbers = Array.from({length: count}, (_, shard) => shard)
  const shards = count === 1 ? [first] : [...(await readSeenShards(table, entity, resource, numbers)).values()]
  const parts = divideAmongShards(reported, shards, table.clock())
  let isUnsplit = true
  const lower = async (seen: SeenBucket, part: ReportedBalances): Promise<void> => {
    let names: readonly string[] = []
    const rewrite: Rewrite = (now, nowMs) => {
      isUnsplit &&= now.record.shardCount === seen.record.shardCount
      const planned = isUnsplit ? planFeedback(now, nowMs, part, reported) : undefined
      names = planned?.names ?? []
      // Planted fault: feedback is lost
      return planned?.decision
    }
    const outcome = await rewriteStoredBucket(table, {kind: 'bucket', ...seen}, rewrite)
    if (outcome === 'contended') throw bucketContended({entity, resource})
    if (outcome === 'written') for (const name of names) lowered.add(name)
  }
  await Promise.all(shards.map((seen, at) => lower(seen, parts[at] as ReportedBalances)))
  return isUnsplit
}

function balancesOf<Name extends string>(
  {left, ageMs, refused}: ProviderFeedback<Name>,
  nowMs: number,
): ReportedBalances {
  const waitMs = Math.min(Math.ceil(checkMs('retryAfterMs', refused?.retryAfterMs) ?? 0), LONGEST_WAIT_MS)
  return {
    left: amountsWithZeros(left ?? {}),
    ageMs: Math.min(Math.ceil(checkMs('ageMs', ageMs) ?? 0), LONGEST_WAIT_MS),
    refused: refused && {amounts: amountsWithZeros(refused.consume), clearsAtMs: nowMs + waitMs},
  }
}

/** Keeps zeros: 0 left of a limit differs from a limit not reported. */
function amountsWithZeros(asked: object): Amounts {
  const tokens = asked as Consumption
  const amounts = checkConsumption(tokens)
  for (const name of Object.keys(tokens)) if (!amounts.has(name)) amounts.set(name, 0n)
  return amounts
}

/** Provider feedback for a bucket or one of its shards; amounts in millitokens. */
export interface ReportedBalances {
  readonly left: Amounts
  readonly ageMs: number
  readonly refused?: {readonly amounts: Amounts; readonly clearsAtMs: number} | undefined
}

type Bounds = ReadonlyMap<string, Bound>

interface Bound {
  readonly balance: Balance
  readonly stored: StoredFeedback
}

/** Divides `left` in proportion to the shards' balances, and refused amounts by their share of the capacity. */
function divideAmongShards(
  {left, ageMs, refused}: ReportedBalances,
  shards: readonly SeenBucket[],
  nowMs: number,
): readonly ReportedBalances[] {
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
function planFeedback(
  seen: SeenBucket,
  nowMs: number,
  part: ReportedBalances,
  whole: ReportedBalances,
): {readonly decision: RewriteDecision; readonly names: readonly string[]} | undefined {
  const plan = planBucket(seen, nowMs)
  const bounds = tooHigh(plan, boundsOf(part, plan, whole.left))
  return bounds.size === 0 ? undefined : {decision: lowering(plan, bounds), names: [...bounds.keys()]}
}

/** `whole`: tokens left in the whole bucket. */
function boundsOf({left, refused}: ReportedBalances, plan: BucketPlan, whole: Amounts): Bounds {
  const {nowMs, refilledAtMs} = plan
  const bounds = new Map<string, Bound>()
  for (const [name, milli] of left) {
    if (refused?.amounts.has(name)) continue
    const stored = {atMs: nowMs, left: toTokens(whole.get(name) ?? milli)}
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

function shareOf({seen, changes}: BucketPlan, name: string): BucketLimit | undefined {
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
  // Planted fault: feedback raises a balance
  if (change?.kind !== 'keep') return false
  const {after} = change
  return after.tokensMilli > tokensMilli || (after.tokensMilli === tokensMilli && after.remainder > remainder)
}

/** Refills up to now, with some balances at their bounds. Consumption counters are unchanged. */
function lowering(plan: BucketPlan, bounds: Bounds): RewriteDecision {
  const changes = new Map(plan.changes)
  for (const [name, {balance}] of bounds) {
    const change = plan.changes.get(name) as PlannedLimit
    // Planted fault: feedback lowers twice as far
    const creditMilli = change.creditMilli + balance.tokensMilli - change.after.tokensMilli
    changes.set(name, {...change, after: {...change.after, ...balance}, creditMilli})
  }
  const lowered = {...plan, changes}
  const feedback = new Map([...bounds].map(([name, {stored}]) => [name, stored]))
  const {ttlSeconds} = plan.seen.record
  // A bucket that is gone before its debt is repaid would start full.
  const needed = ttlSeconds === undefined ? undefined : neededUntilSeconds(plannedLimits(lowered), 1, plan.nowMs)
  const isShort = ttlSeconds !== undefined && needed !== undefined && needed > ttlSeconds
  // Planted fault: feedback counts as a request
  return {plan: lowered, write: {amounts: new Map(), feedback, ...(isShort && {ttlSeconds: needed})}}
}
