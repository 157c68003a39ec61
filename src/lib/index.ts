/**
 * The public library: limit requests with {@link RateLimiter}.
 *
 * @packageDocumentation
 */
export type {LimitStatus} from './core/bucket.js'
export type {Consumption} from './core/consumption.js'
export {type ErrorKind, EXIT, InvalidInput, ZaelError} from './core/errors.js'
export {formatLimit, type Limit, parseLimit, parseLimits} from './core/limit.js'
export {type Level, type LimitsByLevel, type ResolvedLimits, resolveLimits} from './core/resolve.js'
export {
  LeaseEnded,
  RateLimitExceeded,
  RateLimiterUnavailable,
  type RefusalStatus,
  RequestTooLarge,
} from './limiter/errors.js'
export type {Lease} from './limiter/lease.js'
export type {AcquireRequest, RateLimiterOptions} from './limiter/options.js'
export {RateLimiter} from './limiter/rate-limiter.js'
export type {CapacityOfLimit, CheckResult, ResourceCapacity} from './limiter/reads.js'
export type {Resolution} from './repository/limits/resolver.js'
export {
  type LimitsChange,
  type NamespaceRepository,
  Repository,
  type RepositoryOptions,
} from './repository/repository.js'
export type {ConfigScope, OnUnavailable} from './schema/config-record.js'
