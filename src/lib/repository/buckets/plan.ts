import {
  type Amounts,
  type BucketState,
  expiresAtSeconds,
  hasKinds,
  LIFETIME_MULTIPLIER,
  type LimitState,
  refillBucket,
} from '../../core/buckets/bucket.js'
import {isInPeriod, withRateAt} from '../../core/buckets/kind-refill.js'
import {
  GROWTH_UNITS_PER_SECOND,
  shareOfBucket,
  shareOfLimit,
  type WriteCount,
  writesPerSecond,
} from '../../core/buckets/shards.js'
import {kindedRateOf} from '../../core/calendar/kind-definition.js'
import type {Limit} from '../../core/limits/limit.js'
import {isSameLimit, isSoftAt, type KindedRate, type LimitKind} from '../../core/limits/limit-kind.js'
import type {Level} from '../../core/limits/resolve.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import type {Rate} from '../../core/token-math.js'
import {type BucketRecord, freshWritePressure, type Residue} from '../../schema/bucket-record.js'
import {writeUnitsOf} from '../../schema/item-size.js'

/** A bucket as it was read; limits that need repair are kept apart. */
export interface SeenBucket {
  readonly record: BucketRecord
  readonly incomplete: ReadonlyMap<string, Residue>
}

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
  readonly nowMs: number
  /** By the limits of the configuration, not only by the stored ones. */
  readonly isConfigured: boolean
  readonly changes: ReadonlyMap<string, PlannedLimit>
}

interface PlanOptions {
  /** Consumed at this very instant without a refill: what had overflowed by then must not come back. */
  readonly taken?: Amounts
  /** Sessions that have ended are opened: only where the write takes tokens. */
  readonly opensSessions?: boolean
}

/**
 * Brings a bucket forward to `nowMs`: every limit is credited at the stored rate, then the limits that apply from now on
 * replace the stored ones. A quota that enters another period begins it with the allowance of now. Lowering a capacity
 * clamps the balance, raising it adds nothing, a new limit starts full, a limit that no longer applies is removed. Without
 * `limits` the stored ones stay in force. The credit of a limit of which something was `taken` ends that much below full.
 */
