import {encodeEntityId} from '../core/encoded-name.js'
import {ZaelError} from '../core/errors.js'
import type {Consumption} from '../core/limits/limit.js'
import type {LimitState, LimitStates} from '../core/limits/limit-state.js'
import type {BucketName} from '../core/names.js'
import {Aborted} from '../dynamo/errors.js'
import {type AdmittedDecision, type RefusedDecision, refusedDecision} from '../limiter/decision.js'
import type {Lease} from '../limiter/lease.js'
import type {RateLimiter} from '../limiter/rate-limiter.js'
import {LimiterClosed, type ProblemDetails, RateLimiterUnavailable} from '../limiter/refusal/errors.js'
import type {HeaderFields} from '../limiter/refusal/headers.js'
import type {Settle} from '../limiter/request/options.js'
import type {OnUnavailable} from '../schema/config-record.js'
import {encodeResourceName} from '../schema/hashed-name.js'
import {PROBLEM_TYPE, warningOnce} from './problem.js'

/** The part of a limiter that adapters need. */
export type GuardLimiter<Name extends string = string> = Pick<RateLimiter<Name>, 'tryAcquire'>

/** Options that all adapters share. */
export interface DecisionOptions {
  /** Longest wait for admission, in ms; 0 refuses at once. @default 0 */
  readonly waitMs?: number
  /** `false` is shadow mode: requests that would be refused are admitted, uncharged, as `would-refuse`. @default true */
  readonly enforce?: boolean
  /** Allow or block requests while the table is unavailable. @default the limiter's */
  readonly onUnavailable?: OnUnavailable
  /** Settle `now`, while the caller waits, or `soon`, batched. @default the limiter's */
  readonly settle?: Settle
  /** Header fields that report the balance. Refusals carry `Retry-After` with every style. @default 'ietf' */
  readonly headers?: HeaderStyle
  /** Limits that the `openai` and `anthropic` fields report. @default `{requests: 'rpm', tokens: 'tpm'}` */
  readonly limits?: LimitNames
}

/** Who is charged how much for which requests. `Request` is the framework's request or context. */
export interface GuardOptions<Request, Name extends string = string> extends DecisionOptions {
  /**
   * The entity to charge: any text, such as a user's id, `hashKey` of an API key, or an IP address. Ids that zael does not
   * allow are encoded. Requests without an entity get a 400.
   */
  readonly entity: (request: Request) => string | Promise<string>
  /** The resource to charge: any text, such as a model. Encoded like `entity`. */
  readonly resource: string | ((request: Request) => string | Promise<string>)
  /** Whole tokens per limit, such as `{rpm: 1}`. */
  readonly consume: Consumption<Name> | ((request: Request) => Consumption<Name> | Promise<Consumption<Name>>)
  /** Returns true for requests that are not limited. */
  readonly skip?: (request: Request) => boolean | Promise<boolean>
  /** Whether a response with this status is free: refunds everything that the lease still holds. */
  readonly refundIf?: (status: number) => boolean
}

export type GuardOutcome =
  | {readonly kind: 'skipped'}
  | AdmittedRequest
  | RefusedRequest
  /** The client disconnected while waiting: nothing is charged, and nobody reads a response. */
  | {readonly kind: 'gone'}

export interface AdmittedRequest {
  readonly kind: 'admitted'
  readonly lease: Lease
  headers(): HeaderFields
  /** The response has ended, or never began: `undefined`. */
  answered(status: number | undefined): Promise<void>
}

export interface RefusedRequest {
  readonly kind: 'refused'
  readonly status: number
  readonly headers: HeaderFields
  /** `null`: retrying does not help. */
  readonly retryAfterMs: number | null
  readonly problem: ProblemDetails
}

/** Of adapters that charge calls. */
interface InnerOptions<Request> {
  /** The bucket of the caller, if `entity` is a provider account. */
  readonly caller?: (request: Request) => BucketName | undefined
  /** The tokens that come back if this process dies. Callers end every lease. */
  readonly reserve?: (request: Request) => Consumption
}

/**
 * Does not commit the lease, so that handlers can adjust it while streaming. `answered` returns its slots. Refuses
 * requests without a valid entity or resource. Throws other errors, without the entity: it may be a secret.
 */
