const subscribers = new WeakMap<AbortSignal, Set<() => void>>()

/**
 * Calls `stop` when the signal aborts; the result unsubscribes. All subscribers share one listener: callers use one signal
 * for many requests at once, and Node warns of a leak from the eleventh listener on.
 */
export function onAbort(signal: AbortSignal, stop: () => void): () => void {
  const all = subscribers.get(signal) ?? listenTo(signal)
  all.add(stop)
  return () => {
    all.delete(stop)
    if (all.size > 0 || subscribers.get(signal) !== all) return
    subscribers.delete(signal)
    signal.removeEventListener('abort', callAll)
  }
}

function listenTo(signal: AbortSignal): Set<() => void> {
  const all = new Set<() => void>()
  subscribers.set(signal, all)
  signal.addEventListener('abort', callAll, {once: true})
  return all
}

function callAll(this: AbortSignal): void {
  for (const stop of [...(subscribers.get(this) ?? [])]) stop()
}

/** How long one caller waits for work that it shares with others. */
interface Patience {
  readonly signal?: AbortSignal | undefined
  /** By the monotonic clock. */
  readonly deadlineMs?: number | undefined
}

/** The result of shared work, or the signal's reason or a `TimeoutError`: the work itself goes on for the others. */
export async function unlessStopped<T>(work: Promise<T>, {signal, deadlineMs}: Patience): Promise<T> {
  let unsubscribe: (() => void) | undefined
  let timer: NodeJS.Timeout | undefined
  const stopped = new Promise<never>((_, reject) => {
    if (signal?.aborted) reject(signal.reason)
    else if (signal) unsubscribe = onAbort(signal, () => reject(signal.reason))
    if (deadlineMs === undefined) return
    timer = setTimeout(
      () => reject(new TimeoutError('nothing happened in time')),
      Math.max(0, deadlineMs - performance.now()),
    )
  })
  try {
    return await Promise.race([work, stopped])
  } finally {
    unsubscribe?.()
    clearTimeout(timer)
  }
}

/** Counts as an outage, like the reason of `AbortSignal.timeout`. */
export class TimeoutError extends Error {
  override readonly name = 'TimeoutError'
}

/** Why requests fail that are under way when a transport is closed. */
export function connectionsClosed(): Error {
  return Object.assign(new Error('the connections were closed'), {code: 'ECONNABORTED'})
}
