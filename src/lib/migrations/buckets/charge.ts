import {shareOfRate} from '../../core/shards.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import type {BucketMarks, ChargedBucket, LimitMark} from '../../schema/migration-marks.js'
import {markOf, markOfResidue} from './merge.js'
import type {OldBucket} from './old-bucket.js'
import {levelAt, type OldLimit} from './old-bucket-parts.js'
import {spentSince} from './spent.js'

/**
 * Old and new bucket are replicas of one: each refills by itself, and what is consumed from one is charged to the
 * other. Amounts are millitokens; negative ones give back.
 */
export interface Charges {
  /** What the new bucket has to bear of the old one's consumption, in whatever place. */
  readonly toNew: ReadonlyMap<string, bigint>
  /** What the old bucket has to bear of the new one's, in the place that was used last. */
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
  const marks = new Map<string, Map<string, LimitMark>>()
  let dependsOnRefill = false
  for (const name of new Set([...old.limits.keys(), ...old.residue.keys()])) {
    const current = sumOf(shards, name)
    // A limit that nobody configures any more is not in today's bucket and binds nobody.
    if (!current) continue
    const known = before.get(name)
    const after = new Map<string, LimitMark>()
    const last = old.limits.get(name)
    let spentOld = 0n
    for (const limit of last ? [last, ...(old.others.get(name) ?? [])] : []) {
      const mark = known?.get(limit.place)
      if (mark) spentOld += spentSince(mark, limit)
      // At first sight only the one used last says how much there is; one that comes up later was made since.
      else if (limit === last || known) spentOld += lackOfOld(limit, current)
      if (!mark) dependsOnRefill = true
      after.set(limit.place, markOf(limit, mark?.charged))
    }
    for (const rest of old.residue.get(name) ?? []) {
      spentOld += (known?.get(rest.place)?.oldTokens ?? 0n) - rest.tokensMilli
      after.set(rest.place, markOfResidue(rest))
    }
    // Without a counter our charge could not be told from a client's consumption later on.
    if (last?.counted) {
      const charged = known?.get(last.place)?.charged
      if (!charged) dependsOnRefill = true
      const spentNew = spentOnNew(charged, current, last)
      if (spentNew !== 0n) toOld.set(name, spentNew)
      const {consumedMilli, tokensMilli, shards: count} = current
      const mark = markOf(last, {consumedMilli, tokensMilli: tokensMilli - spentOld, shards: count})
      after.set(last.place, {...mark, oldTokens: mark.oldTokens - spentNew})
    }
    if (spentOld !== 0n) toNew.set(name, spentOld)
    marks.set(name, after)
  }
  return {toNew, toOld, marks, dependsOnRefill}
}

/** A limit of today's bucket over all its shards. */
interface Current extends ChargedBucket {
  readonly refilledAtMs: number
  readonly capacityMilli: bigint
  /** How far the shards are from full at an instant; none of them is refilled before its own. */
  readonly lackAt: (atMs: number) => bigint
}

/** `undefined` when the first shard does not have the limit. */
function sumOf(shards: readonly BucketRecord[], name: string): Current | undefined {
  const [first] = shards
  const limit = first?.state.limits.get(name)
  if (!first || !limit) return undefined
  const parts = shards.flatMap(({shard, state: {limits, refilledAtMs}}) => {
    const whole = limits.get(name)
    if (!whole) return []
    return [{state: {...whole, ...shareOfRate(name, whole, shard, first.shardCount)}, refilledAtMs}]
  })
  const sum = (amountOf: (part: (typeof parts)[0]) => bigint) =>
    parts.reduce((total, part) => total + amountOf(part), 0n)
  return {
    refilledAtMs: first.state.refilledAtMs,
    tokensMilli: sum(({state}) => state.tokensMilli),
    consumedMilli: sum(({state}) => state.consumedMilli),
    capacityMilli: limit.capacityMilli,
    shards: parts.length,
    lackAt: atMs => sum(part => part.state.capacityMilli - levelAt(part, atMs).tokensMilli),
  }
}

/**
 * What a bucket that a client made full lacked in truth: how far the old one was from full at that moment. The moment
 * follows from what the new one has earned since; before its own refill instant the old one has earned nothing.
 */
function lackOfOld(limit: OldLimit, current: Current): bigint {
  const lack = limit.state.capacityMilli - levelAt(limit, madeAtMs(current, limit, current.refilledAtMs)).tokensMilli
  return lack > 0n ? lack : 0n
}

/** When a full bucket was made that has consumed, and holds, so much. */
function madeAtMs(
  {tokensMilli, consumedMilli, capacityMilli}: Pick<Current, 'tokensMilli' | 'consumedMilli' | 'capacityMilli'>,
  {state: {refillAmountMilli, refillPeriodMs}}: OldLimit,
  refilledAtMs: number,
): number {
  const earned = tokensMilli + consumedMilli - capacityMilli
  return earned > 0n ? refilledAtMs - Number((earned * BigInt(refillPeriodMs)) / refillAmountMilli) : refilledAtMs
}

/** What the new limit has consumed since it was charged to the old one. */
function spentOnNew(charged: ChargedBucket | undefined, current: Current, limit: OldLimit): bigint {
  if (charged && current.shards >= charged.shards) {
    const spent = current.consumedMilli - charged.consumedMilli
    if (spent >= 0n) return spent
    const restored = charged.tokensMilli - spent
    const {capacityMilli} = current
    const isRefund = current.tokensMilli >= (restored < capacityMilli ? restored : capacityMilli)
    if (isRefund) return cappedReturn(spent, limit)
  }
  // Its count says nothing about the time since: what an old bucket that was made full lacks of the new one.
  const lack = current.lackAt(madeAtMs(limit.state, limit, limit.refilledAtMs))
  return lack > 0n ? lack : 0n
}

/** What the old bucket gets back must fit into it. */
function cappedReturn(spent: bigint, {state}: OldLimit): bigint {
  const room = state.capacityMilli - state.tokensMilli
  return -spent <= room ? spent : room > 0n ? -room : 0n
}
