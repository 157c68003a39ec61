import {consumedBy, type TableWrite} from '../world/table-writes.js'
import type {ReturnedTokens} from './reserved.js'
import type {Verdicts} from './verdicts.js'

/** The charge that a caller knows of, at one bucket for one limit, in millitokens: exact or within bounds. */
export class Claim {
  /** Negative if more may be refunded than is known to be charged: an accepted charge may still be pending. */
  low: bigint
  high: bigint
  /** Charges with unknown outcomes: the caller does not hold them, so they are never refunded. */
  #doubtful = 0n

  constructor(
    readonly bucket: string,
    readonly limit: string,
    low: bigint,
    high = low,
  ) {
    this.low = low
    this.high = high
  }

  /** A charge or refund reported as done. */
  add(milli: bigint): void {
    this.low += milli
    this.high += milli
  }

  /** The minimum charge. Nobody can refund more than their charge. */
  get least(): bigint {
    return this.low < 0n ? 0n : this.low
  }

  /** A charge or refund with an unknown outcome. */
  mayAdd(milli: bigint): void {
    if (milli > 0n) this.high += milli
    else this.low += milli
  }

  /** A charge or refund with an unknown outcome, which the caller gave up on. */
  leaveInDoubt(milli: bigint): void {
    this.#doubtful += milli
  }

  /** The caller's whole holding was refunded; if uncertain, perhaps not. */
  returnAll(isCertain: boolean): void {
    this.low = 0n
    if (isCertain) this.high = this.#doubtful
  }
}

/** A bucket, or one of its limits, that was deleted or refilled: on one shard or as a whole. */
interface Loss {
  readonly limit?: string
  readonly isOfOneShard: boolean
}

/**
 * S2, S4, S5, S6, S10: over the life of a bucket, its counters gain the sum of the charges reported to callers. Only
 * unknown outcomes widen the bounds.
 */
export class Books {
  readonly #claims: Claim[] = []
  readonly #consumed = new Map<string, bigint>()
  readonly #losses = new Map<string, Loss[]>()
  /** Limits of the last written item of each bucket. */
  readonly #limits = new Map<string, ReadonlySet<string>>()
  /** Limits of each existing shard, by bucket. */
  readonly #shards = new Map<string, Map<number, ReadonlySet<string>>>()
  readonly #sharded = new Set<string>()
  readonly #verdicts: Verdicts

  constructor(verdicts: Verdicts) {
    this.#verdicts = verdicts
  }

  open(claim: Claim): Claim {
    this.#claims.push(claim)
    return claim
  }

  /** Changes when the bucket, or the limit in it, is deleted or refilled: earlier charges can no longer be refunded. */
  incarnation(bucket: string, limit: string): number {
    return this.#lossesOf(bucket, limit).length
  }

  /** Whether another shard may still hold charges of that incarnation, and so accept refunds. */
  mayBeReturned(bucket: string, limit: string, incarnation: number): boolean {
    return this.#lossesOf(bucket, limit)
      .slice(incarnation)
      .every(({isOfOneShard}) => isOfOneShard)
  }

  /** Whether every charge of a limit goes to one item, and the item exists. */
  isThere(bucket: string, limit: string): boolean {
    return !this.#sharded.has(bucket) && this.hasLimit(bucket, limit)
  }

  /** Whether the bucket existed with this limit after its last write. */
  hasLimit(bucket: string, limit: string): boolean {
    return this.#limits.get(bucket)?.has(limit) ?? false
  }

  observe({writer, shards}: TableWrite): void {
    for (const change of shards) {
      const {bucket, before, after, shard} = change
      const limits = new Set(after?.refilledAt === undefined ? [] : after.limits.keys())
      this.#limits.set(bucket, limits)
      const others = this.#shards.get(bucket) ?? new Map<number, ReadonlySet<string>>()
      others.delete(shard)
      if (shard > 0 || (after?.shardCount ?? 1) > 1) this.#sharded.add(bucket)
      const isGone = before?.refilledAt !== undefined && after?.refilledAt === undefined
      const isReset = writer.event === 'reset'
      if (isGone || isReset) this.#lose(bucket, {isOfOneShard: !isReset && others.size > 0})
      for (const name of before?.limits.keys() ?? []) {
        if (!after || after.limits.has(name)) continue
        this.#lose(bucket, {limit: name, isOfOneShard: [...others.values()].some(held => held.has(name))})
      }
      this.#shards.set(bucket, after?.refilledAt === undefined ? others : others.set(shard, limits))
      if (writer.kind === 'python' || writer.kind === 'setup') continue
      for (const [name, milli] of consumedBy(change)) {
        const key = `${bucket} ${name}`
        this.#consumed.set(key, (this.#consumed.get(key) ?? 0n) + milli)
      }
    }
  }

  /** Compares, once nothing is in progress. */
  check({checkHigh, returned}: {readonly checkHigh: boolean; readonly returned: readonly ReturnedTokens[]}): void {
    const sums = new Map<string, {low: bigint; high: bigint}>()
    // S13: tokens of dead processes came back. A process that only seemed dead charges them again.
    for (const {key, milli, isChargedAgain} of returned)
      if (!isChargedAgain()) sums.set(key, {low: (sums.get(key)?.low ?? 0n) - milli, high: 0n})
    for (const {bucket, limit, least, high} of this.#claims) {
      const key = `${bucket} ${limit}`
      const sum = sums.get(key) ?? {low: 0n, high: 0n}
      sums.set(key, {low: sum.low + least, high: sum.high + high})
    }
    for (const key of new Set([...sums.keys(), ...this.#consumed.keys()])) {
      const {low, high} = sums.get(key) ?? {low: 0n, high: 0n}
      const consumed = this.#consumed.get(key) ?? 0n
      const tokens = (milli: bigint) => Number(milli) / 1000
      const said = low === high ? `${tokens(low)}` : `${tokens(low)} to ${tokens(high)}`
      const message = `the counters show ${tokens(consumed)} tokens, callers were charged ${said}`
      const bucket = key.slice(0, key.lastIndexOf(' '))
      // If a single write is the cause, its own violation says more.
      const isExplained = (oracle: string) => this.#verdicts.has(oracle, bucket)
      if (consumed < low && !isExplained('S6-returned-twice')) this.#verdicts.report('S6-counted-less', key, message)
      if (consumed > high && checkHigh && !isExplained('S6-charged-twice'))
        this.#verdicts.report('S5-counted-more', key, message)
    }
  }

  #lose(bucket: string, loss: Loss): void {
    this.#losses.set(bucket, [...(this.#losses.get(bucket) ?? []), loss])
  }

  #lossesOf(bucket: string, limit: string): Loss[] {
    return (this.#losses.get(bucket) ?? []).filter(loss => loss.limit === undefined || loss.limit === limit)
  }
}
