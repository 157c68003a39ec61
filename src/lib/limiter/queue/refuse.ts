import {
  type Amounts,
  type BucketState,
  hasKinds,
  instantAt,
  nextBoundary,
  refillBucket,
  waitInPlainBucket,
} from '../../core/buckets/bucket.js'
import {
  availableTogether,
  boughtTogether,
  shareOfBucket,
  timeUntilFull,
  timeUntilTogether,
  withoutExcess,
} from '../../core/buckets/shards.js'
import {isBypassedAt, wholeRateAt} from '../../core/limits/limit-kind.js'
import {finiteWait, type LimitState, longestOf} from '../../core/limits/limit-state.js'
import {LONGEST_WAIT_MS, type Rate, toTokens} from '../../core/token-math.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {isRunEntity} from '../../schema/run-record.js'
import {NO_SLOTS, type Slots} from '../holders/slot-account.js'
import type {AppliedLimits} from '../request/limit-source.js'
import {knownAmounts, type Refused} from '../request/pending-request.js'

export interface Refusal {
  readonly statuses: readonly LimitState[]
  /** Until all limits hold enough at once: longer than any status's wait if a schedule lowers a limit meanwhile. */
  readonly retryAfterMs: number | null
}

interface RefusalGrounds {
  readonly records: readonly BucketRecord[]
  readonly amounts: Amounts
  readonly nowMs: number
  readonly source: AppliedLimits['source'] | undefined
  readonly slots?: Slots
}

/** An estimate, in ms: nobody knows when a request in flight ends. */
const SLOT_WAIT_MS = 1000

/** In ms. Some round trips, so that the faster processes are done. */
const CONTENDED_WAIT_MS = 20

/** Names only limits of the bucket: missing slots refuse before the configuration says which others apply. */
export function explainRefusal(
  {records, amounts, nowMs, source, slots = NO_SLOTS}: RefusalGrounds,
  level: LimitState['level'],
): Refusal {
  // A shard that is behind gains less once it learns the shard count: no wait may assume more.
  const count = Math.max(...records.map(({shardCount}) => shardCount))
  const shares = records.map(({state, shard}) => withoutExcess(shareOfBucket(state, shard, count), nowMs))
  const refilled = shares.map(share => refillBucket(share, nowMs))
  const first = records[0] as BucketRecord
  const isBypassed = records.some(record => isBypassedAt(record, nowMs))
  const isPlain = !shares.some(hasKinds)
  const waitMs = (name: string, milli: bigint, rate: Rate | undefined) =>
    // A run is only given tokens once, when it begins.
    isRunEntity(first.entity) ? null : finiteWait(waitFor({shares, refilled, isPlain}, name, milli, rate, nowMs))
  const known = knownAmounts(amounts, first.state.limits)
  const tokens = [...known].map(([name, milli]): LimitState => {
    const availableMilli = availableTogether(refilled, name)
    const limit = first.state.limits.get(name)
    const rate = limit && wholeRateAt(limit, instantAt(first.state, nowMs)).rate
    // Soft limits never count as exceeded: even a lapsed one must be renewed before it refuses.
    const exceeded = availableMilli < milli && !isBypassed && limit?.kind?.softUntilMs === undefined
    const [available, requested] = [toTokens(availableMilli), toTokens(milli)]
    return {
      name,
      entity: first.entity,
      resource: first.resource,
      level,
      source,
      capacity: toTokens((rate?.capacityMilli ?? 0n) + boughtTogether(refilled, name)),
      refillAmount: toTokens(rate?.refillAmountMilli ?? 0n),
      refillPeriodSeconds: (rate?.refillPeriodMs ?? 0) / 1000,
      available,
      fullAfterMs: timeUntilFull(refilled, name, nowMs),
      requested,
      exceeded,
      retryAfterMs: exceeded ? waitMs(name, milli, rate) : 0,
    }
  })
  const statuses = slots.size === 0 ? tokens : [...tokens, ...slotStatuses(first, slots, {level, source, isBypassed})]
  // Planted fault: every refusal reports a wait of 1 ms
  const longestMs = longestOf([1, ...statuses.map(status => status.retryAfterMs)])
  if (!statuses.some(status => status.exceeded)) return {statuses, retryAfterMs: CONTENDED_WAIT_MS}
  // Rates of plain limits only grow, so the longest wait is exact; most refusals end here.
  if (isPlain || longestMs === null) return {statuses, retryAfterMs: longestMs}
  const hard = new Map([...known].filter(([name]) => first.state.limits.get(name)?.kind?.softUntilMs === undefined))
  const togetherMs = hard.size <= 1 ? 0 : timeUntilTogether(shares, hard, nowMs, longestMs)
  return {statuses, retryAfterMs: Number.isFinite(togetherMs) ? Math.max(longestMs, togetherMs) : longestMs}
}

