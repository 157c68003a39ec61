import {hasKinds} from '../../core/buckets/bucket.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {type Balance, type Rate, refill, retryAfterMs, shareOfRate} from '../../core/token-math.js'
import {storedSlots} from '../../insight/holders/in-flight.js'
import type {ShardedBucket} from '../../repository/buckets/buckets.js'
import {type BucketView, type LimitLevel, viewBucket} from '../../repository/buckets/view.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import type {SlotLimit} from '../../schema/slot-attributes.js'

export interface LiveLevel extends LimitLevel {
  /** Set for in-flight limits: `level` counts free slots. Absent for other limits. */
  readonly inFlight?: true | undefined
}

export type LiveView = BucketView<LiveLevel>

type VisitLevel = (
  name: string,
  level: number,
  capacity: number,
  debt: number,
  refillPerSecond: number,
  isSoft: boolean,
  isInFlight: boolean,
) => void

interface Shape {
  readonly names: readonly string[]
  readonly counts: readonly number[]
}

/** Plain numbers, to save memory: there may be ten thousand buckets. */
interface Shares {
  readonly shape: Shape
  /** Per share: refilledAtMs, fullAtMs, tokensMilli, capacityMilli, refillAmountMilli, refillPeriodMs, remainder. */
  readonly numbers: readonly number[]
  /** By index: shares that plain numbers would not refill exactly. */
  readonly large: ReadonlyMap<number, Rate & Balance> | undefined
  readonly slots: SlotLimits | undefined
}

type SlotLimits = ReadonlyMap<string, SlotLimit>

const FIELDS = 7

const shapes = new Map<string, Shape>()
const sharesOfBucket = new WeakMap<ShardedBucket, Shares>()

/** Sums over all shards, sorted by limit name, in-flight limits last; equal to those of `viewLevels`. */
export function levelsAt(bucket: ShardedBucket, nowMs: number): LiveLevel[] {
  const levels: LiveLevel[] = []
  visitLevels(bucket, nowMs, (name, level, capacity, debt, refillPerSecond, isSoft, isInFlight) => {
    const kind = {...(isSoft && {soft: true as const}), ...(isInFlight && {inFlight: true as const})}
    levels.push({name, level, capacity, debt, refillPerSecond, ...kind})
  })
  return levels
}

/** With in-flight limits as levels. */
export function viewLevels(bucket: ShardedBucket, nowMs: number): LiveView {
  const view = viewBucket(bucket, nowMs)
  const slots: LiveLevel[] = []
  visitSlots(storedSlots(bucket)?.limits, (name, level, capacity, debt, refillPerSecond) => {
    slots.push({name, level, capacity, debt, refillPerSecond, inFlight: true})
  })
  return slots.length === 0 ? view : {...view, limits: [...view.limits, ...slots]}
}

/** Slots do not refill, and more slots in use than a lowered capacity are no debt. */
function visitSlots(slots: SlotLimits | undefined, visit: VisitLevel): void {
  if (!slots || slots.size === 0) return
  for (const [name, {free, capacity}] of [...slots].sort(([a], [b]) => (a < b ? -1 : 1)))
    visit(name, free, capacity, 0, 0, false, true)
}

export function visitLevels(bucket: ShardedBucket, nowMs: number, visit: VisitLevel): void {
  if (!isPlain(bucket)) {
    for (const {name, level, capacity, debt, refillPerSecond, soft} of viewBucket(bucket, nowMs).limits)
      visit(name, level, capacity, debt, refillPerSecond, soft === true, false)
    visitSlots(storedSlots(bucket)?.limits, visit)
    return
  }
  const {shape, numbers, large, slots} = sharesOf(bucket)
  let share = 0
  for (const [at, name] of shape.names.entries()) {
    let levelMilli = 0
    let capacityMilli = 0
    let debtMilli = 0
    let refillPerSecond = 0
    for (const end = share + (shape.counts[at] ?? 0); share < end; share++) {
      const tokensMilli = tokensAt(numbers, share * FIELDS, large?.get(share), nowMs)
      levelMilli += tokensMilli
      capacityMilli += numbers[share * FIELDS + 3] as number
      if (tokensMilli < 0) debtMilli -= tokensMilli
      refillPerSecond += (numbers[share * FIELDS + 4] as number) / (numbers[share * FIELDS + 5] as number)
    }
    visit(name, levelMilli / 1000, capacityMilli / 1000, debtMilli / 1000, refillPerSecond, false, false)
  }
  visitSlots(slots, visit)
}

