/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Limits requests of a Fastify server.
 *
 * @packageDocumentation
 */
import {CLIENT_GONE, createServerGuard, type GuardLimiter, type GuardOptions, keepLease} from './guard.js'
import {type NodeResponse, onAnswered, PROBLEM_TYPE, whileConnected} from './problem.js'

export {hashKey} from '../schema/hashed-name.js'
export type {DecisionOptions, GuardLimiter, GuardOptions, HeaderStyle, LimitNames} from './guard.js'
export {leaseOf} from './guard.js'
export type {NodeResponse} from './problem.js'

/** Request fields that callbacks can use; `fastifyLimiter<FastifyRequest>` gives them Fastify's own type. */
export interface FastifyLikeRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly ip: string
  readonly raw: object
}

/** The part of `FastifyReply` that the adapter needs. */
export interface FastifyLikeReply {
  readonly raw: NodeResponse
  code(status: number): unknown
  header(name: string, value: string): unknown
  send(body?: string): unknown
}

/**
 * Hook that admits or refuses requests: for `onRequest`, or for `preHandler` if the decision needs the body.
 *
 * @example
 * ```ts
 * app.addHook('onRequest', fastifyLimiter(limiter, {entity: request => request.ip, resource: 'api', consume: {rpm: 1}}))
 * ```
 */
export function fastifyLimiter<Request extends FastifyLikeRequest = FastifyLikeRequest, Name extends string = string>(
  limiter: GuardLimiter<Name>,
  options: GuardOptions<Request, NoInfer<Name>>,
): (request: Request, reply: FastifyLikeReply) => Promise<unknown> {
  const guard = createServerGuard(limiter, options)
  return async (request, reply) => {
    const outcome = await whileConnected(reply.raw, signal => guard(request, signal))
    if (outcome.kind === 'skipped') return
    if (outcome.kind === 'gone') {
      reply.code(CLIENT_GONE)
      return reply.send()
    }
    const headers = outcome.kind === 'admitted' ? outcome.headers() : outcome.headers
    for (const [name, value] of Object.entries(headers)) reply.header(name, value)
    if (outcome.kind === 'admitted') {
      keepLease(outcome.lease, request, request.raw)
      onAnswered(reply.raw, outcome.answered)
      return
    }
    reply.code(outcome.status)
    reply.header('Content-Type', PROBLEM_TYPE)
    return reply.send(JSON.stringify(outcome.problem))
  }
}
