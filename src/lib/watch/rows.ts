import {type BucketView, type LimitLevel, viewBucket} from '../repository/buckets/view.js'
import {visitLevels} from './levels.js'
import type {Reading, Row, RowStatus} from './model.js'

/** A limit with less than this fraction of its capacity left is near exhaustion. */
const NEAR_FRACTION = 0.2
/** So is a limit that will be empty within this time. */
const NEAR_MS = 60_000

const SEVERITY: Readonly<Record<RowStatus, number>> = {ok: 0, overdrawn: 1, near: 2, over: 3, gone: 4}

/** One limit of a bucket at an instant. */
export interface LimitSummary {
  readonly name: string
  readonly status: RowStatus
  /** Fraction of the capacity that is left; negative in debt. */
  readonly left: number
  readonly ratePerSecond: number | null
  readonly emptyInMs: number | null
}

/** A bucket at an instant, computed from its last reading. */
export function rowAt(reading: Reading, nowMs: number): Row {
  const {id, bucket, used, writePressure, readAtMs} = reading
  const view = viewBucket(bucket, nowMs)
  const worst = worstLimitAt(reading, nowMs)
  const tightest = view.limits.find(({name}) => name === worst?.name)
  return {
    id,
    entity: bucket.entity,
    resource: bucket.resource,
    view,
    tightest,
    ratePerSecond: worst?.ratePerSecond ?? null,
    rates: reading.ratePerSecond,
    used,
    shardCount: bucket.shardCount,
    imbalance: tightest ? imbalanceOf(view, tightest) : 0,
    writePressure,
    status: statusOf(reading, worst),
    emptyInMs: worst?.emptyInMs ?? null,
    fullInMs: tightest ? fullInMs(tightest, worst?.ratePerSecond ?? null, nowMs) : null,
    ageMs: Math.max(0, nowMs - readAtMs),
  }
}

/** The limit in the worst state; `undefined` when the bucket has no usable limit. */
export function worstLimitAt(
  reading: Pick<Reading, 'bucket' | 'ratePerSecond'>,
  nowMs: number,
): LimitSummary | undefined {
  let worst: LimitSummary | undefined
  visitLevels(reading.bucket, nowMs, (name, level, capacity, debt, refillPerSecond, isSoft) => {
    if (capacity <= 0) return
    const ratePerSecond = reading.ratePerSecond.get(name) ?? null
    const untilEmptyMs = emptyInMs(level, refillPerSecond, ratePerSecond)
    const left = level / capacity
    const isNear = left < NEAR_FRACTION || (untilEmptyMs !== null && untilEmptyMs <= NEAR_MS)
    // A request takes from all shards that have tokens, so the debt of one does not hide the tokens of another.
    const availableMilli = Math.round((level + debt) * 1000)
    const isEmpty = availableMilli < 1000
    const status = isSoft ? (isEmpty ? 'overdrawn' : 'ok') : isEmpty ? 'over' : isNear ? 'near' : 'ok'
    if (worst && !isWorse(status, left, ratePerSecond, worst)) return
    worst = {name, status, left, ratePerSecond, emptyInMs: untilEmptyMs}
  })
  return worst
}

/** The bucket with the worst limit; the first by id among equals. */
export function worstOf(readings: Iterable<Reading>, nowMs: number): Reading | undefined {
  let worst: {readonly reading: Reading; readonly limit: LimitSummary} | undefined
  for (const reading of readings) {
    const limit = reading.isGone ? undefined : worstLimitAt(reading, nowMs)
    if (!limit) continue
    const isFirst =
      !worst || isWorseLimit(limit, worst.limit) || (!isWorseLimit(worst.limit, limit) && reading.id < worst.reading.id)
    if (isFirst) worst = {reading, limit}
  }
  return worst?.reading
}

/** The status of a bucket is that of its worst limit. */
export function statusOf(reading: Reading, worst: LimitSummary | undefined): RowStatus {
  return reading.isGone ? 'gone' : (worst?.status ?? 'ok')
}

/** Difference of the fullest and the emptiest shard. */
function imbalanceOf({shards}: BucketView, {name}: LimitLevel): number {
  const fractions = shards.flatMap(({limits}) =>
    limits.flatMap(limit => (limit.name === name && limit.capacity > 0 ? [limit.level / limit.capacity] : [])),
  )
  return fractions.length < 2 ? 0 : Math.max(...fractions) - Math.min(...fractions)
}

/** Ms until a limit is empty at the current rate; `null`: never, or unknown. */
function emptyInMs(level: number, refillPerSecond: number, ratePerSecond: number | null): number | null {
  if (level <= 0) return 0
  if (ratePerSecond === null || ratePerSecond <= refillPerSecond) return null
  return (level / (ratePerSecond - refillPerSecond)) * 1000
}

/** Ms until a limit is full at the current rate; `null`: never, or unknown; 0: it is full. */
function fullInMs(limit: LimitLevel, ratePerSecond: number | null, nowMs: number): number | null {
  const {level, capacity, refillPerSecond, quota, resetsAt} = limit
  if (level >= capacity) return 0
  if (quota) return resetsAt === undefined ? null : Date.parse(resetsAt) - nowMs
  if (ratePerSecond === null || ratePerSecond >= refillPerSecond) return null
  return ((capacity - level) / (refillPerSecond - ratePerSecond)) * 1000
}

/** Among equally full limits, the one with the higher rate is worse. */
function isWorse(status: RowStatus, left: number, ratePerSecond: number | null, than: LimitSummary): boolean {
  if (status !== than.status) return SEVERITY[status] > SEVERITY[than.status]
  return left === than.left ? (ratePerSecond ?? 0) > (than.ratePerSecond ?? 0) : left < than.left
}

const isWorseLimit = ({status, left, ratePerSecond}: LimitSummary, than: LimitSummary) =>
  isWorse(status, left, ratePerSecond, than)
