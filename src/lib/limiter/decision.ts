import {Aborted} from '../dynamo/errors.js'
import {Lease} from './lease.js'
import {
  LimiterClosed,
  longestWait,
  RateLimitExceeded,
  RateLimiterUnavailable,
  RequestTooLarge,
  type ResourceDisabled,
} from './refusal/errors.js'
import type {HeaderFields, LimitBalances} from './refusal/headers.js'
import type {DecisionReason, DecisionSummary, RefusingLimit} from './request/decision-event.js'
import type {AcquireOutcome} from './waiting.js'

/** The request was admitted and charged. */
export interface AdmittedDecision<Name extends string = string> {
  readonly admitted: true
  readonly lease: Lease<Name>
  /** A switch let the entity pass whatever its limits: the request is counted, and nothing was taken. As of the lease. */
  readonly bypassed: boolean
  /** What is left; empty when the table was unreachable and the policy let the request through. */
  readonly limits: LimitBalances<Name>
  /** What was asked for and is not configured, so that it was not limited; empty in strict mode, which throws. */
  readonly unlimited: readonly Name[]
  /** Time spent waiting, in ms. */
  readonly waitedMs: number
  /** For the response: the IETF `RateLimit` and `RateLimit-Policy`. */
  headers(): HeaderFields
}

/** The request was refused; nothing was charged. */
export interface RefusedDecision<Name extends string = string> {
  readonly admitted: false
  /**
   * `exceeded`: it does not fit now. `too-large`: it asks for more than the limit can ever hold. `disabled`: a switch
   * refuses every request, to be answered with an HTTP 403.
   */
  readonly reason: 'exceeded' | 'too-large' | 'disabled'
  /** Waiting this long with no competitors admits the request; `null`: waiting never helps. */
  readonly retryAfterMs: number | null
  /** What is left of the limits that were asked for; empty when the request does not merely exceed them. */
  readonly limits: LimitBalances<Name>
  /** Time spent waiting, in ms. */
  readonly waitedMs: number
  /** What `acquire` throws: it has the details, and its JSON is the body of an HTTP 429 or 403. */
  readonly error: RateLimitExceeded | RequestTooLarge | ResourceDisabled
  /** For the response: `Retry-After` in whole seconds, the IETF `RateLimit` and `RateLimit-Policy`; none unless exceeded. */
  headers(): HeaderFields
}

/** What becomes of a request: `admitted` tells which. */
export type AcquireDecision<Name extends string = string> = AdmittedDecision<Name> | RefusedDecision<Name>

/** The decision for an admitted request. What is left is computed when it is asked for. */
export function admittedDecision<Name extends string>(lease: Lease<Name>, waitedMs: number): AdmittedDecision<Name> {
  return {
    admitted: true,
    lease,
    bypassed: lease.bypassed,
    waitedMs,
    get limits() {
      return lease.limits
    },
    get unlimited() {
      return lease.unlimited
    },
    headers: () => lease.headers(),
  }
}

/**
 * The decision for a refused request. One that is too large is refused as well, and no error: its size usually comes from
 * the caller's own client, who must be answered either way, and `retryAfterMs` makes the difference.
 */
export function refusedDecision<Name extends string>(error: Refusal, waitedMs: number): RefusedDecision<Name> {
  const exceeded = error instanceof RateLimitExceeded ? error : undefined
  return {
    admitted: false,
    reason: refusalReason(error),
    retryAfterMs: exceeded?.retryAfterMs ?? null,
    waitedMs,
    error,
    get limits() {
      return (exceeded?.limits ?? {}) as LimitBalances<Name>
    },
    headers: () => exceeded?.headers() ?? {},
  }
}

type Refusal = RateLimitExceeded | RequestTooLarge | ResourceDisabled

function refusalReason(error: Refusal): RefusedDecision['reason'] {
  return error instanceof RateLimitExceeded ? 'exceeded' : error instanceof RequestTooLarge ? 'too-large' : 'disabled'
}

/** An outcome as `onDecision` is told; `entity` is the one that asked. */
export function summaryOf(outcome: AcquireOutcome, entity: string): DecisionSummary {
  if (!(outcome instanceof Lease)) {
    const retryAfterMs = outcome instanceof RateLimitExceeded ? outcome.retryAfterMs : null
    const refusedBy = Object.freeze(refusingLimit(outcome, entity))
    return {outcome: 'refused', reason: refusalReason(outcome), refusedBy, retryAfterMs, error: outcome}
  }
  if (!outcome.isMetered) return ADMITTED_UNMETERED
  return outcome.bypassed ? BYPASSED : ADMITTED
}

export function failureSummary(error: unknown): DecisionSummary {
  return {outcome: 'failed', reason: failureReason(error), refusedBy: undefined, retryAfterMs: null, error}
}

const admittedFor = (reason: DecisionReason | undefined): DecisionSummary => ({
  outcome: 'admitted',
  reason,
  refusedBy: undefined,
  retryAfterMs: null,
  error: undefined,
})

const ADMITTED = admittedFor(undefined)
const ADMITTED_UNMETERED = admittedFor('unavailable')
const BYPASSED = admittedFor('bypassed')

function refusingLimit(refusal: Refusal, entity: string): RefusingLimit | undefined {
  if (refusal instanceof RateLimitExceeded) {
    const worst = longestWait(refusal.statuses)
    if (!worst) return undefined
    const {resource, name: limit, level, source} = worst
    return {resource, limit, level, source}
  }
  const {resource} = refusal
  const level = refusal.entity === entity ? 'entity' : 'parent'
  return refusal instanceof RequestTooLarge
    ? {resource, limit: refusal.limit, level, source: undefined}
    : {resource, limit: undefined, level, source: refusal.level}
}

function failureReason(error: unknown): DecisionReason {
  if (error instanceof RateLimiterUnavailable) return 'unavailable'
  if (error instanceof Aborted) return 'aborted'
  return error instanceof LimiterClosed ? 'closed' : 'error'
}
