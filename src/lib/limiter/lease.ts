import {type Amounts, negateAmounts, sumAmounts} from '../core/buckets/bucket.js'
import {InvalidInput} from '../core/errors.js'
import {type Consumption, checkConsumption, signedAmountsOf} from '../core/limits/limit.js'
import type {LimitStates} from '../core/limits/limit-state.js'
import type {BucketName} from '../core/names.js'
import {toTokens} from '../core/token-math.js'
import {isUnavailability} from '../dynamo/errors.js'
import {visibleLimits} from '../repository/buckets/buckets.js'
import {mayHaveBeenApplied} from '../repository/buckets/marked-write.js'
import type {ReservedTokens} from '../schema/reservation-record.js'
import {balancesOf, noteCharge, shareUsedOf} from './balance.js'
import type {OpenReservation} from './holders/reservations.js'
import type {HeldSlots} from './holders/slot-account.js'
import {LeaseEnded, RateLimitExceeded, type RefusalError, unknownLimit, warnUnlimited} from './refusal/errors.js'
import {balanceHeaders, type HeaderFields} from './refusal/headers.js'
import {
  accept,
  book,
  dropFailed,
  type Grant,
  type Holding,
  heldBy,
  heldSoonBy,
  isCharged,
  noteFailed,
  partsOf,
  refundableBy,
} from './request/grant.js'
import type {SettledEvent} from './request/options.js'

export interface LeaseActions {
  readonly isStrict: boolean
  /** Charges or refunds one bucket item, whatever its balance. Retries in an outage, and calls `onRetry` each time. */
  settle(holding: Holding, deltas: Amounts, requests: number, onRetry: () => void): Promise<void>
  /** Returns slots of in-flight limits: now, or batched for a moment. Resolves when written or failed once. */
  returnSlots(slots: readonly HeldSlots[]): Promise<void>
  /** Writes the pending settlements of these items now. */
  hurry(holdings: readonly Holding[]): void
  /** Waits for a settlement as the caller asked, but not for retries. Errors of a rollback warn. */
  finish(work: Promise<void>, rules: {readonly isRollback: boolean; readonly whenRetried: Promise<void>}): Promise<void>
  /** A settlement was given up. */
  noteUnsettled(): void
  readonly onSettled: ((event: Omit<SettledEvent, 'namespace'>) => void) | undefined
  takeMore(amounts: Amounts): Promise<readonly Grant[]>
  /** By policy, ignores an outage or throws `RateLimiterUnavailable`. Rethrows everything else. */
  handleFailure(error: unknown): Promise<void>
  clock(): number
}

const NONE: readonly never[] = []

/** The reservation may still be returned by others. */
interface FailedEnd {
  readonly error: unknown
}

const NO_AMOUNTS: Amounts = new Map()

/** Stores the tokens once the lease has been open for a second. */
type OpenReserved = (tokens: () => readonly ReservedTokens[]) => OpenReservation

interface AskedResource {
  readonly entity: string
  readonly resource: string
  readonly amounts: Amounts
}

/** The part of a lease for one resource. */
export type LeasePart<Name extends string = string> = Pick<
  Lease<Name>,
  | 'entity'
  | 'resource'
  | 'isMetered'
  | 'bypassed'
  | 'consumed'
  | 'limits'
  | 'unlimited'
  | 'parent'
  | 'parents'
  | 'adjust'
  | 'release'
  | 'consume'
>

/**
 * An admitted request. Its tokens are charged; until it is committed, they can be adjusted or refunded.
 *
 * @example
 * ```ts
 * await using lease = await limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1, tpm: 500}})
 * const {totalTokens} = await callModel()
 * await lease.adjust({tpm: totalTokens - 500})
 * await lease.commit() // without this, leaving the block refunds everything
 * ```
 */
