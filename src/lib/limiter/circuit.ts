import {Aborted, isOutage, Throttled, Unavailable} from '../dynamo/errors.js'
import type {Transport} from '../dynamo/transport.js'

/** Requests in a row without any answer of the table before the circuit opens. */
const MOST_FAILURES = 5

/** The first pause before a probe, which doubles, and the longest, in ms. Up to half of each is cut at random. */
const [FIRST_PAUSE_MS, LONGEST_PAUSE_MS] = [500, 2000]

/** How late a probe may end before its circuit is not trusted: a frozen process runs no timers. */
const GRACE_MS = 1000

interface CircuitOptions {
  /** One cheap call through the watched transport. Its outcome is noticed there. */
  readonly probe: () => Promise<unknown>
  readonly probeTimeoutMs: number
  /** In [0, 1). */
  readonly random: () => number
}

/** Answers requests at once while the table answers nothing. Any answer closes it, be it to a probe or a settlement. */
export class Circuit {
  /** Calls sent so far. */
  calls = 0
  /** Calls that the table has answered; for `noteFailure`. */
  answers = 0
  readonly #options: CircuitOptions
  #failures = 0
  /** The error of all requests while open. */
  #error: Unavailable | undefined
  #timer: NodeJS.Timeout | undefined
  #trustedUntilMs = 0

  constructor(options: CircuitOptions) {
    this.#options = options
  }

  /** Counts calls and answers. Adds nothing to the time of a call. */
  watching(transport: Transport): Transport {
    return {
      send: (operation, input, options) => {
        this.calls++
        const answer = transport.send(operation, input, options)
        answer.then(this.#noteAnswer, this.#noteError)
        return answer
      },
    }
  }

  get state(): 'open' | 'closed' {
    return this.#error && performance.now() < this.#trustedUntilMs ? 'open' : 'closed'
  }

  /** Throws if open. */
  check(): void {
    if (this.#error && this.state === 'open') throw this.#error
  }

  /** A request failed. Counts if the table has answered no call since it began, when `answers` was read. */
  noteFailure(error: unknown, answers: number): void {
    const isUnanswered = isOutage(error) && !(error instanceof Throttled) && answers === this.answers
    if (!isUnanswered || error === this.#error) return
    this.#failures++
    if (this.#failures < MOST_FAILURES || this.#timer) return
    this.#error = new Unavailable(
      'acquire',
      false,
      new Error(`skipped, because ${MOST_FAILURES} requests in a row got no answer`),
    )
    this.#plan(FIRST_PAUSE_MS)
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#error = undefined
  }

  #plan(longestMs: number): void {
    const {random, probe, probeTimeoutMs} = this.#options
    const pauseMs = longestMs * (1 - random() / 2)
    this.#trustedUntilMs = performance.now() + pauseMs + probeTimeoutMs + GRACE_MS
    // Must not keep a process alive that has nothing else to do.
    this.#timer = setTimeout(async () => {
      await probe().catch(() => {})
      if (this.#error) this.#plan(Math.min(2 * longestMs, LONGEST_PAUSE_MS))
    }, pauseMs).unref()
  }

  readonly #noteAnswer = (): void => {
    this.answers++
    this.#failures = 0
    if (this.#error) this.end()
  }

  /** Throttling and denials are answers too. */
  readonly #noteError = (error: unknown): void => {
    const isUnanswered = (isOutage(error) && !(error instanceof Throttled)) || error instanceof Aborted
    if (!isUnanswered) this.#noteAnswer()
  }
}
