import {type Consumption, checkConsumption} from '../core/limits/limit.js'
import {type BucketName, checkEntityId, checkResourceName} from '../core/names.js'
import {checkMs} from '../core/text/duration.js'
import {connectionsClosed} from '../dynamo/abort.js'
import {isOutage} from '../dynamo/errors.js'
import type {Resolution} from '../repository/limits/resolver.js'
import {
  applyFeedback,
  type ProviderFeedback,
  type ProviderFeedbackResult,
} from '../repository/operations/provider-feedback.js'
import {openTable, type TableSeams} from '../repository/table/open-table.js'
import type {Table} from '../repository/table/table.js'
import type {OnUnavailable} from '../schema/config-record.js'
import {Circuit} from './circuit.js'
import {type AcquireDecision, decisionOf, failureSummary, summaryOf} from './decision.js'
import type {DelegateRequest} from './delegate-request.js'
import {Lease, type LeaseActions, SettleWarning, settleActions} from './lease.js'
import type {BucketQueues} from './levels/bucket-queues.js'
import type {CacheEntries, CacheStats, NamespaceLimiter} from './levels/namespace-limiter.js'
import {NamespaceLookup} from './levels/namespace-lookup.js'
import {
  type Availability,
  type CheckResult,
  type ResourceCapacity,
  readAvailability,
  resourceCapacity,
} from './levels/reads.js'
import {endingWith} from './observed-stream.js'
import {DecisionObserver, guardedCallback} from './observer.js'
import {type PingOptions, type PingResult, pingTable} from './ping.js'
import {
  LimiterClosed,
  RateLimitExceeded,
  RateLimiterUnavailable,
  type RefusalError,
  RequestRefused,
  RequestTooLarge,
  ResourceDisabled,
} from './refusal/errors.js'
import type {Grant} from './request/grant.js'
import {
  type AcquireRequest,
  type LimiterSettings,
  partsOfRequest,
  type RateLimiterOptions,
  type RequestParts,
  type ResourcePart,
  type Settle,
  settingsOf,
} from './request/options.js'
import {Deadline} from './request/pending-request.js'
import {type DelegateDecision, type Run, runOf} from './run.js'
import {Runs} from './runs.js'
import {type AcquireOutcome, AdmissionWait} from './waiting.js'

const POLICY_TIMEOUT_MS = 250

const UNUSED = {entries: 0, hits: 0, misses: 0}
const NO_CACHE_STATS: CacheStats = {configs: UNUSED, entities: UNUSED, buckets: {entries: 0, refusals: 0}}

