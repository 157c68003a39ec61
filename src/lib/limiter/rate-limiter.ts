import {type Consumption, checkConsumption} from '../core/consumption.js'
import {checkMs} from '../core/duration.js'
import {checkEntityId, checkResourceName} from '../core/names.js'
import {isUnavailability} from '../dynamo/errors.js'
import type {Resolution} from '../repository/limits/resolver.js'
import {openTable} from '../repository/table/open-table.js'
import type {Table} from '../repository/table/table.js'
import type {OnUnavailable} from '../schema/config-record.js'
import {type AcquireDecision, admittedDecision, refusedDecision} from './decision.js'
import {LimiterClosed, RateLimitExceeded, RateLimiterUnavailable, RequestTooLarge, ResourceDisabled} from './errors.js'
import type {Grant} from './grant.js'
import {Lease, type LeaseActions} from './lease.js'
import type {NamespaceLimiter} from './namespace-limiter.js'
import {NamespaceLookup} from './namespace-lookup.js'
import {
  type AcquireRequest,
  type BucketName,
  type LimiterSeams,
  type LimiterSettings,
  type RateLimiterOptions,
  settingsOf,
} from './options.js'
import {Deadline} from './pending-request.js'
import {
  type Availability,
  type CheckResult,
  type ResourceCapacity,
  readAvailability,
  resourceCapacity,
} from './reads.js'
import {acquireTogether, partsOfRequest, type ResourcePart} from './several-resources.js'
import {type AcquireOutcome, untilAdmitted} from './waiting.js'

/** Bound of one read of the stored policy when the table does not answer, in ms. */
const POLICY_TIMEOUT_MS = 250

/**
 * Admits requests against the limits of entities and resources. `Name` narrows the names of limits that are accepted.
 *
 * @example
 * ```ts
 * const limiter = new RateLimiter({stack: 'prod'})
 * const answer = await limiter.withLease(
 *   {entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1, tpm: 500}},
 *   async lease => {
 *     const answer = await callModel()
 *     await lease.adjust({tpm: answer.totalTokens - 500})
 *     return answer
 *   },
 * )
 * ```
 */
export class RateLimiter<Name extends string = string> implements AsyncDisposable {
  readonly #onUnavailable: OnUnavailable | undefined
  readonly #isStrict: boolean
  readonly #table: Table
  readonly #closeTable: () => Promise<void>
  readonly #settings: LimiterSettings
  readonly #lookup: NamespaceLookup
  readonly #closing = new AbortController()
  #hasReadPolicy = false

