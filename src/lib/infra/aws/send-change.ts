import {onAbort, unlessStopped} from '../../dynamo/abort.js'
import {Aborted} from '../../dynamo/errors.js'

interface Command {
  readonly middlewareStack: {add(...args: never[]): void}
}

interface ChangeOptions {
  /** For messages, such as `Executing the planned changes`. */
  readonly what: string
  readonly signal: AbortSignal | undefined
  readonly onSent?: (() => void) | undefined
}

/** How long the answer to a request under way is awaited after the signal, in ms. */
const GRACE_MS = 2_000

/**
 * Sends a request that changes something. The signal stops it before it goes out, and before a retry; once it is under way
 * its answer is awaited for some time, because without one nobody knows whether it was applied. Throws `Aborted`, with
 * `maybeApplied` where there was no answer.
 */
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
      // No retry.
      if (signal?.aborted) end.abort()
      throw error
    } finally {
      isUnderWay = false
    }
  }
  const add = command.middlewareStack.add as (middleware: unknown, place: object) => void
  // Around each attempt: inside of the SDK's retries, credentials and signature.
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
