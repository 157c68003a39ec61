/** Callbacks per signal; the signal itself has one listener for all of them. */
const callbacks = new WeakMap<AbortSignal, Map<symbol, () => void>>()

/**
 * Calls back when the signal aborts, at once if it has; the function that is returned takes that back. However many
 * requests share a signal it has one listener, and none when all are done: Node warns from the eleventh on.
 */
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
