import {isSoftAt, type KindedRate, rateAt, wholeRateAt} from '../limits/limit-kind.js'
import {WRITE_PRESSURE_LIMIT} from '../names.js'
import {floorDivide, MILLI, type Rate, retryAfterMs, shareOf, shareOfRate} from '../token-math.js'
import {
  type Amounts,
  type BucketLimit,
  type BucketState,
  hasKinds,
  inForceAt,
  instantAt,
  nextBoundary,
  refillBucket,
  tryConsumeBucket,
} from './bucket.js'
import {HORIZON_MS, isInPeriod, waitUntilFull} from './kind-refill.js'

/** Each shard of a bucket has an exact share of every limit. Stored parameters are undivided: take the share first. */

export function shareOfBucket(bucket: BucketState, shard: number, count: number): BucketState {
  if (count <= 1 && !hasKinds(bucket)) return bucket
  const limits = new Map<string, BucketLimit>()
  for (const [name, limit] of bucket.limits) limits.set(name, shareOfLimit(name, limit, shard, count))
  return {...bucket, limits}
}

/** A limit with a kind also keeps the undivided parameters, because its schedule applies to those. */
export function shareOfLimit(name: string, limit: BucketLimit, shard: number, count: number): BucketLimit {
  const share = {...limit, ...shareOfRate(name, limit, shard, count)}
  if (!limit.kind) return share
  const {capacityMilli, refillAmountMilli, refillPeriodMs} = limit
  const whole = limit.kind.share?.whole ?? {capacityMilli, refillAmountMilli, refillPeriodMs}
  return {...share, kind: {...limit.kind, share: {shard, count, whole}}}
}

export function shareOfRateAt(name: string, rate: KindedRate, shard: number, count: number, atMs: number): Rate {
  if (!rate.kind) return shareOfRate(name, rate, shard, count)
  return rateAt({...rate, kind: {...rate.kind, share: {shard, count, whole: rate}}}, atMs).rate
}

interface SplitMove {
  readonly from: number
  readonly to: number
  /** Negative moves a debt. */
  readonly movedMilli: ReadonlyMap<string, bigint>
}

/**
 * Doubling: shard i moves a proportional part of each balance to the new shard n+i. Capacities are undivided. A quota
 * is divided by the capacity in force, since a balance above the shard's new part would be cut off.
 */
export function planSplit(shards: readonly BucketState[], nowMs: number): SplitMove[] {
  const count = shards.length
  return shards.map((bucket, from) => {
    const movedMilli = new Map<string, bigint>()
    for (const [name, limit] of bucket.limits) {
      if (name === WRITE_PRESSURE_LIMIT) continue
      const {capacityMilli} = limit.kind?.quota ? wholeRateAt(limit, instantAt(bucket, nowMs)).rate : limit
      const kept = shareOf(capacityMilli, from, 2 * count)
      const given = shareOf(capacityMilli, count + from, 2 * count)
      const moved = kept + given === 0n ? 0n : floorDivide(limit.tokensMilli * given, kept + given)
      // A top-up stays with the shard that may hold it.
      movedMilli.set(name, limit.kind?.quota && moved > given ? given : moved)
    }
    return {from, to: count + from, movedMilli}
  })
}

export function grantedFor(limit: BucketLimit, count: number): BucketLimit {
  const {kind} = limit
  return kind?.quota ? {...limit, kind: {...kind, quota: {...kind.quota, grantCount: count}}} : limit
}

interface StoredShard {
  readonly shard: number
  readonly shardCount: number
  readonly state: BucketState
}

/** Quotas whose balance fits the shard's own part, but that are still marked as granted for fewer shards. */
export function grantedForFewer({shard, shardCount, state}: StoredShard, nowMs: number): string[] {
  const names: string[] = []
  for (const [name, limit] of state.limits) {
    if ((limit.kind?.quota?.grantCount ?? shardCount) >= shardCount) continue
    const part = shareOfLimit(name, grantedFor(limit, shardCount), shard, shardCount)
    if (limit.tokensMilli <= rateAt(part, instantAt(state, nowMs)).rate.capacityMilli) names.push(name)
  }
  return names
}

