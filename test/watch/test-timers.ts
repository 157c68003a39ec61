import type {Timers} from '../../src/lib/watch/timers.js'
import type {TestTenant} from '../repository/namespace-table.js'

/** Timers that go off when the test says so; the clock goes along. */
export class TestTimers implements Timers {
  readonly #space: TestTenant
  #waiting: {callback: () => void; atMs: number}[] = []

  constructor(tenant: TestTenant) {
    this.#space = tenant
  }

  setTimeout(callback: () => void, ms: number): unknown {
    const timer = {callback, atMs: this.#space.nowMs + ms}
    this.#waiting.push(timer)
    return timer
  }

  clearTimeout(timer: unknown): void {
    this.#waiting = this.#waiting.filter(each => each !== timer)
  }

  /** Ms until each timer goes off. */
  get delays(): number[] {
    return this.#waiting.map(({atMs}) => atMs - this.#space.nowMs)
  }

  advance(ms: number): void {
    this.#space.nowMs += ms
    const due = this.#waiting.filter(({atMs}) => atMs <= this.#space.nowMs)
    this.#waiting = this.#waiting.filter(each => !due.includes(each))
    for (const {callback} of due) callback()
  }
}
