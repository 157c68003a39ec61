import {
  type Amounts,
  type BucketState,
  chooseFitting,
  expiresAtSeconds,
  hasKinds,
  inForceAt,
  isAheadOfTime,
  isCurrentAt,
  sumAmounts,
} from '../../core/buckets/bucket.js'
import {
  boundsOfFullness,
  boundsOfRoom,
  boundsOfUnseenRoom,
  isOverfull,
  MOST_LIMITS_IN_BOUNDS,
  sharedTake,
} from '../../core/buckets/fullness.js'
import {hasWindowToStart} from '../../core/buckets/kind-refill.js'
import {shareOfRateAt} from '../../core/buckets/shards.js'
import {hasCalendar, isRenewalDue, type KindedRate} from '../../core/limits/limit-kind.js'
import {
  type AdmissionWrite,
  admissionUpdate,
  countBypassed,
  type RoomDemand,
  takeFromFull,
  takeShared,
  takeStored,
} from '../../repository/buckets/consume-write.js'
import type {WriteBasis} from '../../repository/buckets/marked-write.js'
import {
  givableMilli,
  isFirstOfSeveral,
  planBucket,
  plannedTokens,
  type SeenBucket,
} from '../../repository/buckets/plan.js'
import type {BucketAddress, BucketUpdate, WriteMark} from '../../repository/buckets/writes.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {exceedsCapacity} from '../holders/slot-account.js'
import type {LimiterSettings} from '../request/options.js'
import {type PendingRequest, requestCount} from '../request/pending-request.js'
import {bookInOrder, canBook, wouldBook} from './booking.js'
import {
  isBucketExpired,
  type KnownBucket,
  type KnownState,
  needsLimits,
  shardWouldAdmit,
  shareOfRecord,
} from './known-bucket.js'
import type {BatchedSettlements} from './settlements.js'

export interface RefuseStep {
  readonly kind: 'refuse'
  readonly requests: readonly PendingRequest[]
  readonly record: BucketRecord
  readonly nowMs: number
}

export interface WriteStep {
  readonly kind: 'consume' | 'consume-from-full' | 'bypass' | 'create' | 'rewrite'
  readonly update: (mark: WriteMark) => BucketUpdate
  readonly basis: WriteBasis
  readonly admits: readonly PendingRequest[]
  /** Requests among them start when refill has repaid the debt that they leave. */
  readonly isBooked?: boolean
  readonly isBypassed?: boolean | undefined
  readonly nowMs: number
  /** The last seen state refuses: the write checks whether it still does. */
  readonly isProbe?: boolean
  readonly refused?: RefuseStep
  /** It stores other in-flight limits, so it cannot take or return slots as well. */
  readonly changesSlots?: boolean
  /** Judged by the state in the answer, at the instant of the decision. */
  readonly leftOver?: readonly PendingRequest[]
}

interface ApplyLimitsStep {
  readonly kind: 'apply-limits'
  readonly state: KnownState
}

/** After `forget`, the next step reads the item by writing. */
export type QueueStep = WriteStep | RefuseStep | {readonly kind: 'forget' | 'fill-shard' | 'repair-shard-count'}

interface UnsupportedStep {
  readonly kind: 'unsupported'
  readonly record: BucketRecord
}

/** Predicted, undivided rates of an unread bucket. */
export interface SupposedBucket {
  /** Empty if neither this bucket nor others of its resource are known. */
  readonly rates: ReadonlyMap<string, KindedRate>
  readonly shardCount: number
}

export interface StepInput {
  readonly table: NamespaceTable
  readonly settings: LimiterSettings
  readonly address: BucketAddress
  readonly bucket: Pick<KnownBucket, 'state' | 'isCheckDue' | 'needsPressureRepair'>
  readonly requests: readonly PendingRequest[]
  /** The instant of the decision: later than `clockMs` if another client's clock moved the bucket ahead. */
  readonly nowMs: number
  readonly clockMs: number
  /** Predicted state of an unread bucket; a write based on it fails if it is wrong. */
  readonly supposed: () => SupposedBucket
  /** The state may refuse. */
  readonly isCertain: boolean
  readonly isContended: boolean
  /** About how long a write takes. */
  readonly roundTripMs: number
}