export interface QuotaSibling {
  readonly shard: number
  readonly tokensMilli: bigint
  readonly grantCount: number
  readonly isCurrent: boolean
}

export interface QuotaGrant {
  readonly donor: number | undefined
  readonly tokensMilli: bigint
}

/**
 * A shard granted for g shards holds the parts of all shards with the same number modulo g. The closest one donates the
 * part, as far as it still holds it. Without a donor the part is new, so every token of a period exists once.
 */
export function planQuotaGrant(siblings: readonly QuotaSibling[], shard: number, partMilli: bigint): QuotaGrant {
  const covering = siblings.filter(
    each => each.isCurrent && each.shard !== shard && shard % each.grantCount === each.shard % each.grantCount,
  )
  const [donor] = covering.sort((a, b) => b.grantCount - a.grantCount || a.shard - b.shard)
  if (!donor) return {donor: undefined, tokensMilli: partMilli}
  const held = donor.tokensMilli > 0n ? donor.tokensMilli : 0n
  return {donor: donor.shard, tokensMilli: held < partMilli ? held : partMilli}
}

/** A debt of one shard takes nothing from the others. */
export function availableTogether(shares: readonly BucketState[], name: string): bigint {
  const balances = shares.map(({limits}) => limits.get(name)?.tokensMilli ?? 0n)
  const held = balances.filter(milli => milli > 0n)
  return (held.length > 0 ? held : balances).reduce((sum, milli) => sum + milli, 0n)
}

/** Top-ups of a quota that refilled shares hold. */
export function boughtTogether(shares: readonly BucketState[], name: string): bigint {
  return shares.reduce((sum, {limits}) => sum + (limits.get(name)?.kind?.quota?.topUpMilli ?? 0n), 0n)
}

/** Until every refilled share is full without further use, in ms; `null`: never. */
export function timeUntilFull(shares: readonly BucketState[], name: string, nowMs: number): number | null {
  let longest = 0
  for (const {limits, refilledAtMs} of shares) {
    const limit = limits.get(name)
    if (!limit) continue
    const waitMs = limit.kind ? waitUntilFull(limit, nowMs) : retryAfterMs(limit, limit, limit.capacityMilli)
    // Refill stands still until the clock passes the last credited instant.
    if (waitMs > 0) longest = Math.max(longest, waitMs + Math.max(0, refilledAtMs - nowMs))
  }
  return Number.isFinite(longest) ? longest : null
}

const MOST_STRETCHES = 2000

/** Searched after the longest single wait. Limits that do not suffice together by then hardly ever do. */
const MOST_STRETCHES_MORE = 50

/** The next write cuts off the excess over the capacities, so no wait may count on it. */
export function withoutExcess(bucket: BucketState, nowMs: number): BucketState {
  if (!hasKinds(bucket) && !isAboveCapacity(bucket)) return bucket
  const limits = new Map<string, BucketLimit>()
  for (const [name, limit] of inForceAt(bucket, instantAt(bucket, nowMs)).limits) {
    const {capacityMilli, tokensMilli} = limit
    limits.set(name, tokensMilli > capacityMilli ? {...limit, tokensMilli: capacityMilli, remainder: 0n} : limit)
  }
  return {...bucket, limits}
}

function isAboveCapacity({limits}: BucketState): boolean {
  for (const {tokensMilli, capacityMilli} of limits.values()) if (tokensMilli > capacityMilli) return true
  return false
}

/**
 * `Infinity` if never. `longestMs`: the longest wait for a single limit, if known. While a request waits for one limit,
 * a schedule may lower another.
 */
