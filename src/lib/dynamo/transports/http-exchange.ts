import type {HttpAnswer} from './http-answer.js'
import type {SignedHeaders} from './signature.js'

/** A whole request, as it goes over the connection. */
export function postMessage(headers: SignedHeaders, body: string): string {
  let message = `POST / HTTP/1.1\r\ncontent-length: ${Buffer.byteLength(body)}\r\nuser-agent: zael\r\n`
  for (const [name, value] of headers) message += `${name}: ${value}\r\n`
  return `${message}\r\n${body}`
}

/** One request and what becomes of it. */
export class Exchange {
  readonly answer: Promise<HttpAnswer>
  /** When it was handed to the network, in ms since 1970; undefined: not a byte has left. */
  sentAtMs: number | undefined
  isSettled = false
  /** Told when the exchange fails. */
  onFailure: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #resolve!: (answer: HttpAnswer) => void
  #reject!: (error: unknown) => void

  constructor(
    /** Head and body. */
    readonly message: string,
    /** All must be over by then, by the monotonic clock. */
    readonly deadlineMs: number | undefined,
  ) {
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  succeed(answer: HttpAnswer): void {
    if (this.isSettled) return
    this.#settle()
    this.#resolve(answer)
  }

  fail(error: unknown): void {
    if (this.isSettled) return
    this.#settle()
    this.#reject(error)
    this.onFailure?.()
  }

  /** From now on it fails when this time is over, or at the deadline if that comes first. */
  failAfter(ms: number, what: string): void {
    clearTimeout(this.#timer)
    const leftMs = this.deadlineMs === undefined ? ms : Math.min(ms, Math.ceil(this.deadlineMs - performance.now()))
    const giveUp = () => this.fail(new TimeoutError(`${what} in time`))
    if (leftMs <= 0) giveUp()
    else this.#timer = setTimeout(giveUp, leftMs)
  }

  /** A part of the answer has come: one that goes on coming may take its time, unless there is a deadline. */
  notePart(): void {
    if (this.deadlineMs === undefined) this.#timer?.refresh()
  }

  #settle(): void {
    this.isSettled = true
    clearTimeout(this.#timer)
  }
}

class TimeoutError extends Error {
  override readonly name = 'TimeoutError'
}
