import {refill} from '../core/token-math.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import type {BucketMarks, LimitMark} from '../schema/migration-marks.js'
import {markOf} from './bucket-merge.js'
import {levelAt, type OldBucket, type OldLimit} from './old-bucket.js'

/**
 * Old and new bucket are two replicas of one: each refills by itself, and what is consumed from one is charged to the
 * other. Amounts are millitokens; negative ones give back.
 */
export interface Charges {
  /** What the new bucket has to bear of the old one's consumption. */
  readonly toNew: ReadonlyMap<string, bigint>
  /** What the old bucket has to bear of the new one's. */
  readonly toOld: ReadonlyMap<string, bigint>
  /** What holds once both are charged. */
  readonly marks: BucketMarks
  /** Some charge was worked out from the refill instant that was seen, and must not be applied at another. */
  readonly dependsOnRefill: boolean
}

/** What either replica has to bear of the other since they were last brought together. */
export function chargesOf(old: OldBucket, shards: readonly BucketRecord[], before: BucketMarks): Charges {
  const toNew = new Map<string, bigint>()
  const toOld = new Map<string, bigint>()
  const marks = new Map<string, LimitMark>()
  let dependsOnRefill = false
  for (const [name, limit] of old.limits) {
    const current = sumOf(shards, name)
    // A limit that nobody configures any more is not in today's bucket and binds nobody.
    if (!current) continue
    const mark = before.get(name)
    const spentOld = mark ? spentSince(mark, limit) : lackAt(limit, current)
    if (!mark) dependsOnRefill = true
    // Without a counter our charge could not be told from a client's consumption later on.
    const spentNew = limit.counted ? cappedReturn(current.consumedMilli - (mark?.newConsumed ?? 0n), limit) : 0n
    if (spentOld !== 0n) toNew.set(name, spentOld)
    if (spentNew !== 0n) toOld.set(name, spentNew)
    const after = markOf(limit, limit.counted ? current.consumedMilli : 0n)
    marks.set(name, {...after, oldTokens: after.oldTokens - spentNew})
  }
  return {toNew, toOld, marks, dependsOnRefill}
}

interface Current {
  readonly refilledAtMs: number
  readonly tokensMilli: bigint
  readonly consumedMilli: bigint
  readonly capacityMilli: bigint
}

/** A limit over all shards of a bucket; `undefined` when the first shard does not have it. */
function sumOf(shards: readonly BucketRecord[], name: string): Current | undefined {
  const [first] = shards
  const limit = first?.state.limits.get(name)
  if (!first || !limit) return undefined
  const sum = (field: 'tokensMilli' | 'consumedMilli') =>
    shards.reduce((total, {state}) => total + (state.limits.get(name)?.[field] ?? 0n), 0n)
  return {
    refilledAtMs: first.state.refilledAtMs,
    tokensMilli: sum('tokensMilli'),
    consumedMilli: sum('consumedMilli'),
    capacityMilli: limit.capacityMilli,
  }
}

/** What the old limit has consumed since the mark was set. */
function spentSince(mark: LimitMark, {state, refilledAtMs, counted}: OldLimit): bigint {
  if (counted && mark.oldConsumed !== undefined) {
    const spent = state.consumedMilli - mark.oldConsumed
    // A refund shows in the balance. A count that fell without that is of a bucket that was made anew, from nothing.
    const isRefund = state.tokensMilli >= mark.oldTokens - spent
    return spent >= 0n || isRefund ? spent : state.consumedMilli
  }
  const untouched = refill(state, {tokensMilli: mark.oldTokens, remainder: 0n}, refilledAtMs - mark.oldRefilledAtMs)
  const missing = untouched.tokensMilli - state.tokensMilli
  return missing > 0n ? missing : 0n
}

/**
 * What a bucket that a client made full lacked in truth: how far the old one was from full at that moment. The moment
 * follows from what the new one has earned since; before its own refill instant the old one has earned nothing.
 */
function lackAt(limit: OldLimit, current: Current): bigint {
  const {capacityMilli, refillAmountMilli, refillPeriodMs} = limit.state
  const earned = current.tokensMilli + current.consumedMilli - current.capacityMilli
  const ageMs = earned > 0n ? Number((earned * BigInt(refillPeriodMs)) / refillAmountMilli) : 0
  const lack = capacityMilli - levelAt(limit, current.refilledAtMs - ageMs).tokensMilli
  return lack > 0n ? lack : 0n
}

/** What the old bucket gets back must fit into it: a counter of the new one that started anew is no refund. */
function cappedReturn(spent: bigint, {state}: OldLimit): bigint {
  const room = state.capacityMilli - state.tokensMilli
  return spent >= 0n || -spent <= room ? spent : room > 0n ? -room : 0n
}
