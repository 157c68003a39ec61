import type {Consumption} from '../core/limits/limit.js'
import {Aborted} from '../dynamo/errors.js'
import type {AdmittedDecision, RefusedDecision} from '../limiter/decision.js'
import type {Lease} from '../limiter/lease.js'
import type {RateLimiter} from '../limiter/rate-limiter.js'
import {LimiterClosed, RateLimiterUnavailable} from '../limiter/refusal/errors.js'
import type {HeaderFields} from '../limiter/refusal/headers.js'
import type {Settle} from '../limiter/request/options.js'
import type {OnUnavailable} from '../schema/config-record.js'
import {dialectHeaders, type HeaderStyle, type LimitNames} from './dialects.js'
import {PROBLEM_TYPE, type ProblemDetails, problemOf, UNAVAILABLE} from './problem.js'

/** What an adapter needs of a limiter. */
export type GuardLimiter = Pick<RateLimiter, 'tryAcquire'>

/** How requests are decided, whichever the adapter. */
export interface DecisionOptions {
  readonly limiter: GuardLimiter
  /** How long a request may wait for admission, in ms; 0 unless said otherwise: it is refused at once. */
  readonly waitMs?: number
  /** Instead of the limiter's: let requests through while the table is unreachable, or refuse them. */
  readonly onUnavailable?: OnUnavailable
  /** Instead of the limiter's: whether corrections are written while somebody waits for them, or soon. */
  readonly settle?: Settle
  /** What the response tells of what is left; `ietf` unless said otherwise. A refusal has `Retry-After` in any case. */
  readonly headers?: HeaderStyle
  /** Which limits the fields of `openai` and `anthropic` are about. */
  readonly limitNames?: LimitNames
}

/** Who is charged how much for which requests. `Request` is what the framework calls a request, or its context. */
export interface GuardOptions<Request> extends DecisionOptions {
  /** Who asks, such as the user or the key of the request. */
  readonly entity: (request: Request) => string | Promise<string>
  /** What for. */
  readonly resource: string | ((request: Request) => string | Promise<string>)
  /** Whole tokens per limit, such as `{rpm: 1}`. */
  readonly consume: Consumption | ((request: Request) => Consumption | Promise<Consumption>)
  /** Requests that are not limited at all. */
  readonly skip?: (request: Request) => boolean | Promise<boolean>
  /** Whether an answer with this status costs nothing: everything that the lease still holds is returned. */
  readonly refundIf?: (status: number) => boolean
}

export type GuardOutcome =
  | {readonly kind: 'skipped'}
  | AdmittedRequest
  | RefusedRequest
  /** The client has left while the request waited: nothing is charged, and nobody reads an answer. */
  | {readonly kind: 'gone'}

export interface AdmittedRequest {
  readonly kind: 'admitted'
  readonly lease: Lease
  headers(): HeaderFields
  answered(status: number): Promise<void>
}

export interface RefusedRequest {
  readonly kind: 'refused'
  readonly status: number
  readonly headers: HeaderFields
  /** When to try again, in ms; `null`: not at all. */
  readonly retryAfterMs: number | null
  readonly problem: ProblemDetails
}

/**
 * Decides on requests. What is admitted is charged and stays so: the lease is not committed, so that a handler can still
 * adjust it, also while it streams. Throws what is a matter for the error handler of the framework, such as bad input.
 */
export function createGuard<Request>(
  options: GuardOptions<Request>,
): (request: Request, signal?: AbortSignal, waitMs?: number) => Promise<GuardOutcome> {
  const {limiter, entity, resource, consume, skip, onUnavailable, settle, refundIf} = options
  return async (request, signal, waitMs = options.waitMs) => {
    if (await skip?.(request)) return {kind: 'skipped'}
    const asked = {
      entity: await entity(request),
      resource: typeof resource === 'string' ? resource : await resource(request),
      consume: typeof consume === 'function' ? await consume(request) : consume,
      ...(waitMs !== undefined && {waitMs}),
      ...(onUnavailable && {onUnavailable}),
      ...(settle && {settle}),
      ...(signal && {signal}),
    }
    try {
      const decision = await limiter.tryAcquire(asked)
      return decision.admitted ? admitted(decision, options, refundIf) : refused(decision, options)
    } catch (error) {
      if (error instanceof Aborted && signal?.aborted) return {kind: 'gone'}
      if (!(error instanceof RateLimiterUnavailable || error instanceof LimiterClosed)) throw error
      return {kind: 'refused', status: 503, headers: {'Retry-After': '1'}, retryAfterMs: 1000, problem: UNAVAILABLE}
    }
  }
}

function admitted(
  decision: AdmittedDecision,
  options: DecisionOptions,
  refundIf: ((status: number) => boolean) | undefined,
): AdmittedRequest {
  const {lease} = decision
  return {
    kind: 'admitted',
    lease,
    headers: () => balanceFields(decision, options),
    answered: async status => {
      if (refundIf?.(status) && !lease.isEnded) await lease.rollback()
    },
  }
}

function refused(decision: RefusedDecision, options: DecisionOptions): RefusedRequest {
  const problem = problemOf(decision)
  const retryAfter = decision.headers()['Retry-After']
  const headers = {
    ...balanceFields(decision, options),
    ...(retryAfter !== undefined && {'Retry-After': retryAfter}),
  }
  return {kind: 'refused', status: problem.status, headers, retryAfterMs: decision.retryAfterMs, problem}
}

function balanceFields(
  decision: AdmittedDecision | RefusedDecision,
  {headers: style = 'ietf', limitNames = {}}: DecisionOptions,
): HeaderFields {
  if (style === 'none') return {}
  if (style === 'ietf') return decision.headers()
  return dialectHeaders(style, decision.limits, limitNames, Date.now())
}

const leases = new WeakMap<object, Lease>()

/** Remembers the lease of a request, under every object by which its handler knows the request. */
export function keepLease(lease: Lease, ...requests: readonly object[]): void {
  for (const request of requests) leases.set(request, lease)
}

/**
 * The lease of a request that an adapter has admitted: to adjust what is charged once it is known, also while the answer
 * is streamed. `undefined` for a request that was skipped. Where several adapters guard one request, that of the last.
 */
export function leaseOf(request: object): Lease | undefined {
  return leases.get(request)
}

/** What log files know as "client closed request": nobody reads the answer, but one must be made. */
export const CLIENT_GONE = 499

export function refusalResponse(outcome: RefusedRequest | {readonly kind: 'gone'}): Response {
  if (outcome.kind === 'gone') return new Response(null, {status: CLIENT_GONE})
  const {status, headers, problem} = outcome
  return new Response(JSON.stringify(problem), {status, headers: {...headers, 'Content-Type': PROBLEM_TYPE}})
}
