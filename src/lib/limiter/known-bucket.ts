import {
  type Amounts,
  type BucketState,
  chooseFitting,
  expiresAtSeconds,
  sumAmounts,
  tryConsumeBucket,
} from '../core/bucket.js'
import {boundsOfFullness, type FullnessBounds, hasFilledUp, isOverfull} from '../core/fullness.js'
import {shareOfBucket} from '../core/shards.js'
import {fullBucketUpdate} from '../repository/buckets/full-bucket-write.js'
import {planBucket, plannedTokens, type SeenBucket} from '../repository/buckets/plan.js'
import {PressureGauge} from '../repository/buckets/pressure-gauge.js'
import {
  type BucketAddress,
  type BucketUpdate,
  consumeUpdate,
  markIn,
  type WriteMark,
} from '../repository/buckets/writes.js'
import type {NamespaceTable} from '../repository/table/table.js'
import type {Item} from '../schema/attribute-value.js'
import {type BucketRecord, decodeBucket, type Residue} from '../schema/bucket-record.js'
import type {AppliedLimits} from './limit-source.js'
import type {LimiterSettings} from './options.js'
import {type Demand, leaveOutMissing, type PendingRequest, type Refused, requestCount} from './pending-request.js'

/** The last state of a bucket item that an answer has shown. */
export type KnownState =
  | {readonly exists: true; readonly atMs: number; readonly seen: SeenBucket}
  /** There is no bucket, or only counters that a refund left behind. */
  | {readonly exists: false; readonly atMs: number; readonly residue: ReadonlyMap<string, Residue>}

/** How much an item is used. */
export interface BucketLoad {
  /** Write units, by all clients together; `undefined` until two readings are far enough apart. */
  readonly unitsPerSecond: number | undefined
  /** Largest amounts that this process has asked for since the rate was last measured. */
  readonly largestRequestMilli: Amounts
}

/** What this process knows of one bucket item. */
export class KnownBucket {
  readonly #settings: LimiterSettings
  readonly #gauge = new PressureGauge()
  #state: KnownState | undefined
  #slotMark: string | undefined
  #largest = new Map<string, bigint>()
  #limitsCheckedAtMs: number | undefined
  #hasDecided = false
  #source: AppliedLimits['source'] | undefined

  constructor(settings: LimiterSettings) {
    this.#settings = settings
  }

  get state(): KnownState | undefined {
    return this.#state
  }

  /** The mark that this process's slot showed when the item was last seen. An old value proves less, but never too much. */
  get slotMark(): string | undefined {
    return this.#slotMark
  }

  /** Where the limits come from, once the configuration was read. */
  get source(): AppliedLimits['source'] | undefined {
    return this.#source
  }

  get needsPressureRepair(): boolean {
    return this.#gauge.needsRepair
  }

