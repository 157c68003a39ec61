import type {Amounts} from '../core/bucket.js'
import {InvalidInput} from '../core/errors.js'
import {toTokens} from '../core/token-math.js'
import {Unavailable} from '../dynamo/errors.js'
import type {BucketAddress} from '../repository/buckets/writes.js'
import {type Consumption, checkConsumption, signedAmountsOf} from './amounts.js'
import {LeaseEnded} from './errors.js'
import type {Grant, Holding} from './grant.js'

/** What a lease may ask of the limiter that gave it. */
export interface LeaseKeeper {
  /** Charges or returns at one bucket item, whatever its balance. An outage is thrown as it is. */
  correct(address: BucketAddress, deltas: Amounts): Promise<void>
  /** Takes more for the same request, at both levels or not at all. */
  takeMore(amounts: Amounts): Promise<readonly Grant[]>
  /** Lets an outage pass, or throws `RateLimiterUnavailable`, as the policy says; throws everything else as it is. */
  excuse(error: unknown): Promise<void>
  /** Returns everything; resolves when it is written or has finally failed. */
  refund(entries: readonly Holding[]): Promise<void>
}

/**
 * An admitted request. Its tokens are written; until it is committed they can still be corrected or returned.
 *
 * @example
 * ```ts
 * await using lease = await limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1, tpm: 500}})
 * const {totalTokens} = await callModel()
 * await lease.adjust({tpm: totalTokens - 500})
 * await lease.commit() // without this, leaving the block returns everything
 * ```
 */
export class Lease {
  readonly entity: string
  readonly resource: string
  /** False when the table was unreachable and the policy let the request through: nothing was charged. */
  readonly isMetered: boolean
  readonly #grants: Grant[]
  readonly #keeper: LeaseKeeper
  readonly #underway = new Set<Promise<void>>()
  #ended: 'committed' | 'rolled back' | undefined

  /** Leases come from `RateLimiter.acquire`. */
  constructor(entity: string, resource: string, grants: readonly Grant[], keeper: LeaseKeeper) {
    this.entity = entity
    this.resource = resource
    this.isMetered = grants.length > 0
    this.#grants = [...grants]
    this.#keeper = keeper
  }

  /** Whole tokens charged to the entity and not returned, per limit. */
  get consumed(): Record<string, number> {
    const [own] = this.#grants
    return own ? Object.fromEntries([...held(own)].map(([name, milli]) => [name, toTokens(milli)])) : {}
  }

  /** The parent that shares the charge, if any. */
  get parent(): string | undefined {
    return this.#grants[1]?.record.entity
  }

  /**
   * Corrects the charge after the fact: positive amounts charge more, into debt if need be, negative ones return. It never
   * refuses for want of tokens. Any limit of the bucket may be named, not only those acquired.
   */
  async adjust(deltas: Consumption): Promise<void> {
    this.#checkOpen()
    const amounts = signedAmountsOf(deltas)
    const [own] = this.#grants
    if (!own) return
    this.#checkKnown(own, amounts)
    this.#checkNotMoreThanHeld(own, amounts)
    await this.#track(this.#correctAll(amounts))
  }

  /** Returns whole tokens; at most what the lease holds. */
  async release(amounts: Consumption): Promise<void> {
    const returned = [...checkConsumption(amounts)].map(([name, milli]): [string, number] => [name, -toTokens(milli)])
    await this.adjust(Object.fromEntries(returned))
  }

  /** Takes more tokens now, or throws `RateLimitExceeded` and changes nothing. */
  async consume(more: Consumption): Promise<void> {
    this.#checkOpen()
    const amounts = checkConsumption(more)
    if (!this.isMetered || amounts.size === 0) return
    await this.#track(this.#takeMore(amounts))
  }

  /** Keeps the charge; the lease ends. */
  async commit(): Promise<void> {
    this.#checkOpen()
    this.#ended = 'committed'
  }

