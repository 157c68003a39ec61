import {type Amounts, LIFETIME_MULTIPLIER} from '../../core/buckets/bucket.js'
import {InvalidInput} from '../../core/errors.js'
import {type Consumption, checkConsumption, type Limit} from '../../core/limits/limit.js'
import {type LimitTexts, readLimits} from '../../core/limits/limit-text.js'
import {type BucketName, checkEntityId, checkNamespaceName, checkResourceName, isNamespaceId} from '../../core/names.js'
import {checkMs} from '../../core/text/duration.js'
import {tooManyLimits} from '../../repository/limits/checks.js'
import type {ConnectionOptions} from '../../repository/table/open-table.js'
import type {OnUnavailable} from '../../schema/config-record.js'
import type {DecisionEvent, FurtherResources, SharedScope} from './decision-event.js'

/** `now`: settle while the caller waits. `soon`: batched within 50 ms; a crash loses unwritten settlements. */
export type Settle = 'now' | 'soon'

/** Where the table is, and how to decide. */
export interface RateLimiterOptions<Name extends string = string> extends ConnectionOptions {
  /** Tenant to work in. @default `default` */
  readonly namespace?: string
  /** The namespace's opaque id, for namespaces that are not registered by name. */
  readonly namespaceId?: string

  /** If the table is unavailable: `block` refuses, `allow` admits unmetered. @default the system setting, or `block` */
  readonly onUnavailable?: OnUnavailable
  /** Time limit per decision, in ms. @default 3,000 */
  readonly timeoutMs?: number
  /** How long a refusal may use a cached state, in ms. 0: never. @default 1,000 */
  readonly denyCacheMs?: number
  /** How long a change of limits or entities may take to reach this process, in ms. @default 60,000 */
  readonly configCacheMs?: number
  /** Throw for a limit that is not configured, instead of warning once and listing it as `unlimited`. @default false */
  readonly strict?: boolean
  /** When settlements of leases are written. @default `now` */
  readonly settle?: Settle
  /** Limits to use if none are configured at any level. @default none: such a request throws */
  readonly defaultLimits?: LimitTexts<Name>
  /** Idle expiry, in multiples of the fill time, at least seven days. 0: never. @default 7 */
  readonly bucketTtlMultiplier?: number
  /** Maximum shards of a hot bucket. @default 32 */
  readonly maxShards?: number
  /** Entries per cache, about one per entity. Entities beyond that cost extra calls. @default 10,000 */
  readonly cacheSize?: number
  /**
   * Called with every decision of `acquire`, `tryAcquire` and `withLease`, before its caller resumes. Must be fast.
   * Errors change no decision; the process warns once per limiter (`ZAEL_ON_DECISION`).
   */
  readonly onDecision?: (event: DecisionEvent) => void
  /**
   * Called when a settlement of a lease (`adjust`, `release`, `rollback`) was written, or was given up after retries.
   * Errors change nothing; the process warns once per limiter (`ZAEL_ON_SETTLED`).
   */
  readonly onSettled?: (event: SettledEvent) => void
}

/** One settlement of a lease, as passed to `onSettled`: written, or given up. Frozen. */
export interface SettledEvent {
  /** As in a decision event. */
  readonly namespace: string
  readonly entity: string
  /** The resource of this part of the lease. */
  readonly resource: string
  /** Whole tokens per limit that the lease should be charged after this settlement; 0 after a rollback. */
  readonly usage: Consumption
  /** Whole tokens per limit that the lease is charged now. After an unknown outcome, the larger possible amount. */
  readonly charged: Consumption
  /** Number of background retries after the first attempt failed. */
  readonly retries: number
  /** Why the settlement was given up; `undefined` if it was written. */
  readonly error: unknown
}

/** Batch requests are booked only while the debt of a bucket is below its capacity, and wait unbooked otherwise. */
export type Priority = 'interactive' | 'batch'

