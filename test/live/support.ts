import fc from 'fast-check'
import type {BucketLimit} from '../../src/lib/core/buckets/bucket.js'
import {type Limit, rateOf} from '../../src/lib/core/limits/limit.js'
import {WRITE_PRESSURE_LIMIT} from '../../src/lib/core/names.js'
import {shareOfRate} from '../../src/lib/core/token-math.js'
import {batchWrite} from '../../src/lib/dynamo/batch.js'
import type {Reading} from '../../src/lib/live/model/model.js'
import {NO_REQUESTS} from '../../src/lib/live/model/request-counts.js'
import type {ShardedBucket} from '../../src/lib/repository/buckets/buckets.js'
import {encodeBucket, type StoredBucket, WRITE_PRESSURE_RATE} from '../../src/lib/schema/bucket-record.js'
import type {SlotLimit} from '../../src/lib/schema/slot-attributes.js'
import type {TestTenant} from '../repository/namespace-table.js'

/** Read time of everything in these tests. */
export const READ_AT_MS = 1_800_000_000_000

/** One limit of a test bucket; in whole tokens. */
export interface LimitSketch {
  readonly capacity: number
  /** Per second; default: a tenth of the capacity. */
  readonly refillPerSecond?: number
  /** Left on each shard; default: its share of the capacity. */
  readonly left?: number
  /** Total consumption of each shard. */
  readonly consumed?: number
  /** Period of `refillPerSecond`; default: a second. */
  readonly refillPeriodMs?: number
  readonly remainder?: number
  readonly soft?: true
}

export interface ShardSketch {
  readonly limits: Readonly<Record<string, LimitSketch>>
  readonly shardCount?: number
  readonly refilledAtMs?: number
  /** Total writes of the item. */
  readonly writes?: number
  readonly parent?: string
  readonly slots?: Readonly<Record<string, SlotLimit>>
}

export function shardOf(id: string, shard: number, sketch: ShardSketch): StoredBucket {
  const [entity = '', resource = ''] = id.split('#')
  const {shardCount = 1, refilledAtMs = READ_AT_MS, writes = 0, parent, slots} = sketch
  const limits = new Map<string, BucketLimit>()
  for (const [name, limit] of Object.entries(sketch.limits)) {
    const {capacity, refillPerSecond = capacity / 10, left, consumed = 0, refillPeriodMs = 1000, remainder = 0} = limit
    const rate = {
      capacityMilli: BigInt(capacity) * 1000n,
      refillAmountMilli: BigInt(Math.round(refillPerSecond * 1000)),
      refillPeriodMs,
    }
    const full = shareOfRate(name, rate, shard, shardCount).capacityMilli
    const tokensMilli = left === undefined ? full : BigInt(Math.round(left * 1000))
    const consumedMilli = BigInt(Math.round(consumed * 1000))
    // In the past: a soft limit is shown as soft after that instant, too.
    const kind = limit.soft && {kind: {definition: '', softUntilMs: READ_AT_MS - 1}}
    limits.set(name, {...rate, tokensMilli, remainder: BigInt(remainder), consumedMilli, ...kind})
  }
  const pressure = {
    tokensMilli: WRITE_PRESSURE_RATE.capacityMilli,
    remainder: 0n,
    consumedMilli: BigInt(writes) * 1000n,
  }
  limits.set(WRITE_PRESSURE_LIMIT, {...WRITE_PRESSURE_RATE, ...pressure})
  const record = {namespace: 'ns', entity, resource, shard, shardCount, cascade: parent !== undefined, parent}
  return {
    kind: 'bucket',
    record: {
      ...record,
      ttlSeconds: undefined,
      state: {refilledAtMs, limits},
      ...(slots && {slots: {limits: new Map(Object.entries(slots)), accounts: new Map()}}),
    },
    incomplete: new Map(),
  }
}

/** A bucket with one shard per sketch. */
export function bucketOf(id: string, ...shards: ShardSketch[]): ShardedBucket {
  const [entity = '', resource = ''] = id.split('#')
  const count = shards.length
  return {
    entity,
    resource,
    shardCount: count,
    shards: shards.map((sketch, shard) => shardOf(id, shard, {shardCount: count, ...sketch})),
  }
}