/** Quotas and schedules need the calendar, so `viewBucket` computes them. */
function isPlain(bucket: ShardedBucket): boolean {
  if (sharesOfBucket.has(bucket)) return true
  return recordsOf(bucket).every(({state}) => !hasKinds(state))
}

/** Of shards that exist; of a ghost, only refunds remain. */
export const recordsOf = ({shards}: ShardedBucket): BucketRecord[] =>
  shards.flatMap(shard => (shard.kind === 'bucket' ? [shard.record] : []))

/** Equal to `refill`, but several times as fast as with bigints. */
function tokensAt(
  numbers: readonly number[],
  from: number,
  large: (Rate & Balance) | undefined,
  nowMs: number,
): number {
  const elapsedMs = nowMs - (numbers[from] as number)
  if (large) return Number(refill(large, large, elapsedMs).tokensMilli)
  const tokensMilli = numbers[from + 2] as number
  const capacityMilli = numbers[from + 3] as number
  if (nowMs >= (numbers[from + 1] as number)) return capacityMilli
  if (elapsedMs <= 0) return tokensMilli
  const earned = elapsedMs * (numbers[from + 4] as number) + (numbers[from + 6] as number)
  return Math.min(capacityMilli, tokensMilli + Math.floor(earned / (numbers[from + 5] as number)))
}

function sharesOf(bucket: ShardedBucket): Shares {
  const known = sharesOfBucket.get(bucket)
  if (known) return known
  const byName = new Map<string, {limit: Rate & Balance; refilledAtMs: number}[]>()
  for (const {state, shard, shardCount} of recordsOf(bucket)) {
    for (const [name, limit] of state.limits) {
      if (name === WRITE_PRESSURE_LIMIT) continue
      const share = {
        limit: {...limit, ...shareOfRate(name, limit, shard, shardCount)},
        refilledAtMs: state.refilledAtMs,
      }
      byName.set(name, [...(byName.get(name) ?? []), share])
    }
  }
  const sorted = [...byName].sort(([a], [b]) => (a < b ? -1 : 1))
  const all = sorted.flatMap(([, shares]) => shares)
  const large = new Map(all.flatMap(({limit}, at) => (isExact(limit) ? [] : [[at, limit] as const])))
  const found = {
    shape: shapeOf(sorted.map(([name, {length}]) => [name, length])),
    // The copy has no spare capacity.
    numbers: all.flatMap(({limit, refilledAtMs}) => numbersOf(limit, refilledAtMs)).slice(),
    large: large.size === 0 ? undefined : large,
    slots: storedSlots(bucket)?.limits,
  }
  sharesOfBucket.set(bucket, found)
  return found
}

function numbersOf(limit: Rate & Balance, refilledAtMs: number): number[] {
  const {tokensMilli, capacityMilli, refillAmountMilli, refillPeriodMs, remainder} = limit
  const fullAtMs = refilledAtMs + untilFullMs(limit)
  const amounts = [tokensMilli, capacityMilli, refillAmountMilli].map(Number)
  return [refilledAtMs, fullAtMs, ...amounts, refillPeriodMs, Number(remainder)]
}

/** At least 1 ms: without elapsed time, even a balance above a lowered capacity stays unchanged. */
const untilFullMs = (limit: Rate & Balance): number => Math.max(1, retryAfterMs(limit, limit, limit.capacityMilli))

/** With safe integers throughout, the division never rounds up to the next whole number. */
function isExact(limit: Rate & Balance): boolean {
  const mostEarned = untilFullMs(limit) * Number(limit.refillAmountMilli) + limit.refillPeriodMs
  return Number.isSafeInteger(mostEarned) && Number.isSafeInteger(Number(limit.tokensMilli))
}

function shapeOf(limits: ReadonlyArray<readonly [name: string, count: number]>): Shape {
  const key = limits.flat().join('#')
  const shape = shapes.get(key) ?? {names: limits.map(([name]) => name), counts: limits.map(([, count]) => count)}
  shapes.set(key, shape)
  return shape
}
