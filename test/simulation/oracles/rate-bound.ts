import {consumedBy, type ShardChange, type StoredLimit, type TableWrite} from '../world/table-writes.js'
import type {LimitsTimeline, Rate} from './limits-timeline.js'
import type {Verdicts} from './verdicts.js'

/** A bucket that loses nothing by being divided: no real one may admit what this one would not. */
interface IdealBucket {
  /** Millitokens as a fraction: `numerator` over `period`. */
  numerator: bigint
  /** The same by the capacity that the bucket has stored, which may be that of before a change. */
  heldNumerator: bigint
  period: bigint
  atMs: number
  /** Millitokens that were charged whatever the balance. */
  forced: bigint
  /** What is credited for clocks and delays since the bucket was last full, in millitokens. */
  aheadMilli: bigint
}

/** A refusal may rest on an answer that old, in ms: `denyCacheMs`, and the way of a message. */
const OLDEST_ANSWER_MS = 1200

/**
 * S1: in every interval the admitted cost is at most capacity + rate × its length. A bucket of that capacity and rate, in
 * exact fractions, from which everything consumed is taken and to which everything returned is given, must never be
 * below zero: that is the same as the bound over all intervals.
 *
 * One allowance, S7: a span of time is credited once, but by the clock of the process that decides, and up to the instant
 * at which its decision takes effect. The clock that is furthest ahead may credit `spreadMs` before they are over, at the
 * rate that the bucket has stored then. So the ideal bucket holds up to that much more than its capacity, and never more: a
 * higher rate raises the allowance by the difference, since the last time that the bucket was full.
 */
export class RateBound {
  readonly #ideals = new Map<string, IdealBucket>()
  readonly #exempt = new Set<string>()
  /** Limits as they are stored, by bucket and name, then by shard. */
  readonly #stored = new Map<string, Map<number, StoredLimit>>()
  /** Capacities that were lowered in the table, and when, in epoch ms. */
  readonly #lowered = new Map<string, {readonly capacity: bigint; readonly atMs: number}>()
  readonly #timeline: LimitsTimeline
  readonly #verdicts: Verdicts
  readonly #spreadMs: () => number

  constructor(timeline: LimitsTimeline, verdicts: Verdicts, spreadMs: () => number) {
    this.#timeline = timeline
    this.#verdicts = verdicts
    this.#spreadMs = spreadMs
  }

  /** A charge that is made whatever the balance: so much debt is no violation. */
  noteForced(bucket: string, name: string, milli: bigint, atMs: number): void {
    const ideal = this.#idealOf(bucket, name, atMs)
    if (ideal) ideal.forced += milli
  }

  /** An operator adds tokens, up to the capacity. */
  credit(bucket: string, name: string, milli: bigint, atMs: number): void {
    this.#take(bucket, name, -milli, atMs)
  }

  /** A client that creates tokens has been here: from now on nothing can be judged by what may be left. */
  exempt(bucket: string): void {
    this.#exempt.add(bucket)
  }

  /** The bucket may be full from now on: it was reset, or deleted by an operator. */
  refillWhole(bucket: string): void {
    for (const key of this.#ideals.keys()) if (key.startsWith(`${bucket} `)) this.#ideals.delete(key)
  }

  /** Millitokens that may be left, rounded down; `undefined` where that cannot be known. */
  left(bucket: string, name: string, atMs: number): bigint | undefined {
    const ideal = this.#lookAt(bucket, name, atMs)
    return !ideal || ideal.forced > 0n || this.#exempt.has(bucket) ? undefined : ideal.numerator / ideal.period
  }

  /** The largest capacity that a bucket has stored for a limit, in millitokens, or had when an answer was on its way. */
  storedCapacity(bucket: string, name: string, nowMs: number): bigint {
    const key = `${bucket} ${name}`
    const capacities = [...(this.#stored.get(key)?.values() ?? [])].map(({capacity}) => capacity)
    const lowered = this.#lowered.get(key)
    if (lowered && nowMs - lowered.atMs <= OLDEST_ANSWER_MS) capacities.push(lowered.capacity)
    return capacities.reduce((a, b) => (a > b ? a : b), 0n)
  }

  /** Time after which a bucket that nobody uses is full, in ms; `undefined` where another client creates tokens. */
  fillTimeMs(bucket: string, atMs: number): number | undefined {
    if (this.#exempt.has(bucket)) return undefined
    const times = [...this.#timeline.now(bucket)].map(([name, {capacity, amount, period}]) => {
      // One shard may have all of the debt, and repays it at its own share of the rate.
      const shards = BigInt(this.#stored.get(`${bucket} ${name}`)?.size ?? 1)
      const debt = (this.#lookAt(bucket, name, atMs)?.forced ?? 0n) * shards
      return Number(((capacity + debt) * period) / amount)
    })
    return Math.max(0, ...times)
  }

  /** Brings all buckets forward, so that limits that no longer count are not used for the time before. */
  tick(atMs: number): void {
    for (const key of this.#ideals.keys()) {
      const at = key.lastIndexOf(' ')
      this.#idealOf(key.slice(0, at), key.slice(at + 1), atMs)
    }
  }

  /** `byStored` are the buckets that a process may decide of by the limits they have stored (S9). */
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
        // Up to here at the rate that was stored until now.
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
   * A write that brings the limits that are configured finds what the former ones let the bucket hold, however long ago
   * another client has changed the configuration without it, and whatever was configured in between.
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
    // What follows from it is no violation of its own.
    this.#exempt.add(bucket)
    const over = Number(-ideal.numerator / ideal.period - ideal.forced) / 1000
    this.#verdicts.report('S1-rate', `${bucket} ${name}`, `${over} tokens above capacity + refill were admitted`)
  }

  /** One that nobody has used yet begins full by the limits of its first use, whatever they were before. */
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
      // Rounded up: in doubt for the bucket.
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
   * Time is credited at the rate that the bucket has stored. After a change by a client that updates no buckets that is the
   * former one until the next decision, however late that comes (decision 25); what it admits by is judged as S9. A rate
   * that was never configured does not count.
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

  /** Limits as the shards have stored them that were configured at some time. */
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
    // Of what was credited at a higher rate before, no more than this is left.
    ideal.aheadMilli = aheadMilli
  }

  /** What clocks that are ahead of others may credit once. */
  #aheadMilli({amount, period}: Rate): bigint {
    const ahead = amount * BigInt(Math.ceil(this.#spreadMs()))
    return (ahead + period - 1n) / period
  }
}

const isSameRate = (a: Rate, b: Rate): boolean =>
  a.capacity === b.capacity && a.amount === b.amount && a.period === b.period

/**
 * What another client has taken that comes back with the next refill. It takes from the balance and leaves the refill
 * instant where it is (docs/reference-faults.md): of a full bucket it takes what had overflowed.
 */
function regainedOf({before}: ShardChange, name: string, milli: bigint, atMs: number): bigint {
  const limit = before?.limits.get(name)
  if (!before || !limit || before.refilledAt === undefined || milli <= 0n || limit.period <= 0n) return 0n
  const shards = BigInt(Math.max(1, before.shardCount))
  const passedMs = BigInt(Math.ceil(atMs)) - before.refilledAt
  if (passedMs <= 0n) return 0n
  // Shares rounded in doubt for the bucket.
  const rate = (limit.amount + shards - 1n) / shards
  const earned = (rate * passedMs + limit.remainder + limit.period - 1n) / limit.period
  const over = limit.tokens + earned - limit.capacity / shards
  return over <= 0n ? 0n : over < milli ? over : milli
}