/** One request for admission. */
export interface AcquireRequest<Name extends string = string> extends BucketName {
  /** Whole tokens per limit, such as `{rpm: 1, tpm: 500}`. */
  readonly consume: Consumption<Name>
  /**
   * Charged together with the request or not at all, at most 15: further resources of the entity, such as `{embeddings:
   * {rpm: 1}}`, or a list of buckets of any entity, such as `[{entity: 'pool-eu', resource: 'gpt-4', consume: {tpm: 500}}]`.
   */
  readonly resources?: FurtherResources<Name>
  /**
   * Whose request this is, if `entity` is an account that callers share, such as a provider's. If the account refuses it,
   * the refusal also counts for the caller.
   */
  readonly caller?: BucketName | undefined
  /** As in the limiter's options. @default the limiter's */
  readonly onUnavailable?: OnUnavailable
  /** As in the limiter's options. @default the limiter's */
  readonly strict?: boolean
  /** As in the limiter's options. @default the limiter's */
  readonly settle?: Settle
  /**
   * `false` is shadow mode: a request that would be refused is admitted at once, charges nothing, and is reported as
   * `would-refuse`. A request that fits is charged as always. `waitMs` is ignored. @default true
   */
  readonly enforce?: boolean
  /**
   * Quota tokens that come back if this process dies before the lease ends: all (`true`), none, or these whole tokens per
   * limit. Rates refill anyway. A lease open for more than a second costs two more writes. Always end the lease:
   * otherwise its tokens come back when the process ends. @default false; true in `withLease`
   */
  readonly reserve?: boolean | Consumption<Name>
  /** Time limit per decision, in ms. @default the limiter's */
  readonly timeoutMs?: number
  /**
   * How long to wait for admission, in ms. A longer known wait is refused at once. Requests that wait for a rate start in
   * the order in which they came, over all processes. @default 0
   */
  readonly waitMs?: number
  /**
   * `batch`: is booked only while a bucket owes less than its capacity, so that interactive requests find a place. Otherwise
   * it tries again later. @default 'interactive'
   */
  readonly priority?: Priority
  /** Called before each wait with its length in ms. */
  readonly onWait?: (retryAfterMs: number) => void
  /** Cancels the request; charged tokens are refunded. */
  readonly signal?: AbortSignal
}

export interface LimiterSettings {
  readonly defaultLimits: readonly Limit[]
  readonly denyCacheMs: number
  readonly configCheckMs: number
  readonly bucketTtlMultiplier: number
  readonly maxShards: number
  readonly cacheSize: number
  /** Bounds one write including its retries. */
  readonly writeTimeoutMs: number
}

export function settingsOf(options: RateLimiterOptions): LimiterSettings {
  const {namespace, namespaceId, timeoutMs, denyCacheMs, configCacheMs, bucketTtlMultiplier, maxShards, cacheSize} =
    options
  if (namespace !== undefined) checkNamespaceName(namespace)
  if (namespaceId !== undefined && !isNamespaceId(namespaceId)) {
    throw new InvalidInput('name.invalid', `${JSON.stringify(namespaceId)} is not a valid namespace id.`)
  }
  for (const option of ['onDecision', 'onSettled'] as const) {
    if (options[option] === undefined || typeof options[option] === 'function') continue
    throw invalidOption(option, 'must be a function')
  }
  if (options.settle !== undefined) checkSettle(options.settle)
  const defaultLimits = readLimits(options.defaultLimits ?? [])
  const tooMany = tooManyLimits(defaultLimits)
  if (tooMany !== undefined) throw new InvalidInput('limit.too-many', `defaultLimits: ${tooMany}.`)
  return {
    defaultLimits,
    denyCacheMs: checkMs('denyCacheMs', denyCacheMs) ?? 1000,
    // A check may use reads this old and comes this often: a change takes both, one cache period at most.
    configCheckMs: (checkMs('configCacheMs', configCacheMs) ?? 60_000) / 2,
    bucketTtlMultiplier: checkWhole('bucketTtlMultiplier', bucketTtlMultiplier, 0) ?? LIFETIME_MULTIPLIER,
    maxShards: checkWhole('maxShards', maxShards, 1) ?? 32,
    cacheSize: checkWhole('cacheSize', cacheSize, 1) ?? 10_000,
    writeTimeoutMs: checkMs('timeoutMs', timeoutMs) ?? 3000,
  }
}