export class Lease<Name extends string = string> implements AsyncDisposable {
  readonly entity: string
  readonly resource: string
  /**
   * False if nothing was charged: the table was unavailable and the policy allowed the request, or `wouldRefuse` is set.
   * Settlements then charge nothing either.
   */
  readonly isMetered: boolean
  /** Only with `enforce: false`: the error that `enforce: true` would throw. `undefined` if the request fits. */
  readonly wouldRefuse: RefusalError | undefined
  #grants: readonly Grant[]
  readonly #makeActions: (() => LeaseActions) | undefined
  #madeActions: LeaseActions | undefined
  #underway: readonly Promise<void>[] = NONE
  #others: readonly Lease<Name>[] = NONE
  #unlimited: readonly string[] = NONE
  #signal: AbortSignal | undefined
  #reserve: {readonly open: OpenReserved; most: Amounts | undefined} | undefined
  #reservation: OpenReservation | undefined
  #unreserving: Promise<FailedEnd | undefined> | undefined
  /** Tokens that others have returned, because this process seemed dead: to be charged again unless refunded. */
  #returned = new Map<Grant, Amounts>()
  #ended: 'committed' | 'rolled back' | undefined
  /** Settlements that are being retried. */
  #retried = 0
  #whenRetried: {readonly promise: Promise<void>; readonly resolve: () => void} | undefined

  /** @internal */
  constructor(
    {entity, resource, amounts}: AskedResource,
    grants: readonly Grant[] = [],
    actions?: () => LeaseActions,
    wouldRefuse?: RefusalError,
  ) {
    this.entity = entity
    this.resource = resource
    this.isMetered = grants.length > 0
    this.wouldRefuse = wouldRefuse
    this.#grants = grants
    this.#makeActions = actions
    this.#noteUnlimited(amounts, grants)
  }

  /** @internal */
  including(others: readonly Lease<Name>[]): this {
    this.#others = others
    return this
  }

  /** @internal */
  reserving(open: OpenReserved, most: Amounts | undefined): this {
    const isQuota = ({holdings}: Grant) => holdings.some(({periods, isBypassed}) => periods.size > 0 && !isBypassed)
    if (!this.#grants.some(isQuota)) return this
    this.#reserve = {open, most}
    this.#openReservation()
    return this
  }

  #openReservation(): void {
    const reserve = this.#reserve
    this.#reservation = reserve?.open(() => reservedTokens(this.#grants, reserve.most))
  }

  /**
   * Tokens taken from balances, of the entity and of its ancestors.
   *
   * @internal
   */
  get taken(): readonly ReservedTokens[] {
    return this.#grants.flatMap(grant => tokensTakenBy(grant))
  }

  /**
   * Those of bypassed items too.
   *
   * @internal
   */
  get counted(): readonly ReservedTokens[] {
    return this.#grants.flatMap(grant => tokensTakenBy(grant, true))
  }

