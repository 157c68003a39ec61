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
