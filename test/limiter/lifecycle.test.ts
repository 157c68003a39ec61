import {beforeEach, describe, expect, it} from 'vitest'
import {Denied} from '../../src/lib/dynamo/errors.js'
import type {Operation} from '../../src/lib/dynamo/transport.js'
import {EntityCache} from '../../src/lib/limiter/queue/queue-services.js'
import {n} from '../../src/lib/schema/attribute-value.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {PythonPeer} from '../helpers/python-peer.js'
import {admittedUntilRefused, isAdmitted, refusal, request, splitInto} from './visit.js'

const PERIOD_MS = 60_000

describeOnBoth('lifecycle of a bucket', {}, table => {
  let scene: Scene
  let python: PythonPeer
  beforeEach(async () => {
    scene = new Scene(table)
    python = new PythonPeer(scene)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min')
  })

  /** Permissions of an acquire-only policy; a transaction needs those of its parts. */
  function allowOnly(...allowed: Operation[]) {
    const {transport} = scene
    const parts: string[] = []
    scene.transport = {
      send: async (operation, input, options) => {
        if (operation === 'TransactWriteItems') {
          for (const item of (input as {TransactItems: object[]}).TransactItems) parts.push(...Object.keys(item))
        } else if (!allowed.includes(operation)) throw new Denied(operation)
        return transport.send(operation, input, options)
      },
    }
    return parts
  }

  it('D-37 uses only updates, so that acquire-only policies suffice', async () => {
    const parts = allowOnly('GetItem', 'BatchGetItem', 'Query', 'UpdateItem')
    await scene.entity('user-1', 'team-1')
    const limiter = scene.limiter()
    const lease = await limiter.acquire(request({rpm: 1}))
    await lease.adjust({rpm: 5})
    for (let second = 0; second < 3; second++) {
      await python.countWrites(2000)
      scene.nowMs += 1000
      await limiter.acquire(request({rpm: 1}))
      await limiter.settled()
    }
    expect(await python.number('shard_count')).toBeGreaterThanOrEqual(2)
    await scene.limiter().acquire(request({rpm: 80}))
    await lease.rollback()
    expect(new Set(parts)).toEqual(new Set(['Update']))
  })

  it('D-37 creates the same item as a PutItem would', async () => {
    await scene.limiter().acquire(request({rpm: 1}))
    const {wn_0, wn_1, wn_2, wn_3, wn_4, wn_5, wn_6, wn_7, rq, lr, bi, ...item} = (await python.item()) ?? {}
    expect({rq, lr, bi}).toEqual({rq: {N: '1'}, lr: {S: expect.any(String)}, bi: lr})
    const ns = scene.namespace
    expect(item).toEqual({
      PK: {S: `${ns}/BUCKET#user-1#gpt-4#0`},
      SK: {S: '#STATE'},
      entity_id: {S: 'user-1'},
      resource: {S: 'gpt-4'},
      rf: {N: '1700000000000'},
      shard_count: {N: '1'},
      cascade: {BOOL: false},
      ttl: {N: '1700604800'},
      b_rpm_tk: {N: '99000'},
      b_rpm_cp: {N: '100000'},
      b_rpm_ra: {N: '100000'},
      b_rpm_rp: {N: '60000'},
      b_rpm_tc: {N: '1000'},
      b_wcu_tk: {N: '1000000'},
      b_wcu_cp: {N: '1000000'},
      b_wcu_ra: {N: '1000000'},
      b_wcu_rp: {N: '1000'},
      b_wcu_tc: {N: '0'},
      GSI2PK: {S: `${ns}/RESOURCE#gpt-4`},
      GSI2SK: {S: 'BUCKET#user-1#0'},
      GSI3PK: {S: `${ns}/ENTITY#user-1`},
      GSI3SK: {S: 'BUCKET#gpt-4#0'},
      GSI4PK: {S: ns},
      GSI4SK: {S: 'BUCKET#user-1#gpt-4#0'},
    })
  })

  it('D-39 costs one write unit per acquire, indexes included', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    const before = table.capacity.snapshot()
    for (let admitted = 0; admitted < 10; admitted++) await limiter.acquire(request({rpm: 1}))
    expect(table.capacity.since(before)).toMatchObject({calls: 10, read: 0, write: 10})
    scene.nowMs += 1000
    const refilling = table.capacity.snapshot()
    await limiter.acquire(request({rpm: 90}))
    expect(table.capacity.since(refilling)).toMatchObject({write: 1})
  })

  describe('D-40 caches', () => {
    const record = (entity: string, shardCount = 1) => ({
      namespace: 'ns',
      entity,
      resource: 'gpt-4',
      shard: 0,
      shardCount,
      cascade: true,
      parent: 'team-1',
      ttlSeconds: undefined,
      state: {refilledAtMs: 0, limits: new Map()},
    })

    it('D-40 bounds and ages what it caches of entities', () => {
      const cache = new EntityCache({clock: () => scene.nowMs, ttlMs: PERIOD_MS, maxEntries: 100})
      for (let index = 0; index < 150; index++) cache.notice(record(`user-${index}`, 4))
      expect(cache.family('user-0', 'gpt-4')).toBeUndefined()
      expect(cache.family('user-149', 'gpt-4')).toMatchObject({cascade: true, parent: 'team-1'})
      expect(cache.shardCount('user-149', 'gpt-4')).toBe(4)
      scene.nowMs += PERIOD_MS
      expect(cache.family('user-149', 'gpt-4')).toBeUndefined()
      // Shard counts do not age: states of refusing shards are cached too.
      expect([0, 149].map(index => cache.shardCount(`user-${index}`, 'gpt-4'))).toEqual([1, 4])
    })

    it('D-40 reads the limits once for 20 concurrent first requests', async () => {
      const limiter = scene.limiter()
      await Promise.all(Array.from({length: 20}, () => limiter.acquire(request({rpm: 1}))))
      expect(scene.calls.filter(call => call === 'BatchGetItem')).toHaveLength(1)
      expect(scene.calls.filter(call => call === 'GetItem')).toHaveLength(1)
      expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 80, consumed: 20})
    })

    it('D-40 does not block requests of known entities on a read of another one', async () => {
      const limiter = scene.limiter()
      await limiter.acquire(request({rpm: 1}))
      let release: (() => void) | undefined
      const held = new Promise<void>(resolve => {
        release = resolve
      })
      const {transport} = scene
      scene.transport = {
        send: async (operation, input, options) => {
          if (operation === 'BatchGetItem') await held
          return transport.send(operation, input, options)
        },
      }
      const other = limiter.acquire(request({rpm: 1}, 'user-2'))
      scene.nowMs += 1
      for (let admitted = 0; admitted < 5; admitted++) await limiter.acquire(request({rpm: 1}))
      await limiter.acquire(request({rpm: 94}))
      release?.()
      await other
    })

    it('D-40 keeps no wrong shard count after a failed split', async () => {
      const limiter = scene.limiter()
      await limiter.acquire(request({rpm: 1}))
      const {transport} = scene
      scene.transport = {
        send: async (operation, input, options) => {
          if (operation === 'TransactWriteItems') throw new Denied(operation)
          return transport.send(operation, input, options)
        },
      }
      for (let second = 0; second < 3; second++) {
        await python.countWrites(2000)
        scene.nowMs += 1000
        await limiter.acquire(request({rpm: 1}))
      }
      await limiter.settled()
      scene.calls.length = 0
      for (let admitted = 0; admitted < 20; admitted++) await limiter.acquire(request({rpm: 1}))
      expect(scene.calls).toEqual(Array.from({length: 20}, () => 'UpdateItem'))
      expect(await python.number('shard_count')).toBe(1)
    })
  })

  describe('an idle bucket', () => {
    const leftSeconds = async () => (await python.number('ttl')) - scene.nowMs / 1000

    it.each([
      {is: 'not renewed while half of the seven days is left', days: 3.6, after: 3.6},
      {is: 'renewed when less is left, with a write that comes anyway', days: 3.4, after: 7},
    ])('L7 is $is', async ({days, after}) => {
      await scene.limiter().acquire(request({rpm: 60}))
      expect(await leftSeconds()).toBe(7 * 86_400)
      scene.nowMs += 1000
      await python.set({ttl: n(scene.nowMs / 1000 + days * 86_400)})
      scene.calls.length = 0
      await scene.limiter().acquire(request({rpm: 1}))
      expect(await leftSeconds()).toBe(after * 86_400)
      // One write that shows the bucket, and one that is applied.
      expect(scene.calls.filter(call => call === 'UpdateItem')).toHaveLength(2)
    })

    it('is kept by every write that refills it', async () => {
      const limiter = scene.limiter()
      await limiter.acquire(request({rpm: 60}))
      scene.nowMs += 6 * 86_400_000
      await limiter.acquire(request({rpm: 1}))
      expect(await leftSeconds()).toBe(7 * 86_400)
    })

    it('never expires if configured', async () => {
      await scene.limiter({bucketTtlMultiplier: 0}).acquire(request({rpm: 60}))
      expect(await python.item()).not.toHaveProperty('ttl')
    })
  })

  describe('D-41 debt', () => {
    it('D-41 outlives seven days if it takes two weeks: expiry includes it', async () => {
      const limiter = scene.limiter()
      const lease = await limiter.acquire(request({rpm: 1}))
      await lease.adjust({rpm: 2_016_000})
      const ttl = await python.number('ttl')
      const repaidSeconds = 14 * 86_400
      expect(ttl).toBeGreaterThan(scene.nowMs / 1000 + repaidSeconds)
      // Refused meanwhile; no refusal shortens it.
      scene.nowMs += 300_000
      await refusal(limiter.acquire(request({rpm: 1})))
      expect(await python.number('ttl')).toBeGreaterThanOrEqual(ttl)
    })

    it('D-41 is repaid at a 16th of the rate on one of 16 shards, and expiry includes that', async () => {
      const limiter = scene.limiter()
      await limiter.acquire(request({}))
      await splitInto(scene, 16)
      await limiter.acquire(request({}))
      const lease = await limiter.acquire(request({rpm: 1}))
      await lease.adjust({rpm: 500_000})
      const indebted = (await scene.shards('user-1', 'gpt-4', 16)).find(
        ({state}) => (state.limits.get('rpm')?.tokensMilli ?? 0n) < 0n,
      )
      const debt = -Number(indebted?.state.limits.get('rpm')?.tokensMilli) / 1000
      expect(indebted?.ttlSeconds).toBeGreaterThan(scene.nowMs / 1000 + (debt / 6.25) * 60)
    })

    it('D-41 is repaid by refill, and shows one millitoken as -1', async () => {
      const limiter = scene.limiter()
      const lease = await limiter.acquire(request({rpm: 100}))
      await lease.adjust({rpm: 50})
      expect(await limiter.available({entity: 'user-1', resource: 'gpt-4'})).toEqual({rpm: -50})
      const error = await refusal(limiter.acquire(request({rpm: 1})))
      expect(error.retryAfterMs).toBe(30_601)
      scene.nowMs += 29_999
      expect(await limiter.available({entity: 'user-1', resource: 'gpt-4'})).toEqual({rpm: -1})
      scene.nowMs += 602
      expect(await isAdmitted(limiter.acquire(request({rpm: 1})))).toBe(true)
    })

    it('D-41 stays on an expired item that still exists', async () => {
      const lease = await scene.limiter().acquire(request({rpm: 1}))
      await lease.adjust({rpm: 599})
      await python.set({ttl: n(Math.floor(scene.nowMs / 1000) - 1)})
      const limiter = scene.limiter()
      const error = await refusal(limiter.acquire(request({rpm: 1})))
      expect(error.statuses).toMatchObject([{available: -500}])
      // The refusal does not wait for the write that renews the bucket; close does.
      await limiter.settled()
      expect(await python.number('ttl')).toBeGreaterThan(scene.nowMs / 1000 + 300)
    })

    it('D-41 is cut to the capacity after a refund to a full bucket', async () => {
      await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min', 'tick=1/sec')
      const limiter = scene.limiter()
      const lease = await limiter.acquire(request({rpm: 50, tick: 1}))
      scene.nowMs += 60_000
      // Needs a refill, which fills the other limit too.
      await limiter.acquire(request({tick: 1}))
      expect(await python.number('b_rpm_tk')).toBe(100_000)
      await lease.rollback()
      expect(await python.number('b_rpm_tc')).toBe(0)
      scene.nowMs += 1
      expect(await admittedUntilRefused(limiter, {rpm: 10}, 20)).toBe(10)
    })
  })
})
