import {Repository} from '../../src/lib/repository/repository.js'
import type {Watch} from '../../src/lib/watch/model.js'
import {openWatch, type WatchOptions} from '../../src/lib/watch/watch.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import type {TestTable} from '../helpers/table.js'
import {newTenant, type TestTenant} from '../repository/namespace-table.js'
import {TestTimers} from './test-timers.js'

/** A namespace of its own, watches over it, and a hand on what is between them: time and transport. */
export class WatchStage {
  readonly tenant: TestTenant
  readonly faults: FaultTransport
  readonly timers: TestTimers

  constructor(table: TestTable) {
    this.tenant = newTenant(table)
    this.faults = new FaultTransport(table.transport)
    this.faults.start()
    this.timers = new TestTimers(this.tenant)
  }

  /** A watch over the namespace; every 2 s unless said otherwise. */
  open(rest: Partial<WatchOptions> = {}): Watch {
    const {tenant, timers} = this
    const transport = rest.table?.transport ?? this.faults
    const repository = new Repository({stack: tenant.name, transport, clock: tenant.clock})
    const names = repository.namespaceById(tenant.namespace)
    const scope = {kind: 'namespace'} as const
    return openWatch({repository: names, table: {...tenant, transport}, scope, intervalMs: 2000, timers, ...rest})
  }
}

/** Waits for the next change that fits. */
export function until(watch: Watch, isThere: () => boolean): Promise<void> {
  return new Promise(resolve => {
    const look = () => {
      if (!isThere()) return
      unsubscribe()
      setImmediate(resolve) // when the poll has ended, too
    }
    const unsubscribe = watch.subscribe(look)
    look()
  })
}

/** Waits until so many polls went well. */
export const pollNumber = (watch: Watch, number: number): Promise<void> =>
  until(watch, () => watch.knowledge().lastPoll?.number === number)

/** Everything that can happen without waiting for anybody else has happened. */
export const settled = (): Promise<void> => new Promise(resolve => setImmediate(resolve))
