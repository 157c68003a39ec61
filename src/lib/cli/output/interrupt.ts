import {ZaelError} from '../../core/errors.js'

/**
 * Does long work that Ctrl-C stops between two requests; `interrupted` makes the error. A second Ctrl-C ends the process at
 * once.
 */
export async function interruptible<T>(
  work: (signal: AbortSignal) => Promise<T>,
  interrupted: () => ZaelError,
): Promise<T> {
  const stop = new AbortController()
  const onInterrupt = () => stop.abort()
  process.once('SIGINT', onInterrupt)
  try {
    return await work(stop.signal)
  } catch (error) {
    const isStopped = stop.signal.aborted && error instanceof ZaelError && error.code === 'dynamo.aborted'
    throw isStopped ? interrupted() : error
  } finally {
    process.off('SIGINT', onInterrupt)
  }
}
