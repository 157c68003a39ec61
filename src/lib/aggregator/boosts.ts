import {Denied} from '../dynamo/errors.js'
import {tidyBoosts} from '../repository/limits/tidy-boosts.js'
import type {Table} from '../repository/table/table.js'
import type {Log} from './batch.js'
import type {BucketChange} from './bucket-change.js'

/** How often the boosts of a namespace are looked at, in ms. */
const EVERY_MS = 5 * 60_000

/** How long live buckets are updated, in ms: those that are not reached follow with their next request. */
const SYNC_MS = 10_000

const PRINCIPAL = 'aggregator'

export class BoostKeeper {
  readonly #table: Table
  readonly #log: Log
  readonly #lookedAtMs = new Map<string, number>()
  #isDenied = false

  constructor(table: Table, log: Log) {
    this.#table = table
    this.#log = log
  }

  /** Namespaces whose boosts were not looked at lately; counts them as looked at. */
  due(changes: readonly BucketChange[]): string[] {
    if (this.#isDenied) return []
    const nowMs = this.#table.clock()
    const due = [...new Set(changes.map(({namespace}) => namespace))].filter(
      namespace => nowMs - (this.#lookedAtMs.get(namespace) ?? -Infinity) >= EVERY_MS,
    )
    for (const namespace of due) this.#lookedAtMs.set(namespace, nowMs)
    return due
  }

  /** One query where nothing has ended. A role from before there were boosts does not permit it: others tidy up then. */
  async tidy(namespace: string): Promise<void> {
    const signal = AbortSignal.timeout(SYNC_MS)
    try {
      await tidyBoosts({...this.#table, namespace}, {principal: PRINCIPAL, signal})
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof Denied)) throw error
      this.#isDenied = true
      this.#log({
        level: 'warn',
        message: 'boosts are not tidied up: the role does not permit it',
        reason: error.message,
      })
    }
  }
}
