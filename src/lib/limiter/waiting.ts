import {onAbort} from '../dynamo/abort.js'
import type {Backoff} from '../dynamo/retry.js'
import type {RateLimitExceeded, RequestTooLarge, ResourceDisabled} from './errors.js'
import type {Lease} from './lease.js'

/** What one attempt at a request comes to. */
export type AcquireOutcome = Lease | RateLimitExceeded | RequestTooLarge | ResourceDisabled

/** How to wait for admission. */
export interface AdmissionWait {
  /** Longest time to wait, in ms. */
  readonly waitMs: number
  readonly onWait?: ((retryAfterMs: number) => void) | undefined
  readonly clock: () => number
  readonly sleep: Backoff['sleep']
  /** Each of them ends a wait early; the next attempt then throws. */
  readonly signals: readonly (AbortSignal | undefined)[]
}

/** An hour in ms: the limits may change meanwhile. */
const LONGEST_SLEEP_MS = 3_600_000

/** Tries until the request is admitted, as long as the wait is known to fit into `waitMs`. */
export async function untilAdmitted(
  attempt: () => Promise<AcquireOutcome>,
  {waitMs, onWait, clock, sleep, signals}: AdmissionWait,
): Promise<{outcome: AcquireOutcome; waitedMs: number}> {
  const startMs = clock()
  for (let waits = 0; ; waits++) {
    const outcome = await attempt()
    const passedMs = clock() - startMs
    const retryAfterMs = 'retryAfterMs' in outcome ? outcome.retryAfterMs : undefined
    if (retryAfterMs === undefined || passedMs + retryAfterMs > waitMs) {
      return {outcome, waitedMs: waits === 0 ? 0 : passedMs}
    }
    onWait?.(retryAfterMs)
    await sleepUnlessAborted(Math.min(retryAfterMs, LONGEST_SLEEP_MS), sleep, signals)
  }
}

/** A signal of its own for each sleep, so that a shared one gets no listener per request. */
async function sleepUnlessAborted(
  ms: number,
  sleep: Backoff['sleep'],
  signals: AdmissionWait['signals'],
): Promise<void> {
  const stop = new AbortController()
  const watched = signals.flatMap(signal => (signal ? [onAbort(signal, () => stop.abort())] : []))
  try {
    if (!stop.signal.aborted) await sleep(ms, stop.signal)
  } finally {
    for (const unwatch of watched) unwatch()
  }
}
