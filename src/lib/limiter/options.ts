import type {Consumption} from '../core/consumption.js'
import type {Limit} from '../core/limit.js'
import type {OpenTableOptions} from '../repository/table/open-table.js'
import type {OnUnavailable} from '../schema/config-record.js'

/** Where the table is, and how to decide. */
export interface RateLimiterOptions extends Omit<OpenTableOptions, 'requestTimeoutMs'> {
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
  /** Limits where nothing is configured at any level. */
  readonly defaultLimits?: readonly Limit[]
  /** Idle buckets expire after this many times they take to fill up; 7 unless said otherwise, 0: never. */
  readonly bucketTtlMultiplier?: number
  /** Most shards a hot bucket is split into; 32 unless said otherwise. */
  readonly maxShards?: number
  /** Whether concurrent requests for one bucket share a write. Only for comparison: leave it on. */
  readonly merge?: boolean
}

/** One request for admission. */
export interface AcquireRequest {
  readonly entity: string
  readonly resource: string
  /** Whole tokens per limit, such as `{rpm: 1, tpm: 500}`. */
  readonly consume: Consumption
  readonly onUnavailable?: OnUnavailable
  readonly timeoutMs?: number
  /** Cancels the request; tokens already taken are returned. */
  readonly signal?: AbortSignal
}

/** Options that decide, with their defaults filled in. */
export interface LimiterSettings {
  /** How long a refusal may rest on what is already known, in ms; 0: never. */
  readonly denyCacheMs: number
  /** How often the limits of a bucket in use are compared with the configuration, in ms. */
  readonly configCheckMs: number
  /** Lifetime of an idle bucket in times it takes to fill up; 0: unlimited. */
  readonly bucketTtlMultiplier: number
  readonly maxShards: number
  /** Bound of one write including its retries, in ms. */
  readonly writeTimeoutMs: number
}

/** Fills in the defaults. */
export function settingsOf(options: RateLimiterOptions): LimiterSettings {
  return {
    denyCacheMs: options.denyCacheMs ?? 1000,
    // A check may rest on what was read this long ago, and comes this often: a change takes both, one period at most.
    configCheckMs: (options.configCacheMs ?? 60_000) / 2,
    bucketTtlMultiplier: options.bucketTtlMultiplier ?? 7,
    maxShards: options.maxShards ?? 32,
    writeTimeoutMs: options.timeoutMs ?? 3000,
  }
}
