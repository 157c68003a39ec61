import type {Timers} from './timers.js'

/** What is looked at. */
export interface Sight<T> {
  readonly timers: Timers
  /** Ms between an answer and the next question. */
  readonly everyMs: number
  readonly load: (signal: AbortSignal) => Promise<T>
  readonly show: (found: T) => void
  /** Asked before every question but the first: nobody is asked while time stands still. */
  readonly isPaused: () => boolean
}

/**
 * Somebody looks at something: it is loaded now, and again every so often until they leave. Each visit has its own end,
 * so an answer that comes late, to somebody who has left or is back already, counts for nothing and keeps nobody waiting.
 */
export class Visit<T> {
  readonly #sight: Sight<T>
  readonly #left = new AbortController()
  #timer: unknown

  constructor(sight: Sight<T>) {
    this.#sight = sight
    this.#load()
  }

  /** Gives up what is being loaded, without waiting for it. */
  leave(): void {
    this.#left.abort()
    this.#sight.timers.clearTimeout(this.#timer)
  }

  async #load(): Promise<void> {
    const {load, show} = this.#sight
    const {signal} = this.#left
    try {
      const found = await load(signal)
      if (signal.aborted) return
      show(found)
    } catch (error) {
      // What was given up may end in any way.
      if (signal.aborted) return
      throw error
    }
    this.#wait()
  }

  #wait(): void {
    const {timers, everyMs, isPaused} = this.#sight
    this.#timer = timers.setTimeout(() => {
      if (isPaused()) this.#wait()
      else this.#load()
    }, everyMs)
  }
}
