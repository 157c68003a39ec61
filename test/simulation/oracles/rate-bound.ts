import {consumedBy, type ShardChange, type StoredLimit, type TableWrite} from '../world/table-writes.js'
import type {LimitsTimeline, Rate} from './limits-timeline.js'
import type {Verdicts} from './verdicts.js'

/** An ideal, undivided bucket. A real bucket must not admit more than this one. */
interface IdealBucket {
  /** Millitokens as a fraction: `numerator` over `period`. */
  numerator: bigint
  /** The same by the stored capacity, which may be older than the configured one. */
  heldNumerator: bigint
  period: bigint
  atMs: number
  /** Millitokens charged regardless of the balance. */
  forced: bigint
  /** Credit for clock differences and delays since the bucket was last full, in millitokens. */
  aheadMilli: bigint
}

/** Maximum age of the state behind a refusal, in ms: `denyCacheMs` plus the travel time of a message. */
const OLDEST_ANSWER_MS = 1200

/**
 * S1: in every interval, the admitted cost is at most capacity + rate × length. Equivalent check: an ideal bucket with
 * exact fractions, charged and refunded like the real one, never goes below zero. One exception, S7: each span of time
 * is credited once, but by the clock of the deciding process and up to the instant its decision takes effect. The clock
 * furthest ahead may credit `spreadMs` early, at the rate stored then. So the ideal bucket may hold that much more than
 * its capacity. A higher rate raises this allowance by the difference since the bucket was last full.
 */
export class RateBound {
  readonly #ideals = new Map<string, IdealBucket>()
  readonly #exempt = new Set<string>()
  /** Stored limits by bucket and name, then by shard. */
  readonly #stored = new Map<string, Map<number, StoredLimit>>()
  /** Capacities lowered in the table, and when, in epoch ms. */
  readonly #lowered = new Map<string, {readonly capacity: bigint; readonly atMs: number}>()
  readonly #timeline: LimitsTimeline
  readonly #verdicts: Verdicts
  readonly #spreadMs: () => number

  constructor(timeline: LimitsTimeline, verdicts: Verdicts, spreadMs: () => number) {
    this.#timeline = timeline
    this.#verdicts = verdicts
    this.#spreadMs = spreadMs
  }

  /** A charge regardless of the balance: its debt is not a violation. */
  noteForced(bucket: string, name: string, milli: bigint, atMs: number): void {
    const ideal = this.#idealOf(bucket, name, atMs)
    if (ideal) ideal.forced += milli
  }

  /** An operator adds tokens, up to the capacity. */
  credit(bucket: string, name: string, milli: bigint, atMs: number): void {
    this.#take(bucket, name, -milli, atMs)
  }

  /** A client created tokens: from now on, remaining balances cannot be judged. */
  exempt(bucket: string): void {
    this.#exempt.add(bucket)
  }

