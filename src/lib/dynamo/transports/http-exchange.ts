import {TimeoutError} from '../abort.js'
import type {HttpAnswer} from './http-answer.js'
import type {SignedHeaders} from './signature.js'

export function postMessage(headers: SignedHeaders, body: string): string {
  let message = `POST / HTTP/1.1\r\ncontent-length: ${Buffer.byteLength(body)}\r\nuser-agent: zael\r\n`
  for (const [name, value] of headers) message += `${name}: ${value}\r\n`
  return `${message}\r\n${body}`
}

export class Exchange {
  readonly answer: Promise<HttpAnswer>
  /** Epoch ms; undefined if nothing was sent. */
  sentAtMs: number | undefined
  isSettled = false
  onFailure: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #timeout: readonly [ms: number, what: string] | undefined
  #resolve!: (answer: HttpAnswer) => void
  #reject!: (error: unknown) => void

  constructor(
    readonly message: string,
    /** Monotonic clock. Bounds the whole exchange, even if a peer keeps sending single bytes. */
    readonly deadlineMs: number,
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

  failAfter(ms: number, what: string): void {
    clearTimeout(this.#timer)
    this.#timeout = [ms, what]
    const leftMs = Math.min(ms, Math.ceil(this.deadlineMs - performance.now()))
    const giveUp = () => this.fail(new TimeoutError(`${what} in time`))
    if (leftMs <= 0) giveUp()
    else this.#timer = setTimeout(giveUp, leftMs)
  }

  notePart(): void {
    if (this.#timeout && !this.isSettled) this.failAfter(...this.#timeout)
  }

  #settle(): void {
    this.isSettled = true
    clearTimeout(this.#timer)
  }
}
