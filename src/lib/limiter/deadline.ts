import {Aborted, Unavailable} from '../dynamo/errors.js'
import type {PendingRequest} from './pending-request.js'

/** How long one caller waits: until a deadline, or until it gives up by a signal. */
export class Deadline {
  readonly #tickets = new Set<PendingRequest>()
  readonly #waits = new Set<(reason: Error) => void>()
  readonly #timer: NodeJS.Timeout
  readonly #signal: AbortSignal | undefined
  #reason: Error | undefined

  constructor(timeoutMs: number, signal?: AbortSignal) {
    this.#signal = signal
    this.#timer = setTimeout(
      () => this.#giveUp(new Unavailable('acquire', true, new Error(`no decision within ${timeoutMs} ms`))),
      timeoutMs,
    )
    if (signal?.aborted) this.#onAbort()
    else signal?.addEventListener('abort', this.#onAbort, {once: true})
  }

  /** The ticket is abandoned when patience ends. */
  watch(ticket: PendingRequest): void {
    if (this.#reason) ticket.abandon(this.#reason)
    else this.#tickets.add(ticket)
  }

  /** Waits for work that goes on by itself, but no longer than patience lasts. */
  until<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#reason) reject(this.#reason)
      else this.#waits.add(reject)
      work.then(
        value => {
          this.#waits.delete(reject)
          resolve(value)
        },
        error => {
          this.#waits.delete(reject)
          reject(error)
        },
      )
    })
  }

  get isOver(): boolean {
    return this.#reason !== undefined
  }

  /** Throws when patience has ended. */
  check(): void {
    if (this.#reason) throw this.#reason
  }

  /** A decision was made; nothing is waited for any more. */
  end(): void {
    clearTimeout(this.#timer)
    this.#signal?.removeEventListener('abort', this.#onAbort)
  }

  readonly #onAbort = (): void => this.#giveUp(new Aborted('acquire', false, this.#signal?.reason))

  #giveUp(reason: Error): void {
    this.#reason = reason
    for (const ticket of this.#tickets) ticket.abandon(reason)
    for (const stop of this.#waits) stop(reason)
  }
}
