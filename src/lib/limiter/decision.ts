import type {LimitStates} from '../core/limits/limit-state.js'
import type {BucketName} from '../core/names.js'
import {Aborted} from '../dynamo/errors.js'
import {Lease} from './lease.js'
import {
  LimiterClosed,
  longestWait,
  RateLimitExceeded,
  RateLimiterUnavailable,
  type RefusalError,
  RequestTooLarge,
} from './refusal/errors.js'
import type {HeaderFields} from './refusal/headers.js'
import type {DecisionReason, DecisionSummary, RefusingLimit} from './request/decision-event.js'
import type {AcquireOutcome} from './waiting.js'

/** The request was admitted. */
export interface AdmittedDecision<Name extends string = string> {
  readonly admitted: true
  readonly lease: Lease<Name>
  /** As in the lease: a switch bypassed the limits; the request is counted, and nothing was taken. */
  readonly bypassed: boolean
  /**
   * Only with `enforce: false`: the error that `acquire` would throw with `enforce: true`. Nothing was charged, and
   * settlements charge nothing. `undefined` if the request fits.
   */
  readonly wouldRefuse: RefusalError | undefined
  /** Remaining balances; empty if the table was unavailable and the policy allowed the request. */
  readonly limits: LimitStates<Name>
  /** As in the lease: used ÷ capacity of the tightest limit after this request. `undefined` if `limits` is empty. */
  readonly share: number | undefined
  /** Requested limits that are not configured, so not limited; empty in strict mode, which throws. */
  readonly unlimited: readonly Name[]
  /** Time spent waiting, in ms. */
  readonly waitedMs: number
  /** Response headers: the IETF `RateLimit` and `RateLimit-Policy`. */
  headers(): HeaderFields
}

/** The request was refused; nothing was charged. */
export interface RefusedDecision<Name extends string = string> {
  readonly admitted: false
  /**
   * `exceeded`: too little is left. `in-flight`: too few slots are free. `contended`: it would fit, but other processes
   * kept changing the bucket first. `too-large`: more than the limit can hold. `disabled`: by a switch (HTTP 403).
   * `unavailable`: the table did not answer in time and the policy blocks (HTTP 503).
   */
  readonly reason: 'exceeded' | 'in-flight' | 'contended' | 'too-large' | 'disabled' | 'unavailable'
  /**
   * Without contention, waiting this long guarantees admission; an estimate if `in-flight` or `unavailable`. `null`:
   * waiting does not help.
   */
  readonly retryAfterMs: number | null
  /** Balances of the requested limits; empty unless `exceeded`, `in-flight` or `contended`. */
  readonly limits: LimitStates<Name>
  /** Used ÷ capacity of the tightest requested limit, without this request. `undefined` if `limits` is empty. */
  readonly share: number | undefined
  /** Time spent waiting, in ms. */
  readonly waitedMs: number
  /** The error `acquire` throws. It has the details; `toProblem()` is the body of an HTTP 429, 403 or 503. */
  readonly error: RefusalError
  /** Response headers: `Retry-After` in whole seconds, `RateLimit` and `RateLimit-Policy`; none if waiting is useless. */
  headers(): HeaderFields
}

/** The decision about one request. */
export type AcquireDecision<Name extends string = string> = AdmittedDecision<Name> | RefusedDecision<Name>

/** Getters of a class: those of an object literal cost microseconds per decision. */
class Admitted<Name extends string> implements AdmittedDecision<Name> {
  readonly admitted = true
  readonly bypassed: boolean
  readonly wouldRefuse: RefusalError | undefined

  constructor(
    readonly lease: Lease<Name>,
    readonly waitedMs: number,
  ) {
    this.bypassed = lease.bypassed
    this.wouldRefuse = lease.wouldRefuse
  }

  get limits(): LimitStates<Name> {
    return this.lease.limits
  }

  get share(): number | undefined {
    return this.lease.share
  }

