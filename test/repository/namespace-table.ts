import {randomBytes} from 'node:crypto'
import type {BucketLimit} from '../../src/lib/core/buckets/bucket.js'
import {type Limit, rateOf} from '../../src/lib/core/limits/limit.js'
import {shareOfRate, toMilli} from '../../src/lib/core/token-math.js'
import {sleepMs} from '../../src/lib/dynamo/retry.js'
import type {Operation, OperationInput, OperationOutput, Transport} from '../../src/lib/dynamo/transport.js'
import type {ShardedBucket} from '../../src/lib/repository/buckets/buckets.js'
import {Audit} from '../../src/lib/repository/table/audit.js'
import type {NamespaceTable} from '../../src/lib/repository/table/table.js'
import type {Item, Key} from '../../src/lib/schema/attribute-value.js'
import {encodeBucket} from '../../src/lib/schema/bucket-record.js'
import type {TestTable} from '../helpers/table.js'

/** Wraps a transport: counts calls, and can fail or change them. */
export class Interceptor implements Transport {
  readonly calls: Operation[] = []
  /** Runs before a request is passed on; may throw instead. */
  before: (operation: Operation, input: unknown) => void | Promise<void> = () => {}
  /** Runs after the engine answered; may throw (a lost answer) or change the answer. */
  after: (operation: Operation, output: unknown, input: unknown) => void | Promise<void> = () => {}
  readonly #inner: Transport

  constructor(inner: Transport) {
    this.#inner = inner
  }

  async send<O extends Operation>(operation: O, input: OperationInput<O>): Promise<OperationOutput<O>> {
    this.calls.push(operation)
    await this.before(operation, input)
    const output = await this.#inner.send(operation, input)
    await this.after(operation, output, input)
    return output
  }

  count(operation: Operation): number {
    return this.calls.filter(call => call === operation).length
  }
}

export interface TestTenant extends NamespaceTable {
  readonly transport: Interceptor
  nowMs: number
}

/** Waits longer than a pause between attempts move the clock instead. */
const LONGEST_REAL_WAIT_MS = 1_000

/** A new namespace in a test table, with a clock that stands still until it is moved. */
export function newTenant(table: TestTable, options: {attempts?: number} = {}): TestTenant {
  const sleep = async (ms: number, signal?: AbortSignal): Promise<void> => {
    if (ms <= LONGEST_REAL_WAIT_MS) await sleepMs(ms, signal)
    else tenant.nowMs += ms
  }
  const tenant: TestTenant = {
    name: table.name,
    namespace: `ns${randomBytes(6).toString('hex')}`,
    transport: new Interceptor(table.transport),
    nowMs: 1_800_000_000_000,
    clock: () => tenant.nowMs,
    randomBytes: count => randomBytes(count),
    backoff: {random: Math.random, sleep, baseMs: 5, maxMs: 200, attempts: options.attempts ?? 10},
  }
  return tenant
}

export function newAudit(tenant: NamespaceTable): Audit {
  return new Audit(tenant, {principal: 'tester'})
}

/** An item as it is stored. */
export async function stored(tenant: NamespaceTable, {PK, SK}: Key): Promise<Item | undefined> {
  const Key = {PK: {S: PK}, SK: {S: SK}}
  const answer = await tenant.transport.send('GetItem', {TableName: tenant.name, Key, ConsistentRead: true})
  return answer.Item
}

export async function put(tenant: NamespaceTable, ...items: Item[]): Promise<void> {
  for (const Item of items) await tenant.transport.send('PutItem', {TableName: tenant.name, Item})
}

export interface BucketSketch {
  readonly entity: string
  readonly resource: string
  readonly limits: readonly Limit[]
  readonly shardCount?: number
  /** Shards that are written; all when absent. */
  readonly shards?: readonly number[]
  /** Tokens taken from each limit of each shard; more than there is makes a debt. */
  readonly consumed?: number
  readonly ttlSeconds?: number | undefined
}

/** Writes the shards of a bucket as of now: full, minus the given consumption. */
export async function putBucket(tenant: TestTenant, sketch: BucketSketch): Promise<void> {
  const {entity, resource, shardCount = 1, ttlSeconds} = sketch
  const consumedMilli = toMilli(sketch.consumed ?? 0)
  for (const shard of sketch.shards ?? Array.from({length: shardCount}, (_, at) => at)) {
    const limits = new Map<string, BucketLimit>()
    for (const limit of sketch.limits) {
      const rate = rateOf(limit)
      const tokensMilli = shareOfRate(limit.name, rate, shard, shardCount).capacityMilli - consumedMilli
      limits.set(limit.name, {...rate, tokensMilli, consumedMilli, remainder: 0n})
    }
    const state = {refilledAtMs: tenant.nowMs, limits}
    const {namespace} = tenant
    const family = {cascade: false, parent: undefined}
    // The first of several shards never expires.
    const lifetime = {ttlSeconds: shard === 0 && shardCount > 1 ? undefined : ttlSeconds}
    await put(tenant, encodeBucket({namespace, entity, resource, shard, shardCount, ...family, ...lifetime, state}))
  }
}

/** Tokens of a limit over all shards; `undefined` when no shard has it. */
export function totalOf(
  bucket: ShardedBucket | undefined,
  limit: string,
  field: 'tokensMilli' | 'consumedMilli' | 'capacityMilli' = 'tokensMilli',
): number | undefined {
  const parts = (bucket?.shards ?? []).flatMap(shard =>
    shard.kind === 'bucket' ? (shard.record.state.limits.get(limit)?.[field] ?? []) : [],
  )
  return parts.length === 0 ? undefined : Number(parts.reduce((sum, part) => sum + part, 0n)) / 1000
}
