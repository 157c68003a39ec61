import {type Amounts, type BucketLimit, refillBucket, waitUntilRepaid} from '../../core/buckets/bucket.js'
import {earnedMilli} from '../../core/token-math.js'
import {givableMilli} from '../../repository/buckets/plan.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import type {Demand} from '../request/pending-request.js'

/** A part of a request's demand at one bucket. */
type Booker = Pick<Demand, 'amounts' | 'booking' | 'slots'>

interface Turn<T> {
  /** In their order: those that fit, and those that are booked. */
  readonly admits: readonly T[]
  readonly others: readonly T[]
  /** Millitokens that others may take before the write without making anybody here wait too long. */
  readonly slackMilli: Amounts
}

/**
 * Requests that wait are charged at once, into a debt that the refill repays in time, and start when it has. So they start
 * in the order of their charges, over all processes. `undefined` if nobody is booked.
 */
export function bookInOrder<T extends Booker>(
  requests: readonly T[],
  tokensMilli: Amounts,
  limits: ReadonlyMap<string, BucketLimit>,
  refillsFromMs: number,
): Turn<T> | undefined {
  const left = new Map(tokensMilli)
  const slackMilli = new Map<string, bigint>()
  const admits: T[] = []
  const others: T[] = []
  let isBooked = false
  for (const request of requests) {
    const after = [...request.amounts].map(([name, milli]) => {
      const before = left.get(name) ?? 0n
      return {
        name,
        leftMilli: before - milli,
        slack: before - milli + debtMilli(request, limits.get(name), before, refillsFromMs),
      }
    })
    if (after.some(({slack}) => slack < 0n)) {
      others.push(request)
      continue
    }
    admits.push(request)
    for (const {name, leftMilli, slack} of after) {
      isBooked ||= leftMilli < 0n
      left.set(name, leftMilli)
      const least = slackMilli.get(name)
      if (least === undefined || slack < least) slackMilli.set(name, slack)
    }
  }
  return isBooked ? {admits, others, slackMilli} : undefined
}

/** The largest debt that a request may leave. A quota has no refill to wait for. */
function debtMilli(
  {booking, slots}: Booker,
  limit: BucketLimit | undefined,
  before: bigint,
  refillsFromMs: number,
): bigint {
  if (!booking || !limit || limit.kind || slots.size > 0) return 0n
  if (booking.isBatch && before <= -limit.capacityMilli) return 0n
  // Its wait is rounded up by a millisecond.
  return earnedMilli(limit, Math.max(0, booking.startByMs - refillsFromMs - 1))
}

/**
 * Whether requests of this bucket can be booked, before any balance is computed. Shards repay their debts separately, and
 * slots are not held while waiting: there, a request waits and tries again.
 */
export function canBook(
  {shardCount, slots}: Pick<BucketRecord, 'shardCount' | 'slots'>,
  requests: readonly Booker[],
): boolean {
  return shardCount === 1 && slots === undefined && requests.some(({booking}) => booking !== undefined)
}

export function wouldBook(record: BucketRecord, booker: Booker, nowMs: number): boolean {
  if (!canBook(record, [booker])) return false
  const {refilledAtMs, limits} = refillBucket(record.state, nowMs)
  const tokens = new Map([...limits].map(([name, limit]) => [name, givableMilli(limit, refilledAtMs)]))
  return bookInOrder([booker], tokens, record.state.limits, Math.max(refilledAtMs, nowMs)) !== undefined
}

/** Epoch ms at which booked requests of one write may start. The state after it may show later charges of others too. */
export function startsOf<T extends Booker>(admits: readonly T[], record: BucketRecord, nowMs: number): Map<T, number> {
  const refilled = refillBucket(record.state, nowMs)
  const laterMilli = new Map<string, bigint>()
  const starts = new Map<T, number>()
  for (const request of admits.toReversed()) {
    let waitMs = 0
    for (const [name, milli] of request.amounts) {
      const later = laterMilli.get(name) ?? 0n
      if (refilled.limits.has(name)) waitMs = Math.max(waitMs, waitUntilRepaid(refilled, name, later, nowMs))
      laterMilli.set(name, later + milli)
    }
    if (waitMs > 0 && request.booking) starts.set(request, Math.min(nowMs + waitMs, request.booking.startByMs))
  }
  return starts
}
