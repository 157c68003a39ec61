import {checkConsumption} from '../core/consumption.js'
import {checkEntityId, checkResourceName} from '../core/names.js'
import {isUnavailability} from '../dynamo/errors.js'
import {ConfigCache} from '../repository/limits/cache.js'
import type {Resolution} from '../repository/limits/resolver.js'
import {namespaceMissing} from '../repository/namespaces/errors.js'
import {Namespaces} from '../repository/namespaces/namespaces.js'
import {openNamespace} from '../repository/open-namespace.js'
import {openTable} from '../repository/table/open-table.js'
import type {Table} from '../repository/table/table.js'
import type {OnUnavailable} from '../schema/config-record.js'
import {RateLimiterUnavailable} from './errors.js'
import {Lease, type LeaseActions} from './lease.js'
import {NamespaceLimiter} from './namespace-limiter.js'
import {type AcquireRequest, type LimiterSettings, type RateLimiterOptions, settingsOf} from './options.js'
import {Deadline} from './pending-request.js'
import {
  type Availability,
  type CheckResult,
  type ResourceCapacity,
  readAvailability,
  resourceCapacity,
} from './reads.js'

/** Bound of one read of the stored policy when the table does not answer, in ms. */
const POLICY_TIMEOUT_MS = 250

/**
 * Admits requests against the limits of entities and resources.
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
export class RateLimiter {
  readonly #options: RateLimiterOptions
  readonly #table: Table
  readonly #closeTable: () => Promise<void>
  readonly #cache: ConfigCache
  readonly #settings: LimiterSettings
  #namespace: Promise<NamespaceLimiter> | undefined
  /** The last one that was found. */
  #opened: NamespaceLimiter | undefined
  #lookedUpAtMs = 0
  #hasReadPolicy = false

  constructor(options: RateLimiterOptions = {}) {
    this.#options = options
    this.#settings = settingsOf(options)
    const {table, close} = openTable({...options, requestTimeoutMs: this.#settings.writeTimeoutMs})
    this.#table = table
    this.#closeTable = close
    this.#cache = new ConfigCache({clock: this.#table.clock, ttlMs: this.#settings.configCheckMs})
  }

  /**
   * Charges the request now, or throws: `RateLimitExceeded` when it does not fit, `RequestTooLarge` when it never will,
   * `RateLimiterUnavailable` when no decision could be made in time and the policy is to block.
   */
  async acquire(request: AcquireRequest): Promise<Lease> {
    const entity = checkEntityId(request.entity)
    const resource = checkResourceName(request.resource)
    const amounts = checkConsumption(request.consume)
    try {
      return await this.#withDeadline(request, async deadline => {
        const limiter = await deadline.until(this.#open())
        this.#readPolicyOnce(request, limiter)
        const grants = await limiter.acquire({entity, resource, amounts, requests: 1, deadline})
        return new Lease(entity, resource, grants, this.#actionsFor(limiter, request))
      })
    } catch (error) {
      await this.#handleFailure(error, request)
      return new Lease(entity, resource)
    }
  }

  /** Acquires, runs `work`, commits; when `work` throws, everything is returned and the error goes on. */
  async withLease<T>(request: AcquireRequest, work: (lease: Lease) => Promise<T> | T): Promise<T> {
    await using lease = await this.acquire(request)
    const result = await work(lease)
    await lease.commit()
    return result
  }

  /** Whether a request would be admitted now; writes nothing. */
  async check(request: AcquireRequest): Promise<CheckResult> {
    return (await this.#read(request)).check(checkConsumption(request.consume))
  }

  /** Whole tokens that can be acquired now, per limit: over all shards, and no more than a shared parent has left. */
  async available(request: Pick<AcquireRequest, 'entity' | 'resource'>): Promise<Record<string, number>> {
    return (await this.#read(request)).available()
  }

  /** Milliseconds until a request could be admitted if no other comes first; 0: now, `Infinity`: never. */
  async timeUntilAvailable(request: Pick<AcquireRequest, 'entity' | 'resource' | 'consume'>): Promise<number> {
    return (await this.#read(request)).check(checkConsumption(request.consume)).retryAfterMs
  }

  /** The limits that apply to an entity and resource, and why. */
  async resolveLimits(entity: string, resource: string): Promise<Resolution> {
    return (await this.#open()).resolver.resolve(entity, resource)
  }

  /** How much of a resource is left for all entities that have used it, over all shards; writes nothing. */
  async resourceCapacity(resource: string): Promise<ResourceCapacity> {
    return resourceCapacity((await this.#open()).table, checkResourceName(resource))
  }

  /** Resolves when refunds and splits under way are done, then closes the connections. */
  async close(): Promise<void> {
    await (await this.#namespace?.catch(() => undefined))?.queues.settled()
    await this.#closeTable()
  }

  /** Starts the request's deadline; a request that was cancelled before is not even begun. */
  async #withDeadline<T>(request: AcquireRequest, work: (deadline: Deadline) => Promise<T>): Promise<T> {
    const {signal, timeoutMs = this.#settings.writeTimeoutMs} = request
    const deadline = new Deadline(timeoutMs, signal)
    try {
      deadline.check()
      return await work(deadline)
    } finally {
      deadline.end()
    }
  }

  #actionsFor(limiter: NamespaceLimiter, request: AcquireRequest): LeaseActions {
    const {queues} = limiter
    const {entity, resource} = request
    return {
      correct: (holding, deltas) => queues.correct(holding, deltas),
      takeMore: amounts =>
        this.#withDeadline(request, deadline => limiter.acquire({entity, resource, amounts, requests: 0, deadline})),
      handleFailure: error => this.#handleFailure(error, request),
      refund: holdings => queues.refund(holdings),
    }
  }

  /** Only an outage is a matter of policy; any other error is thrown as it is. */
  async #handleFailure(error: unknown, request: AcquireRequest): Promise<void> {
    if (!isUnavailability(error)) throw error
    if ((await this.#policy(request)) === 'block') throw new RateLimiterUnavailable(error)
  }

  async #read({entity, resource}: Pick<AcquireRequest, 'entity' | 'resource'>): Promise<Availability> {
    return readAvailability(await this.#open(), checkEntityId(entity), checkResourceName(resource))
  }

  /** The namespace is looked up again from time to time: one that was deleted must not be written to. */
  #open(): Promise<NamespaceLimiter> {
    const nowMs = this.#table.clock()
    // A clock that was set back must not put the next lookup off.
    const isOld = nowMs < this.#lookedUpAtMs || nowMs - this.#lookedUpAtMs >= this.#settings.configCheckMs
    if (!this.#namespace || (isOld && this.#options.namespaceId === undefined)) {
      const before = this.#namespace
      this.#lookedUpAtMs = nowMs
      this.#namespace = this.#lookUp(before)
      this.#namespace.then(
        limiter => {
          this.#opened = limiter
        },
        () => {
          this.#namespace = undefined
        },
      )
    }
    return this.#namespace
  }

  async #lookUp(before: Promise<NamespaceLimiter> | undefined): Promise<NamespaceLimiter> {
    const known = await before
    const namespace = await this.#namespaceId(known !== undefined).catch(error => {
      if (known && isUnavailability(error)) return known.table.namespace
      throw error
    })
    if (known?.table.namespace === namespace) return known
    const {defaultLimits = [], merge = true, random = Math.random} = this.#options
    const table = {...this.#table, namespace}
    return new NamespaceLimiter({table, cache: this.#cache, settings: this.#settings, merge, random, defaultLimits})
  }

  /** The layout of the table is checked once: a migration never takes it back. */
  async #namespaceId(isAgain: boolean): Promise<string> {
    const {namespaceId, namespace = 'default'} = this.#options
    if (namespaceId !== undefined) return namespaceId
    if (!isAgain) return openNamespace(this.#table, namespace)
    const found = await new Namespaces(this.#table).resolve(namespace)
    if (found) return found.id
    throw namespaceMissing(namespace)
  }

  /** The stored policy must be known before the table becomes unreachable: one read per process, beside the request. */
  #readPolicyOnce(request: AcquireRequest, limiter: NamespaceLimiter): void {
    if (this.#hasReadPolicy || (request.onUnavailable ?? this.#options.onUnavailable) !== undefined) return
    this.#hasReadPolicy = true
    limiter.resolver.onUnavailable().catch(() => {})
  }

  async #policy(request: AcquireRequest): Promise<OnUnavailable> {
    const given = request.onUnavailable ?? this.#options.onUnavailable
    if (given !== undefined) return given
    const stored = await this.#opened?.resolver
      .onUnavailable({signal: AbortSignal.timeout(POLICY_TIMEOUT_MS)})
      .catch(() => undefined)
    return stored ?? 'block'
  }
}
