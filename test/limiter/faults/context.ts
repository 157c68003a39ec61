import type {Lease} from '../../../src/lib/limiter/lease.js'
import type {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import type {RateLimiterOptions} from '../../../src/lib/limiter/request/options.js'
import {FaultTransport} from '../../helpers/fault-transport.js'
import {Scene} from '../../helpers/limiter.js'
import type {TestTable} from '../../helpers/table.js'

type Tokens = Readonly<Record<string, number>>

/** One run of a scenario: a separate namespace, its limiters, and all leases. */
export class Stage {
  readonly scene: Scene
  readonly faults: FaultTransport
  readonly leases: Lease[] = []
  readonly #limiters: RateLimiter[] = []
  /** Deadline of the requests from now on. */
  timeoutMs: number | undefined
  readonly #options: Partial<RateLimiterOptions>

  constructor(table: TestTable, options: Partial<RateLimiterOptions> = {}) {
    this.scene = new Scene(table)
    this.faults = new FaultTransport(table.transport)
    this.scene.transport = this.faults
    this.#options = options
  }

  /** Waits take no time, and shards are tried in order. */
  limiter(options: Partial<RateLimiterOptions> = {}): RateLimiter {
    const limiter = this.scene.limiter({random: () => 0, ...this.#options, ...options})
    this.#limiters.push(limiter)
    return limiter
  }

  async acquire(limiter: RateLimiter, consume: Tokens, entity = 'user-1'): Promise<Lease> {
    const timeoutMs = this.timeoutMs === undefined ? {} : {timeoutMs: this.timeoutMs}
    const lease = await limiter.acquire({entity, resource: 'gpt-4', consume, ...timeoutMs})
    this.leases.push(lease)
    return lease
  }

  /** Another process, without faults. */
  async elsewhere(consume: Tokens, entity?: string): Promise<void> {
    await this.acquire(this.scene.limiter({random: () => 0, denyCacheMs: 0}), consume, entity)
  }

  async close(): Promise<void> {
    await Promise.all(this.#limiters.map(limiter => limiter.close()))
  }
}

export interface Scenario {
  readonly name: string
  /** The outcome without faults. Default: `done`. */
  readonly outcome?: string
  /** Maximum charge that the faulted part may leave if its outcome stays unknown. */
  readonly atStake: Tokens
  /** Buckets to compare, with the number of shards to read. */
  readonly buckets: readonly (readonly [entity: string, limits: readonly string[], shards: number])[]
  /** Consumption in the table that no lease of the run holds. */
  readonly before?: Tokens
  /** A parent also takes part. */
  readonly cascade?: boolean
  readonly options?: Partial<RateLimiterOptions>
  /** The faulted part is not an acquire: the limiter's own timeout bounds it. */
  readonly isOnLease?: boolean
  /** Takes from several items or for several requests, so that part of it may be uncertain. */
  readonly isInParts?: boolean
  /** Prepares the scenario and returns the part to inject faults into. */
  prepare(stage: Stage): Promise<() => Promise<unknown>>
}
