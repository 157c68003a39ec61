import {InvalidInput, ZaelError} from '../../core/errors.js'
import type {Level} from '../../core/limits/limit.js'
import {type LimitState, type LimitStates, shareUsed} from '../../core/limits/limit-state.js'
import {type HeaderFields, quotaHeaders} from './headers.js'

/** The body of a refusal: problem details (RFC 9457). Names limits, but neither entities nor resources. */
export interface ProblemDetails {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly 'violated-policies'?: readonly string[]
  /** A limit of the shared provider account refused the request, not a limit of the caller. */
  readonly 'limited-by'?: 'provider'
}

const QUOTA_EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded'

function tooManyRequests(names: Iterable<string>, detail: string): ProblemDetails {
  return {type: QUOTA_EXCEEDED, title: 'Quota exceeded', status: 429, detail, 'violated-policies': [...names]}
}

const comparable = ({retryAfterMs}: LimitState): number => retryAfterMs ?? Number.POSITIVE_INFINITY

const inSeconds = (ms: number | null): number | null => ms && ms / 1000

export function longestWait(statuses: readonly LimitState[]): LimitState | undefined {
  let worst: LimitState | undefined
  for (const status of statuses)
    if (status.exceeded && (!worst || comparable(status) > comparable(worst))) worst = status
  return worst
}

/** An error that refuses a request. */
export abstract class RequestRefused extends ZaelError {
  /** The body of the HTTP response. */
  abstract toProblem(): ProblemDetails

  /** Same as `toProblem`, so that `JSON.stringify` shows callers neither ids nor internals. */
  toJSON(): ProblemDetails {
    return this.toProblem()
  }
}

/** The request does not fit now; nothing was charged. */
export class RateLimitExceeded extends RequestRefused {
  /** Every requested limit, of the entity and of its parent. */
  readonly statuses: readonly LimitState[]
  /**
   * Without contention, waiting this long guarantees admission, unless `inFlight`. Positive and finite, or `null`: waiting
   * does not help, because a run lacks tokens.
   */
  readonly retryAfterMs: number | null
  /** No limit was exceeded: other processes changed the bucket faster than this one could charge it. */
  readonly contended: boolean
  /** Only in-flight limits were exceeded, so `retryAfterMs` is an estimate. */
  readonly inFlight: boolean

  constructor(statuses: readonly LimitState[], retryAfterMs: number | null) {
    const worst = longestWait(statuses)
    const what = worst
      ? `Rate limit exceeded (${worst.name} of ${worst.entity} for ${worst.resource}: ${worst.available} left, ${worst.requested} requested)`
      : 'The bucket is contended: other processes changed it before this request could be charged'
    const isFinal = retryAfterMs === null
    const when = isFinal ? 'waiting does not help' : `try again in ${Math.ceil(retryAfterMs)} ms`
    super('negative', 'limit.exceeded', `${what}; ${when}`, {
      hint: isFinal ? 'Ask for less.' : 'Wait for retryAfterMs, then try again.',
      details: {retryAfterMs, limits: statuses},
    })
    this.statuses = statuses
    this.retryAfterMs = retryAfterMs
    this.contended = worst === undefined
    this.inFlight = worst !== undefined && statuses.every(status => !status.exceeded || status.inFlight)
  }

  /** The body of an HTTP 429. */
  toProblem(): ProblemDetails {
    const names = new Set(this.statuses.filter(status => status.exceeded).map(status => status.name))
    const seconds = this.#retryAfterSeconds
    const when =
      seconds === undefined ? 'Waiting does not help' : `Try again in ${seconds} second${seconds === 1 ? '' : 's'}`
    return tooManyRequests(names, `Rate limit exceeded. ${when}.`)
  }

  /** The body that zae-limiter sends. It has the ids and capacities of entity and parent: not for tenants. */
  toReferenceJSON(): object {
    return {
      error: 'rate_limit_exceeded',
      message: this.message,
      retry_after_seconds: inSeconds(this.retryAfterMs),
      retry_after_ms: this.retryAfterMs,
      contended: this.contended,
      limits: this.statuses.map(status => ({
        entity_id: status.entity,
        resource: status.resource,
        limit_name: status.name,
        level: status.level,
        source: status.source ?? null,
        capacity: status.capacity,
        refill_amount: status.refillAmount,
        refill_period_seconds: status.refillPeriodSeconds,
        available: status.available,
        requested: status.requested,
        exceeded: status.exceeded,
        retry_after_seconds: inSeconds(status.retryAfterMs),
      })),
    }
  }

  get #retryAfterSeconds(): number | undefined {
    return this.retryAfterMs === null ? undefined : Math.max(1, Math.ceil(this.retryAfterMs / 1000))
  }

  /** Every requested limit by name: of the entity or its parent, whichever waits longer. */
  get limits(): LimitStates {
    return Object.fromEntries(tighterStatuses(this.statuses).map(status => [status.name, status]))
  }

  /** Used ÷ capacity of the tightest requested limit: 1 if nothing is left, more in debt. */
  get share(): number | undefined {
    return shareUsed(this.statuses)
  }

  /** HTTP 429 headers: `Retry-After` (whole seconds, rounded up) if waiting helps, and the IETF `RateLimit` and `RateLimit-Policy`. */
  headers(): HeaderFields {
    const asked = tighterStatuses(this.statuses.filter(status => status.requested > 0))
    const seconds = this.#retryAfterSeconds
    return {
      ...(seconds !== undefined && {'Retry-After': String(seconds)}),
      ...quotaHeaders(
        asked.map(status => ({...status, resetMs: status.exceeded ? status.retryAfterMs : status.fullAfterMs})),
      ),
    }
  }
}