  /** Returns everything the lease still holds; the lease ends. Resolves when it is written or has finally failed. */
  async rollback(): Promise<void> {
    this.#checkOpen()
    this.#ended = 'rolled back'
    // What is still being written is returned too, once it is known what became of it.
    await Promise.allSettled(this.#underway)
    await this.#keeper.refund(this.#grants.flatMap(grant => grant.entries))
  }

  /** Leaving the block without `commit` means that it failed: everything is returned. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#ended) await this.rollback()
  }

  /** Waits for both levels, so that the books are right whatever one of them came to. */
  async #correctAll(amounts: Amounts): Promise<void> {
    const outcomes = await Promise.allSettled(this.#grants.flatMap(grant => this.#correct(grant, amounts)))
    for (const outcome of outcomes) if (outcome.status === 'rejected') await this.#keeper.excuse(outcome.reason)
  }

  #correct(grant: Grant, amounts: Amounts): Promise<void>[] {
    // A parent is charged only for the limits it has.
    const known = [...amounts].filter(([name]) => grant.record.state.limits.has(name))
    return partsOf(grant, new Map(known)).map(async ({entry, deltas}) => {
      const returned = [...deltas].filter(([, milli]) => milli < 0n)
      // Off the books before it is written: tokens whose return is under way or in doubt must not be returned again.
      book(entry, returned, 1n)
      try {
        await this.#keeper.correct(entry.address, deltas)
      } catch (error) {
        if (!isInDoubt(error)) book(entry, returned, -1n)
        throw error
      }
      book(
        entry,
        [...deltas].filter(([, milli]) => milli > 0n),
        1n,
      )
    })
  }

  async #takeMore(amounts: Amounts): Promise<void> {
    try {
      const taken = await this.#keeper.takeMore(amounts)
      for (const [index, grant] of taken.entries()) {
        const mine = this.#grants[index]
        if (mine) mine.entries.push(...grant.entries)
        else this.#grants.push(grant)
      }
    } catch (error) {
      await this.#keeper.excuse(error)
    }
  }

  async #track(work: Promise<void>): Promise<void> {
    this.#underway.add(work)
    try {
      await work
    } finally {
      this.#underway.delete(work)
    }
  }

  #checkOpen(): void {
    if (this.#ended) throw new LeaseEnded(this.#ended)
  }

  #checkKnown({record}: Grant, amounts: Amounts): void {
    const unknown = [...amounts.keys()].filter(name => !record.state.limits.has(name))
    if (unknown.length === 0) return
    throw new InvalidInput(
      'limit.unknown',
      `No limit ${unknown.map(name => `"${name}"`).join(', ')} applies to ${this.entity} for ${this.resource}.`,
    )
  }

  #checkNotMoreThanHeld(grant: Grant, amounts: Amounts): void {
    const holding = held(grant)
    for (const [name, milli] of amounts) {
      if (milli >= 0n || -milli <= (holding.get(name) ?? 0n)) continue
      const has = toTokens(holding.get(name) ?? 0n)
      throw new InvalidInput(
        'lease.over-release',
        `The lease holds ${has} ${name} and cannot return ${toTokens(-milli)}.`,
      )
    }
  }
}

function book(entry: Holding, deltas: Iterable<readonly [string, bigint]>, sign: bigint): void {
  for (const [name, milli] of deltas) entry.heldMilli.set(name, (entry.heldMilli.get(name) ?? 0n) + sign * milli)
}

/** Whether a write that failed may have been applied all the same. */
function isInDoubt(error: unknown): boolean {
  return error instanceof Unavailable && error.maybeApplied
}

function held({entries}: Grant): Map<string, bigint> {
  const sum = new Map<string, bigint>()
  for (const {heldMilli} of entries) for (const [name, milli] of heldMilli) sum.set(name, (sum.get(name) ?? 0n) + milli)
  return sum
}

/** Charges go to the first item; returns go to the items that gave the tokens, so that no shard starves. */
function partsOf({entries}: Grant, amounts: Amounts): {entry: Holding; deltas: Map<string, bigint>}[] {
  const parts = entries.map(entry => ({entry, deltas: new Map<string, bigint>()}))
  for (const [name, milli] of amounts) {
    if (milli > 0n) parts[0]?.deltas.set(name, milli)
    let left = milli < 0n ? -milli : 0n
    for (const {entry, deltas} of parts) {
      const has = entry.heldMilli.get(name) ?? 0n
      const part = has < left ? has : left
      if (part <= 0n) continue
      deltas.set(name, -part)
      left -= part
    }
  }
  return parts.filter(({deltas}) => deltas.size > 0)
}