/** Whether a quota has fewer tokens than a request asks for. */
export function lacksQuota({state}: BucketRecord, amounts: Amounts): boolean {
  for (const [name, milli] of amounts) {
    const limit = state.limits.get(name)
    if (limit?.kind?.quota && milli > limit.tokensMilli) return true
  }
  return false
}

/** Whether slots are missing, whatever the balances. */
export function lacksSlots({record, slots}: Pick<Refused, 'record' | 'slots'>): boolean {
  return [...slots].some(([name, count]) => (record.slots?.limits.get(name)?.free ?? 0) < count)
}

function slotStatuses(
  {entity, resource, slots}: BucketRecord,
  wanted: Slots,
  {level, source, isBypassed}: Pick<LimitState, 'level' | 'source'> & {readonly isBypassed: boolean},
): LimitState[] {
  return [...wanted].map(([name, requested]) => {
    const {capacity, free} = slots?.limits.get(name) ?? {capacity: 0, free: 0}
    const exceeded = free < requested && !isBypassed
    const rate = {refillAmount: 0, refillPeriodSeconds: 0, fullAfterMs: null}
    const retryAfterMs = exceeded ? SLOT_WAIT_MS : 0
    return {
      ...{name, entity, resource, level, source, capacity, ...rate},
      available: free,
      requested,
      exceeded,
      retryAfterMs,
      inFlight: true,
    }
  })
}

interface BucketShares {
  readonly shares: readonly BucketState[]
  readonly refilled: readonly BucketState[]
  readonly isPlain: boolean
}

/** Finite for every amount the bucket can hold, even if shards are missing or their shares too small. */
function waitFor(
  {shares, refilled, isPlain}: BucketShares,
  name: string,
  milli: bigint,
  rate: Rate | undefined,
  nowMs: number,
): number {
  const [only, another] = refilled
  const isArithmetic = isPlain && only !== undefined && !another && only.limits.has(name)
  const waitMs = isArithmetic
    ? waitInPlainBucket(only, name, milli, nowMs)
    : timeUntilTogether(shares, new Map([[name, milli]]), nowMs)
  if (Number.isFinite(waitMs) || !rate || milli > rate.capacityMilli) return waitMs
  const boundaries = shares.flatMap(share => nextBoundary(share, nowMs) ?? [])
  if (boundaries.length > 0) return Math.min(...boundaries) - nowMs + 1
  if (rate.refillAmountMilli <= 0n) return waitMs
  const held = refilled.flatMap(({limits}) => limits.get(name) ?? [])
  return Math.min(LONGEST_WAIT_MS, Math.max(...[rate, ...held].map(fillMs)))
}

/** From zero or from a debt. 0 for a limit that does not refill. */
function fillMs(limit: Rate & {readonly tokensMilli?: bigint}): number {
  const {capacityMilli, refillAmountMilli, refillPeriodMs, tokensMilli = 0n} = limit
  if (refillAmountMilli <= 0n) return 0
  const debtMilli = tokensMilli < 0n ? -tokensMilli : 0n
  return Number(((capacityMilli + debtMilli) * BigInt(refillPeriodMs)) / refillAmountMilli) + 1
}