export interface ResourcePart extends BucketName {
  readonly amounts: Amounts
  /** Named with 0: of an in-flight limit, the request takes no slot. */
  readonly without?: ReadonlySet<string> | undefined
}

/** The main resource comes first. */
export type RequestParts = readonly [ResourcePart, ...ResourcePart[]]

/** The same bound as in the Python system. */
const MOST_RESOURCES = 16

/** Checks a request and returns its amounts per resource. */
export function partsOfRequest<Name extends string>(request: AcquireRequest<Name>): RequestParts {
  const entity = checkEntityId(request.entity)
  const resource = checkResourceName(request.resource)
  if (request.caller) {
    checkEntityId(request.caller.entity)
    checkResourceName(request.caller.resource)
  }
  const main = {entity, resource, ...chargeOf(request.consume as Consumption)}
  const parts = request.resources === undefined ? [] : furtherParts(main, request.resources as FurtherResources)
  const {timeoutMs, waitMs, priority, enforce, settle, reserve} = request
  checkMs('timeoutMs', timeoutMs)
  checkMs('waitMs', waitMs)
  // A text such as 'false' would enforce the limits.
  if (enforce !== undefined && typeof enforce !== 'boolean')
    throw invalidOption('enforce', `must be true or false, not ${JSON.stringify(enforce)}`)
  if (settle !== undefined) checkSettle(settle)
  if (priority !== undefined && priority !== 'interactive' && priority !== 'batch')
    throw invalidOption('priority', `must be "interactive" or "batch", not ${JSON.stringify(priority)}`)
  if (typeof reserve === 'object') checkConsumption(reserve as Consumption)
  else if (reserve !== undefined && typeof reserve !== 'boolean')
    throw invalidOption('reserve', `must be true, false or amounts, not ${JSON.stringify(reserve)}`)
  return [main, ...parts]
}

function furtherParts({entity, resource}: BucketName, resources: FurtherResources): ResourcePart[] {
  const others = listOf(entity, resources)
  if (others.length >= MOST_RESOURCES)
    throw refuse(`at most ${MOST_RESOURCES} resources can be in one request, not ${others.length + 1}`)
  const named = new Set([`${entity}#${resource}`])
  return others.map(each => {
    if (!isObject(each)) throw refuse(`${JSON.stringify(each)} is not an entity with a resource`)
    const part = {entity: checkEntityId(each.entity), resource: checkResourceName(each.resource)}
    const key = `${part.entity}#${part.resource}`
    if (named.has(key))
      throw refuse(`"${part.resource}"${part.entity === entity ? '' : ` of ${part.entity}`} is named twice`)
    named.add(key)
    return {...part, ...chargeOf(each.consume)}
  })
}

function listOf(entity: string, resources: FurtherResources): readonly SharedScope[] {
  if (Array.isArray(resources)) return resources
  if (!isObject(resources)) throw refuse(`resources must be a mapping or a list, not ${JSON.stringify(resources)}`)
  return Object.entries(resources).map(([resource, consume]) => ({entity, resource, consume}))
}

// JavaScript callers can pass anything.
const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null

function chargeOf(consume: Consumption): Pick<ResourcePart, 'amounts' | 'without'> {
  const amounts = checkConsumption(consume)
  const names = Object.keys(consume)
  if (names.length === amounts.size) return {amounts}
  return {amounts, without: new Set(names.filter(name => !amounts.has(name)))}
}

function refuse(why: string): InvalidInput {
  return new InvalidInput('request.resources', `The request cannot be made: ${why}.`)
}

function checkSettle(settle: Settle): void {
  if (settle !== 'now' && settle !== 'soon')
    throw invalidOption('settle', `must be "now" or "soon", not ${JSON.stringify(settle)}`)
}

function checkWhole(option: string, value: number | undefined, least: number): number | undefined {
  if (value === undefined || (Number.isSafeInteger(value) && value >= least)) return value
  throw invalidOption(option, `must be a whole number from ${least}, not ${value}`)
}

function invalidOption(option: string, why: string): InvalidInput {
  return new InvalidInput('option.invalid', `${option} ${why}.`, {details: {option}})
}
