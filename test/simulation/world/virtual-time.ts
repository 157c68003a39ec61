import {syncBuiltinESMExports} from 'node:module'
import timersPromises from 'node:timers/promises'

interface Event {
  atMs: number
  order: number
  run: (() => void) | undefined
}

/** A timer of the virtual clock, with the methods of Node timers that the sources use. */
export interface VirtualTimer {
  cancel(): void
}

const realSetImmediate = setImmediate

/** Start of every run, in epoch ms. */
export const START_MS = 1_700_000_000_000

/** Time passes only between events. Promise chains run at one instant. */
export class VirtualTime {
  nowMs = START_MS
  /** A heap, earliest first; ties in the order of creation. */
  readonly #events: Event[] = []
  #orders = 0

  /** Since the start of the run, in ms. */
  get elapsedMs(): number {
    return this.nowMs - START_MS
  }

  after(ms: number, run: () => void): VirtualTimer {
    const event: Event = {atMs: this.nowMs + Math.max(0, Math.ceil(ms)), order: this.#orders++, run}
    this.#push(event)
    return {
      cancel: () => {
        event.run = undefined
      },
    }
  }

  readonly sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
    new Promise(resolve => {
      const timer = this.after(ms, resolve)
      const stop = () => {
        timer.cancel()
        resolve()
      }
      if (signal?.aborted) stop()
      else signal?.addEventListener('abort', stop, {once: true})
    })

  /** Runs until an instant or until no events remain; the clock then shows the instant. */
  async runUntil(atMs: number): Promise<void> {
    await settled()
    for (let next = this.#events[0]; next && next.atMs <= atMs; next = this.#events[0]) {
      this.#pop()
      if (!next.run) continue
      this.nowMs = next.atMs
      next.run()
      await settled()
    }
    this.nowMs = Math.max(this.nowMs, atMs)
  }

  #push(event: Event): void {
    const heap = this.#events
    let at = heap.push(event) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!isBefore(event, heap[parent] as Event)) break
      heap[at] = heap[parent] as Event
      at = parent
    }
    heap[at] = event
  }

  #pop(): void {
    const heap = this.#events
    const last = heap.pop() as Event
    if (heap.length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Event, heap[child] as Event)) child++
      if (!isBefore(heap[child] as Event, last)) break
      heap[at] = heap[child] as Event
      at = child
    }
    heap[at] = last
  }
}

const isBefore = (a: Event, b: Event): boolean => a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order)

/** Resolves when every promise that needs no timer has settled. */
const settled = (): Promise<void> => new Promise(resolve => realSetImmediate(resolve))

/**
 * Puts this process's timers and clocks, which the sources use directly for deadlines, backoff and signal timeouts,
 * under the virtual clock. Returns a function that restores them.
 */
export function installVirtualTime(time: VirtualTime): () => void {
  const before = {
    setTimeout: globalThis.setTimeout,
    clearTimeout: globalThis.clearTimeout,
    dateNow: Date.now,
    performanceNow: performance.now,
    signalTimeout: AbortSignal.timeout,
    timer: timersPromises.setTimeout,
  }
  class Timeout {
    #timer: VirtualTimer
    constructor(
      readonly ms: number,
      readonly run: () => void,
    ) {
      this.#timer = time.after(ms, run)
    }
    cancel(): void {
      this.#timer.cancel()
    }
    refresh(): this {
      this.#timer.cancel()
      this.#timer = time.after(this.ms, this.run)
      return this
    }
    ref(): this {
      return this
    }
    unref(): this {
      return this
    }
  }
  const setVirtual = (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) =>
    new Timeout(Number.isFinite(ms) ? ms : 1, () => run(...args))
  globalThis.setTimeout = setVirtual as never
  globalThis.clearTimeout = ((timer: unknown) => {
    if (timer instanceof Timeout) timer.cancel()
    else before.clearTimeout(timer as never)
  }) as never
  Date.now = () => time.nowMs
  performance.now = () => time.elapsedMs
  AbortSignal.timeout = ms => {
    const controller = new AbortController()
    time.after(ms, () => controller.abort(new DOMException('The operation timed out', 'TimeoutError')))
    return controller.signal
  }
  timersPromises.setTimeout = (async (ms = 0, value?: unknown, options: {signal?: AbortSignal} = {}) => {
    await time.sleep(ms, options.signal)
    options.signal?.throwIfAborted()
    return value
  }) as never
  syncBuiltinESMExports()
  return () => {
    globalThis.setTimeout = before.setTimeout
    globalThis.clearTimeout = before.clearTimeout
    Date.now = before.dateNow
    performance.now = before.performanceNow
    AbortSignal.timeout = before.signalTimeout
    timersPromises.setTimeout = before.timer
    syncBuiltinESMExports()
  }
}