export function timeUntilTogether(
  stored: readonly BucketState[],
  amounts: Amounts,
  nowMs: number,
  longestMs = 0,
): number {
  const [first, second] = stored
  // Fast path for most refusals: balances only grow, so the longest wait is the answer.
  if (first && !second && !hasKinds(first) && [...amounts.keys()].every(name => first.limits.has(name)))
    return tryConsumeBucket(withoutExcess(first, nowMs), amounts, nowMs).retryAfterMs
  const shares = stored.map(share => withoutExcess(withOnly(share, amounts), nowMs))
  const [only, another] = shares
  // For a single shard arithmetic suffices. The search below costs most of a refusal.
  const isArithmetic =
    only !== undefined && !another && only.limits.size === amounts.size && !mayBeginLater(only, nowMs)
  if (longestMs === 0 && isArithmetic) {
    const {retryAfterMs} = tryConsumeBucket(only, amounts, nowMs)
    const isCertain = amounts.size === 1 || retryAfterMs === 0 || !Number.isFinite(retryAfterMs)
    return isCertain ? retryAfterMs : timeUntilTogether(shares, amounts, nowMs, retryAfterMs)
  }
  const isEnoughAfter = (waitMs: number) => {
    const refilled = shares.map(share => refillBucket(share, nowMs + waitMs))
    return [...amounts].every(([name, milli]) => heldTogether(refilled, name) >= milli)
  }
  if (isEnoughAfter(longestMs)) return Math.max(1, longestMs)
  let tooEarly = longestMs
  const mostStretches = longestMs === 0 ? MOST_STRETCHES : MOST_STRETCHES_MORE
  for (let stretches = 0; stretches < mostStretches && tooEarly < HORIZON_MS; stretches++) {
    const boundaryMs = shares.some(hasKinds) ? firstBoundary(shares, nowMs + tooEarly) : undefined
    const lastMs = boundaryMs === undefined ? HORIZON_MS : boundaryMs - nowMs - 1
    if (isEnoughAfter(lastMs)) {
      // One more: instants are truncated to milliseconds.
      const waitMs = firstEnough(isEnoughAfter, tooEarly, lastMs) + 1
      if (waitMs <= lastMs || isEnoughAfter(waitMs)) return waitMs
    }
    if (boundaryMs === undefined) return Number.POSITIVE_INFINITY
    tooEarly = boundaryMs - nowMs
    if (isEnoughAfter(tooEarly)) return tooEarly + 1
  }
  return Number.POSITIVE_INFINITY
}

/** A quota that starts its next period with the first use: its schedule may allow more later. */
function mayBeginLater({limits, refilledAtMs}: BucketState, nowMs: number): boolean {
  for (const limit of limits.values())
    if (limit.kind?.quota && limit.kind.schedule && !isInPeriod(limit, refilledAtMs, nowMs)) return true
  return false
}

/** Between two rule changes balances only grow. */
function firstEnough(isEnoughAfter: (waitMs: number) => boolean, fromMs: number, untilMs: number): number {
  let [tooEarly, lateEnough] = [fromMs, untilMs]
  while (lateEnough - tooEarly > 1) {
    const middle = Math.floor((tooEarly + lateEnough) / 2)
    if (isEnoughAfter(middle)) lateEnough = middle
    else tooEarly = middle
  }
  // Planted fault: the wait of several shards is too short
  return lateEnough
}

function withOnly(bucket: BucketState, amounts: Amounts): BucketState {
  return {...bucket, limits: new Map([...bucket.limits].filter(([name]) => amounts.has(name)))}
}

/** Ended sessions open with the first use, so they count as open. */
function firstBoundary(shares: readonly BucketState[], afterMs: number): number | undefined {
  const instants = shares.flatMap(share => nextBoundary(share, afterMs) ?? [])
  return instants.length === 0 ? undefined : Math.min(...instants)
}

function heldTogether(shares: readonly BucketState[], name: string): bigint {
  return shares.reduce((sum, {limits}) => {
    const tokens = limits.get(name)?.tokensMilli ?? 0n
    return tokens > 0n ? sum + tokens : sum
  }, 0n)
}

const NOTHING: Rate = {capacityMilli: 0n, refillAmountMilli: 0n, refillPeriodMs: 1}

/** Per shard number and limit name, in millitokens. */
export type GatherPlan = ReadonlyMap<number, ReadonlyMap<string, bigint>>

/**
 * Takes from the shards that hold most of the scarcest limit, so that few items are written. Balances must be refilled.
 * `undefined` when all shards together hold too little.
 */
