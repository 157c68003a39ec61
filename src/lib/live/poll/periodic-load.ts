export interface Timers {
  setTimeout(callback: () => void, ms: number): unknown
  clearTimeout(timer: unknown): void
}

export const NODE_TIMERS: Timers = {
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  clearTimeout: timer => clearTimeout(timer as NodeJS.Timeout),
}

interface PeriodicLoadOptions<T> {
  readonly timers: Timers
  /** Ms between a response and the next request. */
  readonly intervalMs: number
  readonly load: (signal: AbortSignal) => Promise<T>
  readonly onLoaded: (loaded: T) => void
  /** Checked before every request except the first; while it is true, none is sent. */
  readonly isPaused: () => boolean
}

/**
 * Loads something now, and again after every interval until it is stopped. Each instance has its own signal, so a late
 * response to a stopped one is ignored, and nothing waits for it.
 */
export class PeriodicLoad<T> {
  readonly #options: PeriodicLoadOptions<T>
  readonly #stopped = new AbortController()
  #timer: unknown

  constructor(options: PeriodicLoadOptions<T>) {
    this.#options = options
    void this.#load()
  }

  /** Aborts the request in flight, without waiting for it. */
  stop(): void {
    this.#stopped.abort()
    this.#options.timers.clearTimeout(this.#timer)
  }

  async #load(): Promise<void> {
    const {load, onLoaded} = this.#options
    const {signal} = this.#stopped
    try {
      const loaded = await load(signal)
      if (signal.aborted) return
      onLoaded(loaded)
    } catch (error) {
      // An aborted request may end with any error.
      if (signal.aborted) return
      throw error
    }
    this.#wait()
  }

  #wait(): void {
    const {timers, intervalMs, isPaused} = this.#options
    this.#timer = timers.setTimeout(() => {
      if (isPaused()) this.#wait()
      else void this.#load()
    }, intervalMs)
  }
}