export function planBucket(
  seen: SeenBucket,
  nowMs: number,
  limits?: readonly Limit[],
  {taken = new Map(), opensSessions = false}: PlanOptions = {},
): BucketPlan {
  const {record} = seen
  const {shard, shardCount} = record
  const wanted = limits && new Map(limits.map(limit => [limit.name, kindedRateOf(limit, nowMs)]))
  const state = wanted ? withCalendarsOf(record.state, wanted, nowMs) : record.state
  const refilled = refillBucket(shareOfBucket(state, shard, shardCount), nowMs, opensSessions)
  const changes = new Map<string, PlannedLimit>()

  for (const [name, stored] of record.state.limits) {
    const advanced = refilled.limits.get(name) as LimitState
    const rate = name === WRITE_PRESSURE_LIMIT ? stored : wanted ? wanted.get(name) : stored
    if (!rate) {
      changes.set(name, {kind: 'remove', after: stored, creditMilli: 0n, parametersChanged: false})
      continue
    }
    const credited = below(advanced.capacityMilli, taken.get(name) ?? 0n, stored, advanced)
    const kind = rate.kind && withStateOf(rate.kind, credited.kind, shardCount)
    const after = limitWith(rate, stored, kind)
    const opened = opensSessions && !stored.kind?.quota?.session ? openedAnew(name, after, record, nowMs) : undefined
    // What was in force of a limit that had a kind may have been more than its stored capacity.
    const isLowered = rate.capacityMilli < stored.capacityMilli || kind !== undefined || stored.kind !== undefined
    const rulesMs = rulesAt(after, {nowMs, refilledAtMs: refilled.refilledAtMs})
    const ceiling = isLowered ? ceilingOf(name, after, record, rulesMs) : credited.tokensMilli
    const isClamped = credited.tokensMilli > ceiling
    // Planted fault: a raised limit fills the bucket
    const tokensMilli = opened?.tokensMilli ?? (isClamped ? ceiling : credited.tokensMilli)
    const remainder = isClamped || rate.refillPeriodMs !== stored.refillPeriodMs ? 0n : credited.remainder
    changes.set(name, {
      kind: 'keep',
      after: limitWith(rate, {tokensMilli, remainder, consumedMilli: stored.consumedMilli}, opened?.kind ?? kind),
      creditMilli: tokensMilli - stored.tokensMilli,
      // Planted fault: a lowered limit is not stored
      parametersChanged: !isSameLimit(rate, stored),
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
    const started = startingLimit(name, rate, record, nowMs, opensSessions)
    const creditMilli = started.tokensMilli
    changes.set(name, {
      kind: 'init',
      after: {
        ...started,
        tokensMilli: creditMilli + (residue?.tokensMilli ?? 0n),
        consumedMilli: residue?.consumedMilli ?? 0n,
      },
      creditMilli,
      parametersChanged: true,
    })
  }
  if (!changes.has(WRITE_PRESSURE_LIMIT)) {
    const after = freshWritePressure()
    changes.set(WRITE_PRESSURE_LIMIT, {kind: 'init', after, creditMilli: after.tokensMilli, parametersChanged: true})
  }
  return {seen, refilledAtMs: refilled.refilledAtMs, nowMs, isConfigured: limits !== undefined, changes}
}

/** A limit that is new in a bucket: the shard's part of what is in force now, its session opened if tokens are taken. */
export function startingLimit(
  name: string,
  rate: KindedRate,
  {shard, shardCount}: Pick<BucketRecord, 'shard' | 'shardCount'>,
  nowMs: number,
  opensSession: boolean,
): LimitState {
  const {kind} = rate
  const quota = kind?.quota && {...kind.quota, grantCount: shardCount}
  const session = quota?.session && opensSession ? {...quota.session, startMs: nowMs, appliedMs: nowMs} : quota?.session
  const started: LimitState = {
    ...parametersOf(rate),
    ...(kind && {kind: {...kind, ...(quota && {quota: {...quota, ...(session && {session})}})}}),
    tokensMilli: 0n,
    remainder: 0n,
    consumedMilli: 0n,
  }
  return {...started, tokensMilli: ceilingOf(name, started, {shard, shardCount}, nowMs)}
}

export function ceilingOf(
  name: string,
  limit: LimitState,
  {shard, shardCount}: Pick<BucketRecord, 'shard' | 'shardCount'>,
  nowMs: number,
): bigint {
  return withRateAt(shareOfLimit(name, limit, shard, shardCount), nowMs).capacityMilli
}

/** The instant whose rules a limit follows in a plan: that of the bucket, but a session begins by those of its first use. */
export function rulesAt({kind}: LimitState, {nowMs, refilledAtMs}: Pick<BucketPlan, 'nowMs' | 'refilledAtMs'>): number {
  return kind?.quota?.session?.startMs === nowMs ? nowMs : refilledAtMs
}

/** A limit that has become a session with this write starts it. */
function openedAnew(
  name: string,
  after: LimitState,
  record: BucketRecord,
  nowMs: number,
): Pick<LimitState, 'tokensMilli' | 'kind'> | undefined {
  return after.kind?.quota?.session ? startingLimit(name, after, record, nowMs, true) : undefined
}

/** Resets and sessions that were changed count as they are now: what only the old calendar has is not made up for. */
function withCalendarsOf(state: BucketState, wanted: ReadonlyMap<string, KindedRate>, nowMs: number): BucketState {
  if (!hasKinds(state)) return state
  const limits = new Map<string, LimitState>()
  for (const [name, limit] of state.limits) {
    const rate = wanted.get(name)
    const changed = rate && withCalendarOf(limit, rate)
    if (!changed) limits.set(name, limit)
    else if (isInPeriod(changed, state.refilledAtMs, nowMs)) limits.set(name, changed)
    else limits.set(name, {...changed, ...parametersOf(rate), kind: {...changed.kind, schedule: rate.kind?.schedule}})
  }
  return {...state, limits}
}

/** `undefined` for a limit that is no quota, or becomes one of another kind. */
function withCalendarOf(limit: LimitState, {kind: wanted}: KindedRate): KindedQuota | undefined {
  const {kind} = limit
  const {resets, session} = wanted?.quota ?? {}
  if (kind?.quota?.resets && resets) return {...limit, kind: {...kind, quota: {...kind.quota, resets}}}
  if (!kind?.quota?.session || !session) return undefined
  const changed = {...kind.quota.session, lengthMs: session.lengthMs}
  return {...limit, kind: {...kind, quota: {...kind.quota, session: changed}}}
}

type KindedQuota = LimitState & {readonly kind: LimitKind}

function withStateOf(kind: LimitKind, before: LimitKind | undefined, shardCount: number): LimitKind {
  const {share: _, ...whole} = kind
  const {quota} = whole
  if (!quota) return whole
  const stored = before?.quota
  if (!stored) return {...whole, quota: {...quota, grantCount: shardCount}}
  const {grantCount, resetNumber} = stored
  const session = quota.session && {...stored.session, lengthMs: quota.session.lengthMs}
  // What was bought for a period of the calendar is not there for a session, which starts with its whole allowance.
  const isSamePeriod = (stored.session === undefined) === (session === undefined)
  const {topUpMilli, heldMs} = isSamePeriod ? stored : {}
  return {...whole, quota: {...quota, grantCount, topUpMilli, resetNumber, heldMs, ...(session && {session})}}
}

/** Plain limits have no kind at all. */
function limitWith(
  {capacityMilli, refillAmountMilli, refillPeriodMs}: Rate,
  {tokensMilli, remainder, consumedMilli}: Pick<LimitState, 'tokensMilli' | 'remainder' | 'consumedMilli'>,
  kind: LimitKind | undefined,
): LimitState {
  const plain = {capacityMilli, refillAmountMilli, refillPeriodMs, tokensMilli, remainder, consumedMilli}
  return kind ? {...plain, kind} : plain
}

/** Millitokens of each limit that this shard can give after the plan; a soft limit gives whatever is asked. */
export function plannedTokens(plan: BucketPlan): Map<string, bigint> {
  const tokens = new Map<string, bigint>()
  for (const [name, {kind, after}] of plan.changes)
    if (kind !== 'remove') tokens.set(name, givableMilli(after, plan.refilledAtMs))
  return tokens
}

export function isFull(plan: BucketPlan): boolean {
  return [...plan.changes].every(
    ([name, {kind, after}]) =>
      kind === 'remove' ||
      name === WRITE_PRESSURE_LIMIT ||
      after.tokensMilli >= ceilingOf(name, after, plan.seen.record, rulesAt(after, plan)),
  )
}

/** More than can be asked for. */
const WHATEVER_IS_ASKED = 10n ** 30n

export function givableMilli(limit: LimitState, atMs: number): bigint {
  return isSoftAt(limit, atMs) ? WHATEVER_IS_ASKED : limit.tokensMilli
}

/**
 * Whether writing the plan would store anything but a refill: other limits, or a refill instant or session that was far
 * ahead of time.
 */
export function changesLimits({refilledAtMs, seen, changes}: BucketPlan): boolean {
  const {state} = seen.record
  if (refilledAtMs < state.refilledAtMs) return true
  for (const [name, {kind, after, parametersChanged}] of changes) {
    if (kind !== 'keep' || parametersChanged) return true
    if (startOf(after) < startOf(state.limits.get(name))) return true
  }
  return false
}

/** When the session of a limit begins, in epoch ms; 0 for one that has none. */
const startOf = (limit: LimitState | undefined): number => limit?.kind?.quota?.session?.startMs ?? 0

/** The limits after the plan with this shard's share of their rates: a shard repays a debt at its own share. */
export function plannedLimits({seen, changes}: BucketPlan): LimitState[] {
  const {shard, shardCount} = seen.record
  return [...changes].flatMap(([name, {kind, after}]) =>
    kind === 'remove' || name === WRITE_PRESSURE_LIMIT ? [] : [shareOfLimit(name, after, shard, shardCount)],
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

/**
 * Whether a shard is the first of several, which never expires. The others come back from its tokens; without it, the next
 * request would begin a whole bucket beside them, and what they hold would exist twice.
 */
export const isFirstOfSeveral = ({shard, shardCount}: Pick<BucketRecord, 'shard' | 'shardCount'>): boolean =>
  shard === 0 && shardCount > 1

interface Lifetime {
  readonly source: Level | 'default' | undefined
  /** With the share of the shard. */
  readonly limits: Iterable<LimitState>
  /** How often it may fill up untouched; 0 for buckets that never expire. */
  readonly multiplier?: number
  readonly nowMs: number
}

/** Epoch seconds after which the table may drop a shard that lies untouched, or `null`: limits made for one entity never expire. */
export function shardExpiry(
  shard: Pick<BucketRecord, 'shard' | 'shardCount'>,
  {source, limits, multiplier = LIFETIME_MULTIPLIER, nowMs}: Lifetime,
): number | null {
  if (source === 'entity' || multiplier <= 0 || isFirstOfSeveral(shard)) return null
  return expiresAtSeconds(limits, multiplier, nowMs)
}

/** A rate over a longer time means little for the present. */
const LONGEST_OBSERVATION_MS = 10_000

/** How long after a write of another client a bucket counts as shared with it. */
const SHARED_MS = 600_000

/** Measures the write rate of one bucket item over all clients, from the counter that every write increments. */
export class PressureGauge {
  #since: WriteCount | undefined
  #isCalm = false
  #isDrained = false
  #sharedAtMs = Number.NEGATIVE_INFINITY

  /** Write units per second since the last reading that was long enough ago; `undefined` when there is none yet. */
  observe(record: BucketRecord, atMs: number): number | undefined {
    const pressure = record.state.limits.get(WRITE_PRESSURE_LIMIT)
    if (!pressure) return undefined
    const now = {atMs, countMilli: pressure.consumedMilli}
    if (pressure.tokensMilli < pressure.capacityMilli) this.#sharedAtMs = atMs
    this.#isDrained = pressure.tokensMilli * 2n < pressure.capacityMilli
    const writes = this.#since && writesPerSecond(this.#since, now)
    const rate = writes === undefined ? undefined : writes * writeUnitsOf(record)
    if (rate !== undefined) this.#isCalm = rate < GROWTH_UNITS_PER_SECOND
    const isOver =
      this.#since &&
      (rate !== undefined ||
        now.countMilli < this.#since.countMilli ||
        atMs - this.#since.atMs > LONGEST_OBSERVATION_MS)
    if (!this.#since || isOver) this.#since = now
    return rate
  }

  /**
   * Whether other clients than zael use the bucket: only they spend the pressure limit. They split it themselves when it
   * is overloaded, and those of 0.10 credit shard 0 as if it were the whole bucket, so a split by zael would admit more
   * than the limit.
   */
  isShared(nowMs: number): boolean {
    return nowMs - this.#sharedAtMs < SHARED_MS
  }

  /**
   * Clients that spend the pressure limit but never refill it would take a calm bucket for an overloaded one and keep
   * splitting it; refilling it costs nothing when it is part of the next write.
   */
  get needsRepair(): boolean {
    return this.#isCalm && this.#isDrained
  }
}
