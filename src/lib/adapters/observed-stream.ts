export interface StreamObserver<Chunk> {
  chunk(chunk: Chunk): void
  /** Called once. `isBroken`: the source failed, or the reader stopped. */
  end(isBroken: boolean): Promise<void>
}

/** Reads nothing before it is asked to. The reader sees the end only after `observer.end` resolves. */
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
  // The source fails while nobody reads: the caller has aborted.
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

/** Of server-sent events. An event ends with a blank line, and its data may span several lines. */
export class EventStreamReader {
  readonly #decoder = new TextDecoder()
  readonly #onData: (data: string) => void
  #rest = ''
  #data: string[] = []

  constructor(onData: (data: string) => void) {
    this.#onData = onData
  }

  read(chunk: Uint8Array): void {
    const lines = (this.#rest + this.#decoder.decode(chunk, {stream: true})).split(/\r\n|\n|\r(?!$)/)
    this.#rest = lines.pop() ?? ''
    for (const line of lines) this.#line(line)
  }

  end(): void {
    this.#line(this.#rest + this.#decoder.decode())
    this.#rest = ''
    this.#dispatch()
  }

  #line(line: string): void {
    if (line.startsWith('data:')) this.#data.push(line.slice(5).trim())
    else if (line === '') this.#dispatch()
  }

  #dispatch(): void {
    if (this.#data.length > 0) this.#onData(this.#data.join('\n'))
    this.#data = []
  }
}
