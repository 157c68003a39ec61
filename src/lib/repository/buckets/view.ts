import {type BucketLimit, type BucketState, refillBucket} from '../../core/buckets/bucket.js'
import {shareOfBucket, timeUntilFull} from '../../core/buckets/shards.js'
import {sessionEndMs, tellsUse} from '../../core/limits/limit-kind.js'
import type {LimitState} from '../../core/limits/limit-state.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {isoMilliseconds, isoSeconds} from '../../schema/attribute-value.js'
import {type BucketRecord, type StoredBucket, WRITE_PRESSURE_PER_WRITE} from '../../schema/bucket-record.js'
import {addressOf, type ShardedBucket} from './buckets.js'

/** The level of one limit, in tokens, as commands and the live view show it. A shard's share may be fractional. */
export interface LimitLevel {
  readonly name: string
  /** Negative in debt; above the capacity after the capacity was lowered. */
  readonly level: number
  readonly capacity: number
  readonly debt: number
  readonly refillPerSecond: number
  /** Set for soft limits, which meter but never refuse. Absent for other limits. */
  readonly soft?: true | undefined
  /** How a quota resets: by the calendar, or as a session from first use. Absent for rates. */
  readonly quota?: 'calendar' | 'session' | undefined
  /** When a quota is full again, ISO 8601 in UTC. Absent for rates, and for sessions that are not open. */
  readonly resetsAt?: string | undefined
  /** Tokens added to a quota's capacity until its reset. Absent if there are none. */
  readonly toppedUp?: number | undefined
  /** Tokens used of a quota in its period. Absent for rates and closed sessions, and if the balance does not show it. */
  readonly used?: number | undefined
}

/** One shard now, including the refill since its last write. */
export interface ShardView<State = LimitState> {
  readonly shard: number
  /** A deleted shard that a late refund created again. Not part of any sum. */
  readonly isGhost: boolean
  readonly limits: readonly State[]
  /** Limits without parameters; the next request repairs them. */
  readonly incomplete: readonly string[]
  /** Used fraction of the 1,000 writes per second that an item takes; `null` for a ghost. */
  readonly writePressure: number | null
  /** Admitted writes since the item was created. */
  readonly writes: number
  readonly refilledAt: string | null
  readonly refillAgeMs: number | null
  /** When the table may delete it; `null`: never. */
  readonly expiresAt: string | null
}

/** A bucket as it is now. */
export interface BucketView<State = LimitState> {
  readonly entity: string
  readonly resource: string
  readonly parent: string | null
  readonly cascade: boolean
  readonly shardCount: number
  /** A switch refuses every request. */
  readonly isDisabled: boolean
  /** When the bypass ends unless a check of the configuration renews it, ISO 8601; `null` while limits apply. */
  readonly bypassedUntil: string | null
  /** The sum over all shards. */
  readonly limits: readonly State[]
  readonly shards: readonly ShardView<State>[]
}

export type BucketLevels = BucketView<LimitLevel>
export type ShardLevels = ShardView<LimitLevel>

export function switchWord({
  isDisabled,
  bypassedUntil,
}: Pick<BucketLevels, 'isDisabled' | 'bypassedUntil'>): string | undefined {
  if (isDisabled) return 'disabled'
  return bypassedUntil === null ? undefined : 'bypassed'
}

/**
 * Whole tokens per request, rounded up, at least 1, sorted by limit. Per write if only clients that count no requests
 * have written (`admitted` is 0). `undefined`: none was counted, or the counters do not show it.
 */