export function createGuard<Request, Name extends string>(
  limiter: GuardLimiter<Name>,
  options: GuardOptions<Request, Name>,
  {caller, reserve}: InnerOptions<Request> = {},
): (request: Request, signal?: AbortSignal, waitMs?: number) => Promise<GuardOutcome> {
  const {entity, resource, consume, skip, enforce, onUnavailable, settle, refundIf} = options
  return async (request, signal, waitMs = options.waitMs) => {
    if (await skip?.(request)) return {kind: 'skipped'}
    const charged = chargedEntity(await entity(request))
    if (typeof charged !== 'string') return charged
    const named = typeof resource === 'string' ? encodeResourceName(resource) : chargedResource(await resource(request))
    if (typeof named !== 'string') return named
    const asked = {
      entity: charged,
      resource: named,
      consume: typeof consume === 'function' ? await consume(request) : consume,
      ...(waitMs !== undefined && {waitMs}),
      ...(enforce !== undefined && {enforce}),
      ...(onUnavailable && {onUnavailable}),
      ...(settle && {settle}),
      ...(signal && {signal}),
      ...(caller && {caller: caller(request)}),
      ...(reserve && {reserve: reserve(request) as Consumption<Name>}),
    }
    try {
      const decision = await limiter.tryAcquire(asked)
      return decision.admitted
        ? admitted(decision as unknown as AdmittedDecision, options, refundIf)
        : refused(decision, options)
    } catch (error) {
      if (error instanceof Aborted && signal?.aborted) return {kind: 'gone'}
      if (!(error instanceof LimiterClosed)) throw withoutEntity(error, charged)
      return refused(refusedDecision(new RateLimiterUnavailable(error), 0), options)
    }
  }
}

/** Like `createGuard`, for servers and gateways: what the client asks for must not look like a failure of the server. */
export function createServerGuard<Request, Name extends string>(
  limiter: GuardLimiter<Name>,
  options: GuardOptions<Request, Name>,
  more?: InnerOptions<Request>,
): (request: Request, signal?: AbortSignal, waitMs?: number) => Promise<GuardOutcome> {
  const {resource, consume} = options
  const guard = createGuard(limiter, options, more)
  return async (request, signal, waitMs) => {
    try {
      return await guard(request, signal, waitMs)
    } catch (error) {
      const code = error instanceof ZaelError ? error.code : undefined
      if (typeof consume === 'function' && (code === 'request.amount' || code === 'name.invalid')) {
        return badRequest('The request asks for an invalid amount.')
      }
      if (typeof resource === 'string' || code !== 'limits.missing') throw error
      warnNoLimits(error)
      return badRequest('The requested resource is not available.')
    }
  }
}

const warnNoLimits = warningOnce('ZAEL_NO_LIMITS', 'A client requested a resource without limits, and got a 400')

/** IPv4 clients of a dual-stack server have addresses such as `::ffff:10.0.0.1`; they are the same clients. */
const MAPPED_IPV4 = /^::ffff:(?=\d+(?:\.\d+){3}$)/i

function chargedEntity(entity: string): string | RefusedRequest {
  if (typeof entity !== 'string' || entity === '') {
    return badRequest('The request has no key that identifies the caller.')
  }
  try {
    return encodeEntityId(entity.replace(MAPPED_IPV4, ''))
  } catch {
    return badRequest('The key that identifies the caller is too long.')
  }
}

function chargedResource(resource: string): string | RefusedRequest {
  if (typeof resource === 'string' && resource !== '') return encodeResourceName(resource)
  return badRequest('The request names no resource, such as a model.')
}

function badRequest(detail: string): RefusedRequest {
  const problem = {type: 'about:blank', title: 'Bad Request', status: 400, detail}
  return {kind: 'refused', status: 400, headers: {}, retryAfterMs: null, problem}
}

/** Frameworks log errors and may send them. */
function withoutEntity(error: unknown, entity: string): unknown {
  if (!(error instanceof ZaelError)) return error
  const {details, message, stack} = error
  const word = new RegExp(`(?<![\\w.:@-])${entity.replace(/\W/g, '\\$&')}(?![\\w:@-])`, 'g')
  const hide = (text: string) => text.replace(word, '(hidden)')
  const {entity: _, ...shown} = details
  return Object.assign(error, {message: hide(message), stack: stack && hide(stack), details: shown})
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
      if (status !== undefined && refundIf?.(status) && !lease.isEnded) await lease.rollback()
      else await lease.returnSlots()
    },
  }
}