  get unlimited(): readonly Name[] {
    return this.lease.unlimited
  }

  readonly headers = (): HeaderFields => this.lease.headers()
}

class Refused<Name extends string> implements RefusedDecision<Name> {
  readonly admitted = false
  readonly reason: RefusedDecision['reason']
  readonly retryAfterMs: number | null

  constructor(
    readonly error: RefusalError,
    readonly waitedMs: number,
  ) {
    this.reason = refusalReason(error)
    this.retryAfterMs = 'retryAfterMs' in error ? error.retryAfterMs : null
  }

  get limits(): LimitStates<Name> {
    return balancesOfDecision(this.error).limits as LimitStates<Name>
  }

  get share(): number | undefined {
    return balancesOfDecision(this.error).share
  }

  readonly headers = (): HeaderFields => ('retryAfterMs' in this.error ? this.error.headers() : {})
}

export function decisionOf<Name extends string>(outcome: AcquireOutcome, waitedMs: number): AcquireDecision<Name> {
  return outcome instanceof Lease ? new Admitted(outcome as Lease<Name>, waitedMs) : refusedDecision(outcome, waitedMs)
}

/** A request that is too large is a refusal, not an error: its size usually comes from the caller's own client. */
export function refusedDecision<Name extends string>(error: RefusalError, waitedMs: number): RefusedDecision<Name> {
  return new Refused(error, waitedMs)
}

function refusalReason(error: RefusalError): RefusedDecision['reason'] {
  if (error instanceof RateLimitExceeded)
    return error.contended ? 'contended' : error.inFlight ? 'in-flight' : 'exceeded'
  if (error instanceof RateLimiterUnavailable) return 'unavailable'
  return error instanceof RequestTooLarge ? 'too-large' : 'disabled'
}

export function summaryOf(outcome: AcquireOutcome, parts: readonly BucketName[]): DecisionSummary {
  const refusal = outcome instanceof Lease ? outcome.wouldRefuse : outcome
  if (refusal) {
    const retryAfterMs = refusal instanceof RateLimitExceeded ? refusal.retryAfterMs : null
    const refusedBy = Object.freeze(refusingLimit(refusal, parts))
    const how = refusal === outcome ? 'refused' : 'would-refuse'
    return {outcome: how, reason: refusalReason(refusal), refusedBy, retryAfterMs, error: refusal}
  }
  const {isMetered, bypassed} = outcome as Lease
  if (!isMetered) return ADMITTED_UNMETERED
  return bypassed ? BYPASSED : ADMITTED
}

interface DecisionBalances {
  readonly limits: LimitStates
  readonly share: number | undefined
}

const UNKNOWN_BALANCES: DecisionBalances = {limits: {}, share: undefined}

export function balancesOfDecision(outcome: unknown): DecisionBalances {
  return outcome instanceof Lease || outcome instanceof RateLimitExceeded ? outcome : UNKNOWN_BALANCES
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

function refusingLimit(refusal: RefusalError, parts: readonly BucketName[]): RefusingLimit | undefined {
  if (refusal instanceof RateLimitExceeded) {
    const worst = longestWait(refusal.statuses)
    if (!worst) return undefined
    const {entity, resource, name: limit, level, source} = worst
    return {entity, resource, limit, level, source}
  }
  if (refusal instanceof RateLimiterUnavailable) return undefined
  const {entity, resource} = refusal
  const isNamed = parts.some(part => part.entity === entity && part.resource === resource)
  const level = isNamed ? 'entity' : 'parent'
  return refusal instanceof RequestTooLarge
    ? {entity, resource, limit: refusal.limit, level, source: undefined}
    : {entity, resource, limit: undefined, level, source: refusal.level}
}

function failureReason(error: unknown): DecisionReason {
  if (error instanceof RateLimiterUnavailable) return 'unavailable'
  if (error instanceof Aborted) return 'aborted'
  return error instanceof LimiterClosed ? 'closed' : 'error'
}