  /** @internal */
  async written(): Promise<void> {
    await Promise.all(this.#underway)
  }

  /** The part for one of the request's `resources`, or for its `resource`: by name, or by bucket. Throws for others. */
  resources(of: string | BucketName): LeasePart<Name> {
    const parts = [this, ...this.#others]
    const asked = typeof of === 'string' ? {entity: this.entity, resource: of} : of
    const part = parts.find(({entity, resource}) => entity === asked.entity && resource === asked.resource)
    if (part) return part
    const nameOf = ({entity, resource}: BucketName) => (entity === this.entity ? resource : `${resource} of ${entity}`)
    const names = parts.map(nameOf).join(', ')
    throw new InvalidInput('lease.resource', `The lease has no resource "${nameOf(asked)}", only ${names}.`)
  }

  /** Whether a switch bypassed the entity's limits: counted, nothing taken. Parents may still have been charged. */
  get bypassed(): boolean {
    return this.#grants[0]?.holdings[0]?.isBypassed ?? false
  }

  /** Whole tokens charged to the entity (if bypassed: counted) and not refunded, per limit, with pending settlements. */
  get consumed(): Consumption<Name> {
    const [own] = this.#grants
    return (own ? tokensOf(heldSoonBy(own)) : {}) as Consumption<Name>
  }

  /** Balances after this lease's writes, refilled to now: the lowest of entity and parents. No call. Empty in an outage. */
  get limits(): LimitStates<Name> {
    if (this.#actions) return balancesOf(this.#grants, this.#actions.clock()) as LimitStates<Name>
    return this.wouldRefuse instanceof RateLimitExceeded ? (this.wouldRefuse.limits as LimitStates<Name>) : {}
  }

  /**
   * Used ÷ capacity of the tightest limit after this request, soft limits, parents and further `resources` included: 0
   * if full, 1 if empty, more in debt. By the same balances as `limits`. `undefined` in an outage.
   */
  get share(): number | undefined {
    if (!this.#actions) return this.wouldRefuse instanceof RateLimitExceeded ? this.wouldRefuse.share : undefined
    const grants = [this, ...this.#others].flatMap(part => part.#grants)
    return shareUsedOf(grants, this.#actions.clock())
  }

  /** Overdrawn soft limits, of the entity or its parents. */
  get overdrawn(): readonly Name[] {
    const names = this.#grants.flatMap(({record}) =>
      [...record.state.limits].flatMap(([name, {kind, tokensMilli}]) =>
        // Planted fault: overdrawn limits are not reported
        kind?.softUntilMs !== undefined && tokensMilli < 0n ? [name] : [],
      ),
    )
    return [...new Set(names)].sort() as Name[]
  }

  /** Requested limits configured for neither the entity nor its charged parents: they were not limited. */
  get unlimited(): readonly Name[] {
    return [...this.#unlimited].sort() as Name[]
  }

  /**
   * Aborts if this process could not renew the slots of an in-flight limit for 30 seconds: others may have taken them, so
   * stop the work. Never aborts without in-flight limits.
   */
  get signal(): AbortSignal {
    this.#signal ??= signalOf([this, ...this.#others].flatMap(part => part.#heldSlots()))
    return this.#signal
  }

  /** `limits` as HTTP headers: the IETF `RateLimit` and `RateLimit-Policy`. */
  headers(): HeaderFields {
    return balanceHeaders(this.limits)
  }

  /** Whether the lease was committed or rolled back. */
  get isEnded(): boolean {
    return this.#ended !== undefined
  }

  /** The parent that shares the charge, if any. */
  get parent(): string | undefined {
    return this.parents[0]
  }

  /** All parents that share the charge, nearest first: at most one, unless the namespace charges all levels. */
  get parents(): readonly string[] {
    return this.#grants.slice(1).map(({record}) => record.entity)
  }

  /**
   * Settles the charge: positive amounts charge more, into debt if needed; negative amounts refund. Never refused for
   * lack of tokens. Any limit of the bucket may be named; limits not configured at acquire are skipped, unless
   * `strict`. Resolves when written or, with `settle: 'soon'`, at once. In an outage, resolves after the first failed
   * attempt and retries in the background; `onSettled` reports the result.
   */
  async adjust(deltas: Consumption<Name>): Promise<void> {
    this.#checkOpen()
    const asked = signedAmountsOf(deltas as Consumption)
    if (this.#grants.length === 0) return
    const amounts = this.#knownAmounts(asked)
    this.#checkNotMoreThanHeld(amounts)
    const actions = this.#actions
    if (actions) await this.#finish(this.#settleAll(amounts, actions), actions, false)
  }

  /** Refunds whole tokens, at most those the lease holds. Tokens of a failed charge count as held, but refund nothing. */
  async release(amounts: Consumption<Name>): Promise<void> {
    const returned = [...checkConsumption(amounts as Consumption)].map(([name, milli]) => [name, -toTokens(milli)])
    await this.adjust(Object.fromEntries(returned))
  }

  /** Takes more tokens now, or throws `RateLimitExceeded` and changes nothing. With `enforce: false`, never refused. */
  async consume(more: Consumption<Name>): Promise<void> {
    this.#checkOpen()
    const amounts = checkConsumption(more as Consumption)
    if (!this.isMetered || amounts.size === 0) return
    await this.#track(this.#takeMore(amounts))
  }

  /** Keeps the charge, returns the slots of in-flight limits, and ends the lease. */
  async commit(): Promise<void> {
    this.#checkOpen()
    this.#ended = 'committed'
    const returned = this.#returnSlots()
    // One that fails must not keep the slots and reservations of the others.
    const others = this.#others.map(other => other.commit())
    const actions = this.#reservation && this.#actions
    const isStored = actions && this.#reservation?.isStored
    if (!isStored) void this.#reservation?.end(() => {})
    const unreserved = isStored && this.#finish(this.#settleAll(NO_AMOUNTS, actions), actions, false)
    await Promise.all([returned, unreserved, ...others])
  }

  /** Refunds everything the lease still holds and ends it. Resolves when written or, in an outage, like `adjust`. */
  async rollback(): Promise<void> {
    this.#checkOpen()
    this.#ended = 'rolled back'
    const returned = this.#returnSlots()
    const others = Promise.all(this.#others.map(other => other.rollback()))
    const actions = this.#actions
    if (actions) await this.#finish(this.#refundAll(actions), actions, true)
    await returned
    await others
  }

  /** Leaving the block without `commit` refunds everything. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#ended) await this.rollback()
  }

  /** Waits for all levels, so that the holdings are right whatever the outcomes. Without amounts: `commit`. */
  async #settleAll(amounts: Amounts, actions: LeaseActions): Promise<void> {
    const parts = this.#grants.map(grant => ({grant, known: knownBy(grant, amounts)}))
    for (const {grant, known} of parts) accept(grant, known, 1n)
    const isCommit = amounts === NO_AMOUNTS
    const usage = actions.onSettled && !isCommit ? (this.consumed as Consumption) : undefined
    const attempts = new Attempts(actions, () => this.#noteRetry())
    const isRefund = [...amounts.values()].some(milli => milli < 0n)
    // Refund only after earlier settlements are written: the charge of these very tokens might fail.
    if (this.#underway.length > 0 && isRefund) await this.#afterOthers(actions)
    const isReserved = isRefund && parts.some(({grant, known}) => refundsQuota(grant, known))
    const unreserving = isReserved || isCommit ? this.#unreserve(attempts) : undefined
    const failed = unreserving && (await unreserving)
    if (failed) {
      for (const {grant, known} of parts) accept(grant, known, -1n)
      if (isCommit) void this.#unreserveLater(attempts).catch(() => {})
      return this.#settled([Promise.reject(failed.error)], usage, attempts)
    }
    const works = parts.flatMap(({grant, known}) => {
      const due = this.#withReturned(grant, known)
      accept(grant, returnsOf(due), -1n)
      return this.#settle(grant, due, attempts)
    })
    await this.#settled(works, usage, attempts).finally(() => {
      // The rest of the tokens comes back too if the process dies.
      if (isReserved && !this.#ended) this.#reserveRest(amounts)
    })
  }

  #reserveRest(refunded: Amounts): void {
    if (!this.#reserve) return
    const {most} = this.#reserve
    const lowered = most && new Map([...most].map(([name, milli]) => [name, leftOf(milli, refunded.get(name))]))
    this.#reserve.most = lowered
    this.#openReservation()
  }

  /** Otherwise others would return what a committed lease has used, once this process has ended. */
  async #unreserveLater(attempts: Attempts): Promise<void> {
    const reservation = this.#reservation
    if (!reservation || (await this.#takeBack(reservation.endLater()))) return
    this.#reservation = undefined
    const works = this.#grants.flatMap(grant => this.#settle(grant, this.#withReturned(grant, NO_AMOUNTS), attempts))
    await Promise.all(works)
  }

  /** From now on, only this lease settles its tokens. Resolves to an error if it may not. */
  #unreserve(attempts: Attempts): Promise<FailedEnd | undefined> | undefined {
    const ending = this.#reservation?.end(() => attempts.noteRetry())
    if (ending)
      this.#unreserving ??= this.#takeBack(ending).then(failed => {
        this.#unreserving = undefined
        if (!failed) this.#reservation = undefined
        return failed
      })
    return this.#unreserving
  }

  /** Tokens that others have returned are no longer held. */
  async #takeBack(ending: Promise<readonly ReservedTokens[]>): Promise<FailedEnd | undefined> {
    try {
      // Planted fault: tokens that others have returned are refunded again
      for (const {entity, resource, shard, limit, milli} of await ending) {
        const isHere = ({address}: Holding) =>
          address.entity === entity && address.resource === resource && address.shard === shard
        const grant = this.#grants.find(({holdings}) => holdings.some(isHere))
        const holding = grant?.holdings.find(each => isHere(each) && (each.heldMilli.get(limit) ?? 0n) >= milli)
        if (!grant || !holding) continue
        book(holding, [[limit, milli]], -1n)
        const returned = {amounts: this.#returned.get(grant) ?? NO_AMOUNTS}
        this.#returned.set(grant, sumAmounts([returned, {amounts: new Map([[limit, milli]])}]))
      }
    } catch (error) {
      return {error}
    }
    return undefined
  }

  /** Tokens that others have returned are charged again with the next settlement. */
  #withReturned(grant: Grant, known: Amounts): Amounts {
    const returned = this.#returned.get(grant)
    if (!returned) return known
    this.#returned.delete(grant)
    const due = sumAmounts([{amounts: known}, {amounts: returned}])
    accept(grant, known, -1n)
    accept(grant, due, 1n)
    return due
  }

  /** Hurries the settlements under way and waits for them. */
  async #afterOthers(actions: LeaseActions): Promise<void> {
    actions.hurry(this.#grants.flatMap(grant => grant.holdings))
    await Promise.allSettled(this.#underway)
  }

  #settle(grant: Grant, amounts: Amounts, attempts: Attempts): Promise<void>[] {
    const parts = partsOf(grant, amounts)
    dropFailed(grant, returnsOf(amounts))
    return parts.map(async ({holding, deltas}) => {
      const returns = returnsOf(deltas)
      const charges = [...deltas].filter(([, milli]) => milli > 0n)
      // Unbook before writing: tokens whose refund is under way or in doubt must not be refunded again.
      // Planted fault: a rollback refunds released tokens again
      book(holding, returns, 1n)
      try {
        await attempts.settle(holding, deltas, 0)
      } catch (error) {
        if (!mayHaveBeenApplied(error)) book(holding, returns, -1n)
        else if (grant === this.#grants[0]) attempts.noteDoubt(deltas)
        noteFailed(grant, charges)
        accept(grant, charges, -1n)
        throw error
      }
      // Planted fault: a rollback ignores adjustments
      book(holding, charges, 1n)
      accept(grant, charges, -1n)
      if (!holding.isBypassed) this.#note(grant, deltas)
    })
  }

  /** @internal */
  get holdsSlots(): boolean {
    return [this, ...this.#others].some(part => part.#heldSlots().length > 0)
  }

  /**
   * Returns the slots, and leaves the lease open for settlements.
   *
   * @internal
   */
  async returnSlots(): Promise<void> {
    await Promise.all([this, ...this.#others].map(part => part.#returnSlots()))
  }

  #heldSlots(): readonly HeldSlots[] {
    return this.#grants.flatMap(({holdings}) => holdings.flatMap(({slots}) => slots ?? []))
  }

  #returnSlots(): Promise<void> | undefined {
    const held = this.#heldSlots()
    const actions = held.length > 0 ? this.#actions : undefined
    if (!actions) return undefined
    this.#signal = this.signal
    for (const {holdings} of this.#grants) for (const holding of holdings) holding.slots = undefined
    return this.#track(actions.returnSlots(held))
  }

  async #refundAll(actions: LeaseActions): Promise<void> {
    // Writes under way are refunded too, once their outcome is known.
    await this.#afterOthers(actions)
    const [own] = this.#grants
    const usage = actions.onSettled && own && tokensOf(new Map([...heldBy(own).keys()].map(name => [name, 0n])))
    const attempts = new Attempts(actions, () => this.#noteRetry())
    const unreserving = this.#unreserve(attempts)
    const failed = unreserving && (await unreserving)
    if (failed) return this.#settled([Promise.reject(failed.error)], usage, attempts)
    const works = this.#grants.flatMap(grant =>
      grant.holdings.map(async holding => {
        const {heldMilli, requests} = holding
        holding.heldMilli = new Map()
        holding.requests = 0
        try {
          await attempts.settle(holding, negateAmounts(heldMilli), -requests)
        } catch (error) {
          if (!mayHaveBeenApplied(error)) Object.assign(holding, {heldMilli, requests})
          else if (grant === own) attempts.noteDoubt(heldMilli)
          throw error
        }
        if (!holding.isBypassed) this.#note(grant, negateAmounts(heldMilli))
      }),
    )
    actions.hurry(this.#grants.flatMap(grant => grant.holdings))
    await this.#settled(works, usage, attempts)
  }

  /** Reports a settlement when all its writes are done or given up. Throws the first error. */
  async #settled(works: readonly Promise<void>[], usage: Consumption | undefined, attempts: Attempts): Promise<void> {
    const outcomes = await Promise.allSettled(works)
    const {retries} = attempts
    if (retries > 0) this.#retried--
    const failure = outcomes.find(outcome => outcome.status === 'rejected')
    const error = failure?.reason
    const [own] = this.#grants
    if (usage && own) {
      const held = tokensOf(sumAmounts([{amounts: heldBy(own)}, {amounts: attempts.doubtfulMilli}]))
      const charged = Object.fromEntries(Object.keys(usage).map(name => [name, held[name] ?? 0]))
      const {entity, resource} = this
      this.#actions?.onSettled?.({entity, resource, usage, charged, retries, error})
    }
    if (isUnavailability(error)) this.#actions?.noteUnsettled()
    if (failure) throw error
  }

  #noteRetry(): void {
    this.#retried++
    this.#whenRetried?.resolve()
    this.#whenRetried = undefined
  }

  async #finish(work: Promise<void>, actions: LeaseActions, isRollback: boolean): Promise<void> {
    if (this.#retried === 0) this.#whenRetried ??= resolvable()
    const whenRetried = this.#retried > 0 ? Promise.resolve() : (this.#whenRetried?.promise as Promise<void>)
    await actions.finish(this.#track(work), {isRollback, whenRetried})
  }

  async #takeMore(amounts: Amounts): Promise<void> {
    try {
      const taken = (await this.#actions?.takeMore(amounts)) ?? []
      this.#noteUnlimited(amounts, taken)
      const levels = this.#grants
      for (const [index, grant] of taken.entries()) {
        const mine = sameLevel(levels, index, taken)
        if (!mine) this.#grants = [...this.#grants, grant]
        else {
          mine.holdings.push(...grant.holdings)
          mine.record = grant.record
          mine.shards = grant.shards
          mine.shares = undefined
        }
      }
    } catch (error) {
      await this.#actions?.handleFailure(error)
    }
  }

  #note(grant: Grant, deltas: Amounts): void {
    if (this.#actions) noteCharge(grant, deltas, this.#actions.clock())
  }

  async #track(work: Promise<void>): Promise<void> {
    this.#underway = [...this.#underway, work]
    try {
      await work
    } finally {
      this.#underway = this.#underway.filter(each => each !== work)
    }
  }

  get #actions(): LeaseActions | undefined {
    this.#madeActions ??= this.#makeActions?.()
    return this.#madeActions
  }

  #checkOpen(): void {
    if (this.#ended) throw new LeaseEnded(this.#ended)
  }

  #noteUnlimited(asked: Amounts, grants: readonly Grant[]): void {
    if (grants.length === 0) return
    for (const name of asked.keys()) if (!grants.some(grant => isCharged(grant, name))) this.#addUnlimited(name)
  }

  #addUnlimited(name: string): void {
    if (!this.#unlimited.includes(name)) this.#unlimited = [...this.#unlimited, name]
    warnUnlimited(name, this)
  }

  /** Skips limits that no level has, and refunds of limits that were never charged. */
  #knownAmounts(asked: Amounts): Amounts {
    const {isStrict = false} = this.#actions ?? {}
    const levels = this.#grants.map(grant => grant.record)
    const unknown = [...asked.keys()].filter(name => !levels.some(({state}) => state.limits.has(name)))
    if (unknown.length > 0 && isStrict) {
      const known = levels.flatMap(level => [...visibleLimits(level).keys()])
      throw unknownLimit(this.entity, this.resource, unknown, known)
    }
    for (const name of unknown) this.#addUnlimited(name)
    const isReturnOfNothing = (name: string, milli: bigint) =>
      milli < 0n && this.#unlimited.includes(name) && this.#refundable(name) === 0n
    return new Map([...asked].filter(([name, milli]) => !unknown.includes(name) && !isReturnOfNothing(name, milli)))
  }

  #refundable(name: string): bigint {
    const grant = this.#grants.find(({record}) => record.state.limits.has(name))
    return (grant && refundableBy(grant).get(name)) ?? 0n
  }

  #checkNotMoreThanHeld(amounts: Amounts): void {
    for (const [name, milli] of amounts) {
      const held = this.#refundable(name)
      if (milli >= 0n || -milli <= held) continue
      throw new InvalidInput(
        'lease.over-release',
        `The lease holds ${toTokens(held)} ${name} and cannot return ${toTokens(-milli)}.`,
      )
    }
  }
}

/** Charges a level only for limits it has. After a move, a grant may hold tokens of a limit that its bucket lacks. */
function knownBy(grant: Grant, amounts: Amounts): Amounts {
  const {limits} = grant.record.state
  return new Map([...amounts].filter(([name, milli]) => limits.has(name) || (milli < 0n && heldBy(grant).has(name))))
}

/**
 * The level of a lease that the grant at this index adds to: the one of its entity. After a move, the one at its place,
 * so that settlements charge no entity twice.
 */
function sameLevel(levels: readonly Grant[], index: number, taken: readonly Grant[]): Grant | undefined {
  const isOf = ({holdings}: Grant, {record}: Grant) => holdings.some(({address}) => address.entity === record.entity)
  // Planted fault: tokens taken later become a level of their own
  const same = levels.find(level => isOf(level, taken[index] as Grant))
  const atPlace = levels[index]
  return same ?? (atPlace && !taken.some(grant => isOf(atPlace, grant)) ? atPlace : undefined)
}

/** Quota tokens that the grants hold; of each limit at most `most`. */
function reservedTokens(grants: readonly Grant[], most: Amounts | undefined): ReservedTokens[] {
  return grants.flatMap(grant => {
    const left = most && new Map(most)
    return tokensTakenBy(grant).flatMap(taken => {
      const {limit, period} = taken
      if (!period) return []
      const allowed = left ? (left.get(limit) ?? 0n) : taken.milli
      const milli = taken.milli < allowed ? taken.milli : allowed
      left?.set(limit, allowed - milli)
      return milli > 0n ? [{...taken, milli}] : []
    })
  })
}

/** Tokens of balances, by bucket item and limit. A bypassed item gave none. */
function tokensTakenBy({holdings}: Grant, withBypassed = false): ReservedTokens[] {
  return holdings.flatMap(({address, incarnation, isBypassed, periods, heldMilli}) =>
    isBypassed && !withBypassed
      ? []
      : Array.from(heldMilli, ([limit, milli]) => ({
          ...address,
          incarnation,
          limit,
          milli,
          period: periods.get(limit),
        })),
  )
}

/** Aborts when any of the holders is lost. */
function signalOf(held: readonly HeldSlots[]): AbortSignal {
  const [first, ...others] = new Set(held.map(({holder}) => holder.signal))
  if (!first) return new AbortController().signal
  return others.length === 0 ? first : AbortSignal.any([first, ...others])
}

/** The part of an amount that stays reserved after a refund. */
function leftOf(milli: bigint, deltaMilli = 0n): bigint {
  if (deltaMilli >= 0n) return milli
  return milli > -deltaMilli ? milli + deltaMilli : 0n
}

const refundsQuota = ({holdings}: Grant, deltas: Amounts): boolean =>
  returnsOf(deltas).some(([name]) => holdings.some(({periods}) => periods.has(name)))

const returnsOf = (deltas: Amounts): [string, bigint][] => [...deltas].filter(([, milli]) => milli < 0n)

/** The writes of one settlement. */
class Attempts {
  retries = 0
  /** Millitokens of the entity whose charge or refund may have been applied. */
  doubtfulMilli: Amounts = new Map()
  readonly #actions: LeaseActions
  readonly #onFirstRetry: () => void

