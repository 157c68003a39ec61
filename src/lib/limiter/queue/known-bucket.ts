import {type Amounts, type BucketState, nextBoundary, sumAmounts, wouldAdmit} from '../../core/buckets/bucket.js'
import {boughtMilli} from '../../core/buckets/kind-refill.js'
import {shareOfBucket} from '../../core/buckets/shards.js'
import {isBypassedAt} from '../../core/limits/limit-kind.js'
import type {WriteBasis} from '../../repository/buckets/marked-write.js'
import {PressureGauge, type SeenBucket} from '../../repository/buckets/plan.js'
import {markIn, type WriteMark} from '../../repository/buckets/writes.js'
import type {Item} from '../../schema/attribute-value.js'
import {type BucketRecord, decodeBucket, type Residue} from '../../schema/bucket-record.js'
import {type Slots, slotsWanted} from '../holders/slot-account.js'
import type {AppliedLimits} from '../request/limit-source.js'
import type {LimiterSettings} from '../request/options.js'
import {type Demand, knownAmounts, leaveOutMissing, type Refused} from '../request/pending-request.js'
import {wouldBook} from './booking.js'

export type KnownState =
  | {readonly exists: true; readonly atMs: number; readonly seen: SeenBucket}
  /** No bucket, or only counters that a refund left behind. */
  | {readonly exists: false; readonly atMs: number; readonly residue: ReadonlyMap<string, Residue>}

export interface SeenLoad {
  readonly record: BucketRecord
  /** Write units by all clients; `undefined` until two readings are far enough apart. */
  readonly unitsPerSecond: number | undefined
  /** Clients other than zael use it. */
  readonly isShared: boolean
  /** Largest amounts this process requested since the rate was last measured. */
  readonly largestRequestMilli: Amounts
}

/** No state of that time is fresh. */
const LONG_AGO_MS = 0

const NONE: ReadonlySet<string> = new Set()

/** Its queue reads the fields and changes them only by the methods. */
export class KnownBucket {
  /** Tells the instant to decide at: later than the clock if another client's clock moved the bucket ahead. */
  readonly time = new BucketTime()
  state: KnownState | undefined
  /** The last bucket seen, kept after `forget`: its limits seldom change. */
  lastRecord: BucketRecord | undefined
  /** On the `performance` clock. Limits read later are newer than the bucket's. */
  seenAtMs = 0
  /** The mark last seen in this process's slot. An old value proves less, but never too much. */
  slotMark: string | undefined
  /** Whether a consistent answer has shown the slot. */
  isSlotKnown = false
  readonly #settings: LimiterSettings
  readonly #gauge = new PressureGauge()
  #largest = new Map<string, bigint>()
  #limitsCheckedAtMs: number | undefined
  #hasDecided = false
  #isDoubtful = false
  #latestAttemptMs = 0
  #source: AppliedLimits['source'] | undefined
  #shared: ReadonlySet<string> = NONE
  #changesAtMs = Infinity

  constructor(settings: LimiterSettings) {
    this.#settings = settings
  }

  get needsPressureRepair(): boolean {
    return this.#gauge.needsRepair
  }

