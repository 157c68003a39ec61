import type {Amounts} from '../../src/lib/core/buckets/bucket.js'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import type {Operation, Transport} from '../../src/lib/dynamo/transport.js'
import {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import type {RateLimiterOptions} from '../../src/lib/limiter/request/options.js'
import {readShards} from '../../src/lib/repository/buckets/split.js'
import type {TableSeams} from '../../src/lib/repository/table/open-table.js'
import type {NamespaceTable} from '../../src/lib/repository/table/table.js'
import type {BucketRecord} from '../../src/lib/schema/bucket-record.js'
import {type ConfigScope, encodeConfig} from '../../src/lib/schema/config-record.js'
import {encodeEntity} from '../../src/lib/schema/entity-record.js'
import {type ChargedLevels, encodeNamespaceById} from '../../src/lib/schema/namespace-record.js'
import {seededRandom} from '../limiter/fixtures/seeded-random.js'
import {PATIENT_MS, type TestTable} from './table.js'

let scenes = 0

/** A separate namespace in a test table, with a manual clock. */
export class Scene {
  // Counted, not drawn: hundreds of them share a table. Other processes have tables of their own.
  readonly namespace = `ns${String(++scenes).padStart(8, '0')}`
  /** Names of the operations sent, in order. */
  readonly calls: Operation[] = []
  nowMs = 1_700_000_000_000
  /** Draws shards and waits, for all limiters of the scene: the same ones in every run. */
  readonly random = seededRandom(1)

  constructor(readonly table: TestTable) {}

  /** What limiters of this scene send through; replace it to inject failures. */
  transport: Transport = {
    send: (operation, input, options) => {
      this.calls.push(operation)
      return this.table.transport.send(operation, input, options)
    },
  }

  get tenant(): NamespaceTable {
    return {
      name: this.table.name,
      transport: this.table.transport,
      namespace: this.namespace,
      clock: () => this.nowMs,
      randomBytes: count => crypto.getRandomValues(new Uint8Array(count)),
      backoff: {random: Math.random, sleep: async () => {}},
    }
  }

  /** A limiter as one process has it: with caches and queues of its own. */
  limiter(options: RateLimiterOptions & TableSeams = {}): RateLimiter {
    const transport: Transport = {send: (...args) => this.transport.send(...args)}
    return new RateLimiter({
      stack: this.table.name,
      namespaceId: this.namespace,
      transport,
      clock: () => this.nowMs,
      random: this.random,
      onUnavailable: 'block',
      timeoutMs: PATIENT_MS,
      ...options,
    })
  }

  /** Stores limits directly, as another client would. */
  async configure(scope: ConfigScope, ...limits: string[]): Promise<void> {
    const record = {
      namespace: this.namespace,
      scope,
      limits: parseLimits(limits),
      onUnavailable: undefined,
      auditRetentionDays: undefined,
    }
    await this.table.transport.send('PutItem', {TableName: this.table.name, Item: encodeConfig(record)})
  }

  /** Stores an entity directly, as another client would. */
  async entity(entity: string, parent?: string): Promise<void> {
    const record = {
      namespace: this.namespace,
      entity,
      name: entity,
      parent,
      cascade: parent !== undefined,
      metadata: {},
      createdAt: '',
      version: 1,
    }
    await this.table.transport.send('PutItem', {TableName: this.table.name, Item: encodeEntity(record)})
  }

  /** Registers the namespace by id with this setting. Limiters that know it by id follow within their cache time. */
  async levels(levels: ChargedLevels): Promise<void> {
    const record = {id: this.namespace, name: this.namespace, createdAt: '', deletedAt: undefined}
    const Item = encodeNamespaceById({...record, status: 'active', levels})
    await this.table.transport.send('PutItem', {TableName: this.table.name, Item})
  }

  /** All shards of a bucket as stored. */
  async shards(entity: string, resource: string, count = 1): Promise<BucketRecord[]> {
    return [...(await readShards(this.tenant, entity, resource, count)).values()]
  }

  /** Whole tokens stored and consumed of one limit, over all shards. */
  async totals(
    entity: string,
    resource: string,
    limit: string,
    count = 1,
  ): Promise<{tokens: number; consumed: number}> {
    const states = (await this.shards(entity, resource, count)).map(record => record.state.limits.get(limit))
    const sum = (field: 'tokensMilli' | 'consumedMilli') =>
      Number(states.reduce((total, state) => total + (state?.[field] ?? 0n), 0n)) / 1000
    return {tokens: sum('tokensMilli'), consumed: sum('consumedMilli')}
  }
}

export const milli = (amounts: Record<string, number>): Amounts =>
  new Map(Object.entries(amounts).map(([name, tokens]) => [name, BigInt(tokens) * 1000n]))
