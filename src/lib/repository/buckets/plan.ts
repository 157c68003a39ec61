import {type Amounts, type LimitState, refillBucket} from '../../core/bucket.js'
import {type Limit, rateOf} from '../../core/limit.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {shareOfBucket, shareOfRate} from '../../core/shards.js'
import type {BucketRecord, Residue} from '../../schema/bucket-record.js'
import {freshWritePressure} from '../../schema/bucket-record.js'

/** A bucket as it was seen, with limits that must be healed set apart. */
export interface SeenBucket {
  readonly record: BucketRecord
  readonly incomplete: ReadonlyMap<string, Residue>
}

/** What one conditional write is to make of a limit of a seen bucket. */
export interface PlannedLimit {
  readonly kind: 'keep' | 'init' | 'remove'
  /** Undivided parameters, as they are to be stored. */
  readonly after: LimitState
  /** Millitokens that time (or clamping, then negative) adds to the stored balance, before consumption. */
  readonly creditMilli: bigint
  readonly parametersChanged: boolean
}

/** Where a seen bucket stands at an instant, under the limits that apply now. */
export interface BucketPlan {
  readonly seen: SeenBucket
  /** Never before the seen refill instant. */
  readonly refilledAtMs: number
  readonly changes: ReadonlyMap<string, PlannedLimit>
}

/**
 * Brings a seen bucket up to `nowMs`: every limit is credited with the parameters that were in force until now, then the
 * limits that apply from now on take over. Lowering clamps, raising does not mint, a new limit starts full, a limit that
 * no longer applies goes. Without `limits` the stored ones stay in force. `taken` has left the bucket at this very
 * instant, without a refill: what had overflowed by then must not come back, so the credit ends that much below full.
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
      parametersChanged: !sameParameters(rate, stored),
    })
  }
  for (const [name, residue] of seen.incomplete) {
    if (!wanted || wanted.has(name) || name === WRITE_PRESSURE_LIMIT) continue
    changes.set(name, {kind: 'remove', after: stateOfResidue(residue), creditMilli: 0n, parametersChanged: false})
  }
  for (const [name, rate] of wanted ?? []) {
    if (changes.has(name)) continue
    // Counters without parameters are what a peer left behind: the limit starts full, less or plus what they say.
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

/** Millitokens of each limit that a plan leaves, as this shard may use them. */
export function plannedTokens(plan: BucketPlan): Map<string, bigint> {
  const tokens = new Map<string, bigint>()
  for (const [name, {kind, after}] of plan.changes) if (kind !== 'remove') tokens.set(name, after.tokensMilli)
  return tokens
}

/** Whether writing the plan would store anything but refill. */
export function changesLimits(plan: BucketPlan): boolean {
  for (const change of plan.changes.values()) if (change.kind !== 'keep' || change.parametersChanged) return true
  return false
}

/** The limits that a plan leaves in the bucket, as this shard has them: it repays a debt at its own share of the rate. */
export function plannedLimits({seen, changes}: BucketPlan): LimitState[] {
  const {shard, shardCount} = seen.record
  return [...changes].flatMap(([name, {kind, after}]) =>
    kind === 'remove' || name === WRITE_PRESSURE_LIMIT
      ? []
      : [{...after, ...shareOfRate(name, after, shard, shardCount)}],
  )
}

/** A credit that ends below full by what was taken; what is stored stays in any case. */
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

function sameParameters(a: Parameters<typeof parametersOf>[0], b: Parameters<typeof parametersOf>[0]): boolean {
  return (
    a.capacityMilli === b.capacityMilli &&
    a.refillAmountMilli === b.refillAmountMilli &&
    a.refillPeriodMs === b.refillPeriodMs
  )
}
