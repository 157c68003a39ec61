import type {Watch} from '../../src/lib/live/model/model.js'
import {openWatch, type Timers, type WatchOptions} from '../../src/lib/live/poll/watch.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import type {TestTable} from '../helpers/table.js'
import {newTenant, type TestTenant} from '../repository/namespace-table.js'

/** A new namespace and watches over it, with a test clock and a transport that can fail. */
export class WatchFixture {
  readonly tenant: TestTenant
  readonly faults: FaultTransport
  readonly timers: TestTimers

  constructor(table: TestTable) {
    this.tenant = newTenant(table)
    this.faults = new FaultTransport(table.transport)
    this.faults.start()
    this.timers = new TestTimers(this.tenant)
  }

  /** A watch over the namespace, every 2 s by default. */
  open(rest: Partial<WatchOptions> = {}): Watch {
    const {tenant, timers} = this
    const transport = rest.table?.transport ?? this.faults
    const repository = new Repository({stack: tenant.name, transport, clock: tenant.clock})
    const names = repository.namespaceById(tenant.namespace)
    const scope = {kind: 'namespace'} as const
    return openWatch({repository: names, table: {...tenant, transport}, scope, intervalMs: 2000, timers, ...rest})
  }
}

/** Waits until a condition holds after a change. */
export function until(watch: Watch, holds: () => boolean): Promise<void> {
  return new Promise(resolve => {
    const check = () => {
      if (!holds()) return
      unsubscribe()
      setImmediate(resolve) // after the poll has ended, too
    }
    const unsubscribe = watch.subscribe(check)
    check()
  })
}

/** Waits for the poll of this number. */
export const pollNumber = (watch: Watch, number: number): Promise<void> =>
  until(watch, () => watch.data().lastPoll?.number === number)

/** Waits until all pending microtasks have run. */
export const settled = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

/** Timers that fire when the test advances the clock. */
export class TestTimers implements Timers {
  readonly #tenant: TestTenant
  #waiting: {callback: () => void; atMs: number}[] = []

  constructor(tenant: TestTenant) {
    this.#tenant = tenant
  }

  setTimeout(callback: () => void, ms: number): unknown {
    const timer = {callback, atMs: this.#tenant.nowMs + ms}
    this.#waiting.push(timer)
    return timer
  }

  clearTimeout(timer: unknown): void {
    this.#waiting = this.#waiting.filter(each => each !== timer)
  }

  /** Ms until each timer fires. */
  get delays(): number[] {
    return this.#waiting.map(({atMs}) => atMs - this.#tenant.nowMs)
  }

  advance(ms: number): void {
    this.#tenant.nowMs += ms
    const due = this.#waiting.filter(({atMs}) => atMs <= this.#tenant.nowMs)
    this.#waiting = this.#waiting.filter(each => !due.includes(each))
    for (const {callback} of due) callback()
  }
}
