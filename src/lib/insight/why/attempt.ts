import {valueIf} from '../../core/errors.js'
import type {LimitState} from '../../core/limits/limit-state.js'
import {isUnavailability} from '../../dynamo/errors.js'
import type {Lease} from '../../limiter/lease.js'
import type {RateLimiter} from '../../limiter/rate-limiter.js'
import {RateLimitExceeded, RequestTooLarge} from '../../limiter/refusal/errors.js'
import type {AcquireRequest} from '../../limiter/request/options.js'

export interface AcquireAttempt {
  readonly admitted: boolean
  /** False: the table was unavailable and the policy admitted the request. Nothing was charged. */
  readonly isMetered: boolean
  /** A switch admitted the request: it was counted but not charged. */
  readonly isBypassed: boolean
  /** Charged too, or refusing; nearest first. */
  readonly parents: readonly string[]
  readonly waitedMs: number
  /** 0: admitted. `null`: never. */
  readonly retryAfterMs: number | null
  /** Every requested limit: the balance after admission, or the reason of the refusal. */
  readonly statuses: readonly LimitState[]
}

/**
 * Keeps the charge. Throws if waiting cannot help, or if the table is unavailable. `hold` gets the slots of in-flight
 * limits, and ends the lease.
 */
export async function attemptAcquire(
  limiter: RateLimiter,
  request: AcquireRequest,
  hold?: (lease: Lease) => Promise<void>,
): Promise<AcquireAttempt> {
  const decision = await limiter.tryAcquire(request)
  const {waitedMs} = decision
  if (decision.admitted) {
    const {lease} = decision
    await (hold ? hold(lease) : lease.commit())
    const {isMetered, parents, bypassed: isBypassed} = lease
    const statuses = isMetered && !hold ? await remainingTokens(limiter, request) : []
    return {admitted: true, isMetered, isBypassed, parents, waitedMs, retryAfterMs: 0, statuses}
  }
  const {error} = decision
  if (!(error instanceof RateLimitExceeded)) throw error
  const {statuses, retryAfterMs} = error
  const parents = parentsIn(statuses)
  return {admitted: false, isMetered: true, isBypassed: false, parents, waitedMs, retryAfterMs, statuses}
}

/** The charge is made: a failure to read the balances must not hide that. */
async function remainingTokens(limiter: RateLimiter, request: AcquireRequest): Promise<LimitState[]> {
  const {statuses} = await limiter.check(request).catch(valueIf(isUnavailability, {statuses: []}))
  return statuses.map(status => ({...status, exceeded: false, retryAfterMs: 0}))
}

export async function previewAcquire(limiter: RateLimiter, request: AcquireRequest): Promise<AcquireAttempt> {
  const {admitted, retryAfterMs, bypassed: isBypassed, statuses} = await limiter.check(request)
  const never = statuses.find(status => status.exceeded && status.requested > status.capacity)
  if (never) throw new RequestTooLarge(never.entity, never.resource, never.name, never.requested, never.capacity)
  const parents = parentsIn(statuses)
  return {admitted, isMetered: true, isBypassed, parents, waitedMs: 0, retryAfterMs, statuses}
}

function parentsIn(statuses: readonly LimitState[]): readonly string[] {
  return [...new Set(statuses.flatMap(({level, entity}) => (level === 'parent' ? [entity] : [])))]
}
