import {type Amounts, type BucketState, type LimitState, refillBucket, tryConsumeBucket} from './bucket.js'
import {WRITE_PRESSURE_LIMIT} from './names.js'
import {floorDivide, type Rate} from './token-math.js'

/**
 * A hot bucket is split into shards, each with an exact share of every limit's capacity and refill amount. Stored
 * parameters stay undivided; take the share of a shard before computing with it.
 */

/**
 * Share number `shard` of `value` when it is divided among `count` shards. The shares of all shards add up to the value
 * for every count, and doubling the count divides a share exactly between its shard and the new one it feeds.
 */
export function shareOf(value: bigint, shard: number, count: number): bigint {
  const position = BigInt(positionOf(shard, count))
  const shards = BigInt(count)
  return (value * (position + 1n)) / shards - (value * position) / shards
}

/** A limit's rate on one shard. Write pressure belongs to each item by itself, so it is never divided. */
export function shareOfRate(name: string, rate: Rate, shard: number, count: number): Rate {
  if (count <= 1 || name === WRITE_PRESSURE_LIMIT) return rate
  return {
    capacityMilli: shareOf(rate.capacityMilli, shard, count),
    refillAmountMilli: shareOf(rate.refillAmountMilli, shard, count),
    refillPeriodMs: rate.refillPeriodMs,
  }
}

/** A stored bucket with its parameters reduced to what this shard may hold and gain. */
export function shareOfBucket(bucket: BucketState, shard: number, count: number): BucketState {
  const limits = new Map<string, LimitState>()
  for (const [name, limit] of bucket.limits) limits.set(name, {...limit, ...shareOfRate(name, limit, shard, count)})
  return {...bucket, limits}
}

/**
 * Where a shard's share lies in the whole. When n shards become 2n, shard i keeps the first half of its stretch and the
 * new shard n+i gets the second half; following those halvings back gives a bit reversal of the doubled part.
 */
function positionOf(shard: number, count: number): number {
  let position = shard
  let shards = count
  let halvings = 0
  let tail = 0
  while (shards % 2 === 0) {
    shards /= 2
    const isSecondHalf = position >= shards
    if (isSecondHalf) position -= shards
    tail += isSecondHalf ? 2 ** halvings : 0
    halvings += 1
  }
  return position * 2 ** halvings + tail
}

interface SplitMove {
  readonly from: number
  readonly to: number
  /** Per limit: what the new shard starts with and the old one gives up; negative shares out a debt. */
  readonly movedMilli: ReadonlyMap<string, bigint>
}

/**
 * Doubling: shard i hands the balance of each limit to the new shard n+i in proportion to their shares, so the total is
 * what it was. Balances are the stored ones; the capacities are undivided. Write pressure starts afresh on each item.
 */
export function planSplit(shards: readonly BucketState[]): SplitMove[] {
  const count = shards.length
  return shards.map((bucket, from) => {
    const movedMilli = new Map<string, bigint>()
    for (const [name, limit] of bucket.limits) {
      if (name === WRITE_PRESSURE_LIMIT) continue
      const kept = shareOf(limit.capacityMilli, from, 2 * count)
      const given = shareOf(limit.capacityMilli, count + from, 2 * count)
      movedMilli.set(name, kept + given === 0n ? 0n : floorDivide(limit.tokensMilli * given, kept + given))
    }
    return {from, to: count + from, movedMilli}
  })
}

/** Millitokens of one limit that several shards can give: a debt of one takes nothing from the others. */
export function availableTogether(shares: readonly BucketState[], name: string): bigint {
  const balances = shares.map(({limits}) => limits.get(name)?.tokensMilli ?? 0n)
  const held = balances.filter(milli => milli > 0n)
  return (held.length > 0 ? held : balances).reduce((sum, milli) => sum + milli, 0n)
}

/** Ten years in ms: a longer wait counts as never. */
const HORIZON_MS = 10 * 365 * 86_400_000

