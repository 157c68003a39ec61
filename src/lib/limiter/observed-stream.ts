import {onAbort} from '../dynamo/abort.js'

export interface StreamObserver<Chunk> {
  chunk?(chunk: Chunk): void
  /** Called once. `isBroken`: the source failed, or the reader stopped (`isCancelled`). */
  end(isBroken: boolean, isCancelled: boolean): Promise<void>
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
  /** Its reader has left. */
  let hasLeft = false
  let isStopping = false
  const end = (isBroken: boolean, isCancelled = false): Promise<void> => {
    ended ??= observer.end(isBroken, isCancelled)
    return ended
  }
  // The source fails while nobody reads: the caller has aborted.
  reader.closed.catch(() => end(true)).catch(() => {})

  async function next(): Promise<Awaited<ReturnType<typeof reader.read>>> {
    let result: Awaited<ReturnType<typeof reader.read>>
    try {
      result = await reader.read()
    } catch (error) {
      await end(true)
      throw error
    }
    if (!result.done) observer.chunk?.(result.value)
    // A pending read ends with the cancellation of its source.
    else if (!isStopping) await end(false)
    return result
  }

  /** The source first: it may still settle the lease that the observer ends. */
  async function stop(reason?: unknown): Promise<void> {
    isStopping = true
    await reader.cancel(reason).finally(() => end(true, true))
  }

  async function drain(): Promise<void> {
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
        else await stop(reason)
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

/** The same response with an observed body; `response` cannot be read any more. */
function observedResponse(response: Response, observer: StreamObserver<Uint8Array>): Response {
  return response.body ? responseLike(response, observedStream(response.body, observer)) : response
}

/** The same response with another body. */
export function responseLike(response: Response, body: ReadableStream<Uint8Array> | null): Response {
  const {status, statusText, headers, url, redirected, type} = response
  const copy = new Response(body, {status, statusText, headers})
  const plainClone = copy.clone.bind(copy)
  const clone = () => responseLike(response, plainClone().body)
  return Object.defineProperties(copy, {
    url: {value: url},
    redirected: {value: redirected},
    type: {value: type},
    clone: {value: clone},
  })
}

/**
 * Calls `end` when a stream ends, is cancelled or fails. Accepts a `Response`, a `ReadableStream`, a Node stream or any
 * other async iterable, and returns it or its replacement. `undefined` if there is nothing to read.
 */
export function endingWith<T>(result: T, end: (isFailed: boolean) => Promise<void>): T | undefined {
  if (typeof result !== 'object' || result === null) return undefined
  const observer = {end: (isBroken: boolean, isCancelled: boolean) => end(isBroken && !isCancelled)}
  if (result instanceof Response) {
    const isReadable = result.body && !result.body.locked && !result.bodyUsed
    return isReadable ? (observedResponse(result, observer) as T) : undefined
  }
  if (result instanceof ReadableStream) return result.locked ? undefined : (observedStream(result, observer) as T)
  // Changed in place: these have more methods than iteration, and private state.
  if (isNodeReadable(result)) {
    if (result.closed) return undefined
    result.once('close', () => void end(isFailure(result.errored)))
    return result
  }
  if (!(Symbol.asyncIterator in result && Object.isExtensible(result))) return undefined
  observeIterable(result as object as AsyncIterable<unknown>, end)
  return result
}

interface NodeReadable {
  readonly closed: boolean
  readonly errored: Error | null
  once(event: 'close', listener: () => void): unknown
}

const isNodeReadable = (value: object): value is NodeReadable => 'errored' in value && 'readableEnded' in value

/** A reader that stops early destroys the stream with one of these errors. */
const isFailure = (error: (Error & {code?: string}) | null): boolean =>
  error !== null && error.code !== 'ERR_STREAM_PREMATURE_CLOSE' && error.code !== 'ABORT_ERR'

function observeIterable(iterable: AsyncIterable<unknown>, end: (isFailed: boolean) => Promise<void>): void {
  if ('next' in iterable) observeIterator(iterable as unknown as AsyncIterator<unknown>, end)
  else {
    const open = iterable[Symbol.asyncIterator].bind(iterable)
    iterable[Symbol.asyncIterator] = () => {
      const iterator = open()
      observeIterator(iterator, end)
      return iterator
    }
  }
}

function observeIterator(iterator: AsyncIterator<unknown>, end: (isFailed: boolean) => Promise<void>): void {
  const observed =
    (method: (...values: [] | [unknown]) => Promise<IteratorResult<unknown>>) =>
    async (...values: [] | [unknown]) => {
      try {
        const result = await method.apply(iterator, values)
        if (result.done) await end(false)
        return result
      } catch (error) {
        await end(true)
        throw error
      }
    }
  const {next, return: stop = async (value: unknown) => ({done: true, value}), throw: fail} = iterator
  iterator.next = observed(next)
  iterator.return = observed(stop)
  if (fail) iterator.throw = observed(fail)
}