  constructor(options?: RateLimiterOptions)
  /** @internal */
  constructor(options: RateLimiterOptions & LimiterSeams)
  constructor(options: RateLimiterOptions & LimiterSeams = {}) {
    this.#onUnavailable = options.onUnavailable
    this.#isStrict = options.strict ?? false
    this.#settings = settingsOf(options)
    const {table, close} = openTable({...options, requestTimeoutMs: this.#settings.writeTimeoutMs})
    this.#table = table
    this.#closeTable = close
    this.#lookup = new NamespaceLookup(table, this.#settings, options)
  }

  /**
   * Charges the request, or tells why not. A limit that is not configured does not count and is listed as `unlimited`,
   * unless `strict` is set; where no limits are configured at any level, it throws. Apart from that, throws only when there is no decision: for bad input, when the table cannot be
   * reached in time and the policy is to block (`RateLimiterUnavailable`), when the signal aborts (`Aborted`), and after
   * `close` (`LimiterClosed`).
   */
  async tryAcquire(request: AcquireRequest<Name>): Promise<AcquireDecision<Name>> {
    const {outcome, waitedMs} = await this.#decide(request)
    if (outcome instanceof Lease) return admittedDecision(outcome as Lease<Name>, waitedMs)
    return refusedDecision(outcome, waitedMs)
  }

  /**
   * Charges the request, or throws what `tryAcquire` would return (`RateLimitExceeded` when the request does not fit,
   * `RequestTooLarge` when it never will, `ResourceDisabled` while a switch refuses all) or throw.
   */
  async acquire(request: AcquireRequest<Name>): Promise<Lease<Name>> {
    const {outcome} = await this.#decide(request)
    if (outcome instanceof Lease) return outcome as Lease<Name>
    throw outcome
  }

  /**
   * Acquires, runs `work`, commits, and returns the result of `work`, which may also end the lease itself. When `work`
   * throws, everything that the lease still holds is returned and the error goes on.
   */
  async withLease<T>(request: AcquireRequest<Name>, work: (lease: Lease<Name>) => Promise<T> | T): Promise<T> {
    const lease = await this.acquire(request)
    try {
      const result = await work(lease)
      if (!lease.isEnded) await lease.commit()
      return result
    } catch (error) {
      await lease[Symbol.asyncDispose]()
      throw error
    }
  }

  /** Whether a request would be admitted now; writes nothing. */
  async check(request: BucketName & Pick<AcquireRequest<Name>, 'consume' | 'strict'>): Promise<CheckResult> {
    const availability = await this.#read(request)
    return availability.check(checkConsumption(request.consume as Consumption), request.strict ?? this.#isStrict)
  }

  /** Whole tokens that can be acquired now, per limit: over all shards, and no more than a shared parent has left. */
  async available(bucket: BucketName): Promise<Consumption<Name>> {
    return (await this.#read(bucket)).available() as Consumption<Name>
  }

  /** Milliseconds until a request could be admitted if no other comes first; 0: now, `null`: never. */
  async timeUntilAvailable(
    request: BucketName & Pick<AcquireRequest<Name>, 'consume' | 'strict'>,
  ): Promise<number | null> {
    return (await this.check(request)).retryAfterMs
  }

  /** The limits that apply to an entity and resource, and why. */
  async resolveLimits({entity, resource}: BucketName): Promise<Resolution> {
    return (await this.#open()).resolver.resolve(checkEntityId(entity), checkResourceName(resource))
  }

  /** How much of a resource is left for all entities that have used it, over all shards; writes nothing. */
  async resourceCapacity(resource: string): Promise<ResourceCapacity> {
    return resourceCapacity((await this.#open()).table, checkResourceName(resource))
  }

  /**
   * Ends waits, finishes the requests, refunds and splits under way, writes the refusals that are not written yet, then
   * closes the connections. May be called again.
   */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.settled()
    await (await this.#lookup.current)?.queues.refusals.flush()
    await this.settled()
    await this.#closeTable()
  }

  /**
   * Resolves when no request, refund or split is under way.
   *
   * @internal
   */
  async settled(): Promise<void> {
    await (await this.#lookup.current)?.queues.settled()
  }

  /** As `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /**
   * Requests that were refused and are in no bucket for all that is known.
   *
   * @internal
   */
  get uncountedRefusals(): number {
    return this.#lookup.found?.queues.refusals.uncounted ?? 0
  }

  /** One attempt, or several with waits in between; what is refused in the end counts as refused, once. */
  async #decide(request: AcquireRequest<Name>): Promise<{outcome: AcquireOutcome; waitedMs: number}> {
    const parts = partsOfRequest(request)
    checkMs('timeoutMs', request.timeoutMs)
    const waitMs = checkMs('waitMs', request.waitMs) ?? 0
    const decided =
      waitMs === 0
        ? {outcome: await this.#attempt(request, parts), waitedMs: 0}
        : await this.#attemptUntilAdmitted(request, parts, waitMs)
    this.#noteRefusal(request.entity, decided.outcome)
    return decided
  }

  #noteRefusal(entity: string, outcome: unknown): void {
    if (outcome instanceof RateLimitExceeded) this.#lookup.found?.queues.refusals.note(entity, outcome)
  }

  #attemptUntilAdmitted(
    request: AcquireRequest<Name>,
    parts: readonly ResourcePart[],
    waitMs: number,
  ): Promise<{outcome: AcquireOutcome; waitedMs: number}> {
    const {clock, backoff} = this.#table
    const signals = [request.signal, this.#closing.signal]
    const attempt = () => this.#attempt(request, parts)
    return untilAdmitted(attempt, {waitMs, onWait: request.onWait, clock, sleep: backoff.sleep, signals})
  }

  async #attempt(request: RequestRules, parts: readonly ResourcePart[]): Promise<AcquireOutcome> {
    const isStrict = request.strict ?? this.#isStrict
    const deadline = this.#startDeadline(request)
    try {
      deadline.check()
      const limiter = await deadline.until(this.#open())
      this.#readPolicyOnce(request, limiter)
      const grants = await acquireTogether(
        limiter,
        parts.map(part => ({...part, requests: 1, isStrict, deadline})),
      )
      if (grants instanceof RateLimitExceeded) return grants
      return this.#lease(parts, (part, index) => [grants[index] ?? [], () => this.#actionsFor(limiter, request, part)])
    } catch (error) {
      if (error instanceof RequestTooLarge || error instanceof ResourceDisabled) return error
      await this.#handleFailure(error, request)
      return this.#lease(parts, () => [])
    } finally {
      deadline.end()
    }
  }

  /** One lease for all resources of a request. */
  #lease(
    parts: readonly ResourcePart[],
    contentOf: (part: ResourcePart, index: number) => [grants?: readonly Grant[], actions?: () => LeaseActions],
  ): Lease {
    const [main, ...others] = parts.map((part, index) => new Lease(part, ...contentOf(part, index)))
    return (main as Lease).including(others)
  }

  #startDeadline({signal, timeoutMs = this.#settings.writeTimeoutMs}: RequestRules): Deadline {
    return new Deadline(timeoutMs, signal)
  }

  #actionsFor(limiter: NamespaceLimiter, request: RequestRules, {entity, resource}: BucketName): LeaseActions {
    const {queues} = limiter
    const isStrict = request.strict ?? this.#isStrict
    return {
      isStrict,
      correct: (holding, deltas) => queues.correct(holding, deltas),
      takeMore: async amounts => {
        const deadline = this.#startDeadline(request)
        try {
          deadline.check()
          const grants = await limiter.acquire({entity, resource, amounts, requests: 0, isStrict, deadline})
          this.#noteRefusal(entity, grants)
          if (grants instanceof RateLimitExceeded) throw grants
          return grants
        } finally {
          deadline.end()
        }
      },
      clock: this.#table.clock,
      handleFailure: error => this.#handleFailure(error, request),
      refund: holdings => queues.refund(holdings),
    }
  }

  /** Only an outage is a matter of policy; any other error is thrown as it is. */
  async #handleFailure(error: unknown, request: RequestRules): Promise<void> {
    if (!isUnavailability(error)) throw error
    if ((await this.#policy(request)) === 'block') throw new RateLimiterUnavailable(error)
  }

  async #read({entity, resource}: BucketName): Promise<Availability> {
    return readAvailability(await this.#open(), checkEntityId(entity), checkResourceName(resource))
  }

  #open(): Promise<NamespaceLimiter> {
    return this.#closing.signal.aborted ? Promise.reject(new LimiterClosed()) : this.#lookup.open()
  }

  /** The stored policy must be known before the table becomes unreachable: one read per process, beside the request. */
  #readPolicyOnce(request: RequestRules, limiter: NamespaceLimiter): void {
    if (this.#hasReadPolicy || (request.onUnavailable ?? this.#onUnavailable) !== undefined) return
    this.#hasReadPolicy = true
    limiter.resolver.onUnavailable().catch(() => {})
  }

  async #policy(request: RequestRules): Promise<OnUnavailable> {
    const given = request.onUnavailable ?? this.#onUnavailable
    if (given !== undefined) return given
    const stored = await this.#lookup.found?.resolver
      .onUnavailable({signal: AbortSignal.timeout(POLICY_TIMEOUT_MS)})
      .catch(() => undefined)
    return stored ?? 'block'
  }
}

/** How one request is decided. */
type RequestRules = Pick<AcquireRequest, 'onUnavailable' | 'strict' | 'timeoutMs' | 'signal'>