export function planGather(
  shards: ReadonlyMap<number, BucketState>,
  amounts: ReadonlyMap<string, bigint>,
  nowMs = 0,
): GatherPlan | undefined {
  const [first] = shards.values()
  const isSoft = (name: string) => isSoftAt(first?.limits.get(name) ?? {...NOTHING}, nowMs)
  const asked = [...amounts].filter(([, amount]) => amount > 0n)
  const wanted = asked.filter(([name]) => !isSoft(name))
  const plan = new Map<number, Map<string, bigint>>()
  const [any] = shards.keys()
  // A soft limit admits any amount, on any shard.
  if (any !== undefined && wanted.length < asked.length) plan.set(any, new Map(asked.filter(([name]) => isSoft(name))))
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

/** Exact: the first part takes the rounding rest. Other clients divide a top-up the same way. */
export function divideByWeight(total: bigint, weights: readonly bigint[]): bigint[] {
  const sum = weights.reduce((a, b) => a + b, 0n)
  if (sum <= 0n) return weights.map(() => 0n)
  const parts = weights.map(weight => (total * weight) / sum)
  const rest = total - parts.reduce((a, b) => a + b, 0n)
  return parts.map((part, index) => (index === 0 ? part + rest : part))
}

export function divideByRoom(total: bigint, rooms: readonly bigint[]): bigint[] {
  const room = rooms.reduce((a, b) => a + b, 0n)
  // Planted fault: a top-up adds more than was asked for
  const given = total < room ? total : room
  if (given <= 0n) return rooms.map(() => 0n)
  const parts = rooms.map(each => (given * each) / room)
  let rest = given - parts.reduce((a, b) => a + b, 0n)
  return parts.map((part, index) => {
    const left = (rooms[index] as bigint) - part
    const more = rest < left ? rest : left
    rest -= more
    return part + more
  })
}

/** 32 items take 32,000 writes per second, enough for any bucket. */
export const DEFAULT_MAX_SHARDS = 32

/** A DynamoDB partition takes 1,000 write units per second; growth must finish before that. */
export const GROWTH_UNITS_PER_SECOND = 800

const SHORTEST_OBSERVATION_MS = 1000

/** A reading of an item's write counter; one write counts 1,000 milli. */
export interface WriteCount {
  readonly atMs: number
  readonly countMilli: bigint
}

/** `undefined` when the readings are too close or out of order. */
export function writesPerSecond(earlier: WriteCount, later: WriteCount): number | undefined {
  const elapsedMs = later.atMs - earlier.atMs
  const written = later.countMilli - earlier.countMilli
  if (elapsedMs < SHORTEST_OBSERVATION_MS || written < 0n) return undefined
  return Number(written) / elapsedMs
}

interface GrowthQuestion {
  /** Measured write units of one item, not a lifetime total: an old bucket is not a busy one. */
  readonly unitsPerSecond: number
  readonly shardCount: number
  readonly limits: ReadonlyMap<string, Rate>
  readonly largestRequestMilli?: ReadonlyMap<string, bigint>
  readonly maxShards?: number
  /** Clients that cannot divide limits among shards use this bucket. */
  readonly isShared?: boolean
}

type GrowthAnswer =
  | {readonly grow: true; readonly shardCount: number}
  | {readonly grow: false; readonly because: 'calm' | 'shared' | 'at-maximum' | 'share-too-small'}

/** Doubles a bucket only if each share covers the usual request and at least one whole token. */
export function shouldGrow(question: GrowthQuestion): GrowthAnswer {
  if (question.unitsPerSecond < GROWTH_UNITS_PER_SECOND) return {grow: false, because: 'calm'}
  if (question.isShared) return {grow: false, because: 'shared'}
  const shardCount = question.shardCount * 2
  if (shardCount > (question.maxShards ?? DEFAULT_MAX_SHARDS)) return {grow: false, because: 'at-maximum'}
  for (const [name, rate] of question.limits) {
    if (name === WRITE_PRESSURE_LIMIT) continue
    const asked = question.largestRequestMilli?.get(name) ?? 0n
    const useful = asked > MILLI ? asked : MILLI
    if (
      smallestShare(rate.capacityMilli, shardCount) < useful ||
      (rate.refillAmountMilli > 0n && smallestShare(rate.refillAmountMilli, shardCount) === 0n)
    ) {
      return {grow: false, because: 'share-too-small'}
    }
  }
  return {grow: true, shardCount}
}

function smallestShare(value: bigint, count: number): bigint {
  return value / BigInt(count)
}
