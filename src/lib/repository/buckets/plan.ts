import {type Amounts, type LimitState, refillBucket} from '../../core/bucket.js'
import {type Limit, rateOf} from '../../core/limit.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {shareOfBucket, shareOfRate} from '../../core/shards.js'
import {isSameRate} from '../../core/token-math.js'
import {type BucketRecord, freshWritePressure, type Residue} from '../../schema/bucket-record.js'

/** A bucket as it was read; limits that need repair are kept apart. */
export interface SeenBucket {
  readonly record: BucketRecord
  readonly incomplete: ReadonlyMap<string, Residue>
}

/** What one conditional write does to a limit of a bucket. */
export interface PlannedLimit {
  readonly kind: 'keep' | 'init' | 'remove'
  /** Undivided parameters, as they are to be stored. */
  readonly after: LimitState
  /** Millitokens that time (or clamping, then negative) adds to the stored balance, before consumption. */
  readonly creditMilli: bigint
  readonly parametersChanged: boolean
}

/** A bucket brought forward to an instant, under the limits that apply now. */
export interface BucketPlan {
  readonly seen: SeenBucket
  /** Before the stored refill instant only when that is far ahead of time. */
  readonly refilledAtMs: number
  readonly changes: ReadonlyMap<string, PlannedLimit>
}

/**
 * Brings a bucket forward to `nowMs`: every limit is credited at the stored rate, then the limits that apply from now on
 * replace the stored ones. Lowering a capacity clamps the balance, raising it adds nothing, a new limit starts full, a
 * limit that no longer applies is removed. Without `limits` the stored ones stay in force. `taken` was consumed at
 * this very instant without a refill: what had overflowed by then must not come back, so the credit ends that much below
 * full.
 */
export function planBucket(
  seen: SeenBucket,
  nowMs: number,
  limits?: readonly Limit[],
  taken: Amounts = new Map(),
): BucketPlan {
  const {record} = seen
  const {shard, shardCount} = record
  const refilled = refillBucket(shareOfBucket(record.state, shard, shardCount), nowMs)
  const wanted = limits && new Map(limits.map(limit => [limit.name, rateOf(limit)]))
  const changes = new Map<string, PlannedLimit>()

  for (const [name, stored] of record.state.limits) {
    const full = shareOfRate(name, stored, shard, shardCount).capacityMilli
    const credited = below(full, taken.get(name) ?? 0n, stored, refilled.limits.get(name) as LimitState)
    const rate = name === WRITE_PRESSURE_LIMIT ? stored : wanted ? wanted.get(name) : stored
    if (!rate) {
      changes.set(name, {kind: 'remove', after: stored, creditMilli: 0n, parametersChanged: false})
      continue
    }
    const ceiling = shareOfRate(name, rate, shard, shardCount).capacityMilli
    const isClamped = rate.capacityMilli < stored.capacityMilli && credited.tokensMilli > ceiling
    const tokensMilli = isClamped ? ceiling : credited.tokensMilli
    const remainder = isClamped || rate.refillPeriodMs !== stored.refillPeriodMs ? 0n : credited.remainder
    changes.set(name, {
      kind: 'keep',
      after: {...stored, ...parametersOf(rate), tokensMilli, remainder},
      creditMilli: tokensMilli - stored.tokensMilli,
      parametersChanged: !isSameRate(rate, stored),
    })
  }
  for (const [name, residue] of seen.incomplete) {
    if (!wanted || wanted.has(name) || name === WRITE_PRESSURE_LIMIT) continue
    changes.set(name, {kind: 'remove', after: stateOfResidue(residue), creditMilli: 0n, parametersChanged: false})
  }
  for (const [name, rate] of wanted ?? []) {
    if (changes.has(name)) continue
    // Counters without parameters were left behind by another client: the limit starts full, adjusted by them.
    const residue = seen.incomplete.get(name)
    const creditMilli = shareOfRate(name, rate, shard, shardCount).capacityMilli
    changes.set(name, {
      kind: 'init',
      after: {
        ...parametersOf(rate),
        tokensMilli: creditMilli + (residue?.tokensMilli ?? 0n),
        consumedMilli: residue?.consumedMilli ?? 0n,
        remainder: 0n,
      },
      creditMilli,
      parametersChanged: true,
    })
  }
  if (!changes.has(WRITE_PRESSURE_LIMIT)) {
    const after = freshWritePressure()
    changes.set(WRITE_PRESSURE_LIMIT, {kind: 'init', after, creditMilli: after.tokensMilli, parametersChanged: true})
  }
  return {seen, refilledAtMs: refilled.refilledAtMs, changes}
}

/** Millitokens of each limit after the plan, as this shard may use them. */
export function plannedTokens(plan: BucketPlan): Map<string, bigint> {
  const tokens = new Map<string, bigint>()
  for (const [name, {kind, after}] of plan.changes) if (kind !== 'remove') tokens.set(name, after.tokensMilli)
  return tokens
}

/** Whether writing the plan would store anything but a refill: other limits, or a refill instant that was far ahead of time. */
export function changesLimits(plan: BucketPlan): boolean {
  if (plan.refilledAtMs < plan.seen.record.state.refilledAtMs) return true
  for (const change of plan.changes.values()) if (change.kind !== 'keep' || change.parametersChanged) return true
  return false
}

/** The limits after the plan with this shard's share of their rates: a shard repays a debt at its own share. */
export function plannedLimits({seen, changes}: BucketPlan): LimitState[] {
  const {shard, shardCount} = seen.record
  return [...changes].flatMap(([name, {kind, after}]) =>
    kind === 'remove' || name === WRITE_PRESSURE_LIMIT
      ? []
      : [{...after, ...shareOfRate(name, after, shard, shardCount)}],
  )
}

/** Cuts a credit at full minus what was taken, but never below the stored balance. */
function below(fullMilli: bigint, takenMilli: bigint, stored: LimitState, refilled: LimitState): LimitState {
  const ceiling = fullMilli - takenMilli
  if (takenMilli <= 0n || refilled.tokensMilli <= ceiling) return refilled
  return {...refilled, tokensMilli: ceiling > stored.tokensMilli ? ceiling : stored.tokensMilli, remainder: 0n}
}

const stateOfResidue = (residue: Residue): LimitState => ({
  ...residue,
  capacityMilli: 0n,
  refillAmountMilli: 0n,
  refillPeriodMs: 0,
  remainder: 0n,
})

const parametersOf = ({
  capacityMilli,
  refillAmountMilli,
  refillPeriodMs,
}: Pick<LimitState, 'capacityMilli' | 'refillAmountMilli' | 'refillPeriodMs'>) => ({
  capacityMilli,
  refillAmountMilli,
  refillPeriodMs,
})