export function nextStep(input: StepInput): QueueStep | ApplyLimitsStep | UnsupportedStep {
  const {address, bucket, requests, nowMs, clockMs, isContended, settings} = input
  const {state} = bucket
  if (!state) return consume(input, requests, unseenRoom(input))
  if (!state.exists) return address.shard > 0 ? {kind: 'fill-shard'} : {kind: 'apply-limits', state}
  const {record} = state.seen
  if (record.unsupported) {
    // Without bounds, the write only shows the current bucket.
    const room = {bounds: [], shardCount: record.shardCount}
    return input.isCertain ? {kind: 'unsupported', record} : consume(input, requests, room)
  }
  // The configuration decides whether the switch still stands.
  if (record.isDisabled)
    return input.isCertain ? {kind: 'apply-limits', state} : consume(input, requests, unseenRoom(input))
  if (record.shardCount > settings.maxShards) return {kind: 'repair-shard-count'}
  if (record.bypassUntilMs !== undefined) return bypass(input, state)
  const share = shareOfRecord(record)
  const isOutdated =
    bucket.isCheckDue(clockMs) ||
    isBucketExpired(record, nowMs) ||
    isStale(record, share, nowMs) ||
    isOverfull(share, nowMs) ||
    isAheadOfTime(share, nowMs)
  const needsConfiguration = requests.some(
    ({amounts, slots}) =>
      needsLimits(record, amounts, nowMs) || (slots.size > 0 && exceedsCapacity(slots, record.slots)),
  )
  if (isOutdated || needsConfiguration) return {kind: 'apply-limits', state}

  const amounts = sumAmounts(requests)
  const stored = chooseFitting(requests, storedTokens(record, nowMs), amounts)
  const room = seenRoom(record, share, amounts, nowMs)
  const hasRoom = room.bounds.length > 0
  if (stored.others.length === 0 && hasRoom) return consume(input, requests, room)
  if (canBook(record, requests)) {
    const refillsFromMs = Math.max(record.state.refilledAtMs, clockMs)
    if (bookInOrder(requests, plannedAt(state.seen, nowMs), record.state.limits, refillsFromMs))
      return {kind: 'apply-limits', state}
  }
  const shared = isContended ? takeTogether(input, state.seen) : undefined
  if (shared) return shared
  const full = hasRoom ? undefined : consumeFromFull(input, state.seen, share, amounts)
  if (full) return full
  // A batch that waits for all of its tokens loses to every smaller one: it takes what is stored.
  if (isContended && stored.fitting.length > 0 && hasRoom) return consume(input, stored.fitting, room)
  if (chooseFitting(requests, plannedAt(state.seen, nowMs), amounts).fitting.length > 0)
    return {kind: 'apply-limits', state}
  if (input.isCertain) return {kind: 'refuse', requests, record, nowMs}
  return {...consume(input, requests, unseenRoom(input)), isProbe: true}
}

/** `undefined` unless it is the usual write: all requested and charged tokens are stored, nothing overflowed. */
export function stepWithSettlements(input: StepInput, batched: BatchedSettlements): WriteStep | undefined {
  const {bucket, requests, nowMs} = input
  const {state} = bucket
  if (!state?.exists || nextStep(input).kind !== 'consume') return undefined
  const {record} = state.seen
  const amounts = sumAmounts([...requests, {amounts: batched.charges}])
  const {others} = chooseFitting([{amounts}], storedTokens(record, nowMs), amounts)
  const isDebt = (name: string) => (record.state.limits.get(name)?.tokensMilli ?? 0n) < (amounts.get(name) ?? 0n)
  const room = seenRoom(record, shareOfRecord(record), amounts, nowMs)
  if (others.length > 0 || room.bounds.length === 0 || [...batched.charges.keys()].some(isDebt)) return undefined
  return consume(input, requests, room, batched)
}

function admission(
  {table, address, nowMs}: StepInput,
  kind: WriteStep['kind'],
  write: AdmissionWrite,
  admits: readonly PendingRequest[],
): WriteStep {
  const update: WriteStep['update'] = mark => admissionUpdate(table, address, write, mark)
  const basis = write.seen ? basisOf(write.seen) : ({kind: 'refill', latestMs: nowMs} as const)
  return {kind, update, basis, admits, isBypassed: write.isBypassed, nowMs}
}

function bypass(input: StepInput, state: KnownState & {readonly exists: true}): WriteStep | ApplyLimitsStep {
  const {bucket, requests, nowMs, clockMs} = input
  const {record} = state.seen
  const isOutdated = bucket.isCheckDue(clockMs) || isBucketExpired(record, nowMs) || isRenewalDue(record, nowMs)
  const amounts = sumAmounts(requests)
  const cannotCount = ([name]: readonly [string, bigint]) => {
    const limit = record.state.limits.get(name)
    // If another shard opened the window, usage counted before it starts here would count as taken.
    return !limit || hasWindowToStart(limit, record.state.refilledAtMs, nowMs)
  }
  if (isOutdated || [...amounts].some(cannotCount)) return {kind: 'apply-limits', state}
  const options = {nowMs, requests: requestCount(requests), repairsPressure: bucket.needsPressureRepair}
  return admission(input, 'bypass', countBypassed(amounts, record, options), requests)
}

/** Takes from the stored balance, checked by the write itself; if refused, its answer shows the state. */
function consume(
  input: StepInput,
  admits: readonly PendingRequest[],
  room: RoomDemand,
  batched?: BatchedSettlements,
): WriteStep {
  const {nowMs, bucket} = input
  const amounts = sumAmounts(batched ? [...admits, {amounts: batched.charges}] : admits)
  const requests = requestCount(admits) + (batched?.requests ?? 0)
  const options = {nowMs, requests, repairsPressure: bucket.needsPressureRepair, returns: batched?.returns}
  return admission(input, 'consume', takeStored(amounts, room, options), admits)
}