  constructor(actions: LeaseActions, onFirstRetry: () => void) {
    this.#actions = actions
    this.#onFirstRetry = onFirstRetry
  }

  settle(holding: Holding, deltas: Amounts, requests: number): Promise<void> {
    return this.#actions.settle(holding, deltas, requests, () => this.noteRetry())
  }

  noteRetry(): void {
    if (++this.retries === 1) this.#onFirstRetry()
  }

  noteDoubt(deltas: Amounts): void {
    const largest = new Map([...deltas].map(([name, milli]) => [name, milli < 0n ? -milli : milli]))
    this.doubtfulMilli = sumAmounts([{amounts: this.doubtfulMilli}, {amounts: largest}])
  }
}

/** Whole tokens. Negative amounts, while a refund of a failed charge is pending, count as 0. */
function tokensOf(amounts: Amounts): Consumption {
  return Object.fromEntries([...amounts].map(([name, milli]) => [name, toTokens(milli > 0n ? milli : 0n)]))
}

function resolvable(): {readonly promise: Promise<void>; readonly resolve: () => void} {
  let resolve = () => {}
  const promise = new Promise<void>(resolvePromise => {
    resolve = resolvePromise
  })
  return {promise, resolve}
}

interface SettleOptions {
  readonly isSoon: boolean
  readonly queues: {
    settle(holding: Holding, deltas: Amounts, requests: number, onRetry: () => void): Promise<void>
    settleSoon(holding: Holding, deltas: Amounts, onRetry: () => void): Promise<void>
    hurry(holdings: readonly Holding[]): void
    returnSlots(slots: HeldSlots, isSoon: boolean): Promise<void>
    readonly background: {run(work: Promise<unknown>): Promise<void>}
  }
  readonly closing: AbortSignal
  readonly warning: SettleWarning
  readonly handleFailure: (error: unknown) => Promise<void>
}

/** `close` waits for all settlements. While closing, callers do too: the process may be about to end. */
export function settleActions({
  isSoon,
  queues,
  closing,
  warning,
  handleFailure,
}: SettleOptions): Pick<LeaseActions, 'settle' | 'hurry' | 'finish' | 'returnSlots'> {
  return {
    settle: (holding, deltas, requests, onRetry) =>
      isSoon && requests === 0
        ? queues.settleSoon(holding, deltas, onRetry)
        : queues.settle(holding, deltas, requests, onRetry),
    hurry: holdings => queues.hurry(holdings),
    returnSlots: async slots => {
      const isLater = isSoon && !closing.aborted
      // The account stays due after a failure, so the queue repeats the write.
      const returned = slots.map(each => queues.background.run(queues.returnSlots(each, isLater)))
      if (!isLater) await Promise.all(returned)
    },
    finish: async (work, {isRollback, whenRetried}) => {
      let isAccepted = isRollback || (isSoon && !closing.aborted)
      const done = work.catch(error => {
        if (!isAccepted) return handleFailure(error)
        warning.show(error)
      })
      void queues.background.run(done)
      if (closing.aborted) return done
      if (isSoon && !isRollback) return
      const accepted = whenRetried.then(() => {
        isAccepted = true
      })
      await Promise.race([done, accepted])
    },
  }
}

export class SettleWarning {
  #hasWarned = false

  /** Once per limiter: an unavailable table fails every settlement. */
  show(error: unknown): void {
    if (this.#hasWarned) return
    this.#hasWarned = true
    const why = error instanceof Error ? error.message : String(error)
    process.emitWarning(
      `A settlement may not have been written, so its lease may stay charged as before. Shown once per limiter: ${why}`,
      {type: 'ZaelWarning', code: 'ZAEL_SETTLE'},
    )
  }
}
