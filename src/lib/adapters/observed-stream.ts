export interface StreamObserver<Chunk> {
  chunk(chunk: Chunk): void
  /** Called once: at the end, or broken (`isBroken`) by an error of the source or because nobody reads on. */
  end(isBroken: boolean): Promise<void>
}

/**
 * The same stream, chunk by chunk: nothing is read before it is asked for. The reader learns of the end when the observer
 * has done its part.
 */
export function observedStream<Chunk>(
  source: ReadableStream<Chunk>,
  observer: StreamObserver<Chunk>,
): ReadableStream<Chunk> {
  const reader = source.getReader()
  let ended: Promise<void> | undefined
  const end = (isBroken: boolean): Promise<void> => {
    ended ??= observer.end(isBroken)
    return ended
  }
  // A source that fails while nobody reads: the caller has aborted and left.
  reader.closed.catch(() => end(true))
  return new ReadableStream<Chunk>(
    {
      pull: async controller => {
        try {
          const {done, value} = await reader.read()
          if (!done) {
            observer.chunk(value)
            controller.enqueue(value)
            return
          }
        } catch (error) {
          await end(true)
          throw error
        }
        await end(false)
        controller.close()
      },
      cancel: async reason => {
        await Promise.all([reader.cancel(reason), end(true)])
      },
    },
    {highWaterMark: 0},
  )
}

/** Reads the data of server-sent events from bytes that arrive in any pieces; keeps no more than one unfinished line. */
export class EventStreamReader {
  readonly #decoder = new TextDecoder()
  readonly #onData: (data: string) => void
  #rest = ''

  constructor(onData: (data: string) => void) {
    this.#onData = onData
  }

  read(chunk: Uint8Array): void {
    const lines = (this.#rest + this.#decoder.decode(chunk, {stream: true})).split(/\r\n|\n|\r/)
    this.#rest = lines.pop() ?? ''
    for (const line of lines) this.#line(line)
  }

  /** The last line may lack its end. */
  end(): void {
    this.#line(this.#rest + this.#decoder.decode())
    this.#rest = ''
  }

  #line(line: string): void {
    if (line.startsWith('data:')) this.#onData(line.slice(5).trim())
  }
}
