import {onAbort} from '../dynamo/abort.js'

export interface StreamObserver<Chunk> {
  chunk(chunk: Chunk): void
  /** Called once. `isBroken`: the source failed, or the reader stopped. */
  end(isBroken: boolean): Promise<void>
}

/** Longest time, in ms, to read a stream to its end after its reader has left. */
const LONGEST_DRAIN_MS = 120_000

/**
 * Reads nothing before it is asked to. The reader sees the end only after `observer.end` resolves. If `isDrained`, a
 * reader that leaves does not stop the source.
 */
export function observedStream<Chunk>(
  source: ReadableStream<Chunk>,
  observer: StreamObserver<Chunk>,
  isDrained = false,
): ReadableStream<Chunk> {
  const reader = source.getReader()
  let ended: Promise<void> | undefined
  let hasLeft = false
  const end = (isBroken: boolean): Promise<void> => {
    ended ??= observer.end(isBroken)
    return ended
  }
  // The source fails while nobody reads: the caller has aborted.
  reader.closed.catch(() => end(true))

  async function next(): Promise<Awaited<ReturnType<typeof reader.read>>> {
    let result: Awaited<ReturnType<typeof reader.read>>
    try {
      result = await reader.read()
    } catch (error) {
      await end(true)
      throw error
    }
    if (result.done) await end(false)
    else observer.chunk(result.value)
    return result
  }

  async function drain(): Promise<void> {
    const stop = () => Promise.all([end(true), reader.cancel()])
    const timer = setTimeout(() => stop().catch(() => {}), LONGEST_DRAIN_MS)
    try {
      while (!(await next()).done);
    } catch {
      // The observer knows that the source broke.
    } finally {
      clearTimeout(timer)
    }
  }

  return new ReadableStream<Chunk>(
    {
      pull: async controller => {
        const {done, value} = await next()
        if (hasLeft) return
        if (done) controller.close()
        else controller.enqueue(value)
      },
      cancel: async reason => {
        hasLeft = true
        if (isDrained) void drain()
        else await Promise.all([reader.cancel(reason), end(true)])
      },
    },
    {highWaterMark: 0},
  )
}

/** Fails when the signal aborts, and cancels the source. */
export function abortedBy<Chunk>(source: ReadableStream<Chunk>, signal: AbortSignal): ReadableStream<Chunk> {
  const reader = source.getReader()
  let ignore = (): void => {}
  return new ReadableStream<Chunk>(
    {
      start: controller => {
        ignore = onAbort(signal, () => {
          controller.error(signal.reason)
          reader.cancel(signal.reason).catch(() => {})
        })
      },
      pull: async controller => {
        const {done, value} = await reader.read()
        if (done) ignore()
        if (signal.aborted) return
        if (done) controller.close()
        else controller.enqueue(value)
      },
      cancel: async reason => {
        ignore()
        await reader.cancel(reason)
      },
    },
    {highWaterMark: 0},
  )
}

/** A signal for work that may outlive its caller: aborts with the given signal until `release` is called. */
export function releasableSignal(signal: AbortSignal): {readonly signal: AbortSignal; release(): void} {
  const controller = new AbortController()
  const release = onAbort(signal, () => controller.abort(signal.reason))
  return {signal: controller.signal, release}
}