/** The bucket without what exceeds its capacities: the next write takes that away, so no wait may count on it. */
export function withoutExcess(bucket: BucketState): BucketState {
  const limits = new Map<string, LimitState>()
  for (const [name, limit] of bucket.limits) {
    const {capacityMilli, tokensMilli} = limit
    limits.set(name, tokensMilli > capacityMilli ? {...limit, tokensMilli: capacityMilli, remainder: 0n} : limit)
  }
  return {...bucket, limits}
}

/** Milliseconds until several shards together hold the amounts; `Infinity` when they never will. */
export function timeUntilTogether(stored: readonly BucketState[], amounts: Amounts, nowMs: number): number {
  const shares = stored.map(withoutExcess)
  const [only, another] = shares
  // Of a single shard the wait follows by arithmetic; the search below costs most of a refusal.
  if (only && !another && [...amounts.keys()].every(name => only.limits.has(name))) {
    return tryConsumeBucket(only, amounts, nowMs).retryAfterMs
  }
  const isEnoughAfter = (waitMs: number) => {
    const refilled = shares.map(share => refillBucket(share, nowMs + waitMs))
    return [...amounts].every(([name, milli]) => heldTogether(refilled, name) >= milli)
  }
  if (!isEnoughAfter(HORIZON_MS)) return Number.POSITIVE_INFINITY
  let tooEarly = -1
  let lateEnough = HORIZON_MS
  while (lateEnough - tooEarly > 1) {
    const middle = Math.floor((tooEarly + lateEnough) / 2)
    if (isEnoughAfter(middle)) lateEnough = middle
    else tooEarly = middle
  }
  // One more: instants are truncated to milliseconds.
  return lateEnough + 1
}

/** A shard in debt offers nothing. */
function heldTogether(shares: readonly BucketState[], name: string): bigint {
  return shares.reduce((sum, {limits}) => {
    const tokens = limits.get(name)?.tokensMilli ?? 0n
    return tokens > 0n ? sum + tokens : sum
  }, 0n)
}

/** Millitokens to take, per shard number and limit name. */
export type GatherPlan = ReadonlyMap<number, ReadonlyMap<string, bigint>>

/**
 * Splits one request among several shards, for a request larger than what any single shard holds. Balances must be
 * refilled already. Shards are drained in order of how much they hold of the scarcest limit, so few items are written.
 * `undefined` when all shards together hold too little.
 */
export function planGather(
  shards: ReadonlyMap<number, BucketState>,
  amounts: ReadonlyMap<string, bigint>,
): GatherPlan | undefined {
  const wanted = [...amounts].filter(([, amount]) => amount > 0n)
  const plan = new Map<number, Map<string, bigint>>()
  if (wanted.length === 0) return plan

  const held = (shard: number, name: string): bigint => {
    const tokens = shards.get(shard)?.limits.get(name)?.tokensMilli ?? 0n
    return tokens > 0n ? tokens : 0n
  }
  const total = (name: string) => [...shards.keys()].reduce((sum, shard) => sum + held(shard, name), 0n)
  if (wanted.some(([name, amount]) => total(name) < amount)) return undefined

  const [scarcest] = wanted.reduce((a, b) => (a[1] * total(b[0]) >= b[1] * total(a[0]) ? a : b))
  const order = [...shards.keys()].sort((a, b) => compareDescending(held(a, scarcest), held(b, scarcest)) || a - b)
  for (const [name, amount] of wanted) {
    let missing = amount
    for (const shard of order) {
      if (missing === 0n) break
      const available = held(shard, name)
      const part = available < missing ? available : missing
      if (part === 0n) continue
      missing -= part
      const parts = plan.get(shard) ?? new Map<string, bigint>()
      plan.set(shard, parts.set(name, part))
    }
  }
  return plan
}

function compareDescending(a: bigint, b: bigint): number {
  return a === b ? 0 : a > b ? -1 : 1
}