function refused(decision: RefusedDecision, options: DecisionOptions): RefusedRequest {
  const problem = decision.error.toProblem()
  const retryAfter = decision.headers()['Retry-After']
  const headers = {
    ...balanceFields(decision, options),
    ...(retryAfter !== undefined && {'Retry-After': retryAfter}),
  }
  return {kind: 'refused', status: problem.status, headers, retryAfterMs: decision.retryAfterMs, problem}
}

function balanceFields(
  decision: AdmittedDecision | RefusedDecision,
  {headers: style = 'ietf', limits = {}}: DecisionOptions,
): HeaderFields {
  if (style === 'none') return {}
  if (style === 'ietf') return decision.headers()
  return dialectHeaders(style, decision.limits, limits, Date.now())
}

const leases = new WeakMap<object, Lease>()

export function keepLease(lease: Lease, ...requests: readonly object[]): void {
  for (const request of requests) leases.set(request, lease)
}

/**
 * The lease of an admitted request, to adjust the charge, also while streaming; `undefined` if it was skipped.
 * If several adapters guard one request, this is the lease of the last.
 */
export function leaseOf(request: object): Lease | undefined {
  return leases.get(request)
}

/** nginx's 499: the client disconnected. Nobody reads the response, but there must be one. */
export const CLIENT_GONE = 499

export function refusalResponse(outcome: RefusedRequest | {readonly kind: 'gone'}): Response {
  if (outcome.kind === 'gone') return new Response(null, {status: CLIENT_GONE})
  const {status, headers, problem} = outcome
  return new Response(JSON.stringify(problem), {status, headers: {...headers, 'Content-Type': PROBLEM_TYPE}})
}

/** Header fields that report the balance: those of the IETF draft, those of a model provider, or none. */
export type HeaderStyle = 'ietf' | 'openai' | 'anthropic' | 'none'

/** Names of the limits that count requests and tokens. @default `rpm` and `tpm` */
export interface LimitNames {
  readonly requests?: string
  readonly tokens?: string
}

/** Only the limits that count requests and tokens have `x-ratelimit-*` or `anthropic-ratelimit-*` fields. */
export function dialectHeaders(
  style: 'openai' | 'anthropic',
  limits: LimitStates,
  {requests = 'rpm', tokens = 'tpm'}: LimitNames,
  nowMs: number,
): HeaderFields {
  const fieldsOf = style === 'openai' ? openaiFields : anthropicFields
  return {
    ...(limits[requests] && fieldsOf('requests', limits[requests], nowMs)),
    ...(limits[tokens] && fieldsOf('tokens', limits[tokens], nowMs)),
  }
}

function openaiFields(what: string, {capacity, available, fullAfterMs}: LimitState): HeaderFields {
  return {
    [`x-ratelimit-limit-${what}`]: String(capacity),
    [`x-ratelimit-remaining-${what}`]: String(Math.max(0, available)),
    ...(fullAfterMs !== null && {[`x-ratelimit-reset-${what}`]: durationText(fullAfterMs)}),
  }
}

function anthropicFields(what: string, {capacity, available, fullAfterMs}: LimitState, nowMs: number): HeaderFields {
  const prefix = `anthropic-ratelimit-${what}`
  return {
    [`${prefix}-limit`]: String(capacity),
    [`${prefix}-remaining`]: String(Math.max(0, available)),
    ...(fullAfterMs !== null && {[`${prefix}-reset`]: instantText(nowMs + fullAfterMs)}),
  }
}

/** `120ms`, `7s`, `6m0s`, `2h0m30s`: rounded up, to whole seconds from 1 s on. */
export function durationText(ms: number): string {
  if (Math.ceil(ms) < 1000) return `${Math.ceil(ms)}ms`
  const seconds = Math.ceil(ms / 1000)
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60]
  return h > 0 ? `${h}h${m}m${s}s` : m > 0 ? `${m}m${s}s` : `${s}s`
}

function instantText(ms: number): string {
  return new Date(Math.ceil(ms / 1000) * 1000).toISOString().replace('.000Z', 'Z')
}
