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
import {checkConsumption} from './amounts.js'
import type {LimiterSettings} from './context.js'
import {Deadline} from './deadline.js'
import {RateLimiterUnavailable} from './errors.js'
import {Lease, type LeaseKeeper} from './lease.js'
import {NamespaceLimiter} from './namespace-limiter.js'
import type {AcquireRequest, RateLimiterOptions} from './options.js'
import {type Availability, type CheckResult, readAvailability} from './reads.js'
import {type ResourceCapacity, resourceCapacity} from './resource-capacity.js'

/** Bound of one look at the stored policy when the table does not answer, in ms. */
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
  #session: Promise<NamespaceLimiter> | undefined
  /** The last one that was found. */
  #opened: NamespaceLimiter | undefined
  #sessionSinceMs = 0
  #hasAskedPolicy = false

  constructor(options: RateLimiterOptions = {}) {
    const {timeoutMs = 3000} = options
    this.#options = options
    const {table, close} = openTable({...options, requestTimeoutMs: timeoutMs})
    this.#table = table
    this.#closeTable = close
    this.#settings = {
      denyCacheMs: options.denyCacheMs ?? 1000,
      // A check may rest on what was read this long ago, and comes this often: a change takes both, one period at most.
      configCheckMs: (options.configCacheMs ?? 60_000) / 2,
      bucketTtlMultiplier: options.bucketTtlMultiplier ?? 7,
      maxShards: options.maxShards ?? 32,
      writeTimeoutMs: timeoutMs,
    }
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
      return await this.#patiently(request, async patience => {
        const session = await patience.until(this.#open())
        this.#askPolicyOnce(request, session)
        const grants = await session.cascade.admit({entity, resource, amounts, requests: 1, patience})
        return new Lease(entity, resource, grants, this.#keeperOf(session, request))
      })
    } catch (error) {
      await this.#excuse(error, request)
      return new Lease(entity, resource, [], NOBODY)
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
    return (await this.#look(request)).check(checkConsumption(request.consume))
  }

  /** Whole tokens that can be acquired now, per limit: over all shards, and no more than a shared parent has left. */
  async available(request: Pick<AcquireRequest, 'entity' | 'resource'>): Promise<Record<string, number>> {
    return (await this.#look(request)).available()
  }

  /** Milliseconds until a request could be admitted if nobody else asks; 0: now, `Infinity`: never. */
  async timeUntilAvailable(request: Pick<AcquireRequest, 'entity' | 'resource' | 'consume'>): Promise<number> {
    return (await this.#look(request)).check(checkConsumption(request.consume)).retryAfterMs
  }

  /** The limits that apply to an entity and resource, and why. */
  async resolveLimits(entity: string, resource: string): Promise<Resolution> {
    return (await this.#open()).resolver.resolve(entity, resource)
  }

  /** How much of a resource is left for everybody who has used it, over all shards; writes nothing. */
  async resourceCapacity(resource: string): Promise<ResourceCapacity> {
    return resourceCapacity((await this.#open()).table, checkResourceName(resource))
  }

  /** Resolves when refunds and splits under way are done, then lets go of the connections. */
  async close(): Promise<void> {
    await (await this.#session?.catch(() => undefined))?.admission.settled()
    await this.#closeTable()
  }

  /** From here on the request's deadline runs; one that was given up before is not even begun. */
  async #patiently<T>(request: AcquireRequest, work: (patience: Deadline) => Promise<T>): Promise<T> {
    const {signal, timeoutMs = this.#settings.writeTimeoutMs} = request
    const patience = new Deadline(timeoutMs, signal)
    try {
      patience.check()
      return await work(patience)
    } finally {
      patience.end()
    }
  }

  #keeperOf(session: NamespaceLimiter, request: AcquireRequest): LeaseKeeper {
    const {admission, cascade} = session
    const {entity, resource} = request
    return {
      correct: (address, deltas) => admission.desk(address).correct(deltas),
      takeMore: amounts =>
        this.#patiently(request, patience => cascade.admit({entity, resource, amounts, requests: 0, patience})),
      excuse: error => this.#excuse(error, request),
      refund: entries => admission.refund(entries),
    }
  }

  /** Only an outage is a matter of policy; whatever else went wrong is thrown as it is. */
  async #excuse(error: unknown, request: AcquireRequest): Promise<void> {
    if (!isUnavailability(error)) throw error
    if ((await this.#policy(request)) === 'block') throw new RateLimiterUnavailable(error)
  }

  async #look({entity, resource}: Pick<AcquireRequest, 'entity' | 'resource'>): Promise<Availability> {
    return readAvailability(await this.#open(), checkEntityId(entity), checkResourceName(resource))
  }

  /** The namespace is looked up again now and then: one that was deleted must not be written to for ever. */
  #open(): Promise<NamespaceLimiter> {
    const nowMs = this.#table.clock()
    // A clock that was set back must not put the next look off.
    const isOld = nowMs < this.#sessionSinceMs || nowMs - this.#sessionSinceMs >= this.#settings.configCheckMs
    if (!this.#session || (isOld && this.#options.namespaceId === undefined)) {
      const before = this.#session
      this.#sessionSinceMs = nowMs
      this.#session = this.#resolveSession(before)
      this.#session.then(
        session => {
          this.#opened = session
        },
        () => {
          this.#session = undefined
        },
      )
    }
    return this.#session
  }

  async #resolveSession(before: Promise<NamespaceLimiter> | undefined): Promise<NamespaceLimiter> {
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

  /** The layout of the table is looked at once: a migration never takes it back. */
  async #namespaceId(isAgain: boolean): Promise<string> {
    const {namespaceId, namespace = 'default'} = this.#options
    if (namespaceId !== undefined) return namespaceId
    if (!isAgain) return openNamespace(this.#table, namespace)
    const found = await new Namespaces(this.#table).resolve(namespace)
    if (found) return found.id
    throw namespaceMissing(namespace)
  }

  /** The stored policy must be known before the table goes away; one read per process, beside the request. */
  #askPolicyOnce(request: AcquireRequest, session: NamespaceLimiter): void {
    if (this.#hasAskedPolicy || (request.onUnavailable ?? this.#options.onUnavailable) !== undefined) return
    this.#hasAskedPolicy = true
    session.resolver.onUnavailable().catch(() => {})
  }

  async #policy(request: AcquireRequest): Promise<OnUnavailable> {
    const said = request.onUnavailable ?? this.#options.onUnavailable
    if (said !== undefined) return said
    const stored = await this.#opened?.resolver
      .onUnavailable({signal: AbortSignal.timeout(POLICY_TIMEOUT_MS)})
      .catch(() => undefined)
    return stored ?? 'block'
  }
}

/** Keeps leases of requests that nobody was charged for. */
const NOBODY: LeaseKeeper = {
  correct: async () => {},
  takeMore: async () => [],
  excuse: async () => {},
  refund: async () => {},
}
