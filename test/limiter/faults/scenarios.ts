import type {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import type {RateLimiterOptions} from '../../../src/lib/limiter/request/options.js'
import {splitBucket} from '../../../src/lib/repository/buckets/split.js'
import type {TableSeams} from '../../../src/lib/repository/table/open-table.js'
import {n, s} from '../../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../../src/lib/schema/keys.js'
import type {Scenario, Stage} from './context.js'

const ALONE = [['user-1', ['rpm', 'tpm'], 1]] as const
const FAMILY = [...ALONE, ['team-1', ['tpm'], 1]] as const
const REQUEST = {rpm: 1, tpm: 500}

async function split(stage: Stage, times: number): Promise<void> {
  for (let count = 1; times > 0; times--, count *= 2) await splitBucket(stage.scene.tenant, 'user-1', 'gpt-4', count)
}

async function update(stage: Stage, shard: number, attribute: string, milli: number): Promise<void> {
  const {namespace, table} = stage.scene
  await table.transport.send('UpdateItem', {
    TableName: table.name,
    Key: wireKey(keys.bucket(namespace, 'user-1', 'gpt-4', shard)),
    UpdateExpression: 'ADD #a :milli',
    ExpressionAttributeNames: {'#a': attribute},
    ExpressionAttributeValues: {':milli': n(milli)},
  })
}

async function drop(stage: Stage, shard: number): Promise<void> {
  const {namespace, table} = stage.scene
  const Key = wireKey(keys.bucket(namespace, 'user-1', 'gpt-4', shard))
  await table.transport.send('DeleteItem', {TableName: table.name, Key})
}

/** A limiter that has seen the bucket, its limits and its parent. */
async function warm(stage: Stage, options?: RateLimiterOptions & TableSeams): Promise<RateLimiter> {
  const limiter = stage.limiter(options)
  await stage.acquire(limiter, {rpm: 1})
  // Whether concurrent requests share a write depends on an idle queue.
  await limiter.settled()
  return limiter
}

/** Paths of an acquire against one item. */
export const ON_ONE_ITEM: readonly Scenario[] = [
  {
    name: 'create',
    atStake: REQUEST,
    buckets: ALONE,
    prepare: async stage => () => stage.acquire(stage.limiter(), REQUEST),
  },
  {
    name: 'fast admit',
    atStake: REQUEST,
    buckets: ALONE,
    async prepare(stage) {
      await stage.elsewhere({rpm: 1})
      return () => stage.acquire(stage.limiter(), REQUEST)
    },
  },
  {
    name: 'fast refusal',
    outcome: 'limit.exceeded',
    atStake: {},
    buckets: ALONE,
    async prepare(stage) {
      await stage.elsewhere({tpm: 10_000})
      return () => stage.acquire(stage.limiter(), REQUEST)
    },
  },
  {
    name: 'slow path',
    atStake: {rpm: 1, tpm: 100},
    buckets: ALONE,
    async prepare(stage) {
      await stage.elsewhere({tpm: 10_000})
      stage.scene.nowMs += 1000
      return () => stage.acquire(stage.limiter(), {rpm: 1, tpm: 100})
    },
  },
  {
    name: 'config changed',
    atStake: REQUEST,
    buckets: ALONE,
    options: {configCacheMs: 1000},
    async prepare(stage) {
      const limiter = await warm(stage)
      await stage.scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=60/min', 'tpm=5k/min', 'rpd=9/day')
      stage.scene.nowMs += 1000
      return () => stage.acquire(limiter, REQUEST)
    },
  },
  {
    name: 'ghost heal',
    atStake: REQUEST,
    buckets: ALONE,
    before: {tpm: 300},
    async prepare(stage) {
      const {namespace, table} = stage.scene
      const {PK, SK} = keys.bucket(namespace, 'user-1', 'gpt-4', 0)
      const Item = {PK: s(PK), SK: s(SK), b_tpm_tk: n(-300_000), b_tpm_tc: n(300_000)}
      await table.transport.send('PutItem', {TableName: table.name, Item})
      return () => stage.acquire(stage.limiter(), REQUEST)
    },
  },
  {
    name: 'merged, not all fit',
    outcome: 'limit.exceeded',
    isInParts: true,
    atStake: {rpm: 4, tpm: 12_000},
    buckets: ALONE,
    async prepare(stage) {
      const limiter = await warm(stage)
      return async () => {
        const asked = Array.from({length: 4}, () => stage.acquire(limiter, {rpm: 1, tpm: 3000}))
        const answers = await Promise.allSettled(asked)
        const failure = answers.find(answer => answer.status === 'rejected')
        if (failure) throw failure.reason
      }
    },
  },
]

/** Paths of an acquire that is shared with a parent. */
export const IN_FAMILIES: readonly Scenario[] = [
  {
    name: 'cascade, first',
    atStake: REQUEST,
    buckets: FAMILY,
    cascade: true,
    prepare: async stage => () => stage.acquire(stage.limiter(), REQUEST),
  },
  {
    name: 'cascade, known',
    atStake: REQUEST,
    buckets: FAMILY,
    cascade: true,
    async prepare(stage) {
      const limiter = await warm(stage)
      return () => stage.acquire(limiter, REQUEST)
    },
  },
  {
    name: 'full parent, discovered after the child',
    outcome: 'limit.exceeded',
    atStake: REQUEST,
    buckets: FAMILY,
    cascade: true,
    async prepare(stage) {
      await stage.elsewhere({tpm: 900})
      return () => stage.acquire(stage.limiter(), REQUEST)
    },
  },
  {
    name: 'full parent, asked beside the child',
    outcome: 'limit.exceeded',
    atStake: REQUEST,
    buckets: FAMILY,
    cascade: true,
    async prepare(stage) {
      const limiter = await warm(stage, {denyCacheMs: 0})
      await stage.elsewhere({tpm: 900})
      return () => stage.acquire(limiter, REQUEST)
    },
  },
]

/** Paths of an acquire against a bucket with shards. */
export const ON_SHARDS: readonly Scenario[] = [
  {
    name: 'sharded retry',
    atStake: {rpm: 1, tpm: 500},
    buckets: [['user-1', ['rpm', 'tpm'], 2]],
    async prepare(stage) {
      await stage.elsewhere({rpm: 1})
      await split(stage, 1)
      const limiter = await warm(stage)
      await stage.elsewhere({tpm: 5000})
      return () => stage.acquire(limiter, REQUEST)
    },
  },
  {
    name: 'gather',
    isInParts: true,
    atStake: {tpm: 9000},
    buckets: [['user-1', ['rpm', 'tpm'], 4]],
    async prepare(stage) {
      await stage.elsewhere({rpm: 1})
      await split(stage, 2)
      const limiter = await warm(stage)
      return () => stage.acquire(limiter, {tpm: 9000})
    },
  },
  {
    name: 'insufficient gather',
    outcome: 'limit.exceeded',
    atStake: {},
    buckets: [['user-1', ['rpm', 'tpm'], 2]],
    async prepare(stage) {
      await stage.elsewhere({rpm: 1})
      await split(stage, 1)
      const limiter = await warm(stage)
      await stage.elsewhere({tpm: 8000})
      return () => stage.acquire(limiter, {tpm: 3000})
    },
  },
  {
    name: 'missing shard',
    atStake: {rpm: 1, tpm: 100},
    buckets: [['user-1', ['rpm', 'tpm'], 2]],
    async prepare(stage) {
      await stage.elsewhere({rpm: 1})
      await split(stage, 1)
      const limiter = await warm(stage, {random: () => 0.9})
      await drop(stage, 1)
      return () => stage.acquire(limiter, {rpm: 1, tpm: 100})
    },
  },
  {
    name: 'all shards gone',
    atStake: REQUEST,
    buckets: [['user-1', ['rpm', 'tpm'], 2]],
    async prepare(stage) {
      await stage.elsewhere({rpm: 1})
      await split(stage, 1)
      const limiter = await warm(stage, {random: () => 0.9})
      await drop(stage, 0)
      await drop(stage, 1)
      stage.leases.length = 0
      return () => stage.acquire(limiter, REQUEST)
    },
  },
  {
    name: 'rollback of a gathered request',
    isInParts: true,
    atStake: {tpm: 9000},
    buckets: [['user-1', ['rpm', 'tpm'], 2]],
    isOnLease: true,
    async prepare(stage) {
      await stage.elsewhere({rpm: 1})
      await split(stage, 1)
      const limiter = await warm(stage)
      const lease = await stage.acquire(limiter, {tpm: 9000})
      return () => lease.rollback()
    },
  },
  {
    name: 'split',
    atStake: REQUEST,
    buckets: [['user-1', ['rpm', 'tpm'], 2]],
    async prepare(stage) {
      const limiter = await warm(stage)
      await update(stage, 0, 'b_wcu_tc', 2_000_000)
      stage.scene.nowMs += 1000
      return () => stage.acquire(limiter, REQUEST)
    },
  },
]

/** Actions on a lease. */
export const ON_LEASES: readonly Scenario[] = [
  {
    name: 'adjust',
    atStake: {tpm: 50},
    buckets: FAMILY,
    cascade: true,
    isOnLease: true,
    async prepare(stage) {
      const lease = await stage.acquire(stage.limiter(), REQUEST)
      return () => lease.adjust({tpm: 50})
    },
  },
  {
    name: 'release',
    atStake: {tpm: 200},
    buckets: FAMILY,
    cascade: true,
    isOnLease: true,
    async prepare(stage) {
      const lease = await stage.acquire(stage.limiter(), REQUEST)
      return () => lease.release({tpm: 200})
    },
  },
  {
    name: 'consume on a lease',
    atStake: {tpm: 100},
    buckets: FAMILY,
    cascade: true,
    isOnLease: true,
    async prepare(stage) {
      const lease = await stage.acquire(stage.limiter(), REQUEST)
      return () => lease.consume({tpm: 100})
    },
  },
  {
    name: 'rollback',
    atStake: REQUEST,
    buckets: FAMILY,
    cascade: true,
    isOnLease: true,
    async prepare(stage) {
      const lease = await stage.acquire(stage.limiter(), REQUEST)
      return () => lease.rollback()
    },
  },
]
