import {onAbort, unlessStopped} from '../../dynamo/abort.js'
import {Aborted} from '../../dynamo/errors.js'

interface Command {
  readonly middlewareStack: {add(...args: never[]): void}
}

interface ChangeOptions {
  readonly what: string
  readonly signal: AbortSignal | undefined
  readonly onSent?: (() => void) | undefined
}

/** Wait for a response after the signal: without one, it is unknown whether the change was applied. */
const GRACE_MS = 2_000

/** The signal stops a request before it is sent or retried. Throws `Aborted`; `maybeApplied`: there was no response. */
export async function sendChange<T>(
  command: Command,
  send: (options: {readonly abortSignal: AbortSignal}) => Promise<T>,
  {what, signal, onSent}: ChangeOptions,
): Promise<T> {
  if (signal?.aborted) throw new Aborted(what, false, signal.reason)
  const end = new AbortController()
  let isUnderWay = false
  let inDoubt = false
  let timer: NodeJS.Timeout | undefined
  const observe = (next: (args: unknown) => Promise<unknown>) => async (args: unknown) => {
    end.signal.throwIfAborted()
    isUnderWay = inDoubt = true
    onSent?.()
    try {
      const answer = await next(args)
      inDoubt = false
      return answer
    } catch (error) {
      const status = (error as {$response?: {statusCode: number}}).$response?.statusCode
      inDoubt = status === undefined || status >= 500
      // Prevents a retry.
      if (signal?.aborted) end.abort()
      throw error
    } finally {
      isUnderWay = false
    }
  }
  const add = command.middlewareStack.add as (middleware: unknown, place: object) => void
  // Runs around each attempt, inside the SDK's retries, credentials and signature.
  add(observe, {name: 'observeAttempts', step: 'deserialize', priority: 'high'})
  const unsubscribe =
    signal &&
    onAbort(signal, () => {
      if (isUnderWay) timer = setTimeout(() => end.abort(), GRACE_MS)
      else end.abort()
    })
  try {
    return await unlessStopped(send({abortSignal: end.signal}), {signal: end.signal})
  } catch (error) {
    throw end.signal.aborted && (error as Error).name === 'AbortError' ? new Aborted(what, inDoubt, error) : error
  } finally {
    unsubscribe?.()
    clearTimeout(timer)
  }
}

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
