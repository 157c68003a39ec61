import {
  type Amounts,
  type BucketLimit,
  type BucketState,
  expiresAtSeconds,
  hasKinds,
  LIFETIME_MULTIPLIER,
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
import {type Level, type Limit, tokenLimits} from '../../core/limits/limit.js'
import {
  grantCountOf,
  isSameLimit,
  isSoftAt,
  type KindedRate,
  type LimitKind,
  periodStart,
  tellsUse,
  wholeRateAt,
} from '../../core/limits/limit-kind.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import type {Rate} from '../../core/token-math.js'
import {type BucketRecord, freshWritePressure, type Residue} from '../../schema/bucket-record.js'
import {writeUnitsOf} from '../../schema/item-size.js'

/** A bucket as read; limits that need repair are kept apart. */
export interface SeenBucket {
  readonly record: BucketRecord
  readonly incomplete: ReadonlyMap<string, Residue>
}

export interface PlannedLimit {
  readonly kind: 'keep' | 'init' | 'remove'
  /** Undivided parameters, as stored. */
  readonly after: BucketLimit
  /** Millitokens added to the stored balance by time (or clamping, then negative), before consumption. */
  readonly creditMilli: bigint
  readonly parametersChanged: boolean
}

export interface BucketPlan {
  readonly seen: SeenBucket
  /** Before the stored refill instant only if that is far ahead of time. */
  readonly refilledAtMs: number
  readonly nowMs: number
  /** By the configuration's limits, not only the stored ones. */
  readonly isConfigured: boolean
  readonly changes: ReadonlyMap<string, PlannedLimit>
  /** New capacities of all in-flight limits; absent if they stay. */
  readonly slots?: ReadonlyMap<string, number> | undefined
}

interface PlanOptions {
  /** Consumed at this instant without a refill: overflowed tokens must not come back. */
  readonly taken?: Amounts
  readonly opensSessions?: boolean
  /** Configured in-flight limits. Default: those of the bucket. */
  readonly inFlight?: ReadonlyMap<string, number>
}

/**
 * Credits every limit at the stored rate up to `nowMs`, then applies `limits` (default: the stored ones). Lowering a
 * capacity clamps the balance, raising it adds nothing, new limits start full, others are removed. A quota keeps its
 * use: allowance and balance change by the same amount. The credit of a `taken` limit ends that much below full.
 */
export function planBucket(
  seen: SeenBucket,
  nowMs: number,
  limits?: readonly Limit[],
  {taken = new Map(), opensSessions = false, inFlight}: PlanOptions = {},
): BucketPlan {
  const {record} = seen
  const {shard, shardCount} = record
  const wanted = limits && new Map(tokenLimits(limits).map(limit => [limit.name, kindedRateOf(limit, nowMs)]))
  const state = wanted ? withCalendarsOf(record.state, wanted, nowMs) : record.state
  const refilled = refillBucket(shareOfBucket(state, shard, shardCount), nowMs, opensSessions)
  const changes = new Map<string, PlannedLimit>()

  for (const [name, stored] of record.state.limits) {
    const advanced = refilled.limits.get(name) as BucketLimit
    const rate = name === WRITE_PRESSURE_LIMIT ? stored : wanted ? wanted.get(name) : stored
    if (!rate) {
      changes.set(name, {kind: 'remove', after: stored, creditMilli: 0n, parametersChanged: false})
      continue
    }
    const credited = below(advanced.capacityMilli, taken.get(name) ?? 0n, stored, advanced)
    const kind = rate.kind && withStateOf(rate.kind, credited, shardCount, refilled.refilledAtMs)
    const after = limitWith(rate, stored, kind)
    const opened = opensSessions && !stored.kind?.quota?.session ? openedAnew(name, after, record, nowMs) : undefined
    // A limit with a kind may have had a higher capacity in force than the stored one.
    const isLowered = rate.capacityMilli < stored.capacityMilli || kind !== undefined || stored.kind !== undefined
    const rulesMs = rulesAt(after, {nowMs, refilledAtMs: refilled.refilledAtMs})
    // Otherwise another client may have lowered the stored capacity but kept the balance. Or it split the bucket, and
    // this shard still holds the other shards' tokens.
    const ceiling = ceilingOf(name, after, isLowered ? record : {shard: 0, shardCount: 1}, rulesMs)
    // If only the allowance changes, the use of the period counts against the new one.
    const countsUse = kind?.definition === stored.kind?.definition && tellsUse(stored, rulesMs)
    // Planted fault: a changed quota forgets its use
    const keptMilli = credited.tokensMilli + (countsUse ? ceiling - credited.capacityMilli : 0n)
    const isClamped = keptMilli > ceiling
    // Planted fault: a raised limit fills the bucket
    const tokensMilli = opened?.tokensMilli ?? (isClamped ? ceiling : keptMilli)
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
    // Counters without parameters are from another client: the limit starts full, adjusted by them.
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
  const slots = inFlight && !hasSlotsOf(record, inFlight) ? inFlight : undefined
  return {seen, refilledAtMs: refilled.refilledAtMs, nowMs, isConfigured: limits !== undefined, changes, slots}
}

/** A new limit starts with the shard's part of the current capacity; its session opens if tokens are taken. */
export function startingLimit(
  name: string,
  rate: KindedRate,
  {shard, shardCount}: Pick<BucketRecord, 'shard' | 'shardCount'>,
  nowMs: number,
  opensSession: boolean,
): BucketLimit {
  const {kind} = rate
  const quota = kind?.quota && {...kind.quota, grantCount: shardCount}
  const session = quota?.session && opensSession ? {...quota.session, startMs: nowMs, appliedMs: nowMs} : quota?.session
  const started: BucketLimit = {
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
  limit: BucketLimit,
  {shard, shardCount}: Pick<BucketRecord, 'shard' | 'shardCount'>,
  nowMs: number,
): bigint {
  return withRateAt(shareOfLimit(name, limit, shard, shardCount), nowMs).capacityMilli
}

/** A plan follows the rules of the refill instant, but a session begins by those of its first use. */
export function rulesAt(
  {kind}: BucketLimit,
  {nowMs, refilledAtMs}: Pick<BucketPlan, 'nowMs' | 'refilledAtMs'>,
): number {
  return kind?.quota?.session?.startMs === nowMs ? nowMs : refilledAtMs
}

function openedAnew(
  name: string,
  after: BucketLimit,
  record: BucketRecord,
  nowMs: number,
): Pick<BucketLimit, 'tokensMilli' | 'kind'> | undefined {
  return after.kind?.quota?.session ? startingLimit(name, after, record, nowMs, true) : undefined
}

/** Changed resets and sessions apply as of now. Resets that exist only in the old calendar are not replayed. */
function withCalendarsOf(state: BucketState, wanted: ReadonlyMap<string, KindedRate>, nowMs: number): BucketState {
  if (!hasKinds(state)) return state
  const limits = new Map<string, BucketLimit>()
  for (const [name, limit] of state.limits) {
    const rate = wanted.get(name)
    const changed = rate && withCalendarOf(limit, rate)
    if (!changed) limits.set(name, limit)
    else if (isInPeriod(changed, state.refilledAtMs, nowMs)) limits.set(name, changed)
    else limits.set(name, {...changed, ...parametersOf(rate), kind: {...changed.kind, schedule: rate.kind?.schedule}})
  }
  return {...state, limits}
}

/** `undefined` if the limit is not a quota, or becomes another kind of quota. */
function withCalendarOf(limit: BucketLimit, {kind: wanted}: KindedRate): KindedQuota | undefined {
  const {kind} = limit
  const {resets, session} = wanted?.quota ?? {}
  if (kind?.quota?.resets && resets) return {...limit, kind: {...kind, quota: {...kind.quota, resets}}}
  if (!kind?.quota?.session || !session) return undefined
  const changed = {...kind.quota.session, lengthMs: session.lengthMs}
  return {...limit, kind: {...kind, quota: {...kind.quota, session: changed}}}
}

type KindedQuota = BucketLimit & {readonly kind: LimitKind}

function withStateOf(kind: LimitKind, before: BucketLimit, shardCount: number, atMs: number): LimitKind {
  const {share: _, ...whole} = kind
  const {quota} = whole
  if (!quota) return whole
  const stored = before.kind?.quota
  const isRedefined = before.kind?.definition !== kind.definition
  if (!stored) return {...whole, quota: {...quota, grantCount: shardCount, heldMs: periodStart(quota, atMs)}}
  const {resetNumber} = stored
  // Marked with the old capacity: a balance above a lowered capacity would look like that of fewer shards.
  const grantCount = grantCountOf(before, wholeRateAt(before, atMs).rate.capacityMilli)
  const session = quota.session && {...stored.session, lengthMs: quota.session.lengthMs}
  // A top-up for a calendar period does not carry into a session, which starts with its whole allowance.
  const isSamePeriod = (stored.session === undefined) === (session === undefined)
  const {topUpMilli, heldMs} = isSamePeriod ? stored : {}
  const kept = {...quota, grantCount, topUpMilli, resetNumber, heldMs, ...(session && {session})}
  return {...whole, quota: isRedefined ? {...kept, heldMs: periodStart(kept, atMs)} : kept}
}

function limitWith(
  {capacityMilli, refillAmountMilli, refillPeriodMs}: Rate,
  {tokensMilli, remainder, consumedMilli}: Pick<BucketLimit, 'tokensMilli' | 'remainder' | 'consumedMilli'>,
  kind: LimitKind | undefined,
): BucketLimit {
  const plain = {capacityMilli, refillAmountMilli, refillPeriodMs, tokensMilli, remainder, consumedMilli}
  return kind ? {...plain, kind} : plain
}

/** Millitokens available in this shard after the plan; a soft limit gives any amount. */
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

const WHATEVER_IS_ASKED = 10n ** 30n

export function givableMilli(limit: BucketLimit, atMs: number): bigint {
  return isSoftAt(limit, atMs) ? WHATEVER_IS_ASKED : limit.tokensMilli
}

/** Whether the bucket has exactly these in-flight limits. */
export function hasSlotsOf({slots}: Pick<BucketRecord, 'slots'>, inFlight: ReadonlyMap<string, number>): boolean {
  if ((slots?.limits.size ?? 0) !== inFlight.size) return false
  for (const [name, capacity] of inFlight) if (slots?.limits.get(name)?.capacity !== capacity) return false
  return true
}

/** Whether the plan stores more than a refill: other limits, or a refill instant or session that was far ahead. */
export function changesLimits({refilledAtMs, seen, changes, slots}: BucketPlan): boolean {
  const {state} = seen.record
  if (refilledAtMs < state.refilledAtMs || slots) return true
  for (const [name, {kind, after, parametersChanged}] of changes) {
    if (kind !== 'keep' || parametersChanged) return true
    if (startOf(after) < startOf(state.limits.get(name))) return true
  }
  return false
}

const startOf = (limit: BucketLimit | undefined): number => limit?.kind?.quota?.session?.startMs ?? 0

/** With this shard's share of the rates: a shard repays a debt from its own share. */
export function plannedLimits({seen, changes}: BucketPlan): BucketLimit[] {
  const {shard, shardCount} = seen.record
  return [...changes].flatMap(([name, {kind, after}]) =>
    kind === 'remove' || name === WRITE_PRESSURE_LIMIT ? [] : [shareOfLimit(name, after, shard, shardCount)],
  )
}

/** Cuts a credit at full minus what was taken, but never below the stored balance. */
function below(fullMilli: bigint, takenMilli: bigint, stored: BucketLimit, refilled: BucketLimit): BucketLimit {
  const ceiling = fullMilli - takenMilli
  if (takenMilli <= 0n || refilled.tokensMilli <= ceiling) return refilled
  return {...refilled, tokensMilli: ceiling > stored.tokensMilli ? ceiling : stored.tokensMilli, remainder: 0n}
}

const stateOfResidue = (residue: Residue): BucketLimit => ({
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
}: Pick<BucketLimit, 'capacityMilli' | 'refillAmountMilli' | 'refillPeriodMs'>) => ({
  capacityMilli,
  refillAmountMilli,
  refillPeriodMs,
})

/** Never expires: without this shard, the next request would start a second whole bucket beside the others. */
export const isFirstOfSeveral = ({shard, shardCount}: Pick<BucketRecord, 'shard' | 'shardCount'>): boolean =>
  shard === 0 && shardCount > 1

interface Lifetime {
  readonly source: Level | 'default' | undefined
  /** With the shard's share of the rates. */
  readonly limits: Iterable<BucketLimit>
  /** Idle expiry, in multiples of the fill time; 0: never. */
  readonly multiplier?: number
  readonly nowMs: number
}

/** Idle expiry in epoch seconds; `null`: never, as for limits made for one entity. */
export function shardExpiry(
  shard: Pick<BucketRecord, 'shard' | 'shardCount'>,
  {source, limits, multiplier = LIFETIME_MULTIPLIER, nowMs}: Lifetime,
): number | null {
  if (source === 'entity' || multiplier <= 0 || isFirstOfSeveral(shard)) return null
  return expiresAtSeconds(limits, multiplier, nowMs)
}

/** An average over a longer time says little about the present. */
const LONGEST_OBSERVATION_MS = 10_000

/** How long a bucket counts as shared after another client's write. */
const SHARED_MS = 600_000

/** Measures an item's write rate over all clients, from the counter that every write increments. */
export class PressureGauge {
  #since: WriteCount | undefined
  #isCalm = false
  #isDrained = false
  #sharedAtMs = Number.NEGATIVE_INFINITY

  /** Write units per second since the last reading that is old enough; `undefined` without one. */
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
   * Only other clients spend the pressure limit. If zael split the bucket, clients of 0.10 would over-credit shard 0.
   */
  isShared(nowMs: number): boolean {
    return nowMs - this.#sharedAtMs < SHARED_MS
  }

  /** Clients that spend the pressure limit but never refill it would keep splitting a calm bucket. */
  get needsRepair(): boolean {
    return this.#isCalm && this.#isDrained
  }
}
