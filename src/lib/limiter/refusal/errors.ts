import type {LimitStatus} from '../../core/buckets/bucket.js'
import {InvalidInput, ZaelError} from '../../core/errors.js'
import type {Level} from '../../core/limits/limit.js'
import {type HeaderFields, type LimitBalances, quotaHeaders} from './headers.js'

/** The status of one limit of a refused request. Counts are whole tokens. */
export interface RefusalStatus extends LimitStatus {
  readonly entity: string
  readonly resource: string
  /** Whether the limit is the entity's own or its parent's. */
  readonly level: 'entity' | 'parent'
  /** `undefined` if all shards together held too little. */
  readonly shard: number | undefined
  /** Where the limit is configured; `undefined` if the refusal needed no configuration read. */
  readonly source: Level | 'default' | undefined
  readonly refillAmount: number
  readonly refillPeriodSeconds: number
}

/** Stated if no wait can be computed: neither headers nor JSON have infinity. */
const LONGEST_STATED_WAIT_MS = 86_400_000

const finiteWait = (ms: number): number => (Number.isFinite(ms) ? ms : LONGEST_STATED_WAIT_MS)

function stated(status: RefusalStatus): RefusalStatus {
  const {retryAfterMs} = status
  return Number.isFinite(retryAfterMs) ? status : {...status, retryAfterMs: finiteWait(retryAfterMs)}
}

export function longestWait(statuses: readonly RefusalStatus[]): RefusalStatus | undefined {
  let worst: RefusalStatus | undefined
  for (const status of statuses)
    if (status.exceeded && (!worst || status.retryAfterMs > worst.retryAfterMs)) worst = status
  return worst
}

/** The request does not fit now; nothing was charged. */
export class RateLimitExceeded extends ZaelError {
  /** Every requested limit, of the entity and of its parent. */
  readonly statuses: readonly RefusalStatus[]
  /** Without contention, waiting this long guarantees admission. Positive and finite. */
  readonly retryAfterMs: number
  /** No limit was exceeded: other processes changed the bucket faster than this one could charge it. */
  readonly contended: boolean

  constructor(asked: readonly RefusalStatus[], waitMs: number) {
    const statuses = asked.map(stated)
    const retryAfterMs = finiteWait(waitMs)
    const worst = longestWait(statuses)
    const what = worst
      ? `Rate limit exceeded (${worst.name} of ${worst.entity} for ${worst.resource}: ${worst.available} of ${worst.requested} asked for)`
      : 'The bucket is contended: other processes changed it before this request could be charged'
    super('negative', 'limit.exceeded', `${what}; try again in ${Math.ceil(retryAfterMs)} ms`, {
      hint: 'Wait for retryAfterMs, then try again.',
      details: {retryAfterMs, limits: statuses},
    })
    this.statuses = statuses
    this.retryAfterMs = retryAfterMs
    this.contended = worst === undefined
  }

  /** The body of an HTTP 429. Other clients of the table use the same keys. */
  toJSON(): object {
    return {
      error: 'rate_limit_exceeded',
      message: this.message,
      retry_after_seconds: this.retryAfterMs / 1000,
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
        retry_after_seconds: status.retryAfterMs / 1000,
      })),
    }
  }

  /** Balance of every requested limit: of the entity or its parent, whichever waits longer. */
  get limits(): LimitBalances {
    return Object.fromEntries(
      tighterStatuses(this.statuses).map(status => {
        const {name, entity, level, capacity, available, refillAmount, refillPeriodSeconds} = status
        const fullAfterMs = fullAfter(status)
        return [name, {entity, level, capacity, available, fullAfterMs, refillAmount, refillPeriodSeconds}]
      }),
    )
  }

  /** HTTP 429 headers: `Retry-After` (whole seconds, rounded up), and the IETF `RateLimit` and `RateLimit-Policy`. */
  headers(): HeaderFields {
    const asked = tighterStatuses(this.statuses.filter(status => status.requested > 0))
    const seconds = Math.max(1, Math.ceil(this.retryAfterMs / 1000))
    return {
      'Retry-After': String(seconds),
      ...quotaHeaders(
        asked.map(status => ({...status, resetMs: status.exceeded ? status.retryAfterMs : fullAfter(status)})),
      ),
    }
  }
}

