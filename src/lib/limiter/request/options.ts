import {LIFETIME_MULTIPLIER} from '../../core/buckets/bucket.js'
import {InvalidInput} from '../../core/errors.js'
import type {Consumption, Limit} from '../../core/limits/limit.js'
import {checkNamespaceName, isNamespaceId} from '../../core/names.js'
import {checkMs} from '../../core/text/duration.js'
import {tooManyLimits} from '../../repository/limits/checks.js'
import type {ConnectionOptions, TableSeams} from '../../repository/table/open-table.js'
import type {OnUnavailable} from '../../schema/config-record.js'
import type {DecisionEvent} from './decision-event.js'

/**
 * When corrections of a lease are written: `now`, while the caller waits, or `soon`, within 50 ms and together with others
 * of the same bucket. A crash loses what was not written by then.
 */
export type Settle = 'now' | 'soon'

/** Where the table is, and how to decide. */
export interface RateLimiterOptions extends ConnectionOptions {
  /** Tenant to work in; `default` unless said otherwise. */
  readonly namespace?: string
  /** The opaque id of the namespace, for deployments that use one without registering it. */
  readonly namespaceId?: string

  /** What to do when the table cannot be reached in time: refuse with an error, or let through unmetered. Otherwise as stored at system level, otherwise `block`. */
  readonly onUnavailable?: OnUnavailable
  /** How long a decision may take, in ms; 3,000 unless said otherwise. */
  readonly timeoutMs?: number
  /** How long a refusal may rest on what is already known, in ms; 1,000 unless said otherwise, 0: never. */
  readonly denyCacheMs?: number
  /** How long configurations and entities are cached, in ms; 60,000 unless said otherwise. */
  readonly configCacheMs?: number
  /**
   * Whether a request for a limit that is not configured throws. Otherwise that limit does not count: the decision lists
   * it as `unlimited`, and the process warns once per name.
   */
  readonly strict?: boolean
  /** When corrections of leases are written; `now` unless said otherwise. */
  readonly settle?: Settle
  /** Limits where nothing is configured at any level. */
  readonly defaultLimits?: readonly Limit[]
  /** Idle buckets expire after this many times they take to fill up, seven days at least; 7 unless said otherwise, 0: never. */
  readonly bucketTtlMultiplier?: number
  /** Most shards a hot bucket is split into; 32 unless said otherwise. */
  readonly maxShards?: number
  /**
   * Most entries of each cache: about as many entities as the process remembers; 10,000 unless said otherwise. Others
   * are decided about just the same, with calls for what is not known any more.
   */
  readonly cacheSize?: number
  /**
   * Told of every decision of `acquire`, `tryAcquire` and `withLease`, before its caller is. Must be quick. What it throws or
   * rejects with changes no decision: the process warns, once per limiter (`ZAEL_ON_DECISION`).
   */
  readonly onDecision?: (event: DecisionEvent) => void
}

/** What tests replace. Users get these through `zael/testing`. */
export interface LimiterSeams extends TableSeams {
  /** Whether concurrent requests for one bucket share a write; for comparison only. */
  readonly merge?: boolean
}

/** Which bucket: an entity's, for a resource. */
export interface BucketName {
  readonly entity: string
  readonly resource: string
}

/** One request for admission. */
export interface AcquireRequest<Name extends string = string> extends BucketName {
  /** Whole tokens per limit, such as `{rpm: 1, tpm: 500}`. */
  readonly consume: Consumption<Name>
  /** Further resources, charged together with the first or not at all, such as `{embeddings: {rpm: 1}}`; at most 15. */
  readonly also?: Readonly<Record<string, Consumption<Name>>>
  /** Instead of the limiter's. */
  readonly onUnavailable?: OnUnavailable
  /** Instead of the limiter's. */
  readonly strict?: boolean
  /** Instead of the limiter's. */
  readonly settle?: Settle
  /** How long each decision may take, in ms; instead of the limiter's. */
  readonly timeoutMs?: number
  /**
   * How long to wait for admission, in ms; 0 unless said otherwise. A request whose wait is known to be longer is refused
   * at once.
   */
  readonly waitMs?: number
  /** Called before each wait with its length in ms. */
  readonly onWait?: (retryAfterMs: number) => void
  /** Cancels the request; tokens already taken are returned. */
  readonly signal?: AbortSignal
}

export interface LimiterSettings {
  /** How long a refusal may rest on what is already known, in ms; 0: never. */
  readonly denyCacheMs: number
  readonly configCheckMs: number
  /** Lifetime of an idle bucket in times it takes to fill up, seven days at least; 0: unlimited. */
  readonly bucketTtlMultiplier: number
  readonly maxShards: number
  readonly cacheSize: number
  /** Bound of one write including its retries, in ms. */
  readonly writeTimeoutMs: number
}

export function settingsOf(options: RateLimiterOptions): LimiterSettings {
  const {namespace, namespaceId, timeoutMs, denyCacheMs, configCacheMs, bucketTtlMultiplier, maxShards, cacheSize} =
    options
  if (namespace !== undefined) checkNamespaceName(namespace)
  if (namespaceId !== undefined && !isNamespaceId(namespaceId)) {
    throw new InvalidInput('name.invalid', `${JSON.stringify(namespaceId)} is not a valid namespace id.`)
  }
  if (options.onDecision !== undefined && typeof options.onDecision !== 'function') {
    throw new InvalidInput('option.invalid', 'onDecision must be a function.', {details: {option: 'onDecision'}})
  }
  checkSettle(options.settle)
  const tooMany = tooManyLimits(options.defaultLimits ?? [])
  if (tooMany !== undefined) throw new InvalidInput('limit.too-many', `defaultLimits: ${tooMany}.`)
  return {
    denyCacheMs: checkMs('denyCacheMs', denyCacheMs) ?? 1000,
    // A check may rest on what was read this long ago, and comes this often: a change takes both, one period at most.
    configCheckMs: (checkMs('configCacheMs', configCacheMs) ?? 60_000) / 2,
    bucketTtlMultiplier: checkWhole('bucketTtlMultiplier', bucketTtlMultiplier, 0) ?? LIFETIME_MULTIPLIER,
    maxShards: checkWhole('maxShards', maxShards, 1) ?? 32,
    cacheSize: checkWhole('cacheSize', cacheSize, 1) ?? 10_000,
    writeTimeoutMs: checkMs('timeoutMs', timeoutMs) ?? 3000,
  }
}

/** Callers in JavaScript can pass anything. */
export function checkSettle(settle: Settle | undefined): void {
  if (settle === undefined || settle === 'now' || settle === 'soon') return
  throw new InvalidInput('option.invalid', `settle must be "now" or "soon", not ${JSON.stringify(settle)}.`, {
    details: {option: 'settle'},
  })
}

function checkWhole(option: string, value: number | undefined, least: number): number | undefined {
  if (value === undefined || (Number.isSafeInteger(value) && value >= least)) return value
  throw new InvalidInput('option.invalid', `${option} must be a whole number from ${least}, not ${value}.`, {
    details: {option},
  })
}
