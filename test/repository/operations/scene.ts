import type {BucketLimit} from '../../../src/lib/core/buckets/bucket.js'
import {Unavailable} from '../../../src/lib/dynamo/errors.js'
import type {Operation, OperationInput, Transport} from '../../../src/lib/dynamo/transport.js'
import type {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded} from '../../../src/lib/limiter/refusal/errors.js'
import {splitBucket} from '../../../src/lib/repository/buckets/split.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import type {NamespaceTable} from '../../../src/lib/repository/table/table.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../../src/lib/schema/keys.js'
import {Scene} from '../../helpers/limiter.js'
import type {TestTable} from '../../helpers/table.js'

export const USER = {entity: 'user-1', resource: 'gpt-4'}
export const HOUR_MS = 3_600_000
export const DAY_MS = 24 * HOUR_MS

/** A morning in UTC. */
export const MORNING = Date.parse('2026-03-10T09:00:00Z')

/** A namespace in which an operator resets and tops up the bucket of one user. */
export class OperatorScene extends Scene {
  constructor(table: TestTable) {
    super(table)
    this.nowMs = MORNING
  }

  /** As one process of an operator has it. */
  operator(more: Partial<NamespaceTable> = {}): NamespaceRepository {
    return new NamespaceRepository({...this.tenant, ...more}, undefined)
  }

  topUp(amounts: Readonly<Record<string, number>>, idempotencyKey?: string) {
    return this.operator().topUpBucket(USER, amounts, {idempotencyKey})
  }

  reset(limits?: readonly string[], idempotencyKey?: string) {
    return this.operator().resetBucket(USER, {limits, idempotencyKey})
  }

  configureUser(...limits: string[]): Promise<void> {
    return this.configure({level: 'resource', resource: USER.resource}, ...limits)
  }

  /** How many of several requests are admitted, by a new process unless one is given. */
  async admitted(times: number, consume: Readonly<Record<string, number>>, given?: RateLimiter): Promise<number> {
    const limiter = given ?? this.limiter({denyCacheMs: 0})
    let count = 0
    for (let at = 0; at < times; at++) {
      try {
        await (await limiter.acquire({...USER, consume})).commit()
        count++
      } catch (error) {
        if (!(error instanceof RateLimitExceeded)) throw error
      }
    }
    return count
  }

  /** Takes all that should be left of a limit at once, and finds that nothing more is. */
  async spends(name: string, tokens: number, given?: RateLimiter): Promise<boolean> {
    const limiter = given ?? this.limiter({denyCacheMs: 0})
    const all = await limiter.tryAcquire({...USER, consume: {[name]: tokens}})
    const more = await limiter.tryAcquire({...USER, consume: {[name]: 1}})
    return all.admitted && !more.admitted
  }

  async split(times = 1): Promise<void> {
    for (let at = 0; at < times; at++) await splitBucket(this.tenant, USER.entity, USER.resource, 2 ** at)
  }

  async limits(name: string, count = 1): Promise<BucketLimit[]> {
    return (await this.shards(USER.entity, USER.resource, count)).flatMap(({state}) => state.limits.get(name) ?? [])
  }

  async balance(name: string, count = 1): Promise<number> {
    return (await this.totals(USER.entity, USER.resource, name, count)).tokens
  }

  /** Tokens topped up, per shard. */
  async toppedUp(name: string, count = 1): Promise<number[]> {
    return (await this.limits(name, count)).map(({kind}) => Number(kind?.quota?.topUpMilli ?? 0n) / 1000)
  }

  async record(id: string): Promise<Item | undefined> {
    const key = keys.operation(this.namespace, USER.entity, USER.resource, id)
    const request = {TableName: this.table.name, Key: wireKey(key), ConsistentRead: true}
    return (await this.table.transport.send('GetItem', request)).Item
  }

  /** The events about the user, oldest first. */
  async events(): Promise<{action: string; details: object}[]> {
    const {records} = await this.operator().audit.list({entity: USER.entity})
    return records.map(({action, details}) => ({action, details})).reverse()
  }

  /** A transport that loses answers of transactions: `after` they were carried out, or `late`, when `arrive` is called. */
  losing(which: 'after' | 'late', count: number): {transport: Transport; arrive: () => Promise<void>} {
    let left = count
    const late: (() => Promise<unknown>)[] = []
    const {table} = this
    const send = async <O extends Operation>(operation: O, input: OperationInput<O>) => {
      if (operation !== 'TransactWriteItems' || left-- <= 0) return table.transport.send(operation, input)
      if (which === 'after') await table.transport.send(operation, input).catch(() => {})
      else late.push(() => table.transport.send(operation, input).catch(() => {}))
      throw new Unavailable(operation, true)
    }
    const arrive = async () => {
      for (const attempt of late) await attempt()
    }
    return {transport: {send} as Transport, arrive}
  }
}