  /** Takes over the state that the answer to a write has shown; gives the load if there is a bucket. */
  learn(item: Item | undefined, {slot}: WriteMark, nowMs: number): BucketLoad | undefined {
    this.#slotMark = markIn(item, slot)
    this.#state = stateIn(item, nowMs)
    if (!this.#state.exists) return undefined
    const unitsPerSecond = this.#gauge.observe(this.#state.seen.record, nowMs)
    const largestRequestMilli = this.#largest
    if (unitsPerSecond !== undefined) this.#largest = new Map()
    return {unitsPerSecond, largestRequestMilli}
  }

  /** Takes over a state that was read apart from the queue's writes, unless an answer has shown a later one since. */
  learnRecord(record: BucketRecord, sinceMs: number, nowMs: number): void {
    if (this.#state && this.#state.atMs > sinceMs) return
    this.#state = {exists: true, atMs: nowMs, seen: {record, incomplete: new Map()}}
  }

  /** Drops the state; with the mark of a write that was not sent by the queue. */
  forget(mark?: WriteMark): void {
    this.#state = undefined
    if (mark) this.#slotMark = mark.nonce
  }

  noteRequest(amounts: Amounts): void {
    for (const [name, milli] of amounts) {
      if (milli > (this.#largest.get(name) ?? 0n)) this.#largest.set(name, milli)
    }
  }

  noteDecided(): void {
    this.#hasDecided = true
  }

  noteLimitsChecked({source}: AppliedLimits, nowMs: number): void {
    this.#limitsCheckedAtMs = nowMs
    this.#source = source
  }

  /** Whether the state is young enough to refuse without a call: tokens that others return are not known. */
  isFresh(nowMs: number): boolean {
    if (!this.#state) return false
    const {denyCacheMs} = this.#settings
    const ageMs = nowMs - this.#state.atMs
    // A clock that was set back must not keep a refusal alive for longer than its time.
    return denyCacheMs > 0 && ageMs >= 0 && ageMs <= denyCacheMs
  }

  /** The first decision of this process takes the limits as they are stored; from the second on they are checked. */
  isCheckDue(nowMs: number): boolean {
    if (this.#limitsCheckedAtMs === undefined) return this.#hasDecided
    const ageMs = nowMs - this.#limitsCheckedAtMs
    return ageMs < 0 || ageMs >= this.#settings.configCheckMs
  }

  /** Drops the limits that a parent lacks; which these are is known once the configuration was read. */
  narrow(demand: Demand, nowMs: number): void {
    if (this.#source === undefined || !this.#state?.exists || this.isCheckDue(nowMs)) return
    leaveOutMissing(demand, this.#state.seen.record.state.limits)
  }

  /** A refusal that needs no call: even the largest balance consistent with the state is too small. */
  refusal(demand: Demand, nowMs: number): Refused | undefined {
    if (!this.#state?.exists) return undefined
    const {record} = this.#state.seen
    this.narrow(demand, nowMs)
    const {amounts} = demand
    // The usual case first: what is stored is enough.
    if ([...amounts].every(([name, milli]) => (record.state.limits.get(name)?.tokensMilli ?? 0n) >= milli))
      return undefined
    if (needsLimits(record, amounts) || this.isCheckDue(nowMs) || isBucketExpired(record, nowMs)) return undefined
    return wouldAdmit(record, amounts, nowMs) ? undefined : this.refused(amounts, record, nowMs)
  }

  refused(amounts: Amounts, record: BucketRecord, nowMs: number): Refused {
    return {admitted: false, amounts, record, nowMs, source: this.#source}
  }
}

export interface RefuseStep {
  readonly kind: 'refuse'
  readonly requests: readonly PendingRequest[]
  readonly record: BucketRecord
  readonly nowMs: number
}

/** A write that admits requests when it is applied. */
export interface WriteStep {
  readonly kind: 'consume' | 'consume-from-full' | 'create' | 'rewrite'
  readonly update: (mark: WriteMark) => BucketUpdate
  readonly admits: readonly PendingRequest[]
  readonly nowMs: number
  /** Refused before the write. */
  readonly refused?: RefuseStep
  /** To be judged by the state that the answer shows, at the instant of the decision. */
  readonly leftOver?: readonly PendingRequest[]
  /** Consumed without a refill, from a bucket that may have filled up since the last one. */
  readonly mayHaveOverflowed?: boolean
}

/** What a queue does next for the requests that are open. */
export type Step =
  | WriteStep
  | RefuseStep
  /** Read the limits in force, then create or rewrite the bucket. */
  | {readonly kind: 'apply-limits'; readonly state: KnownState}
  /** Drop the state: the next step reads the item by writing. */
  | {readonly kind: 'forget'}
  | {readonly kind: 'fill-shard'}
  | {readonly kind: 'repair-shard-count'}

/** What the next step follows from. */
export interface StepInput {
  readonly table: NamespaceTable
  readonly address: BucketAddress
  readonly state: KnownState | undefined
  readonly requests: readonly PendingRequest[]
  readonly nowMs: number
  readonly isCheckDue: boolean
  /** The state may refuse. */
  readonly isCertain: boolean
  /** Other clients have written in between again and again. */
  readonly isContended: boolean
  readonly repairPressure: boolean
  readonly settings: LimiterSettings
}

/** Decides the next step by what is known, without a call. */
export function nextStep(input: StepInput): Step {
  const {state, requests, nowMs, isContended, settings} = input
  if (!state) return consume(input, requests, true)
  if (!state.exists) return input.address.shard > 0 ? {kind: 'fill-shard'} : {kind: 'apply-limits', state}
  const {record} = state.seen
  if (record.shardCount > settings.maxShards) return {kind: 'repair-shard-count'}
  const share = shareOfRecord(record)
  const isChangeNeeded =
    input.isCheckDue || requests.some(({amounts}) => needsLimits(record, amounts)) || isBucketExpired(record, nowMs)
  if (isChangeNeeded || isOverfull(share)) return {kind: 'apply-limits', state}

  // Under contention a batch that waits for all of its tokens loses to every smaller one: it takes what is stored.
  const stored = chooseFitting(requests, storedTokens(record))
  const isWorthTaking = stored.others.length === 0 || (isContended && stored.fitting.length > 0)
  const amounts = sumAmounts(requests)
  const mayHaveOverflowed = hasFilledUp(share, amounts.keys(), nowMs)
  if (isWorthTaking && (!mayHaveOverflowed || isContended)) return consume(input, stored.fitting, mayHaveOverflowed)
  const bounds = mayHaveOverflowed ? fullnessFor(state.seen, share, amounts, nowMs) : []
  if (bounds.length > 0) {
    const ttlSeconds = renewedExpiry(record, share, settings.bucketTtlMultiplier, nowMs)
    const write = {amounts, requests: requestCount(requests), nowMs, ttlSeconds}
    const update: WriteStep['update'] = mark => fullBucketUpdate(input.table, record, bounds, write, mark)
    return {kind: 'consume-from-full', update, admits: requests, nowMs}
  }
  const {fitting} = chooseFitting(requests, plannedTokens(planBucket(state.seen, nowMs)))
  if (fitting.length > 0) return {kind: 'apply-limits', state}
  return input.isCertain ? {kind: 'refuse', requests, record, nowMs} : consume(input, requests, false)
}

/** Takes from the stored balance, which the write itself checks; refused, its answer shows the state. */
function consume(
  {table, address, nowMs, repairPressure}: StepInput,
  admits: readonly PendingRequest[],
  mayHaveOverflowed: boolean,
): WriteStep {
  const amounts = sumAmounts(admits)
  const options = {nowMs, requests: requestCount(admits), repairPressure}
  const update: WriteStep['update'] = mark => consumeUpdate(table, address, amounts, mark, options)
  return {kind: 'consume', update, admits, nowMs, mayHaveOverflowed}
}

/** Requests that a state refuses at the instant of a decision, in one step. */
export function refuseMisfits(requests: readonly PendingRequest[], record: BucketRecord, nowMs: number): RefuseStep {
  const misfits = requests.filter(({amounts}) => !wouldAdmit(record, amounts, nowMs))
  return {kind: 'refuse', requests: misfits, record, nowMs}
}

/** Reads an answer; `item` is undefined when there was none. */
export function stateIn(item: Item | undefined, atMs: number): KnownState {
  const stored = item && decodeBucket(item)
  if (!stored) return {exists: false, atMs, residue: new Map()}
  if (stored.kind === 'ghost') return {exists: false, atMs, residue: stored.residue}
  return {exists: true, atMs, seen: stored}
}

/** The part of a bucket's parameters that belongs to this shard. */
export function shareOfRecord(record: BucketRecord): BucketState {
  return shareOfBucket(record.state, record.shard, record.shardCount)
}

/** Whether the table may drop the item at any moment: it must be renewed before it is used. */
export function isBucketExpired(record: BucketRecord, nowMs: number): boolean {
  return record.ttlSeconds !== undefined && record.ttlSeconds <= Math.floor(nowMs / 1000)
}

const wouldAdmit = (record: BucketRecord, amounts: Amounts, nowMs: number): boolean =>
  tryConsumeBucket(shareOfRecord(record), amounts, nowMs).admitted

/** Stored balances, without the refill since. */
const storedTokens = (record: BucketRecord): Map<string, bigint> =>
  new Map([...record.state.limits].map(([name, limit]) => [name, limit.tokensMilli]))

/** Whether only the configuration can tell: a limit is not in the bucket, or could never hold the amount. */
function needsLimits({state}: BucketRecord, amounts: Amounts): boolean {
  return [...amounts].some(([name, milli]) => {
    const limit = state.limits.get(name)
    return !limit || milli > limit.capacityMilli
  })
}

/** Every limit takes fifteen operators of the 300, and some 150 of the 4,096 characters, that an expression may have. */
const MOST_LIMITS_IN_BOUNDS = 12

/** Bounds within which the bucket is full whatever others have written, if it is full as it was seen and holds enough. */
function fullnessFor(seen: SeenBucket, share: BucketState, amounts: Amounts, nowMs: number): FullnessBounds[] {
  if (seen.incomplete.size > 0 || seen.record.state.limits.size > MOST_LIMITS_IN_BOUNDS) return []
  const isEnough = [...amounts].every(([name, milli]) => milli <= (share.limits.get(name)?.capacityMilli ?? 0n))
  return isEnough ? boundsOfFullness(share, amounts, nowMs) : []
}

/** The expiry of a full bucket that is used now, in epoch seconds; `undefined` for one that never expires. */
function renewedExpiry(
  record: BucketRecord,
  share: BucketState,
  multiplier: number,
  nowMs: number,
): number | undefined {
  if (record.ttlSeconds === undefined || multiplier <= 0) return undefined
  return expiresAtSeconds(share.limits.values(), multiplier, nowMs)
}
