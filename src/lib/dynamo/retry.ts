import {onAbort} from './abort.js'
import {Aborted, isRetryable} from './errors.js'

export interface Backoff {
  /** In [0, 1). */
  random: () => number
  /** Resolves early when the signal aborts. */
  sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  /** Includes the first attempt. */
  attempts?: number
  /** Upper bound of the first wait; doubles with every attempt. */
  baseMs?: number
  maxMs?: number
}

interface RetryOptions extends Backoff {
  /** Default: failures that certainly applied nothing. */
  retryable?: (error: unknown) => boolean
  signal?: AbortSignal | undefined
}

export const DEFAULT_ATTEMPTS = 6

/** Bounds the retries of settlements, from the first failure on. `close` waits as long. */
export const LONGEST_RETRY_MS = 30_000

/** Longest pause between these: a request of the bucket and the end of an outage should not wait longer. */
export const LONGEST_PAUSE_MS = 1000

export async function sleepMs(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return
  await new Promise<void>(resolve => {
    const end = () => {
      clearTimeout(timer)
      unsubscribe?.()
      resolve()
    }
    const timer = setTimeout(end, ms)
    const unsubscribe = signal && onAbort(signal, end)
  })
}

/** Full jitter: between 0 and the doubled bound. `attempt` counts from 0. */
export async function pause(attempt: number, backoff: Backoff, signal?: AbortSignal): Promise<void> {
  const {random, sleep, baseMs = 25, maxMs = 2_000} = backoff
  await sleep(Math.floor(random() * Math.min(maxMs, baseMs * 2 ** attempt)), signal)
  if (signal?.aborted === true) throw new Aborted('Waiting to retry', false, signal.reason)
}

export async function retrying<T>(fn: () => Promise<T>, options: RetryOptions): Promise<T> {
  const {attempts = DEFAULT_ATTEMPTS, retryable = isRetryable, signal} = options
  for (let attempt = 0; ; attempt++) {
    try {
      return await fn()
    } catch (error) {
      if (attempt + 1 >= attempts || !retryable(error)) throw error
    }
    await pause(attempt, options, signal)
  }
}