  /** Learns the state from the answer to a write; `undefined` if there is no bucket. */
  learn(item: Item | undefined, {slot}: WriteMark, nowMs: number): SeenLoad | undefined {
    this.slotMark = markIn(item, slot)
    this.isSlotKnown = true
    this.seenAtMs = performance.now()
    this.state = stateIn(item, nowMs)
    this.time.follow(this.state.exists ? this.state.seen.record : undefined, nowMs)
    if (!this.state.exists) return undefined
    const {record} = this.state.seen
    this.lastRecord = record
    const unitsPerSecond = this.#gauge.observe(record, nowMs)
    const largestRequestMilli = this.#largest
    if (unitsPerSecond !== undefined) this.#largest = new Map()
    return {record, unitsPerSecond, isShared: this.#gauge.isShared(nowMs), largestRequestMilli}
  }

  /** Learns an eventually consistent read: enough to plan a write that requires it, never to refuse. */
  learnGlance(item: Item | undefined, {slot}: WriteMark, nowMs: number): void {
    this.slotMark = markIn(item, slot)
    this.seenAtMs = performance.now()
    this.state = stateIn(item, LONG_AGO_MS)
    if (!this.state.exists) return
    this.lastRecord = this.state.seen.record
    this.time.follow(this.lastRecord, nowMs)
  }

  /** Learns a state read outside the queue, unless an answer has shown a later one since. */
  learnRecord(record: BucketRecord, sinceMs: number, nowMs: number): void {
    if (this.state && this.state.atMs > sinceMs) return
    this.state = {exists: true, atMs: nowMs, seen: {record, incomplete: new Map()}}
    this.time.follow(record, nowMs)
    this.seenAtMs = performance.now()
    this.lastRecord = record
  }

  /** Forgets state and slot, which may hold an uncertain write's mark. */
  forget(): void {
    this.state = undefined
    this.isSlotKnown = false
  }

  /** After a write outside the queue, which leaves the slot. `written`: the bucket after it, if known. */
  forgetState(written?: BucketRecord): void {
    this.state = undefined
    if (written) this.lastRecord = written
  }

  /** The state only serves to plan a write that requires it, and the next decision reads the configuration. */
  invalidate(): void {
    if (this.state) this.state = {...this.state, atMs: LONG_AGO_MS}
    this.noteDoubt()
  }

  get isTrusted(): boolean {
    return this.state !== undefined && this.state.atMs > LONG_AGO_MS
  }

  noteRequest(amounts: Amounts): void {
    for (const [name, milli] of amounts) {
      if (milli > (this.#largest.get(name) ?? 0n)) this.#largest.set(name, milli)
    }
  }

  noteDecided(): void {
    this.#hasDecided = true
  }

  /** `shared`: limits of the parent, if a strict request names limits that the bucket lacks. */
  noteLimitsChecked({source, changesAtMs = Infinity}: AppliedLimits, nowMs: number, shared = NONE): void {
    this.#limitsCheckedAtMs = nowMs
    this.#isDoubtful = false
    this.#source = source
    this.#shared = shared
    this.#changesAtMs = changesAtMs
  }

  noteDoubt(): void {
    this.#isDoubtful = true
  }

  /** There is no bucket, but a charge of unknown outcome may still arrive and find the next one created. */
  noteAttempt(basis: WriteBasis): void {
    if (basis.kind === 'refill') this.#latestAttemptMs = basis.latestMs
  }

  /** Refill instant of a new bucket: after all attempts that may still arrive. */
  createdAtMs(nowMs: number): number {
    return Math.max(nowMs, this.#latestAttemptMs + 1)
  }

  get hasCheckedLimits(): boolean {
    return this.#limitsCheckedAtMs !== undefined
  }

  wouldAdmitAny(demands: readonly Demand[], clockMs: number): boolean {
    if (!this.state?.exists) return false
    const {record} = this.state.seen
    const nowMs = this.time.at(clockMs)
    // A bypass is time-limited: the configuration need not be read earlier.
    if (isBypassedAt(record, nowMs)) return false
    return demands.some(({amounts}) => !needsLimits(record, amounts, nowMs) && shardWouldAdmit(record, amounts, nowMs))
  }

  wouldAdmitAll(demands: readonly Demand[], clockMs: number): boolean {
    if (!this.state?.exists || !this.isFresh(clockMs)) return false
    const {record} = this.state.seen
    const [sum, nowMs] = [sumAmounts(demands), this.time.at(clockMs)]
    return !needsLimits(record, sum, nowMs) && shardWouldAdmit(record, sum, nowMs)
  }

  /** Whether the state may refuse without a call: refunds by others are unknown. */
  isFresh(nowMs: number): boolean {
    if (!this.state) return false
    const {denyCacheMs} = this.#settings
    const ageMs = nowMs - this.state.atMs
    // A clock set back must not extend a refusal.
    // Planted fault: refusals are remembered for a minute
    return denyCacheMs > 0 && ageMs >= 0 && ageMs <= denyCacheMs
  }

  /** The first decision uses the stored limits unless a cached configuration differs; later ones check them. */
  isCheckDue(nowMs: number): boolean {
    if (this.#isDoubtful) return true
    if (this.#limitsCheckedAtMs === undefined) return this.#hasDecided
    const ageMs = nowMs - this.#limitsCheckedAtMs
    return ageMs < 0 || ageMs >= this.#settings.configCheckMs || nowMs >= this.#changesAtMs
  }

  /** Drops limits that the bucket lacks, once the configuration was read. */
  narrow(demand: Demand, nowMs: number): void {
    const record = this.state?.exists ? this.state.seen.record : undefined
    // Shard 0 has the slots of all shards.
    if (record?.slots && record.shard === 0) demand.slots = slotsWanted(demand, record)
    if (record?.slots) {
      const {limits} = record.slots
      demand.amounts = knownAmounts(demand.amounts, {has: name => !limits.has(name)})
    }
    if (this.#source === undefined || !this.state?.exists || this.isCheckDue(nowMs)) return
    const {state, slots} = this.state.seen.record
    leaveOutMissing(demand, state.limits, this.#shared, slots?.limits)
  }

  /** A refusal without a call: even the largest balance consistent with the state is too small. */
  refusal(demand: Demand, clockMs: number): Refused | undefined {
    if (!this.state?.exists) return undefined
    const {record} = this.state.seen
    if (record.unsupported || record.isDisabled || record.bypassUntilMs !== undefined) return undefined
    this.narrow(demand, clockMs)
    const {amounts} = demand
    if (isShortOfSlots(record, demand.slots) && !this.isCheckDue(clockMs)) return this.refused(demand, record, clockMs)
    // The common case: the stored balance suffices.
    if (holds(record, amounts)) return undefined
    const nowMs = this.time.at(clockMs)
    if (needsLimits(record, amounts, nowMs) || this.isCheckDue(clockMs) || isBucketExpired(record, nowMs))
      return undefined
    // Planted fault: a soft limit refuses after its grace period
    if (hasLapsedSoftness(record, amounts, nowMs)) return undefined
    const isAdmitted = shardWouldAdmit(record, amounts, nowMs) || wouldBook(record, demand, nowMs)
    return isAdmitted ? undefined : this.refused(demand, record, clockMs)
  }

  /** The wait counts from `nowMs` by the clock: other processes may not know that the bucket is ahead (L2). */
  refused({amounts, slots}: Demand, record: BucketRecord, nowMs: number): Refused {
    return {amounts, slots, record, nowMs, source: this.#source}
  }
}

function stateIn(item: Item | undefined, atMs: number): KnownState {
  const stored = item && decodeBucket(item)
  if (!stored) return {exists: false, atMs, residue: new Map()}
  if (stored.kind === 'ghost') return {exists: false, atMs, residue: stored.residue}
  return {exists: true, atMs, seen: stored}
}

export function shareOfRecord(record: BucketRecord): BucketState {
  return shareOfBucket(record.state, record.shard, record.shardCount)
}

/** The table may drop the item at any moment: renew it before use. */
export function isBucketExpired(record: BucketRecord, nowMs: number): boolean {
  return record.ttlSeconds !== undefined && record.ttlSeconds <= Math.floor(nowMs / 1000)
}

export function shardWouldAdmit(record: BucketRecord, amounts: Amounts, nowMs: number): boolean {
  return wouldAdmit(shareOfRecord(record), amounts, nowMs)
}

function isShortOfSlots({slots, shard}: BucketRecord, wanted: Slots): boolean {
  if (shard > 0) return false
  for (const [name, count] of wanted) {
    const {capacity = 0, free = 0} = slots?.limits.get(name) ?? {}
    // A request above the capacity fails instead.
    if (free < count && count <= capacity) return true
  }
  return false
}

/** Ignores the refill since. */
function holds({state}: BucketRecord, amounts: Amounts): boolean {
  for (const [name, milli] of amounts) if ((state.limits.get(name)?.tokensMilli ?? 0n) < milli) return false
  return true
}

/** A lapsed soft limit must be confirmed before it can refuse. */
function hasLapsedSoftness({state}: BucketRecord, amounts: Amounts, nowMs: number): boolean {
  for (const name of amounts.keys()) if ((state.limits.get(name)?.kind?.softUntilMs ?? Infinity) <= nowMs) return true
  return false
}

/** Whether only the configuration can decide: a limit is not in the bucket, or could never hold the amount. */
export function needsLimits({state, bypassUntilMs}: BucketRecord, amounts: Amounts, nowMs: number): boolean {
  for (const [name, milli] of amounts) {
    const limit = state.limits.get(name)
    if (!limit) return true
    if (bypassUntilMs !== undefined || milli <= limit.capacityMilli || limit.kind?.softUntilMs !== undefined) continue
    if (milli > limit.capacityMilli + boughtMilli(limit, state.refilledAtMs, nowMs)) return true
  }
  return false
}

/** A charge found later, with the incarnation that was charged: the bucket may have been reset since. */
export function asCharged(
  record: BucketRecord | undefined,
  basis: WriteBasis,
  {nonce}: WriteMark,
  before: BucketRecord | undefined,
): BucketRecord | undefined {
  if (!record || basis.kind === 'refill') return record
  return {...record, incarnation: basis.kind === 'absence' ? nonce : before?.incarnation}
}

/** Synchronised clocks differ by less; an instant further ahead is waited for. */
const MOST_AHEAD_MS = 60_000

/** For so long each minute, buckets ahead run at half speed, in all processes at once, to return to the clocks. */
const RETURN_MS = 10_000
const MINUTE_MS = 60_000

/** An instant to which a faster clock moved the bucket, and when this process saw it. */
interface SeenAhead {
  readonly bucketMs: number
  readonly clockMs: number
  /** On the monotonic `performance` clock. */
  readonly steadyMs: number
  /** Not followed beyond this instant: the limits' calendar changes the rules there. */
  readonly boundaryMs: number
  readonly incarnation: string | undefined
}

/** The instant to decide at: this clock's, or a faster client's if that moved the bucket (decision 29). */
class BucketTime {
  #ahead: SeenAhead | undefined

  /** Setting a clock gains nothing: elapsed time is the lesser of the wall clock's and the monotonic clock's. */
  at(clockMs: number): number {
    if (!this.#ahead) return clockMs
    const {bucketMs, clockMs: seenMs, steadyMs, boundaryMs} = this.#ahead
    const passedMs = Math.min(clockMs - seenMs, Math.floor(performance.now() - steadyMs))
    const reachedMs = bucketMs + passedMs - Math.max(0, returnedBy(clockMs) - returnedBy(seenMs))
    return reachedMs > clockMs && reachedMs < boundaryMs ? reachedMs : clockMs
  }

  follow(record: BucketRecord | undefined, clockMs: number): void {
    const isInTime = !this.#ahead && record && record.state.refilledAtMs <= clockMs
    if (isInTime) return
    if (!record || !isFollowed(record, clockMs) || this.#isOther(record)) this.#ahead = undefined
    else if (record.state.refilledAtMs > this.at(clockMs)) {
      const {incarnation, state} = record
      const boundaryMs = nextBoundary(state, clockMs) ?? Number.POSITIVE_INFINITY
      this.#ahead = {bucketMs: state.refilledAtMs, clockMs, steadyMs: performance.now(), boundaryMs, incarnation}
    }
  }

  /** A reset or new bucket starts at its writer's time: following on would credit the lead again. */
  #isOther({incarnation, state}: BucketRecord): boolean {
    if (!this.#ahead) return false
    return incarnation !== this.#ahead.incarnation || state.refilledAtMs < this.#ahead.bucketMs
  }
}

/** Total ms since the epoch by which a bucket that is ahead was slowed down. */
function returnedBy(clockMs: number): number {
  const minutes = Math.floor(clockMs / MINUTE_MS)
  const inReturnMs = Math.max(0, clockMs - minutes * MINUTE_MS - (MINUTE_MS - RETURN_MS))
  return Math.ceil((minutes * RETURN_MS + inReturnMs) / 2)
}

/** Not for sessions, soft limits and bypasses: their instants are compared with clocks. */
function isFollowed({state, bypassUntilMs}: BucketRecord, clockMs: number): boolean {
  if (state.refilledAtMs > clockMs + MOST_AHEAD_MS || bypassUntilMs !== undefined) return false
  return !hasOwnInstants(state)
}

function hasOwnInstants({limits}: BucketState): boolean {
  for (const {kind} of limits.values()) if (kind?.quota?.session || kind?.softUntilMs !== undefined) return true
  return false
}