export function averageRequest(bucket: ShardedBucket, admitted: number): Map<string, number> | undefined {
  const consumed = new Map<string, bigint>()
  let writes = 0
  for (const stored of bucket.shards) {
    if (stored.kind === 'ghost') continue
    for (const [name, {consumedMilli}] of stored.record.state.limits) {
      if (name === WRITE_PRESSURE_LIMIT) writes += Number(consumedMilli / WRITE_PRESSURE_PER_WRITE)
      else consumed.set(name, (consumed.get(name) ?? 0n) + consumedMilli)
    }
  }
  if (admitted <= 0) return averageOf(consumed, writes)
  // More writes than requests and settlements: by other clients too, unless a limit counts exactly these requests.
  const isOurs = writes <= 2 * admitted || [...consumed.values()].includes(BigInt(admitted) * 1000n)
  return isOurs ? averageOf(consumed, admitted) : undefined
}

/** As `averageRequest`. */
export function averageOf(
  consumedMilli: ReadonlyMap<string, bigint>,
  requests: number,
): Map<string, number> | undefined {
  if (requests <= 0) return undefined
  const average = (milli: bigint) => Math.max(1, Math.ceil(tokens(milli) / requests))
  const averages = Array.from(consumedMilli, ([name, milli]) => [name, average(milli)] as const)
  return new Map(averages.sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** The same with complete states of limits. */
export function viewStates(bucket: ShardedBucket, nowMs: number): BucketView {
  const levels = viewBucket(bucket, nowMs)
  const {entity, resource} = levels
  const shares = bucket.shards.map(stored => (stored.kind === 'ghost' ? [] : [refilledShare(stored.record, nowMs)]))
  const statesOf = (limits: readonly LimitLevel[], held: readonly BucketState[]): LimitState[] =>
    limits.map(({name, level, capacity, debt: _, refillPerSecond: __, ...quota}) => {
      const parts = held.flatMap(share => share.limits.get(name) ?? [])
      return {
        ...{...quota, name, entity, resource, level: 'entity', capacity, available: level},
        refillAmount: tokens(parts.reduce((sum, {refillAmountMilli}) => sum + refillAmountMilli, 0n)),
        refillPeriodSeconds: (parts[0]?.refillPeriodMs ?? 0) / 1000,
        fullAfterMs: timeUntilFull(held, name, nowMs),
        ...{requested: 0, exceeded: false, retryAfterMs: 0},
      }
    })
  const shards = levels.shards.map((shard, at) => ({...shard, limits: statesOf(shard.limits, shares[at] ?? [])}))
  const whole = statesOf(levels.limits, shares.flat())
  return {...levels, limits: whole.map(state => ({...state, available: Math.floor(state.available)})), shards}
}

function refilledShare({state, shard, shardCount}: BucketRecord, nowMs: number): BucketState {
  return refillBucket(shareOfBucket(state, shard, shardCount), nowMs)
}

export function viewBucket(bucket: ShardedBucket, nowMs: number): BucketLevels {
  const {entity, resource, shardCount} = bucket
  const shards = bucket.shards.map(shard => viewShard(shard, nowMs))
  const records = bucket.shards.flatMap(shard => (shard.kind === 'bucket' ? [shard.record] : []))
  const [first] = records
  const bypassed = records.flatMap(({bypassUntilMs}) => bypassUntilMs ?? [])
  return {
    entity,
    resource,
    parent: first?.parent ?? null,
    cascade: first?.cascade ?? false,
    shardCount,
    isDisabled: first?.isDisabled ?? false,
    bypassedUntil: bypassed.length === 0 ? null : isoMilliseconds(Math.max(...bypassed)),
    limits: together(shards),
    shards,
  }
}

function viewShard(stored: StoredBucket, nowMs: number): ShardLevels {
  const {shard} = addressOf(stored)
  if (stored.kind === 'ghost') {
    const nothing = {writePressure: null, writes: 0, refilledAt: null, refillAgeMs: null, expiresAt: null}
    return {shard, isGhost: true, limits: [], incomplete: [...stored.residue.keys()], ...nothing}
  }
  const {state, ttlSeconds} = stored.record
  const {limits} = refilledShare(stored.record, nowMs)
  const pressure = limits.get(WRITE_PRESSURE_LIMIT)
  return {
    shard,
    isGhost: false,
    limits: byName(
      [...limits].flatMap(([name, limit]) =>
        name === WRITE_PRESSURE_LIMIT ? [] : [levelOf(name, limit, quotaLevel(state.limits.get(name), nowMs), nowMs)],
      ),
    ),
    incomplete: [...stored.incomplete.keys()].filter(name => name !== WRITE_PRESSURE_LIMIT),
    writePressure: pressure ? 1 - Number(pressure.tokensMilli) / Number(pressure.capacityMilli) : 0,
    writes: tokens(pressure?.consumedMilli ?? 0n),
    refilledAt: isoMilliseconds(state.refilledAtMs),
    refillAgeMs: Math.max(0, nowMs - state.refilledAtMs),
    expiresAt: ttlSeconds === undefined ? null : isoSeconds(ttlSeconds * 1000),
  }
}

/** Reads the stored limit: in a refilled one, an ended session would seem open again. */
export function quotaLevel(stored: BucketLimit | undefined, nowMs: number): Pick<LimitLevel, 'quota' | 'resetsAt'> {
  const quota = stored?.kind?.quota
  if (!stored || !quota) return {}
  const atMs = quota.resets ? quota.resets.nextMs(nowMs) : sessionEndMs(stored)
  return {
    quota: quota.resets ? 'calendar' : 'session',
    ...(atMs !== undefined && atMs > nowMs && {resetsAt: isoMilliseconds(atMs)}),
  }
}

function levelOf(
  name: string,
  limit: BucketLimit,
  quota: Pick<LimitLevel, 'quota' | 'resetsAt'>,
  nowMs: number,
): LimitLevel {
  const topUpMilli = limit.kind?.quota?.topUpMilli ?? 0n
  const isUseKnown = quota.resetsAt !== undefined && tellsUse(limit, nowMs)
  return {
    ...quota,
    ...(isUseKnown && {used: tokens(limit.capacityMilli - limit.tokensMilli)}),
    ...(topUpMilli > 0n && {toppedUp: tokens(topUpMilli)}),
    // Clients renew the soft-until instant as long as the configuration says so.
    ...(limit.kind?.softUntilMs !== undefined && {soft: true}),
    name,
    level: tokens(limit.tokensMilli),
    capacity: tokens(limit.capacityMilli),
    debt: limit.tokensMilli < 0n ? tokens(-limit.tokensMilli) : 0,
    refillPerSecond: Number(limit.refillAmountMilli) / limit.refillPeriodMs,
  }
}

function together(shards: readonly ShardLevels[]): LimitLevel[] {
  const sums = new Map<string, LimitLevel>()
  for (const limit of shards.flatMap(({limits}) => limits)) {
    const soFar = sums.get(limit.name)
    const add = (field: 'level' | 'capacity' | 'debt' | 'refillPerSecond') =>
      rounded((soFar?.[field] ?? 0) + limit[field])
    const sum = {level: add('level'), capacity: add('capacity'), debt: add('debt')}
    const toppedUp = rounded((soFar?.toppedUp ?? 0) + (limit.toppedUp ?? 0))
    const isUseKnown = limit.used !== undefined && (soFar === undefined || soFar.used !== undefined)
    const used = isUseKnown ? rounded((soFar?.used ?? 0) + (limit.used ?? 0)) : undefined
    const {used: _, ...both} = {...limit, ...soFar, ...sum, ...(toppedUp > 0 && {toppedUp})}
    sums.set(limit.name, {...both, refillPerSecond: add('refillPerSecond'), ...(used !== undefined && {used})})
  }
  return byName([...sums.values()])
}

const tokens = (milli: bigint): number => Number(milli) / 1000

/** Removes rounding errors of summed thousandths. */
const rounded = (value: number): number => Math.round(value * 1e6) / 1e6

const byName = (limits: LimitLevel[]): LimitLevel[] => limits.sort((a, b) => (a.name < b.name ? -1 : 1))