  /** The bucket may be full from now on: an operator reset or deleted it. */
  refillWhole(bucket: string): void {
    for (const key of this.#ideals.keys()) if (key.startsWith(`${bucket} `)) this.#ideals.delete(key)
  }

  /** Millitokens that may remain, rounded down; `undefined` if unknown. */
  left(bucket: string, name: string, atMs: number): bigint | undefined {
    const ideal = this.#lookAt(bucket, name, atMs)
    return !ideal || ideal.forced > 0n || this.#exempt.has(bucket) ? undefined : ideal.numerator / ideal.period
  }

  /** The largest stored capacity of a limit, in millitokens, now or when a response was in flight. */
  storedCapacity(bucket: string, name: string, nowMs: number): bigint {
    const key = `${bucket} ${name}`
    const capacities = [...(this.#stored.get(key)?.values() ?? [])].map(({capacity}) => capacity)
    const lowered = this.#lowered.get(key)
    if (lowered && nowMs - lowered.atMs <= OLDEST_ANSWER_MS) capacities.push(lowered.capacity)
    return capacities.reduce((a, b) => (a > b ? a : b), 0n)
  }

  /** Time until an unused bucket is full, in ms; `undefined` if another client creates tokens. */
  fillTimeMs(bucket: string, atMs: number): number | undefined {
    if (this.#exempt.has(bucket)) return undefined
    const times = [...this.#timeline.now(bucket)].map(([name, {capacity, amount, period}]) => {
      // One shard may have the whole debt, and repays it at its own share of the rate.
      const shards = BigInt(this.#stored.get(`${bucket} ${name}`)?.size ?? 1)
      const debt = (this.#lookAt(bucket, name, atMs)?.forced ?? 0n) * shards
      return Number(((capacity + debt) * period) / amount)
    })
    return Math.max(0, ...times)
  }

  /** Advances all buckets, so that new limits do not apply to earlier time. */
  tick(atMs: number): void {
    for (const key of this.#ideals.keys()) {
      const at = key.lastIndexOf(' ')
      this.#idealOf(key.slice(0, at), key.slice(at + 1), atMs)
    }
  }

  /** `byStored`: buckets that a process may judge by their stored limits (S9). */
  observe({shards, atMs, writer}: TableWrite, byStored: ReadonlySet<string> = new Set()): void {
    const net = new Map<string, {bucket: string; name: string; milli: bigint}>()
    for (const change of shards) {
      for (const [name, milli] of consumedBy(change)) {
        const key = `${change.bucket} ${name}`
        const regained = writer.kind === 'python' ? regainedOf(change, name, milli, atMs) : 0n
        net.set(key, {bucket: change.bucket, name, milli: milli - regained + (net.get(key)?.milli ?? 0n)})
      }
    }
    for (const change of shards) this.#adoptHeld(change, atMs)
    for (const {bucket, name, milli} of net.values()) this.#take(bucket, name, milli, atMs, byStored.has(bucket))
    for (const {bucket, shard, before, after} of shards) {
      for (const name of new Set([...(before?.limits.keys() ?? []), ...(after?.limits.keys() ?? [])])) {
        // Until now, at the previously stored rate.
        this.#idealOf(bucket, name, atMs)
        const key = `${bucket} ${name}`
        const limit = after?.limits.get(name)
        const known = this.#stored.get(key) ?? new Map<number, StoredLimit>()
        const before = known.get(shard)?.capacity
        if (limit && before !== undefined && limit.capacity < before) this.#lowered.set(key, {capacity: before, atMs})
        if (limit) this.#stored.set(key, known.set(shard, limit))
        else known.delete(shard)
      }
    }
  }

  /**
   * A write that updates the limits finds a balance allowed by the earlier ones, however long ago another client
   * changed the configuration without updating the bucket.
   */
  #adoptHeld({bucket, after}: ShardChange, atMs: number): void {
    for (const [name, limit] of after?.limits ?? []) {
      const now = this.#timeline.now(bucket).get(name)
      const former = this.#formerRates(bucket, name)
      if (!now || former.length === 0 || !isSameRate(limit, now) || former.every(rate => isSameRate(rate, now)))
        continue
      const ideal = this.#idealOf(bucket, name, atMs)
      if (ideal && ideal.heldNumerator > ideal.numerator) ideal.numerator = ideal.heldNumerator
    }
  }

  #take(bucket: string, name: string, milli: bigint, atMs: number, isByStored = false): void {
    const ideal = this.#idealOf(bucket, name, atMs)
    if (!ideal) return
    ideal.numerator -= milli * ideal.period
    ideal.heldNumerator -= milli * ideal.period
    const rate = this.#timeline.allowed(bucket, name, atMs) as Rate
    this.#cut(
      ideal,
      rate,
      this.#heldCapacity(bucket, name, rate),
      this.#aheadMilli(this.#creditedRate(bucket, name, rate)),
    )
    if (milli <= 0n || this.#exempt.has(bucket) || ideal.numerator >= -ideal.forced * ideal.period) return
    if (isByStored && ideal.heldNumerator >= -ideal.forced * ideal.period) {
      ideal.numerator = ideal.heldNumerator
      return
    }
    // Suppress violations that follow from this one.
    this.#exempt.add(bucket)
    const over = Number(-ideal.numerator / ideal.period - ideal.forced) / 1000
    this.#verdicts.report('S1-rate', `${bucket} ${name}`, `${over} tokens above capacity + refill were admitted`)
  }

  /** An unused bucket starts full by the limits of its first use, whatever they were before. */
  #lookAt(bucket: string, name: string, atMs: number): IdealBucket | undefined {
    const key = `${bucket} ${name}`
    const isUsed = this.#ideals.has(key)
    const ideal = this.#idealOf(bucket, name, atMs)
    if (!isUsed) this.#ideals.delete(key)
    return ideal
  }

  #idealOf(bucket: string, name: string, atMs: number): IdealBucket | undefined {
    const rate = this.#timeline.allowed(bucket, name, atMs)
    const key = `${bucket} ${name}`
    if (!rate) {
      this.#ideals.delete(key)
      return undefined
    }
    const credited = this.#creditedRate(bucket, name, rate)
    const aheadMilli = this.#aheadMilli(credited)
    let ideal = this.#ideals.get(key)
    if (!ideal) {
      const {period} = rate
      const numerator = (rate.capacity + aheadMilli) * period
      ideal = {numerator, heldNumerator: numerator, period, atMs, forced: 0n, aheadMilli}
      this.#ideals.set(key, ideal)
      return ideal
    }
    if (ideal.period !== rate.period) {
      // Rounded up, in favour of the bucket.
      ideal.numerator = -((-ideal.numerator * rate.period) / ideal.period) + 1n
      ideal.heldNumerator = -((-ideal.heldNumerator * rate.period) / ideal.period) + 1n
      ideal.period = rate.period
    }
    if (aheadMilli > ideal.aheadMilli) {
      ideal.numerator += (aheadMilli - ideal.aheadMilli) * ideal.period
      ideal.heldNumerator += (aheadMilli - ideal.aheadMilli) * ideal.period
      ideal.aheadMilli = aheadMilli
    }
    const passedMs = BigInt(Math.ceil(Math.max(0, atMs - ideal.atMs)))
    const gained = (credited.amount * passedMs * ideal.period + credited.period - 1n) / credited.period
    ideal.numerator += gained
    ideal.heldNumerator += gained
    ideal.atMs = Math.max(atMs, ideal.atMs)
    this.#cut(ideal, rate, this.#heldCapacity(bucket, name, rate), aheadMilli)
    return ideal
  }

  /**
   * Time is credited at the stored rate. If a client changes limits without updating buckets, that is the old rate
   * until the next decision, however late (decision 25); S9 judges the limits used to admit. Rates that were never
   * configured do not count.
   */
  #creditedRate(bucket: string, name: string, allowed: Rate): Rate {
    return this.#formerRates(bucket, name).reduce<Rate>(
      (a, b) => (a.amount * b.period >= b.amount * a.period ? a : b),
      allowed,
    )
  }

  #heldCapacity(bucket: string, name: string, {capacity}: Rate): bigint {
    return this.#formerRates(bucket, name).reduce(
      (most, rate) => (rate.capacity > most ? rate.capacity : most),
      capacity,
    )
  }

  /** Stored limits of the shards that were configured at some time. */
  #formerRates(bucket: string, name: string): Rate[] {
    const stored = [...(this.#stored.get(`${bucket} ${name}`)?.values() ?? [])]
    return stored.filter(rate => this.#timeline.wasConfigured(bucket, name, rate))
  }

  #cut(ideal: IdealBucket, {capacity}: Rate, heldCapacity: bigint, aheadMilli: bigint): void {
    const mostHeld = (heldCapacity + aheadMilli) * ideal.period
    if (ideal.heldNumerator > mostHeld) ideal.heldNumerator = mostHeld
    const most = (capacity + aheadMilli) * ideal.period
    if (ideal.numerator <= most) return
    ideal.numerator = most
    // Of earlier credit at a higher rate, at most this remains.
    ideal.aheadMilli = aheadMilli
  }

  /** The one-time credit by clocks that are ahead. */
  #aheadMilli({amount, period}: Rate): bigint {
    const ahead = amount * BigInt(Math.ceil(this.#spreadMs()))
    return (ahead + period - 1n) / period
  }
}

const isSameRate = (a: Rate, b: Rate): boolean =>
  a.capacity === b.capacity && a.amount === b.amount && a.period === b.period

/**
 * Tokens taken by another client that come back with the next refill. It takes from the balance without moving the
 * refill instant (docs/reference-faults.md), so from a full bucket it takes the overflow.
 */
function regainedOf({before}: ShardChange, name: string, milli: bigint, atMs: number): bigint {
  const limit = before?.limits.get(name)
  if (!before || !limit || before.refilledAt === undefined || milli <= 0n || limit.period <= 0n) return 0n
  const shards = BigInt(Math.max(1, before.shardCount))
  const passedMs = BigInt(Math.ceil(atMs)) - before.refilledAt
  if (passedMs <= 0n) return 0n
  // Shares are rounded in favour of the bucket.
  const rate = (limit.amount + shards - 1n) / shards
  const earned = (rate * passedMs + limit.remainder + limit.period - 1n) / limit.period
  const over = limit.tokens + earned - limit.capacity / shards
  return over <= 0n ? 0n : over < milli ? over : milli
}