function tighterStatuses(statuses: readonly RefusalStatus[]): RefusalStatus[] {
  const tighter = new Map<string, RefusalStatus>()
  for (const status of statuses) {
    const other = tighter.get(status.name)
    if (!other || isTighter(status, other)) tighter.set(status.name, status)
  }
  return [...tighter.values()]
}

/** In ms, rounded up; `null`: never. */
function fullAfter({capacity, available, refillAmount, refillPeriodSeconds}: RefusalStatus): number | null {
  if (refillAmount <= 0) return null
  return Math.ceil((Math.max(0, capacity - available) * refillPeriodSeconds * 1000) / refillAmount)
}

function isTighter(a: RefusalStatus, b: RefusalStatus): boolean {
  return a.retryAfterMs === b.retryAfterMs ? a.available < b.available : a.retryAfterMs > b.retryAfterMs
}

/** The request asks for more than the limit can ever hold: waiting never helps. */
export class RequestTooLarge extends ZaelError {
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
      `A request of ${requested} ${limit} can never be admitted: ${entity} holds at most ${capacity} for ${resource}.`,
      {hint: 'Ask for less, or raise the limit.', details: {entity, resource, limit, requested, capacity}},
    )
    this.entity = entity
    this.resource = resource
    this.limit = limit
    this.requested = requested
    this.capacity = capacity
  }
}

/** A switch refuses every request of the entity for the resource; waiting does not help. Respond with HTTP 403. */
export class ResourceDisabled extends ZaelError {
  readonly entity: string
  readonly resource: string
  /** Where the switch is set. */
  readonly level: Level
  /** @internal */
  readonly hasBucket: boolean

  constructor(entity: string, resource: string, level: Level, hasBucket = false) {
    super('negative', 'resource.disabled', `${resource} is disabled for ${entity}${AT_LEVEL[level]}.`, {
      hint: 'It stays so until an operator enables it.',
      details: {entity, resource, level},
    })
    this.entity = entity
    this.resource = resource
    this.level = level
    this.hasBucket = hasBucket
  }

  /** The body of an HTTP 403. */
  toJSON(): object {
    const {entity, resource, level, message} = this
    return {error: 'resource_disabled', message, entity_id: entity, resource, level}
  }
}

const AT_LEVEL: Readonly<Record<Level, string>> = {
  entity: '',
  entity_default: ', like every resource',
  resource: ', like every entity',
  system: '',
}

export function unknownLimit(
  entity: string,
  resource: string,
  names: readonly string[],
  known: readonly string[],
): InvalidInput {
  const what = names.map(name => `"${name}"`).join(', ')
  return new InvalidInput(
    'limit.unknown',
    `No limit ${what} applies to ${entity} for ${resource}; there are ${known.join(', ')}.`,
    {hint: 'Check the spelling, or add the limit.', details: {entity, resource, names, known}},
  )
}

/** Bounds the warned names: they may come from users of the service. */
const MOST_WARNINGS = 1000

const warned = new Set<string>()

export function warnUnlimited(
  name: string,
  {entity, resource}: {readonly entity: string; readonly resource: string},
): void {
  if (warned.has(name) || warned.size >= MOST_WARNINGS) return
  warned.add(name)
  process.emitWarning(
    `No limit "${name}" applies to ${entity} for ${resource}, so it is not limited. Said once per name; strict: true throws instead.`,
    {type: 'ZaelWarning', code: 'ZAEL_UNLIMITED'},
  )
}

/** The table was unavailable, and the policy is to block. */
export class RateLimiterUnavailable extends ZaelError {
  constructor(cause: unknown) {
    const why = cause instanceof Error ? `: ${cause.message}` : ''
    super('failed', 'limiter.unavailable', `No decision could be made in time${why}`, {
      hint: 'Try again later; to let requests through while the table is unreachable, set onUnavailable to "allow".',
      cause,
    })
  }
}

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