/**
 * Admits requests against the limits of entities and resources. `Name` narrows the accepted limit names.
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
  /** Ends the reads that requests wait for. Writes, and the reads they need, continue. */
  readonly #reads = new AbortController()
  readonly #circuit: Circuit
  readonly #observer: DecisionObserver | undefined
  readonly #onSettled: LeaseActions['onSettled']
  #hasReadPolicy = false
  readonly #runs = new Runs<Name>({
    tryAcquire: request => this.tryAcquire(request),
    acquire: request => this.acquire(request),
    withLease: (request, work) => this.withLease(request, work),
    open: () => this.#open(),
    clock: () => this.#table.clock(),
  })

  constructor(options?: RateLimiterOptions<Name>)
  /** @internal */
  constructor(options: RateLimiterOptions<Name> & TableSeams)
  constructor(options: RateLimiterOptions<Name> & TableSeams = {}) {
    this.#onUnavailable = options.onUnavailable
    this.#isStrict = options.strict ?? false
    this.#settings = settingsOf(options)
    this.#settle = options.settle ?? 'now'
    const {table, close} = openTable({...options, requestTimeoutMs: this.#settings.writeTimeoutMs})
    const {onDecision, onSettled, namespace, namespaceId} = options
    const shownNamespace = namespace ?? namespaceId ?? 'default'
    const report = onSettled && guardedCallback('onSettled', onSettled)
    this.#onSettled = report && (settled => report(Object.freeze({namespace: shownNamespace, ...settled})))
    const probeTimeoutMs = this.#settings.writeTimeoutMs
    const probe = () => pingTable(this.#table, this.#lookup.pingKey, {timeoutMs: probeTimeoutMs})
    this.#circuit = new Circuit({probe, probeTimeoutMs, random: table.backoff.random})
    this.#observer = onDecision && new DecisionObserver(onDecision, shownNamespace, this.#circuit)
    this.#table = {...table, transport: this.#circuit.watching(table.transport)}
    this.#closeTable = close
    this.#lookup = new NamespaceLookup(this.#table, this.#settings, options, this.#reads.signal)
  }

  /**
   * Charges the request, or returns why not. Limits that are not configured are skipped and listed as `unlimited`,
   * unless `strict`. Throws only if no decision is possible: invalid input, no limits at any level, a missing table or
   * permission, signal aborted (`Aborted`), limiter closed (`LimiterClosed`).
   */
  tryAcquire(request: AcquireRequest<Name>): Promise<AcquireDecision<Name>> {
    return this.#decide(request, decisionOf<Name>)
  }

  /**
   * Like `tryAcquire`, but throws refusals: `RateLimitExceeded`, `RequestTooLarge`, `ResourceDisabled` or
   * `RateLimiterUnavailable`.
   */
  acquire(request: AcquireRequest<Name>): Promise<Lease<Name>> {
    return this.#decide(request, leaseOf<Name>)
  }

  /**
   * Acquires, runs `work` and commits; if `work` throws, refunds and rethrows. `work` may end the lease itself. If it
   * returns a `Response`, a stream or another async iterable, the lease stays open: it commits when the caller has read
   * the result to the end or cancels it, and refunds when the result fails.
   */
  async withLease<T>(request: AcquireRequest<Name>, work: (lease: Lease<Name>) => Promise<T> | T): Promise<T> {
    const lease = await this.acquire({reserve: true, ...request})
    const end = async (isFailed: boolean) => {
      if (!lease.isEnded) await (isFailed ? lease.rollback() : lease.commit())
    }
    try {
      const result = await work(lease)
      const stream = lease.isEnded ? undefined : endingWith(result, end)
      if (stream === undefined) await end(false)
      return stream ?? result
    } catch (error) {
      await end(true)
      throw error
    }
  }

  /**
   * Moves an amount from the limits of an entity to a run: a bucket of its own, from which any process can acquire by the
   * run's id. Refused like a request (see `acquire`). The rest comes back at the end.
   */
  async delegate(request: DelegateRequest<Name>): Promise<Run<Name>> {
    return runOf(await this.#runs.tryDelegate(request))
  }

  /** Like `delegate`, but returns refusals. */
  tryDelegate(request: DelegateRequest<Name>): Promise<DelegateDecision<Name>> {
    return this.#runs.tryDelegate(request)
  }

  /** A stored run, by its id. Throws `RunMissing`. */
  run(id: string): Promise<Run<Name>> {
    return this.#runs.find(id)
  }

  /** Whether a request would be admitted now. Writes nothing. */
  async check(request: BucketName & Pick<AcquireRequest<Name>, 'consume' | 'strict'>): Promise<CheckResult> {
    const availability = await this.#read(request)
    return availability.check(checkConsumption(request.consume as Consumption), request.strict ?? this.#isStrict)
  }

  /** Whole tokens, or free slots, available now per limit, over all shards. With a charged parent, the lower of both. */
  async available(bucket: BucketName): Promise<Consumption<Name>> {
    return (await this.#read(bucket)).available() as Consumption<Name>
  }

  /** Ms until a request could be admitted without contention; 0: now, `null`: never. */
  async timeUntilAvailable(
    request: BucketName & Pick<AcquireRequest<Name>, 'consume' | 'strict'>,
  ): Promise<number | null> {
    return (await this.check(request)).retryAfterMs
  }

  /** The limits that apply to an entity and resource, and why. */
  async resolveLimits({entity, resource}: BucketName): Promise<Resolution> {
    return (await this.#open()).resolver.resolve({entity: checkEntityId(entity), resource: checkResourceName(resource)})
  }

  /**
   * Applies provider feedback. Lowers balances to `left`. If a request was `refused`, lowers them so far that the same
   * request has to wait `retryAfterMs`. Never raises a balance or counts consumption. Costs one read, and one write per
   * shard that holds more.
   */
  async reportProviderLimits(feedback: ProviderFeedback<Name>): Promise<ProviderFeedbackResult<Name>> {
    const {table, settings, queues} = await this.#open()
    const {maxShards} = settings
    const applying = applyFeedback(table, feedback, {mostShards: maxShards})
    void queues.background.run(applying)
    const result = await applying
    const {entity, resource} = feedback
    // Known balances are too high now: refusals would state waits that are too short.
    if (result.lowered.length > 0)
      for (let shard = 0; shard < maxShards; shard++) queues.find({entity, resource, shard})?.bucket.forget()
    return result
  }

  /** Remaining tokens of a resource for all entities that have used it, over all shards. Writes nothing. */
  async resourceCapacity(resource: string): Promise<ResourceCapacity> {
    return resourceCapacity((await this.#open()).table, checkResourceName(resource))
  }

  /**
   * Whether the table answers, and how long one read takes. Writes nothing. Throws errors that are not outages, such
   * as a missing table or a denied permission, and `Aborted` and `LimiterClosed`.
   */
  async ping(options: PingOptions = {}): Promise<PingResult> {
    if (this.#closing.signal.aborted) throw new LimiterClosed()
    const timeoutMs = checkMs('timeoutMs', options.timeoutMs) ?? this.#settings.writeTimeoutMs
    return pingTable(this.#table, this.#lookup.pingKey, {...options, timeoutMs})
  }

  /** Sizes and hit counts of this process's caches. Sends no request. */
  cacheStats(): CacheStats {
    return this.#lookup.found?.cacheStats ?? NO_CACHE_STATS
  }

  /**
   * Forgets cached limits, entities and bucket states: requests from now on read them again. Pending settlements and
   * refusals are kept and written. Sends no request.
   */
  invalidate(): void {
    this.#hasReadPolicy = false
    this.#lookup.invalidate()
  }

  /** Ends waits, finishes work under way, writes pending settlements and refusals, then disconnects. Repeatable. */
  async close(): Promise<void> {
    this.#closing.abort()
    // Requests are decided or given up by then, but a read that hangs is retried for much longer.
    const timer = setTimeout(() => this.#reads.abort(connectionsClosed()), this.#settings.writeTimeoutMs)
    this.#lookup.found?.queues.hurry()
    await this.settled()
    await (await this.#lookup.current)?.queues.refusals.flush()
    await this.settled()
    await this.#lookup.found?.queues.end()
    clearTimeout(timer)
    this.#circuit.end()
    this.#reads.abort(connectionsClosed())
    await this.#closeTable()
  }

  /** @internal */
  async settled(): Promise<void> {
    await (await this.#lookup.current)?.queues.settled()
  }

  /** Same as `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  /** @internal */
  get uncountedRefusals(): number {
    return this.#lookup.found?.queues.refusals.uncounted ?? 0
  }

  /** @internal */
  get cacheEntries(): CacheEntries | undefined {
    return this.#lookup.found?.cacheEntries
  }

  /** One attempt or several with waits; counts only the final refusal. One function: async calls cost every request. */
  async #decide<T>(
    request: AcquireRequest<Name>,
    answer: (outcome: AcquireOutcome, waitedMs: number) => T,
  ): Promise<T> {
    const parts = partsOfRequest(request)
    const {waitMs = 0, timeoutMs = this.#settings.writeTimeoutMs} = request
    const isShadow = request.enforce === false
    const wait = waitMs > 0 && !isShadow ? this.#startWait(request, waitMs) : undefined
    const isStrict = request.strict ?? this.#isStrict
    const startedMs = this.#observer?.now() ?? 0
    for (;;) {
      const deadline = new Deadline(timeoutMs, request.signal)
      const {answers} = this.#circuit
      let outcome: AcquireOutcome
      try {
        deadline.check()
        this.#circuit.check()
        const atHand = this.#closing.signal.aborted ? undefined : this.#lookup.atHand
        const limiter = atHand ?? (await deadline.until(this.#open()))
        if (!this.#hasReadPolicy) this.#readPolicy(request, limiter)
        if (parts.length > 1) {
          const requests = parts.map(part => ({...part, requests: 1 as const, isStrict, deadline}))
          const grants = await limiter.acquireTogether(requests, deadline)
          outcome = grants instanceof RateLimitExceeded ? grants : this.#leaseOfAll(limiter, request, parts, grants)
        } else {
          const {entity, resource, amounts, without} = parts[0]
          const rules = {isStrict, deadline, without, booking: wait?.booking}
          const grants = await limiter.acquire({entity, resource, amounts, requests: 1, ...rules})
          if (wait && !(grants instanceof RateLimitExceeded)) {
            deadline.end()
            if (!(await startOf(wait, grants, limiter.queues))) continue
          }
          outcome = grants instanceof RateLimitExceeded ? grants : this.#lease(limiter, request, parts[0], grants)
        }
      } catch (error) {
        this.#circuit.noteFailure(error, answers)
        try {
          outcome = await this.#outcomeOf(error, request, parts)
        } catch (failure) {
          const isUnavailable = failure instanceof RateLimiterUnavailable
          if (!isUnavailable || !isShadow) {
            this.#observer?.report(request, failureSummary(failure), undefined, wait?.waitedMs ?? 0, startedMs)
            if (isUnavailable) return answer(failure, wait?.waitedMs ?? 0)
            throw failure
          }
          outcome = failure
        }
      } finally {
        deadline.end()
      }
      const pauseMs = wait?.after(outcome)
      if (wait && pauseMs !== undefined) {
        try {
          await wait.pause(pauseMs)
        } catch (failure) {
          // `onWait` is the caller's code.
          this.#observer?.report(request, failureSummary(failure), undefined, wait.waitedMs, startedMs)
          throw failure
        }
      } else {
        if (isShadow && !(outcome instanceof Lease)) outcome = unmetered(parts, outcome)
        const lease = outcome instanceof Lease ? outcome : undefined
        if (!lease) this.#noteRefusal(request, outcome, parts)
        this.#observer?.report(request, summaryOf(outcome, parts), lease, wait?.waitedMs ?? 0, startedMs)
        return answer(outcome, wait?.waitedMs ?? 0)
      }
    }
  }

  #noteRefusal({entity, resource, caller}: RequestRules, outcome: unknown, parts: readonly BucketName[]): void {
    const limiter = this.#lookup.found
    const isExceeded = outcome instanceof RateLimitExceeded
    if (!limiter || !(isExceeded || (outcome instanceof ResourceDisabled && outcome.hasBucket))) return
    let refused = parts
    if (parts.length > 1) {
      const refusing = isExceeded ? outcome.statuses.filter(({exceeded}) => exceeded) : [outcome]
      const isOwn = (part: BucketName) => part.entity === entity
      refused = limiter.partsThatCharge(refusing, parts).sort((a, b) => Number(isOwn(a)) - Number(isOwn(b)))
    }
    const isShared = refused[0] && refused[0].entity !== entity
    const whose = caller ?? (isShared ? {entity, resource} : undefined)
    const {refusals} = limiter.queues
    if (isExceeded) refusals.note(refused, outcome, whose)
    else refusals.noteDisabled(refused, outcome, whose)
  }

  #startWait({onWait, signal, priority = 'interactive'}: AcquireRequest<Name>, waitMs: number): AdmissionWait {
    const {clock, backoff} = this.#table
    const signals = [signal, this.#closing.signal]
    return new AdmissionWait({waitMs, priority, onWait, clock, sleep: backoff.sleep, signals})
  }

  #lease(limiter: NamespaceLimiter, request: RequestRules, part: ResourcePart, grants: readonly Grant[]): Lease {
    const lease = new Lease(part, grants, () => this.#actionsFor(limiter, request, part))
    const {reserve} = request
    if (!reserve) return lease
    const most = reserve === true ? undefined : checkConsumption(reserve as Consumption)
    return lease.reserving(tokens => limiter.queues.services.reservations.open(tokens), most)
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

  async #outcomeOf(error: unknown, request: RequestRules, parts: RequestParts): Promise<AcquireOutcome> {
    if (error instanceof RequestTooLarge || error instanceof ResourceDisabled) return error
    await this.#handleFailure(error, request)
    return unmetered(parts)
  }

  #actionsFor(limiter: NamespaceLimiter, request: RequestRules, {entity, resource}: BucketName): LeaseActions {
    const {queues} = limiter
    const isStrict = request.strict ?? this.#isStrict
    const isShadow = request.enforce === false
    const handleFailure = (error: unknown) =>
      this.#handleFailure(error, request).catch(failure => {
        if (!isShadow || !(failure instanceof RequestRefused)) throw failure
      })
    const [closing, warning] = [this.#closing.signal, this.#settleWarning]
    const isSoon = (request.settle ?? this.#settle) === 'soon'
    return {
      isStrict,
      ...settleActions({isSoon, queues, closing, warning, handleFailure}),
      noteUnsettled: () => queues.refusals.noteUnsettled({entity, resource}),
      onSettled: this.#onSettled,
      takeMore: async amounts => {
        const deadline = new Deadline(request.timeoutMs ?? this.#settings.writeTimeoutMs, request.signal)
        try {
          deadline.check()
          this.#circuit.check()
          const grants = await limiter.acquire({entity, resource, amounts, requests: 0, isStrict, deadline})
          if (!isShadow) this.#noteRefusal(request, grants, [{entity, resource}])
          if (grants instanceof RateLimitExceeded) throw grants
          return grants
        } finally {
          deadline.end()
        }
      },
      clock: this.#table.clock,
      handleFailure,
    }
  }

  async #handleFailure(error: unknown, request: RequestRules): Promise<void> {
    if (!isOutage(error)) throw error
    if ((await this.#policy(request)) === 'block') throw new RateLimiterUnavailable(error)
  }

  async #read({entity, resource}: BucketName): Promise<Availability> {
    return readAvailability(await this.#open(), checkEntityId(entity), checkResourceName(resource))
  }

  #open(): Promise<NamespaceLimiter> {
    return this.#closing.signal.aborted ? Promise.reject(new LimiterClosed()) : this.#lookup.open()
  }

  /** Reads the stored policy before the table may become unavailable: once per process, alongside the request. */
  #readPolicy(request: RequestRules, limiter: NamespaceLimiter): void {
    if ((request.onUnavailable ?? this.#onUnavailable) !== undefined) return
    this.#hasReadPolicy = true
    limiter.resolver.onUnavailable().catch(() => {})
  }

  async #policy(request: RequestRules): Promise<OnUnavailable> {
    const given = request.onUnavailable ?? this.#onUnavailable
    if (given !== undefined) return given
    if (this.#circuit.state === 'open') return this.#lookup.found?.resolver.lastOnUnavailable ?? 'block'
    const stored = await this.#lookup.found?.resolver
      .onUnavailable({signal: AbortSignal.timeout(POLICY_TIMEOUT_MS)})
      .catch(() => undefined)
    return stored ?? 'block'
  }
}

/** Waits until a booked request starts. False, and refunded, if the caller gave up or the limiter is closed. */
async function startOf(wait: AdmissionWait, grants: readonly Grant[], queues: BucketQueues): Promise<boolean> {
  const startsAtMs = Math.max(...grants.map(grant => grant.startsAtMs ?? 0))
  if (startsAtMs === 0) return true
  const waiting = wait.untilStart(startsAtMs)
  // Closing waits for the refund. The caller does not: in an outage it takes long.
  const giveBack = () => queues.refund(grants.flatMap(({holdings}) => holdings))
  void queues.background.run(waiting.then(isDue => (isDue ? undefined : giveBack()), giveBack))
  return waiting
}

function unmetered([main, ...others]: RequestParts, wouldRefuse?: RefusalError): Lease {
  return new Lease(main, [], undefined, wouldRefuse).including(others.map(part => new Lease(part)))
}

function leaseOf<Name extends string>(outcome: AcquireOutcome): Lease<Name> {
  if (outcome instanceof Lease) return outcome as Lease<Name>
  throw outcome
}

type RequestRules = Pick<
  AcquireRequest,
  'entity' | 'resource' | 'caller' | 'enforce' | 'onUnavailable' | 'strict' | 'settle' | 'timeoutMs' | 'signal'
> & {readonly reserve?: boolean | object}