/** A write that concurrent writes do not invalidate; `undefined` if the state does not allow one. */
function takeTogether(input: StepInput, seen: SeenBucket): WriteStep | undefined {
  const {bucket, requests, nowMs, roundTripMs} = input
  const {record} = seen
  const planned = plannedAt(seen, nowMs)
  // A third of the tokens: a write that needs all of them fails if another process takes any.
  const part = new Map([...planned].map(([name, milli]) => [name, milli / 3n]))
  const some = chooseFitting(requests, part).fitting
  const admits = some.length > 0 ? some : chooseFitting(requests, planned).fitting.slice(0, 1)
  if (admits.length === 0) return undefined
  const amounts = sumAmounts(admits)
  const take = sharedTake(shareOfRecord(record), amounts, nowMs, roundTripMs)
  if (!take || take.limits.size > MOST_LIMITS_IN_BOUNDS) return undefined
  const options = {requests: requestCount(admits), nowMs, repairsPressure: bucket.needsPressureRepair}
  return admission(input, 'consume', takeShared(amounts, record, take, options), admits)
}

const plannedAt = (seen: SeenBucket, nowMs: number): ReadonlyMap<string, bigint> =>
  plannedTokens(planBucket(seen, nowMs, undefined, {opensSessions: true}))

export const basisOf = ({limitsRevision}: BucketRecord): WriteBasis => ({kind: 'revision', revision: limitsRevision})

/** Without bounds if a limit may have overflowed. */
function seenRoom(record: BucketRecord, share: BucketState, amounts: Amounts, nowMs: number): RoomDemand {
  const bounds = boundsOfRoom(share, takenNames(amounts), nowMs)
  return {bounds, shardCount: record.shardCount, seen: record, isScheduled: isScheduled(record.state.limits)}
}

/** For an unread bucket. Unless it is as predicted and has not overflowed, the write only shows it. */
function unseenRoom({address, supposed, requests, nowMs}: StepInput): RoomDemand {
  const {rates, shardCount} = supposed()
  const names = takenNames(sumAmounts(requests))
  const shares = new Map(
    [...rates].map(([name, rate]) => [name, shareOfRateAt(name, rate, address.shard, shardCount, nowMs)]),
  )
  const bounds = boundsOfUnseenRoom(shares, names, nowMs)
  const known = {shardCount, isScheduled: isScheduled(rates)}
  return bounds.length > 0 ? {bounds, ...known, supposed: rates} : {bounds, ...known}
}

function takenNames(amounts: Amounts): string[] {
  const names: string[] = []
  for (const [name, milli] of amounts) if (milli > 0n) names.push(name)
  return names
}

export function refuseMisfits(requests: readonly PendingRequest[], record: BucketRecord, nowMs: number): RefuseStep {
  // A request above the capacity is not refused: it fails.
  const misfits = requests.filter(request => {
    const {amounts} = request
    if (needsLimits(record, amounts, nowMs)) return false
    return !shardWouldAdmit(record, amounts, nowMs) && !wouldBook(record, request, nowMs)
  })
  return {kind: 'refuse', requests: misfits, record, nowMs}
}

function storedTokens({state}: BucketRecord, nowMs: number): Map<string, bigint> {
  const tokensMilli = new Map<string, bigint>()
  for (const [name, limit] of state.limits) tokensMilli.set(name, givableMilli(limit, nowMs))
  return tokensMilli
}

/** Whether the calendar, a session or another client requires a write that updates the bucket. */
function isStale({validUntilMs, state}: BucketRecord, share: BucketState, nowMs: number): boolean {
  if (validUntilMs !== undefined) return validUntilMs <= nowMs || !isCurrentAt(share, nowMs)
  return hasKinds(state) && (isScheduled(state.limits) || !isCurrentAt(share, nowMs))
}

function isScheduled(limits: ReadonlyMap<string, KindedRate>): boolean {
  for (const limit of limits.values()) if (hasCalendar(limit)) return true
  return false
}

/** `undefined` unless the bucket was full when seen and holds enough: then bounds show that it is full, whatever others wrote. */
function consumeFromFull(
  input: StepInput,
  {record, incomplete}: SeenBucket,
  share: BucketState,
  amounts: Amounts,
): WriteStep | undefined {
  const {requests, nowMs} = input
  const {bucketTtlMultiplier: multiplier} = input.settings
  if (incomplete.size > 0 || record.state.limits.size > MOST_LIMITS_IN_BOUNDS) return undefined
  const held = inForceAt(share, nowMs).limits
  for (const [name, milli] of amounts) {
    const limit = held.get(name)
    if (!limit || milli > (limit.kind?.quota ? givableMilli(limit, nowMs) : limit.capacityMilli)) return undefined
  }
  const bounds = boundsOfFullness(share, amounts, nowMs)
  if (bounds.length === 0) return undefined
  let ttlSeconds: number | null | undefined
  if (record.ttlSeconds !== undefined && multiplier > 0)
    ttlSeconds = isFirstOfSeveral(record) ? null : expiresAtSeconds(share.limits.values(), multiplier, nowMs)
  const options = {requests: requestCount(requests), nowMs, ttlSeconds}
  return admission(input, 'consume-from-full', takeFromFull(amounts, record, bounds, options), requests)
}
