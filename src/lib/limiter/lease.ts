import {type Amounts, negateAmounts} from '../core/buckets/bucket.js'
import {InvalidInput} from '../core/errors.js'
import {type Consumption, checkConsumption, signedAmountsOf} from '../core/limits/limit.js'
import type {LimitStates} from '../core/limits/limit-state.js'
import {toTokens} from '../core/token-math.js'
import {visibleLimits} from '../repository/buckets/buckets.js'
import {mayHaveBeenApplied} from '../repository/buckets/marked-write.js'
import {balancesOf, noteCharge, shareUsedOf} from './balance.js'
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
  takenBy,
} from './request/grant.js'

export interface LeaseActions {
  readonly isStrict: boolean
  /** Charges or refunds one bucket item, whatever its balance. Throws outages unchanged. */
  settle(holding: Holding, deltas: Amounts): Promise<void>
  takeMore(amounts: Amounts): Promise<readonly Grant[]>
  /** By policy, ignores an outage or throws `RateLimiterUnavailable`. Rethrows everything else. */
  handleFailure(error: unknown): Promise<void>
  refund(holdings: readonly Holding[]): Promise<void>
  /** Replaces `settle` and `handleFailure` if the lease settles soon. */
  readonly soon: SoonActions<Holding> | undefined
  clock(): number
}