/** Writes full single-shard buckets `user-0`, `user-1`… in batches. */
export async function putUsers(
  tenant: TestTenant,
  count: number,
  limits: readonly Limit[],
  resourceOf: (user: number) => string = () => 'r',
): Promise<void> {
  const states = limits.map(limit => {
    const rate = rateOf(limit)
    return [limit.name, {...rate, tokensMilli: rate.capacityMilli, consumedMilli: 0n, remainder: 0n}] as const
  })
  const state = {refilledAtMs: tenant.nowMs, limits: new Map(states)}
  const common = {shard: 0, shardCount: 1, cascade: false, parent: undefined, ttlSeconds: undefined, state}
  const puts = Array.from({length: count}, (_, user) => ({
    put: encodeBucket({
      namespace: tenant.namespace,
      entity: `user-${user}`,
      resource: resourceOf(user),
      ...common,
    }),
  }))
  await batchWrite(tenant.transport, tenant.name, puts, {backoff: tenant.backoff})
}

export function readingOf(bucket: ShardedBucket, rest: Partial<Reading> = {}): Reading {
  return {
    id: `${bucket.entity}#${bucket.resource}`,
    bucket,
    readAtMs: READ_AT_MS,
    chargedTo: undefined,
    mostLevels: 2,
    ratePerSecond: new Map(),
    requests: NO_REQUESTS,
    typical: [],
    bypassUntilMs: undefined,
    isDisabled: bucket.shards?.some(shard => shard.kind === 'bucket' && shard.record.isDisabled === true) ?? false,
    countedFrom: undefined,
    writePressure: 0,
    writePressures: new Map(),
    used: [],
    isGone: false,
    ...rest,
  }
}

/** Buckets of any shape: debts, lowered capacities, odd shard counts, shards that disagree, missing shards, ghosts. */
export const anyBucket: fc.Arbitrary<ShardedBucket> = fc
  .record({
    shards: fc.array(
      fc.record({
        isGhost: fc.boolean(),
        shardCount: fc.integer({min: 1, max: 9}),
        refilledAtMs: fc.integer({min: READ_AT_MS - 100_000, max: READ_AT_MS + 5000}),
        limits: fc.dictionary(
          fc.constantFrom('rpm', 'tpm', 'rps'),
          fc.record({
            capacity: fc.oneof(fc.integer({min: 1, max: 1_000_000}), fc.constant(9_000_000_000)),
            refillPeriodMs: fc.constantFrom(1000, 7, 60_000, 86_400_000),
            remainder: fc.integer({min: 0, max: 6}),
            refillPerSecond: fc.integer({min: 1, max: 10_000_000}).map(milli => milli / 1000),
            left: fc.integer({min: -100_000_000, max: 2_000_000_000}).map(milli => milli / 1000),
          }),
        ),
      }),
      {minLength: 1, maxLength: 5},
    ),
    entity: fc.constantFrom('a', 'b', 'c', 'Team-1'),
    resource: fc.constantFrom('gpt-4', 'search'),
  })
  .map(({shards, entity, resource}) => ({
    entity,
    resource,
    shardCount: shards.length,
    shards: shards.map(({isGhost, ...sketch}, shard): StoredBucket => {
      if (isGhost) return {kind: 'ghost', namespace: 'ns', entity, resource, shard, residue: new Map()}
      return shardOf(`${entity}#${resource}`, shard, {...sketch, shardCount: Math.max(sketch.shardCount, shard + 1)})
    }),
  }))

/** Readings of such buckets, some with a rate. */
export const anyReading: fc.Arbitrary<Reading> = fc
  .record({
    bucket: anyBucket,
    rates: fc.dictionary(fc.constantFrom('rpm', 'tpm', 'rps'), fc.integer({min: -500, max: 100_000})),
    writePressure: fc.double({min: 0, max: 2, noNaN: true}),
    isGone: fc.boolean(),
    refused: fc.option(fc.integer({min: 0, max: 100}), {nil: undefined}),
  })
  .map(({bucket, rates, writePressure, isGone, refused}) =>
    readingOf(bucket, {
      ratePerSecond: new Map(Object.entries(rates)),
      writePressure,
      isGone,
      requests: {...NO_REQUESTS, refusedPerSecond: refused === undefined ? undefined : {own: refused, byParent: 0}},
    }),
  )

/** Instants before and after everything was read. */
export const anyInstant = fc.integer({min: READ_AT_MS - 120_000, max: READ_AT_MS + 2_000_000})

/** Several readings with distinct ids. */
export const anyReadings: fc.Arbitrary<Reading[]> = fc
  .array(anyReading, {maxLength: 12})
  .map(readings => readings.map((reading, at) => ({...reading, id: `${reading.id}${at % 7}-${at}`})))