function tighterStatuses(statuses: readonly LimitState[]): LimitState[] {
  const tighter = new Map<string, LimitState>()
  for (const status of statuses) {
    const other = tighter.get(status.name)
    if (!other || isTighter(status, other)) tighter.set(status.name, status)
  }
  return [...tighter.values()]
}

function isTighter(a: LimitState, b: LimitState): boolean {
  return comparable(a) === comparable(b) ? a.available < b.available : comparable(a) > comparable(b)
}

/** The request asks for more than the limit can ever hold: waiting never helps. */
export class RequestTooLarge extends RequestRefused {
  readonly entity: string
  readonly resource: string
  /** The limit that is too small. */
  readonly limit: string
  /** Whole tokens requested. */
  readonly requested: number
  /** Whole tokens that the limit can hold. */
  readonly capacity: number

  constructor(entity: string, resource: string, limit: string, requested: number, capacity: number) {
    super(
      'usage',
      'request.too-large',
      `A request of ${requested} ${limit} can never be admitted: ${entity} is limited to ${capacity} for ${resource}.`,
      {hint: 'Ask for less, or raise the limit.', details: {entity, resource, limit, requested, capacity}},
    )
    this.entity = entity
    this.resource = resource
    this.limit = limit
    this.requested = requested
    this.capacity = capacity
  }

  /** The body of an HTTP 429. */
  toProblem(): ProblemDetails {
    const {limit, requested, capacity} = this
    return tooManyRequests([limit], `The request needs ${requested} ${limit}, but the limit is ${capacity}.`)
  }
}

/** A switch refuses every request of the entity for the resource; waiting does not help. Respond with HTTP 403. */
export class ResourceDisabled extends RequestRefused {
  readonly entity: string
  readonly resource: string
  /** Where the switch is set. */
  readonly level: Level
  /** @internal */
  readonly hasBucket: boolean

  constructor(entity: string, resource: string, level: Level, hasBucket = false) {
    super('negative', 'resource.disabled', `${resource} is disabled for ${entity}${AT_LEVEL[level]}.`, {
      hint: 'An operator must re-enable it.',
      details: {entity, resource, level},
    })
    this.entity = entity
    this.resource = resource
    this.level = level
    this.hasBucket = hasBucket
  }

  /** The body of an HTTP 403. */
  toProblem(): ProblemDetails {
    return {type: 'about:blank', title: 'Forbidden', status: 403, detail: 'Access is disabled.'}
  }

  /** The body that zae-limiter sends. It has ids: not for tenants. */
  toReferenceJSON(): object {
    const {entity, resource, level, message} = this
    return {error: 'resource_disabled', message, entity_id: entity, resource, level}
  }
}

const AT_LEVEL: Readonly<Record<Level, string>> = {
  entity: '',
  entity_default: ' (all resources)',
  resource: ' (all entities)',
  system: '',
}

export function unknownLimit(
  entity: string,
  resource: string,
  names: readonly string[],
  others: readonly string[],
): InvalidInput {
  const known = [...new Set(others)]
  const what = names.map(name => `"${name}"`).join(', ')
  return new InvalidInput(
    'limit.unknown',
    `No limit ${what} applies to ${entity} for ${resource}; its limits are ${known.join(', ')}.`,
    {hint: 'Check the spelling, or add the limit.', details: {entity, resource, names, known}},
  )
}

/** Bounds the warned names: they may come from users of the service. */
const MOST_WARNINGS = 1000

const warned = new Set<string>()

/** Does not name the entity: it may be a secret, and warnings are logged. */
export function warnUnlimited(name: string, {resource}: {readonly resource: string}): void {
  if (warned.has(name) || warned.size >= MOST_WARNINGS) return
  warned.add(name)
  process.emitWarning(
    `No limit "${name}" applies to a request for ${resource}, so this amount is not limited. Shown once per limit; strict: true throws instead.`,
    {type: 'ZaelWarning', code: 'ZAEL_UNLIMITED'},
  )
}

/** The table was unavailable, and the policy is to block. */
export class RateLimiterUnavailable extends RequestRefused {
  /** When to try again: a second, because the end of the outage is unknown. */
  readonly retryAfterMs = 1000

  constructor(cause: unknown) {
    const why = cause instanceof Error ? `: ${cause.message}` : ''
    super('failed', 'limiter.unavailable', `No decision could be made in time${why}`, {
      hint: 'Try again later. To admit requests while the table is unavailable, set onUnavailable to "allow".',
      cause,
    })
  }

  /** The body of an HTTP 503. */
  toProblem(): ProblemDetails {
    const detail = 'The request could not be admitted now. Try again.'
    return {type: 'about:blank', title: 'Service Unavailable', status: 503, detail}
  }

  /** HTTP 503 headers: `Retry-After` in whole seconds. */
  headers(): HeaderFields {
    return {'Retry-After': String(this.retryAfterMs / 1000)}
  }
}

/** The errors that refuse a request. */
export type RefusalError = RateLimitExceeded | RequestTooLarge | ResourceDisabled | RateLimiterUnavailable

/** The lease was already committed or rolled back. */
export class LeaseEnded extends ZaelError {
  constructor(how: string) {
    super('conflict', 'lease.ended', `The lease has already been ${how}.`, {hint: 'Acquire a new one.'})
  }
}

/** The limiter was closed. */
export class LimiterClosed extends ZaelError {
  constructor() {
    super('conflict', 'limiter.closed', 'The limiter is closed.', {hint: 'Create a new one.'})
  }
}