const NONE: readonly never[] = []

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
  /** With `enforce: false`: the error that `acquire` would throw otherwise. `undefined` if the request fits. */
  readonly wouldRefuse: RefusalError | undefined
  #grants: readonly Grant[]
  readonly #makeActions: (() => LeaseActions) | undefined
  #madeActions: LeaseActions | undefined
  #underway: readonly Promise<void>[] = NONE
  #others: readonly Lease<Name>[] = NONE
  #unlimited: readonly string[] = NONE
  #ended: 'committed' | 'rolled back' | undefined

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
  async written(): Promise<void> {
    await Promise.all(this.#underway)
  }

  /** The part for one of the request's `resources`, or for its `resource`. Throws for any other name. */
  resources(name: string): LeasePart<Name> {
    const parts = [this, ...this.#others]
    const part = parts.find(({resource}) => resource === name)
    if (part) return part
    const names = parts.map(({resource}) => resource)
    throw new InvalidInput('lease.resource', `The lease has no resource "${name}", only ${names.join(', ')}.`)
  }

  /** Whether a switch bypassed the entity's limits: counted, nothing taken. A parent may still have been charged. */
  get bypassed(): boolean {
    return this.#grants[0]?.holdings[0]?.isBypassed ?? false
  }

  /** Whole tokens charged to the entity and not refunded, per limit, with pending settlements; if bypassed, counted. */
  get consumed(): Consumption<Name> {
    const [own] = this.#grants
    const held = own ? [...heldSoonBy(own)] : []
    // Negative while a refund of a failed charge is pending.
    const consumed = held.map(([name, milli]) => [name, toTokens(milli > 0n ? milli : 0n)])
    return Object.fromEntries(consumed) as Consumption<Name>
  }

  /** Balances by this lease's writes, refilled to now: the lower of entity and parent. No call. Empty in an outage. */
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

  /** Overdrawn soft limits, of the entity or its parent. */
  get overdrawn(): readonly Name[] {
    const names = this.#grants.flatMap(({record}) =>
      [...record.state.limits].flatMap(([name, {kind, tokensMilli}]) =>
        // Planted fault: overdrawn limits are not reported
        kind?.softUntilMs !== undefined && tokensMilli < 0n ? [name] : [],
      ),
    )
    return [...new Set(names)].sort() as Name[]
  }

  /** Requested limits configured for neither the entity nor its parent: they were not limited. */
  get unlimited(): readonly Name[] {
    return [...this.#unlimited].sort() as Name[]
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
    return this.#grants[1]?.record.entity
  }

  /**
   * Settles the charge: positive amounts charge more, into debt if needed; negative amounts refund. Never refused for
   * lack of tokens. Any limit of the bucket may be named; limits not configured at acquire are skipped, unless
   * `strict`. Resolves when written or, with `settle: 'soon'`, at once.
   */
  async adjust(deltas: Consumption<Name>): Promise<void> {
    this.#checkOpen()
    const asked = signedAmountsOf(deltas as Consumption)
    if (this.#grants.length === 0) return
    const amounts = this.#knownAmounts(asked)
    this.#checkNotMoreThanHeld(amounts)
    const soon = this.#actions?.soon
    if (soon) await soon.accept(this.#track(this.#settleAllSoon(amounts, soon)))
    else await this.#track(this.#settleAll(amounts))
  }

  /** Refunds whole tokens, at most those the lease holds. Tokens whose charge failed count too, and return nothing. */
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

  /** Keeps the charge and ends the lease. */
  async commit(): Promise<void> {
    this.#checkOpen()
    this.#ended = 'committed'
    for (const other of this.#others) await other.commit()
  }

  /** Refunds everything the lease still holds and ends it. Resolves when written or finally failed. */
  async rollback(): Promise<void> {
    this.#checkOpen()
    this.#ended = 'rolled back'
    const others = Promise.all(this.#others.map(other => other.rollback()))
    // Writes under way are refunded too, once their outcome is known.
    this.#hurry()
    await Promise.allSettled(this.#underway)
    for (const grant of this.#grants) this.#note(grant, negateAmounts(takenBy(grant)))
    await this.#actions?.refund(this.#grants.flatMap(grant => grant.holdings))
    await others
  }

  /** Leaving the block without `commit` refunds everything. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#ended) await this.rollback()
  }

  /** Waits for both levels, so that the holdings are right whatever the outcomes. */
  async #settleAll(amounts: Amounts): Promise<void> {
    const actions = this.#actions
    if (!actions) return
    const works = this.#grants.flatMap(grant => this.#settle(grant, knownBy(grant, amounts), actions.settle))
    const outcomes = await Promise.allSettled(works)
    for (const outcome of outcomes) if (outcome.status === 'rejected') await actions.handleFailure(outcome.reason)
  }

  async #settleAllSoon(amounts: Amounts, soon: SoonActions<Holding>): Promise<void> {
    const parts = this.#grants.map(grant => ({grant, known: knownBy(grant, amounts)}))
    for (const {grant, known} of parts) accept(grant, known, 1n)
    // Refund only after earlier settlements are written: the charge of these very tokens might fail.
    if (this.#underway.length > 0 && [...amounts.values()].some(milli => milli < 0n)) {
      this.#hurry()
      await Promise.allSettled(this.#underway)
    }
    const works = parts.flatMap(({grant, known}) => {
      accept(grant, returnsOf(known), -1n)
      return this.#settle(grant, known, soon.settle, charges => accept(grant, charges, -1n))
    })
    const outcomes = await Promise.allSettled(works)
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  }

  #hurry(): void {
    this.#actions?.soon?.hurry(this.#grants.flatMap(grant => grant.holdings))
  }

  /** Calls `onDone` with the charges once they are booked, or never will be. */
  #settle(
    grant: Grant,
    amounts: Amounts,
    settle: SoonActions<Holding>['settle'],
    onDone?: (charges: [string, bigint][]) => void,
  ): Promise<void>[] {
    const parts = partsOf(grant, amounts)
    dropFailed(grant, returnsOf(amounts))
    return parts.map(async ({holding, deltas}) => {
      const returns = returnsOf(deltas)
      const charges = [...deltas].filter(([, milli]) => milli > 0n)
      // Unbook before writing: tokens whose refund is under way or in doubt must not be refunded again.
      // Planted fault: a rollback refunds released tokens again
      book(holding, returns, 1n)
      try {
        await settle(holding, deltas)
      } catch (error) {
        if (!mayHaveBeenApplied(error)) book(holding, returns, -1n)
        noteFailed(grant, charges)
        onDone?.(charges)
        throw error
      }
      // Planted fault: a rollback ignores adjustments
      book(holding, charges, 1n)
      onDone?.(charges)
      if (!holding.isBypassed) this.#note(grant, deltas)
    })
  }

  async #takeMore(amounts: Amounts): Promise<void> {
    try {
      const taken = (await this.#actions?.takeMore(amounts)) ?? []
      this.#noteUnlimited(amounts, taken)
      for (const [index, grant] of taken.entries()) {
        const mine = this.#grants[index]
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

const returnsOf = (deltas: Amounts): [string, bigint][] => [...deltas].filter(([, milli]) => milli < 0n)

export interface SoonActions<Holding> {
  /** Like the lease's `settle`, but batched with others for a moment and retried like a refund. */
  settle(holding: Holding, deltas: Amounts): Promise<void>
  hurry(holdings: readonly Holding[]): void
  /** Resolves at once; closing waits for the work, and failures warn. While closing, waits for the work itself. */
  accept(work: Promise<void>): Promise<void>
}

interface SoonOptions<Holding> {
  readonly queues: {
    settleSoon(holding: Holding, deltas: Amounts): Promise<void>
    hurry(holdings: readonly Holding[]): void
    readonly background: {run(work: Promise<unknown>): Promise<void>}
  }
  readonly closing: AbortSignal
  readonly warning: SettleWarning
  readonly handleFailure: (error: unknown) => Promise<void>
}

export function soonActions<Holding>({
  queues,
  closing,
  warning,
  handleFailure,
}: SoonOptions<Holding>): SoonActions<Holding> {
  return {
    settle: (holding, deltas) => queues.settleSoon(holding, deltas),
    hurry: holdings => queues.hurry(holdings),
    accept: async work => {
      if (closing.aborted) await work.catch(handleFailure)
      else void queues.background.run(work.catch(error => warning.show(error)))
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
