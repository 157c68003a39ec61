import {TimeoutError} from './abort.js'

/** Callers share the work in flight. If it hangs, its callers fail, and the next caller starts again. */
export class SharedFlight<T> {
  readonly #longestMs: number
  #current: {readonly result: Promise<T>; readonly abandon: (reason: Error) => void} | undefined

  constructor(longestMs: number) {
    this.#longestMs = longestMs
  }

  /** After the signal aborts, the work must have no effect. */
  join(start: (abandoned: AbortSignal) => Promise<T>): Promise<T> {
    this.#current ??= this.#begin(start)
    return this.#current.result
  }

  abandon(reason: Error): void {
    this.#current?.abandon(reason)
  }

  #begin(start: (abandoned: AbortSignal) => Promise<T>) {
    const controller = new AbortController()
    let abandon!: (reason: Error) => void
    const abandoned = new Promise<never>((_, reject) => {
      abandon = reason => {
        controller.abort(reason)
        reject(reason)
      }
    })
    const timer = setTimeout(() => abandon(new TimeoutError('no result in time')), this.#longestMs)
    const result = Promise.race([start(controller.signal), abandoned]).finally(() => {
      clearTimeout(timer)
      this.#current = undefined
    })
    // All callers may have stopped waiting.
    result.catch(() => {})
    return {result, abandon}
  }
}
