const callbacks = new WeakMap<AbortSignal, Map<symbol, () => void>>()

/** All callbacks of a signal share one listener: Node warns from the eleventh on. Returns the unsubscribe function. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  if (signal.aborted) {
    callback()
    return () => {}
  }
  const shared = callbacks.get(signal) ?? listenTo(signal)
  const key = Symbol()
  shared.set(key, callback)
  return () => {
    shared.delete(key)
    if (shared.size > 0 || callbacks.get(signal) !== shared) return
    callbacks.delete(signal)
    signal.removeEventListener('abort', callAll)
  }
}

function listenTo(signal: AbortSignal): Map<symbol, () => void> {
  const shared = new Map<symbol, () => void>()
  callbacks.set(signal, shared)
  signal.addEventListener('abort', callAll, {once: true})
  return shared
}

function callAll(event: Event): void {
  const signal = event.target as AbortSignal
  const shared = callbacks.get(signal)
  callbacks.delete(signal)
  for (const callback of shared?.values() ?? []) callback()
}

interface WaitLimits {
  readonly signal?: AbortSignal | undefined
  /** By the monotonic clock. */
  readonly deadlineMs?: number | undefined
}

/** Rejects with the signal's reason or a `TimeoutError`. The shared work itself continues for other callers. */
export async function unlessStopped<T>(work: Promise<T>, {signal, deadlineMs}: WaitLimits): Promise<T> {
  let unsubscribe: (() => void) | undefined
  let timer: NodeJS.Timeout | undefined
  const stopped = new Promise<never>((_, reject) => {
    if (signal) unsubscribe = onAbort(signal, () => reject(signal.reason))
    if (deadlineMs === undefined) return
    timer = setTimeout(
      () => reject(new TimeoutError('no response in time')),
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

export function connectionsClosed(): Error {
  return Object.assign(new Error('the connections were closed'), {code: 'ECONNABORTED'})
}
