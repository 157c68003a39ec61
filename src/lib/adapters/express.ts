/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Limits requests of Express, of other Connect-style servers, and of plain `node:http`.
 *
 * @packageDocumentation
 */
import {createServerGuard, type GuardLimiter, type GuardOptions, keepLease} from './guard.js'
import {type NodeResponse, onAnswered, PROBLEM_TYPE, whileConnected} from './problem.js'

export {hashKey} from '../schema/hashed-name.js'
export type {DecisionOptions, GuardLimiter, GuardOptions, HeaderStyle, LimitNames} from './guard.js'
export {leaseOf} from './guard.js'
export type {NodeResponse} from './problem.js'

/** Request fields that callbacks can use; `expressLimiter<Request>` gives them Express's own type. */
export interface NodeRequest {
  readonly method?: string | undefined
  readonly url?: string | undefined
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

/**
 * Middleware that admits or refuses requests. Without a framework, `next` is the request handler.
 *
 * @example
 * ```ts
 * app.use(expressLimiter(limiter, {entity: request => hashKey(request.headers['x-api-key']), resource: 'api', consume: {rpm: 1}}))
 * ```
 */
export function expressLimiter<Request extends NodeRequest = NodeRequest, Name extends string = string>(
  limiter: GuardLimiter<Name>,
  options: GuardOptions<Request, NoInfer<Name>>,
): (request: Request, response: NodeResponse, next: (error?: unknown) => void) => Promise<void> {
  const guard = createServerGuard(limiter, options)
  return async (request, response, next) => {
    const outcome = await whileConnected(response, signal => guard(request, signal)).catch((error: unknown) => ({
      kind: 'failed' as const,
      error,
    }))
    if (outcome.kind === 'failed') return next(outcome.error)
    if (outcome.kind === 'skipped') return next()
    if (outcome.kind === 'gone') return
    const headers = outcome.kind === 'admitted' ? outcome.headers() : outcome.headers
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
    if (outcome.kind === 'admitted') {
      keepLease(outcome.lease, request)
      onAnswered(response, outcome.answered)
      return next()
    }
    response.statusCode = outcome.status
    response.setHeader('Content-Type', PROBLEM_TYPE)
    response.end(JSON.stringify(outcome.problem))
  }
}
