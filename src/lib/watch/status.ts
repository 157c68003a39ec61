import type {LimitLevel} from '../repository/buckets/view.js'
import {visitLevels} from './levels.js'
import type {Reading, RowStatus} from './model.js'

/** Below this part of its capacity a limit is near its end. */
const NEAR_PART = 0.2
/** A limit that will be empty within this time is near its end too. */
const NEAR_MS = 60_000

const SEVERITY: Readonly<Record<RowStatus, number>> = {ok: 0, near: 1, over: 2, gone: 3}

/** How one limit fares at an instant. */
export interface Fare {
  readonly name: string
  readonly status: RowStatus
  /** Part of the capacity that is left; below zero in debt. */
  readonly left: number
  readonly ratePerSecond: number | null
  readonly emptyInMs: number | null
}

/** How the limit fares that is worst off; `undefined` when the bucket has no usable limit. */
export function worstAt(reading: Pick<Reading, 'bucket' | 'ratePerSecond'>, nowMs: number): Fare | undefined {
  let worst: Fare | undefined
  visitLevels(reading.bucket, nowMs, (name, level, capacity, debt, refillPerSecond) => {
    if (capacity <= 0) return
    const ratePerSecond = reading.ratePerSecond.get(name) ?? null
    const untilEmptyMs = emptyInMs(level, refillPerSecond, ratePerSecond)
    const left = level / capacity
    const isNear = left < NEAR_PART || (untilEmptyMs !== null && untilEmptyMs <= NEAR_MS)
    // A request takes from all shards that hold something, so the debt of one does not hide what another has.
    const heldMilli = Math.round((level + debt) * 1000)
    const status = heldMilli < 1000 ? 'over' : isNear ? 'near' : 'ok'
    if (worst && !isWorse(status, left, ratePerSecond, worst)) return
    worst = {name, status, left, ratePerSecond, emptyInMs: untilEmptyMs}
  })
  return worst
}

/** The bucket that is worst off of some, by its worst limit; of equals the first by id. */
export function worstOf(readings: Iterable<Reading>, nowMs: number): Reading | undefined {
  let worst: {readonly reading: Reading; readonly fare: Fare} | undefined
  for (const reading of readings) {
    const fare = reading.isGone ? undefined : worstAt(reading, nowMs)
    if (!fare) continue
    const isFirst =
      !worst || isFareWorse(fare, worst.fare) || (!isFareWorse(worst.fare, fare) && reading.id < worst.reading.id)
    if (isFirst) worst = {reading, fare}
  }
  return worst?.reading
}

/** The status of a bucket is that of its worst limit. */
export function statusOf(reading: Reading, worst: Fare | undefined): RowStatus {
  return reading.isGone ? 'gone' : (worst?.status ?? 'ok')
}

/** Ms until a limit is empty when it goes on like this; `null`: never, or nobody knows. */
function emptyInMs(level: number, refillPerSecond: number, ratePerSecond: number | null): number | null {
  if (level <= 0) return 0
  if (ratePerSecond === null || ratePerSecond <= refillPerSecond) return null
  return (level / (ratePerSecond - refillPerSecond)) * 1000
}

/** Ms until a limit is full when it goes on like this; `null`: never, or nobody knows; 0: it is. */
export function fullInMs({level, capacity, refillPerSecond}: LimitLevel, ratePerSecond: number | null): number | null {
  if (level >= capacity) return 0
  if (ratePerSecond === null || ratePerSecond >= refillPerSecond) return null
  return ((capacity - level) / (refillPerSecond - ratePerSecond)) * 1000
}

/** Of limits that are equally full, the one that is used. */
function isWorse(status: RowStatus, left: number, ratePerSecond: number | null, than: Fare): boolean {
  if (status !== than.status) return SEVERITY[status] > SEVERITY[than.status]
  return left === than.left ? (ratePerSecond ?? 0) > (than.ratePerSecond ?? 0) : left < than.left
}

const isFareWorse = ({status, left, ratePerSecond}: Fare, than: Fare) => isWorse(status, left, ratePerSecond, than)
