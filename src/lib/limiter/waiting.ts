import {onAbort} from '../dynamo/abort.js'
import type {Backoff} from '../dynamo/retry.js'
import type {Lease} from './lease.js'
import type {RefusalError} from './refusal/errors.js'
import type {Priority} from './request/options.js'
import {type Booking, LONGEST_BOOKING_MS} from './request/pending-request.js'

export type AcquireOutcome = Lease | RefusalError

interface AdmissionWaitOptions {
  readonly waitMs: number
  readonly priority: Priority
  readonly onWait?: ((retryAfterMs: number) => void) | undefined
  readonly clock: () => number
  readonly sleep: Backoff['sleep']
  /** Each ends a wait early; the next attempt then throws. */
  readonly signals: readonly (AbortSignal | undefined)[]
}

/** Retry at least hourly: limits may change meanwhile. */
const LONGEST_SLEEP_MS = 3_600_000

export class AdmissionWait {
  readonly #options: AdmissionWaitOptions
  readonly #startMs: number
  #waits = 0
  #passedMs = 0

  constructor(options: AdmissionWaitOptions) {
    this.#options = options
    this.#startMs = options.clock()
  }

  get waitedMs(): number {
    return this.#waits === 0 ? 0 : this.#passedMs
  }

  /** How far ahead an attempt may be booked; `undefined`: its time is up. */
  get booking(): Booking | undefined {
    const {waitMs, clock, priority} = this.#options
    const nowMs = clock()
    const startByMs = Math.min(this.#startMs + waitMs, nowMs + LONGEST_BOOKING_MS)
    return startByMs > nowMs ? {startByMs, isBatch: priority === 'batch'} : undefined
  }

  /** Waits until a booked request starts. False if a signal ended the wait. */
  async untilStart(startsAtMs: number): Promise<boolean> {
    const {clock, signals} = this.#options
    const leftMs = startsAtMs - clock()
    // One sleep, so that a clock set back does not extend it.
    if (leftMs > 0) await this.pause(leftMs)
    return !signals.some(signal => signal?.aborted)
  }

  /** Wait before the next attempt, in ms; `undefined` if the outcome is final. */
  after(outcome: AcquireOutcome): number | undefined {
    const {clock, waitMs} = this.#options
    this.#passedMs = clock() - this.#startMs
    const retryAfterMs = 'retryAfterMs' in outcome ? outcome.retryAfterMs : null
    return retryAfterMs === null || this.#passedMs + retryAfterMs > waitMs ? undefined : retryAfterMs
  }

  async pause(retryAfterMs: number): Promise<void> {
    const {onWait, sleep, signals} = this.#options
    this.#waits++
    onWait?.(retryAfterMs)
    await sleepUnlessAborted(Math.min(retryAfterMs, LONGEST_SLEEP_MS), sleep, signals)
  }
}

/** Uses its own signal per sleep, so that a shared one gets no listener per request. */
async function sleepUnlessAborted(
  ms: number,
  sleep: Backoff['sleep'],
  signals: AdmissionWaitOptions['signals'],
): Promise<void> {
  const stop = new AbortController()
  const watched = signals.flatMap(signal => (signal ? [onAbort(signal, () => stop.abort())] : []))
  try {
    if (!stop.signal.aborted) await sleep(ms, stop.signal)
  } finally {
    for (const unwatch of watched) unwatch()
  }
}
