import {Aborted} from '../../dynamo/errors.js'

/** How to wait for AWS. */
export interface WaitOptions {
  /** Resolves after `ms`, or earlier when the signal aborts. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  readonly signal?: AbortSignal | undefined
}

const FIRST_PAUSE_MS = 250
const LONGEST_PAUSE_MS = 3_000

/** Asks at once, then again and again with growing pauses, until there is an answer. */
export async function poll<T>({sleep, signal}: WaitOptions, ask: () => Promise<T | undefined>): Promise<T> {
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 1.5, LONGEST_PAUSE_MS)) {
    const answer = await ask()
    if (answer !== undefined) return answer
    if (signal?.aborted !== true) await sleep(pauseMs, signal)
    if (signal?.aborted === true) throw new Aborted('Waiting for AWS', false, signal.reason)
  }
}
