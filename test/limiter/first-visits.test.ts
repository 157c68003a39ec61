import {beforeEach, describe, expect, it} from 'vitest'
import {Unavailable} from '../../src/lib/dynamo/errors.js'
import type {OperationInput, Transport} from '../../src/lib/dynamo/transport.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, isAdmitted, refusal, request} from './visit.js'

const RESOURCE = {level: 'resource', resource: 'gpt-4'} as const
const DAY_MS = 86_400_000

/** Wasted first visits before a process reads first. */
const LEARNED = 4

describeOnBoth('a bucket that a process has not seen', {timeout: 60_000}, (table, extent) => {
  /** DynamoDB charges for reads of items that do not exist; Amazon's local engine does not. */
  const absentUnits = extent === 'one of each' && process.env.ZAEL_TEST_ENGINE === 'dynamodb-local' ? 0 : 1
  let scene: Scene
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure(RESOURCE, 'rpm=100/min')
  })

  const visit = (limiter: RateLimiter, entity: string, rpm = 1) => limiter.acquire(request({rpm}, entity))

  /** Another process uses some buckets. */
  async function usedBefore(names: readonly string[], rpm = 1): Promise<void> {
    const other = scene.limiter()
    for (const name of names) await visit(other, name, rpm)
    await other.close()
  }

  const named = (prefix: string, count: number) => Array.from({length: count}, (_, at) => `${prefix}-${at}`)

  /** A process whose first visits were wasted: it reads first. */
  async function learned(transport?: Transport): Promise<RateLimiter> {
    const limiter = scene.limiter(transport ? {transport} : {})
    for (const name of named('new', LEARNED)) await visit(limiter, name)
    await limiter.settled()
    scene.calls.length = 0
    return limiter
  }

  /** The calls and units of one visit. Engines report no units for a refused write, but it counts as a call. */
  async function costOf(work: () => Promise<unknown>) {
    scene.calls.length = 0
    const before = table.capacity.snapshot()
    await work()
    const {read, write} = table.capacity.since(before)
    return {calls: [...scene.calls].sort(), read, write}
  }

  describe('L7 the cost of the first visit', () => {
    it('is 0.5 units to read an idle bucket, three to compare its limits and one to write it', async () => {
      await usedBefore(named('user', LEARNED + 1))
      scene.nowMs += 3_600_000
      const limiter = scene.limiter()
      const first = await costOf(() => visit(limiter, 'user-0'))
      expect(first.calls.filter(call => call === 'UpdateItem')).toHaveLength(2)
      for (let at = 1; at < LEARNED; at++) await visit(limiter, `user-${at}`)
      const later = await costOf(() => visit(limiter, `user-${LEARNED}`))
      // The configurations of the entity, its record, and the bucket; those of resource and system are cached.
      const read = 1.5 + 2 * absentUnits
      expect(later).toEqual({calls: ['BatchGetItem', 'GetItem', 'GetItem', 'UpdateItem'], read, write: 1})
    })

    it('is 0.5 units to miss a bucket, five for its limits, one to create it and three for its indexes', async () => {
      const limiter = await learned()
      const cost = await costOf(() => visit(limiter, 'another'))
      const read = 2.5 + 3 * absentUnits
      expect(cost).toEqual({calls: ['BatchGetItem', 'GetItem', 'GetItem', 'UpdateItem'], read, write: 4})
    })

    it('is one write again after some reads in vain', async () => {
      await usedBefore(named('used', 8), 60)
      scene.nowMs += 1000
      const limiter = await learned()
      const costs: string[][] = []
      for (const name of named('used', 8)) costs.push((await costOf(() => visit(limiter, name))).calls)
      expect(costs[0]).toContain('GetItem')
      expect(costs.at(-1)).toEqual(['UpdateItem'])
    })

    it('is learned per resource', async () => {
      await scene.configure({level: 'resource', resource: 'other'}, 'rpm=100/min')
      const limiter = await learned()
      const cost = await costOf(() => limiter.acquire({entity: 'e', resource: 'other', consume: {rpm: 1}}))
      expect(cost.calls.filter(call => call === 'UpdateItem')).toHaveLength(2)
    })

    it('is not learned from refusals: a write would have to confirm the read', async () => {
      await usedBefore(named('empty', 9), 100)
      const limiter = scene.limiter()
      for (const name of named('empty', 8)) await refusal(visit(limiter, name))
      const cost = await costOf(() => refusal(visit(limiter, 'empty-8')))
      expect(cost.calls).toEqual(['UpdateItem'])
    })
  })

  describe('an eventually consistent read of an old state', () => {
    /** Answers such reads of a bucket with its earlier state. */
    function outdated(before: () => Item | undefined): Transport {
      return {
        send: async (operation, input, options) => {
          scene.calls.push(operation)
          const {ConsistentRead, Key} = input as OperationInput<'GetItem'>
          const isGlance = operation === 'GetItem' && ConsistentRead === false && JSON.stringify(Key).includes('#user#')
          if (isGlance) return {Item: before()} as never
          return table.transport.send(operation, input, options)
        },
      }
    }

    async function storedItem(): Promise<Item | undefined> {
      const Key = {PK: {S: `${scene.namespace}/BUCKET#user#gpt-4#0`}, SK: {S: '#STATE'}}
      const {Item} = await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})
      return Item
    }

    it('S1 does not recreate an existing bucket it missed', async () => {
      await usedBefore(['user'], 70)
      const limiter = await learned(outdated(() => undefined))
      await refusal(visit(limiter, 'user', 31))
      expect(await isAdmitted(visit(limiter, 'user', 30))).toBe(true)
      expect(await scene.totals('user', 'gpt-4', 'rpm')).toEqual({tokens: 0, consumed: 100})
    })

    it('S1 does not grant tokens again that were taken since', async () => {
      await usedBefore(['user'])
      scene.nowMs += 120_000
      const full = await storedItem()
      await usedBefore(['user'], 90)
      const limiter = await learned(outdated(() => full))
      await refusal(visit(limiter, 'user', 11))
      expect(await isAdmitted(visit(limiter, 'user', 10))).toBe(true)
    })

    it('L6 grants tokens that were refunded since', async () => {
      const other = scene.limiter()
      const lease = await visit(other, 'user', 100)
      const empty = await storedItem()
      await lease.release({rpm: 100})
      await other.close()
      const limiter = await learned(outdated(() => empty))
      expect(await isAdmitted(visit(limiter, 'user', 100))).toBe(true)
    })

    it('is optional: its failure does not matter', async () => {
      await usedBefore(['user'])
      scene.nowMs += 3_600_000
      const limiter = await learned(
        outdated(() => {
          throw new Unavailable('GetItem', true)
        }),
      )
      expect(await isAdmitted(visit(limiter, 'user'))).toBe(true)
      expect(scene.calls.filter(call => call === 'UpdateItem')).toHaveLength(2)
    })
  })

  describe('S9 limits changed without updating buckets, while the bucket was idle', () => {
    const processes = [
      {process: 'a process that knows nothing', limiter: async () => scene.limiter()},
      {process: 'a process that reads first', limiter: () => learned()},
      {
        process: 'a process that knows the old limits from another bucket, and writes first',
        limiter: async () => {
          const limiter = scene.limiter()
          for (let request = 0; request < 3; request++) await visit(limiter, 'another')
          return limiter
        },
      },
    ]

    it.each(processes)('makes $process decide by the new limits at its first request', async ({limiter}) => {
      const client = await limiter()
      await usedBefore(['user'])
      scene.nowMs += 6 * DAY_MS
      await scene.configure(RESOURCE, 'rpm=10/min')
      expect(await failure(visit(client, 'user', 11))).toMatchObject({code: 'request.too-large'})
      await visit(client, 'user', 10)
      const [record] = await scene.shards('user', 'gpt-4')
      expect(record?.state.limits.get('rpm')).toMatchObject({capacityMilli: 10_000n, tokensMilli: 0n})
      await refusal(visit(client, 'user', 1))
    })

    it.each(processes)('makes $process decide by the new entity limits too', async ({limiter}) => {
      const client = await limiter()
      await usedBefore(['user'])
      scene.nowMs += 6 * DAY_MS
      await scene.configure({level: 'entity', entity: 'user', resource: 'gpt-4'}, 'rpm=10/min')
      await visit(client, 'user', 1)
      const [record] = await scene.shards('user', 'gpt-4')
      expect(record?.state.limits.get('rpm')).toMatchObject({capacityMilli: 10_000n, tokensMilli: 9000n})
    })
  })
})
