import {Aborted} from '../../dynamo/errors.js'

export interface WaitOptions {
  /** Resolves after `ms`, or earlier when the signal aborts. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  readonly signal?: AbortSignal | undefined
}

const FIRST_INTERVAL_MS = 250
const MAX_INTERVAL_MS = 3_000

export async function poll<T>({sleep, signal}: WaitOptions, read: () => Promise<T | undefined>): Promise<T> {
  for (let intervalMs = FIRST_INTERVAL_MS; ; intervalMs = Math.min(intervalMs * 1.5, MAX_INTERVAL_MS)) {
    const result = await read()
    if (result !== undefined) return result
    if (signal?.aborted !== true) await sleep(intervalMs, signal)
    if (signal?.aborted === true) throw new Aborted('Waiting for AWS', false, signal.reason)
  }
}
