import {type Consumption, checkConsumption} from '../core/limits/limit.js'
import {checkEntityId, checkResourceName} from '../core/names.js'
import {checkMs} from '../core/text/duration.js'
import {isUnavailability} from '../dynamo/errors.js'
import type {Resolution} from '../repository/limits/resolver.js'
import {type LearntLimits, type Lesson, learnBucket} from '../repository/operations/learn.js'
import {openTable} from '../repository/table/open-table.js'
import type {Table} from '../repository/table/table.js'
import type {OnUnavailable} from '../schema/config-record.js'
import {type AcquireDecision, admittedDecision, failureSummary, refusedDecision, summaryOf} from './decision.js'
import {Lease, type LeaseActions, SettleWarning, soonActions} from './lease.js'
import type {CacheEntries, NamespaceLimiter} from './levels/namespace-limiter.js'
import {NamespaceLookup} from './levels/namespace-lookup.js'
import {
  type Availability,
  type CheckResult,
  type ResourceCapacity,
  readAvailability,
  resourceCapacity,
} from './levels/reads.js'
import {acquireTogether, partsOfRequest, type RequestParts, type ResourcePart} from './levels/several-resources.js'
import {DecisionObserver} from './observer.js'
import {
  LimiterClosed,
  RateLimitExceeded,
  RateLimiterUnavailable,
  RequestTooLarge,
  ResourceDisabled,
} from './refusal/errors.js'
import type {Grant} from './request/grant.js'
import {
  type AcquireRequest,
  type BucketName,
  checkSettle,
  type LimiterSeams,
  type LimiterSettings,
  type RateLimiterOptions,
  type Settle,
  settingsOf,
} from './request/options.js'
import {Deadline} from './request/pending-request.js'
import {type AcquireOutcome, AdmissionWait} from './waiting.js'

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
  readonly #settle: Settle
  readonly #settleWarning = new SettleWarning()
  readonly #table: Table
  readonly #closeTable: () => Promise<void>
  readonly #settings: LimiterSettings
  readonly #lookup: NamespaceLookup
  readonly #closing = new AbortController()
  /** Absent where nobody listens, so that decisions cost nothing more. */
  readonly #observer: DecisionObserver | undefined
  #hasReadPolicy = false

  constructor(options?: RateLimiterOptions)
  /** @internal */
  constructor(options: RateLimiterOptions & LimiterSeams)
  constructor(options: RateLimiterOptions & LimiterSeams = {}) {
    this.#onUnavailable = options.onUnavailable
    this.#isStrict = options.strict ?? false
    this.#settings = settingsOf(options)
    this.#settle = options.settle ?? 'now'
    const {table, close} = openTable({...options, requestTimeoutMs: this.#settings.writeTimeoutMs})
    const {onDecision, namespace, namespaceId} = options
    this.#observer = onDecision && new DecisionObserver(onDecision, namespace ?? namespaceId ?? 'default')
    this.#table = this.#observer ? {...table, transport: this.#observer.counting(table.transport)} : table
    this.#closeTable = close
    this.#lookup = new NamespaceLookup(this.#table, this.#settings, options)
  }

  /**
   * Charges the request, or tells why not. A limit that is not configured does not count and is listed as `unlimited`,
   * unless `strict` is set; where no limits are configured at any level, it throws. Apart from that, throws only when there is no decision: for bad input, when the table cannot be
   * reached in time and the policy is to block (`RateLimiterUnavailable`), when the signal aborts (`Aborted`), and after
   * `close` (`LimiterClosed`).
   */
  tryAcquire(request: AcquireRequest<Name>): Promise<AcquireDecision<Name>> {
    return this.#decide(request, decisionOf<Name>)
  }

  /**
   * Charges the request, or throws what `tryAcquire` would return (`RateLimitExceeded` when the request does not fit,
   * `RequestTooLarge` when it never will, `ResourceDisabled` while a switch refuses all) or throw.
   */
  acquire(request: AcquireRequest<Name>): Promise<Lease<Name>> {
    return this.#decide(request, leaseOf<Name>)
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

  /**
   * Lowers the balances of a bucket to what somebody else has counted, a provider for example: to what is `left`, and to
   * where a request that was `refused` clears at the instant told. Never raises one, and is no consumption. One read; one
   * write per shard that holds more than told, otherwise none. A bucket that does not exist learns nothing.
   */
  async learn(lesson: Lesson<Name>): Promise<LearntLimits<Name>> {
    const {table, settings, queues} = await this.#open()
    const {maxShards} = settings
    const learning = learnBucket(table, lesson, {mostShards: maxShards})
    void queues.run(learning)
    const learnt = await learning
    const {entity, resource} = lesson
    // What this process knows of the balances is too much now: its refusals would name waits that are too short.
    if (learnt.lowered.length > 0)
      for (let shard = 0; shard < maxShards; shard++) queues.find({entity, resource, shard})?.forget()
    return learnt
  }

  /** How much of a resource is left for all entities that have used it, over all shards; writes nothing. */
  async resourceCapacity(resource: string): Promise<ResourceCapacity> {
    return resourceCapacity((await this.#open()).table, checkResourceName(resource))
  }

  /**
   * Ends waits, finishes the requests, refunds and splits under way, writes the corrections and refusals that are not
   * written yet, then closes the connections. May be called again.
   */
  async close(): Promise<void> {
    this.#closing.abort()
    this.#lookup.found?.queues.hurry()
    await this.settled()
    await (await this.#lookup.current)?.queues.refusals.flush()
    await this.settled()
    await this.#closeTable()
  }

  /**
   * Resolves when no request, correction, refund or split is under way.
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

  /**
   * How many entries each cache has.
   *
   * @internal
   */
  get cacheEntries(): CacheEntries | undefined {
    return this.#lookup.found?.cacheEntries
  }

  /**
   * One attempt, or several with waits in between; what is refused in the end counts as refused, once. A single function:
   * each further one that waits is paid for with every request.
   */
  async #decide<T>(request: AcquireRequest<Name>, told: (outcome: AcquireOutcome, waitedMs: number) => T): Promise<T> {
    const parts = partsOfRequest(request)
    checkMs('timeoutMs', request.timeoutMs)
    checkSettle(request.settle)
    const waitMs = checkMs('waitMs', request.waitMs) ?? 0
    const wait = waitMs > 0 ? this.#startWait(request, waitMs) : undefined
    const isStrict = request.strict ?? this.#isStrict
    const startedMs = this.#observer?.now() ?? 0
    for (;;) {
      const deadline = this.#startDeadline(request)
      let outcome: AcquireOutcome
      try {
        deadline.check()
        const limiter = this.#atHand ?? (await deadline.until(this.#open()))
        this.#readPolicyOnce(request, limiter)
        if (parts.length > 1) {
          const grants = await acquireTogether(limiter, parts, isStrict, deadline)
          outcome = grants instanceof RateLimitExceeded ? grants : this.#leaseOfAll(limiter, request, parts, grants)
        } else {
          const {entity, resource, amounts} = parts[0]
          const grants = await limiter.acquire({entity, resource, amounts, requests: 1, isStrict, deadline})
          outcome = grants instanceof RateLimitExceeded ? grants : this.#lease(limiter, request, parts[0], grants)
        }
      } catch (error) {
        try {
          outcome = await this.#outcomeOf(error, request, parts)
        } catch (failure) {
          this.#observer?.tell(request, failureSummary(failure), wait?.waitedMs ?? 0, startedMs)
          throw failure
        }
      } finally {
        deadline.end()
      }
      const pauseMs = wait?.after(outcome)
      if (wait && pauseMs !== undefined) {
        try {
          await wait.pause(pauseMs)
        } catch (failure) {
          // `onWait` is the caller's.
          this.#observer?.tell(request, failureSummary(failure), wait.waitedMs, startedMs)
          throw failure
        }
      } else {
        this.#noteRefusal(request.entity, outcome)
        this.#observer?.tell(request, summaryOf(outcome, request.entity), wait?.waitedMs ?? 0, startedMs)
        return told(outcome, wait?.waitedMs ?? 0)
      }
    }
  }

  #noteRefusal(entity: string, outcome: unknown): void {
    const refusals = this.#lookup.found?.queues.refusals
    if (outcome instanceof RateLimitExceeded) refusals?.note(entity, outcome)
    else if (outcome instanceof ResourceDisabled && outcome.hasBucket) refusals?.noteDisabled(entity, outcome)
  }

  #startWait({onWait, signal}: AcquireRequest<Name>, waitMs: number): AdmissionWait {
    const {clock, backoff} = this.#table
    const signals = [signal, this.#closing.signal]
    return new AdmissionWait({waitMs, onWait, clock, sleep: backoff.sleep, signals})
  }

  #lease(limiter: NamespaceLimiter, request: RequestRules, part: ResourcePart, grants: readonly Grant[]): Lease {
    return new Lease(part, grants, () => this.#actionsFor(limiter, request, part))
  }

  #leaseOfAll(
    limiter: NamespaceLimiter,
    request: RequestRules,
    parts: RequestParts,
    grants: readonly (readonly Grant[])[],
  ): Lease {
    const [main, ...others] = parts.map((part, index) => this.#lease(limiter, request, part, grants[index] ?? []))
    return (main as Lease).including(others)
  }

  /** What an error comes to: a refusal, or admission by policy; otherwise it is thrown. */
  async #outcomeOf(error: unknown, request: RequestRules, [main, ...others]: RequestParts): Promise<AcquireOutcome> {
    if (error instanceof RequestTooLarge || error instanceof ResourceDisabled) return error
    await this.#handleFailure(error, request)
    return new Lease(main).including(others.map(part => new Lease(part)))
  }

  #startDeadline({signal, timeoutMs = this.#settings.writeTimeoutMs}: RequestRules): Deadline {
    return new Deadline(timeoutMs, signal)
  }

  #actionsFor(limiter: NamespaceLimiter, request: RequestRules, {entity, resource}: BucketName): LeaseActions {
    const {queues} = limiter
    const isStrict = request.strict ?? this.#isStrict
    const handleFailure = (error: unknown) => this.#handleFailure(error, request)
    const [closing, warning] = [this.#closing.signal, this.#settleWarning]
    const isSoon = (request.settle ?? this.#settle) === 'soon'
    return {
      isStrict,
      soon: isSoon ? soonActions({queues, closing, warning, handleFailure}) : undefined,
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
      handleFailure,
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

  get #atHand(): NamespaceLimiter | undefined {
    return this.#closing.signal.aborted ? undefined : this.#lookup.atHand
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

function leaseOf<Name extends string>(outcome: AcquireOutcome): Lease<Name> {
  if (outcome instanceof Lease) return outcome as Lease<Name>
  throw outcome
}

function decisionOf<Name extends string>(outcome: AcquireOutcome, waitedMs: number): AcquireDecision<Name> {
  if (outcome instanceof Lease) return admittedDecision(outcome as Lease<Name>, waitedMs)
  return refusedDecision(outcome, waitedMs)
}

type RequestRules = Pick<AcquireRequest, 'onUnavailable' | 'strict' | 'settle' | 'timeoutMs' | 'signal'>
