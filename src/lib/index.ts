/**
 * The public library.
 *
 * @packageDocumentation
 */
export type {LimitStatus} from './core/bucket.js'
export {formatLimit, type Limit, parseLimit, parseLimits} from './core/limit.js'
export {type Level, type LimitsByLevel, type ResolvedLimits, resolveLimits} from './core/resolve.js'
export {type ErrorKind, EXIT, InvalidInput, ZaelError} from './errors.js'
