import {AsyncLocalStorage} from 'node:async_hooks'
import {syncBuiltinESMExports} from 'node:module'
import timersPromises from 'node:timers/promises'
import {onAbort} from '../../../src/lib/dynamo/abort.js'

interface Event {
  atMs: number
  order: number
  run: (() => void) | undefined
  /** Number of the process in which it happens, if processes may be paused. */
  readonly owner: number | undefined
}

interface Pause {
  readonly fromMs: number
  readonly untilMs: number
  readonly isSuspended: boolean
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
  /** The process whose code runs. Only used by scenarios with pauses: it costs time. */
  readonly #owner = new AsyncLocalStorage<number>()
  readonly #pauses = new Map<number, Pause>()
  readonly #suspendedMs = new Map<number, number>()

  /** Since the start of the run, in ms. */
  get elapsedMs(): number {
    return this.nowMs - START_MS
  }

  /** The monotonic clock of the process whose code runs: it stands still while its machine is suspended. */
  get steadyMs(): number {
    return this.elapsedMs - (this.#suspendedMs.get(this.owner ?? -1) ?? 0)
  }

  get owner(): number | undefined {
    return this.#owner.getStore()
  }

  /** Runs code of a process, so that its timers wait while it is paused. */
  as<T>(owner: number, run: () => T): T {
    return this.#owner.run(owner, run)
  }

  /** Ends the tracking of processes. */
  end(): void {
    this.#owner.disable()
  }

  /** Timers and responses of a process wait, as after SIGSTOP. In a suspended machine, the timers also stand still. */
  pause(owner: number, ms: number, isSuspended: boolean): void {
    this.#pauses.set(owner, {fromMs: this.nowMs, untilMs: this.nowMs + ms, isSuspended})
    if (isSuspended) this.#suspendedMs.set(owner, (this.#suspendedMs.get(owner) ?? 0) + ms)
  }

  resume(owner: number): void {
    this.#pauses.delete(owner)
  }

  after(ms: number, run: () => void, owner?: number): VirtualTimer {
    const event: Event = {atMs: this.nowMs + Math.max(0, Math.ceil(ms)), order: this.#orders++, run, owner}
    this.#push(event)
    return {
      cancel: () => {
        event.run = undefined
      },
    }
  }

  readonly sleep = (ms: number, signal?: AbortSignal): Promise<void> =>
    new Promise(resolve => {
      const timer = this.after(
        ms,
        () => {
          unwatch?.()
          resolve()
        },
        this.owner,
      )
      const unwatch =
        signal &&
        onAbort(signal, () => {
          timer.cancel()
          resolve()
        })
    })

  /** Runs until an instant or until no events remain; the clock then shows the instant. */
  async runUntil(atMs: number): Promise<void> {
    await settled()
    for (let next = this.#events[0]; next && next.atMs <= atMs; next = this.#events[0]) {
      this.#pop()
      if (!next.run || this.#isPaused(next)) continue
      this.nowMs = next.atMs
      if (next.owner === undefined) next.run()
      else this.as(next.owner, next.run)
      await settled()
    }
    this.nowMs = Math.max(this.nowMs, atMs)
  }

  /** If so, it happens later. */
  #isPaused(event: Event): boolean {
    const pause = event.owner === undefined ? undefined : this.#pauses.get(event.owner)
    if (!pause || event.atMs >= pause.untilMs) return false
    event.atMs = pause.isSuspended ? event.atMs + pause.untilMs - pause.fromMs : pause.untilMs
    this.#push(event)
    return true
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
      this.#timer = time.after(ms, run, time.owner)
    }
    cancel(): void {
      this.#timer.cancel()
    }
    refresh(): this {
      this.#timer.cancel()
      this.#timer = time.after(this.ms, this.run, time.owner)
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
  performance.now = () => time.steadyMs
  AbortSignal.timeout = ms => {
    const controller = new AbortController()
    const abort = () => controller.abort(new DOMException('The operation timed out', 'TimeoutError'))
    time.after(ms, abort, time.owner)
    return controller.signal
  }
  timersPromises.setTimeout = (async (ms = 0, value?: unknown, options: {signal?: AbortSignal} = {}) => {
    await time.sleep(ms, options.signal)
    options.signal?.throwIfAborted()
    return value
  }) as never
  syncBuiltinESMExports()
  return () => {
    time.end()
    globalThis.setTimeout = before.setTimeout
    globalThis.clearTimeout = before.clearTimeout
    Date.now = before.dateNow
    performance.now = before.performanceNow
    AbortSignal.timeout = before.signalTimeout
    timersPromises.setTimeout = before.timer
    syncBuiltinESMExports()
  }
}
