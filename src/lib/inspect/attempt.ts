import {isUnavailability} from '../dynamo/errors.js'
import {RateLimitExceeded, type RefusalStatus, RequestTooLarge} from '../limiter/errors.js'
import type {AcquireRequest} from '../limiter/options.js'
import type {RateLimiter} from '../limiter/rate-limiter.js'

/** How to try a request. */
export interface AttemptOptions {
  /** Only show what would happen. */
  readonly dryRun?: boolean | undefined
  /** Longest time to wait for tokens, in ms; 0: do not wait. */
  readonly waitMs?: number | undefined
  /** Called before each wait. */
  readonly onWait?: ((waitMs: number) => void) | undefined
  readonly clock: () => number
  /** Resolves after `ms`, or earlier when the signal aborts. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>
}

/** An hour in ms: a timer cannot exceed 24 days, and the limits may change meanwhile. */
const LONGEST_SLEEP_MS = 3_600_000

/** The outcome of a request. */
export interface AcquireAttempt {
  readonly admitted: boolean
  /** False when the table was unavailable and the policy admitted the request: nothing was charged. */
  readonly isMetered: boolean
  /** The parent that was charged too. */
  readonly parent: string | undefined
  /** Time spent waiting, in ms. */
  readonly waitedMs: number
  /** 0 when admitted. */
  readonly retryAfterMs: number
  /** Every requested limit: what is left of it after an admitted request, or why it was refused. */
  readonly statuses: readonly RefusalStatus[]
}

/** Acquires and keeps the charge, or explains the refusal. Waits only if the wait is known to fit into `waitMs`. */
export async function attemptAcquire(
  limiter: RateLimiter,
  request: AcquireRequest,
  {dryRun = false, waitMs = 0, onWait, clock, sleep}: AttemptOptions,
): Promise<AcquireAttempt> {
  const startMs = clock()
  for (let waits = 0; ; waits++) {
    const outcome = dryRun ? await preview(limiter, request) : await acquire(limiter, request)
    const passedMs = clock() - startMs
    if (outcome.admitted || passedMs + outcome.retryAfterMs > waitMs) {
      return {...outcome, waitedMs: waits === 0 ? 0 : passedMs}
    }
    onWait?.(outcome.retryAfterMs)
    // When the signal ended the sleep early, the next attempt throws.
    await sleep(Math.min(outcome.retryAfterMs, LONGEST_SLEEP_MS), request.signal)
  }
}

type Outcome = Omit<AcquireAttempt, 'waitedMs'>

async function acquire(limiter: RateLimiter, request: AcquireRequest): Promise<Outcome> {
  try {
    const lease = await limiter.acquire(request)
    await lease.commit()
    const {isMetered, parent} = lease
    const statuses = isMetered ? await remainingTokens(limiter, request) : []
    return {admitted: true, isMetered, parent, retryAfterMs: 0, statuses}
  } catch (error) {
    if (!(error instanceof RateLimitExceeded)) throw error
    const {statuses, retryAfterMs} = error
    return {admitted: false, isMetered: true, parent: parentIn(statuses), retryAfterMs, statuses}
  }
}

/** The charge is made; a failure to read the balances afterwards must not hide that. */
async function remainingTokens(limiter: RateLimiter, request: AcquireRequest): Promise<RefusalStatus[]> {
  try {
    const {statuses} = await limiter.check(request)
    return statuses.map(status => ({...status, exceeded: false, deficit: 0, retryAfterMs: 0}))
  } catch (error) {
    if (isUnavailability(error)) return []
    throw error
  }
}

async function preview(limiter: RateLimiter, request: AcquireRequest): Promise<Outcome> {
  const {admitted, retryAfterMs, statuses} = await limiter.check(request)
  const never = statuses.find(status => status.requested > status.capacity)
  if (never) throw new RequestTooLarge(never.entity, never.resource, never.name, never.requested, never.capacity)
  return {admitted, isMetered: true, parent: parentIn(statuses), retryAfterMs, statuses}
}

function parentIn(statuses: readonly RefusalStatus[]): string | undefined {
  return statuses.find(({level}) => level === 'parent')?.entity
}
