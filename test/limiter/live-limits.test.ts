import {beforeEach, describe, expect, it} from 'vitest'
import {n} from '../../src/lib/schema/attribute-value.js'
import type {ConfigScope} from '../../src/lib/schema/config-record.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {PythonPeer} from '../helpers/python-peer.js'
import {admittedUntilRefused, failure, isAdmitted, refusal, request, splitInto} from './visit.js'

const PERIOD_MS = 60_000

describeOnBoth('limits of live buckets', {}, table => {
  let scene: Scene
  let python: PythonPeer
  beforeEach(() => {
    scene = new Scene(table)
    python = new PythonPeer(scene)
  })

  const resource: ConfigScope = {level: 'resource', resource: 'gpt-4'}

  describe('a 0.10 client lowers a limit of the bucket without changing its revision', () => {
    const entity: ConfigScope = {level: 'entity', entity: 'user-1', resource: 'gpt-4'}
    async function lower(): Promise<void> {
      await scene.configure(entity, 'rpm=10/min')
      await python.paramSync('rpm', 10, 60)
    }

    beforeEach(async () => {
      await scene.configure(entity, 'rpm=100/min')
    })

    it.each([1, 3])('S9 admits the new capacity in a process that has made %d requests', async requests => {
      const limiter = scene.limiter()
      for (let at = 0; at < requests; at++) await limiter.acquire(request({rpm: 1}))
      await lower()
      expect(await admittedUntilRefused(limiter, {rpm: 1}, 30)).toBe(10)
      expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 0, consumed: requests + 10})
    })

    it('S9 clamps the balance in a process whose clock is behind too', async () => {
      await scene.limiter().acquire(request({rpm: 1}))
      scene.nowMs -= 5000
      const limiter = scene.limiter()
      for (let at = 0; at < 2; at++) await limiter.acquire(request({rpm: 1}))
      await lower()
      expect(await admittedUntilRefused(limiter, {rpm: 1}, 30)).toBe(10)
    })

    it('S9 refills at the new rate in a process that knows the bucket as empty', async () => {
      const limiter = scene.limiter()
      for (const rpm of [60, 20, 20]) await limiter.acquire(request({rpm}))
      scene.nowMs += PERIOD_MS / 3
      await lower()
      expect(await admittedUntilRefused(limiter, {rpm: 1}, 30)).toBe(3)
    })
  })

  describe('D-16 adding or renaming a limit of a live bucket', () => {
    beforeEach(async () => {
      await scene.configure(resource, 'rpm=60/min')
      await scene.limiter().acquire(request({rpm: 1}))
    })

    it.each([1, 4])('D-16 starts an added limit full on %d shards, and counts it', async count => {
      await splitInto(scene, count)
      await scene.configure(resource, 'rpm=60/min', 'tpm=1000/min')
      const limiter = scene.limiter()
      await limiter.acquire(request({rpm: 1, tpm: 100}))
      expect(await admittedUntilRefused(limiter, {tpm: 300}, 10)).toBe(3)
      expect(await python.item()).toMatchObject({
        b_tpm_cp: {N: '1000000'},
        b_tpm_ra: {N: '1000000'},
        b_tpm_rp: {N: '60000'},
      })
      expect(await scene.totals('user-1', 'gpt-4', 'tpm', count)).toEqual({tokens: 0, consumed: 1000})
    })

    it('D-16 writes a whole limit even if the first slow write takes nothing of it', async () => {
      await scene.configure(resource, 'rpm=60/min', 'tpm=1000/min')
      await scene.limiter().acquire(request({rpm: 20}))
      scene.nowMs += 1000
      await scene.limiter().acquire(request({rpm: 40}))
      expect(await python.item()).toMatchObject({
        b_tpm_tk: {N: '1000000'},
        b_tpm_tc: {N: '0'},
        b_tpm_cp: {N: '1000000'},
        b_tpm_ra: {N: '1000000'},
        b_tpm_rp: {N: '60000'},
      })
    })

    it('D-16 heals counters without parameters, as left by a Python slow write', async () => {
      await scene.configure(resource, 'rpm=60/min', 'tpm=1000/min')
      await python.set({b_tpm_tk: n(-50_000), b_tpm_tc: n(50_000)})
      const limiter = scene.limiter()
      await limiter.acquire(request({rpm: 1, tpm: 100}))
      expect(await python.item()).toMatchObject({
        b_tpm_tk: {N: '850000'},
        b_tpm_tc: {N: '150000'},
        b_tpm_cp: {N: '1000000'},
        b_tpm_rp: {N: '60000'},
      })
    })

    it('D-16 starts a limit full if a Python sync left parameters without a balance', async () => {
      await scene.configure(resource, 'rpm=60/min', 'tpm=1000/min')
      await python.paramSync('tpm', 1000, 60)
      await scene.limiter().acquire(request({rpm: 1, tpm: 100}))
      expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 900, consumed: 100})
    })

    it('D-16 admits the new name, removes the old one, and ends leases of the old name without an error', async () => {
      const before = scene.limiter()
      const lease = await before.acquire(request({rpm: 10}))
      await scene.configure(resource, 'requests=60/min')
      const limiter = scene.limiter()
      expect(await admittedUntilRefused(limiter, {requests: 20}, 10)).toBe(3)
      const unknown = failure(limiter.acquire({...request({rpm: 1}), strict: true}))
      expect(await unknown).toMatchObject({code: 'limit.unknown'})
      await lease.rollback()
      const item = (await python.item()) ?? {}
      expect(Object.keys(item).filter(name => name.startsWith('b_rpm_'))).toEqual([])
      expect(await scene.totals('user-1', 'gpt-4', 'requests')).toEqual({tokens: 0, consumed: 60})
    })

    it('D-16 continues after a bucket lost the parameters of its only limit', async () => {
      await python.remove(['b_rpm_cp', 'b_rpm_ra', 'b_rpm_rp', 'b_wcu_tk', 'b_wcu_cp'])
      const limiter = scene.limiter()
      scene.nowMs += PERIOD_MS
      expect(await isAdmitted(limiter.acquire(request({rpm: 1})))).toBe(true)
      scene.nowMs += PERIOD_MS
      expect(await isAdmitted(limiter.acquire(request({rpm: 1})))).toBe(true)
      expect(await python.item()).toMatchObject({b_rpm_cp: {N: '60000'}, b_wcu_cp: {N: '1000000'}})
    })
  })

  describe('D-18 changes of live buckets', () => {
    const levels: [string, ConfigScope][] = [
      ['entity', {level: 'entity', entity: 'user-1', resource: 'gpt-4'}],
      ['entity default', {level: 'entity', entity: 'user-1', resource: '_default_'}],
      ['resource', resource],
      ['system', {level: 'system'}],
    ]
    const shardCounts = [1, 4]
    const cases = levels.flatMap(([level, scope]) => shardCounts.map(count => ({level, scope, count})))

    /** A bucket with 900 of 1000 tokens that never needs its slow path. */
    async function liveBucket(scope: ConfigScope, count: number) {
      await scene.configure(scope, 'rpm=1000/day', 'old=1000/day')
      const limiter = scene.limiter()
      await limiter.acquire(request({rpm: 100, old: 100}))
      await splitInto(scene, count)
      await limiter.acquire(request({}))
      return limiter
    }

    /** Requests that fit every shard's stored balance, once a second, until every shard was asked often. */
    async function onePeriod(limiter: ReturnType<Scene['limiter']>, consume: Record<string, number> = {}) {
      for (let second = 0; second < 60; second += 4) {
        scene.nowMs += 4000
        await limiter.acquire(request(consume))
      }
      for (let asked = 0; asked < 40; asked++) await limiter.acquire(request(consume))
    }

    const stored = async (limit: string, count: number) =>
      (await scene.shards('user-1', 'gpt-4', count)).map(({state}) => state.limits.get(limit))

    it.each(cases)(
      'D-18 lowers and clamps all $count shards at the $level level (100 of 1000 to 5)',
      async ({scope, count}) => {
        const limiter = await liveBucket(scope, count)
        await scene.configure(scope, 'rpm=5/day', 'old=1000/day')
        await onePeriod(limiter)
        for (const limit of await stored('rpm', count)) expect(limit).toMatchObject({capacityMilli: 5000n})
        expect(await scene.totals('user-1', 'gpt-4', 'rpm', count)).toEqual({tokens: 5, consumed: 100})
        expect(await failure(limiter.acquire(request({rpm: 50})))).toMatchObject({code: 'request.too-large'})
        expect(await admittedUntilRefused(limiter, {rpm: 1}, 100)).toBe(5)
      },
    )

    it.each(cases)(
      'D-18 raises all $count shards at the $level level and creates no tokens',
      async ({scope, count}) => {
        const limiter = await liveBucket(scope, count)
        await scene.configure(scope, 'rpm=2000/day', 'old=1000/day')
        const startMs = scene.nowMs
        await onePeriod(limiter)
        for (const limit of await stored('rpm', count)) expect(limit).toMatchObject({capacityMilli: 2_000_000n})
        const {tokens} = await scene.totals('user-1', 'gpt-4', 'rpm', count)
        expect(tokens).toBeGreaterThanOrEqual(900)
        expect(tokens).toBeLessThanOrEqual(900 + ((scene.nowMs - startMs) * 2000) / 86_400_000)
      },
    )

    it.each(cases)(
      'D-18 adds, removes and renames on all $count shards at the $level level, and blocks no request',
      async ({scope, count}) => {
        const limiter = await liveBucket(scope, count)
        await scene.configure(scope, 'rpm=1000/day', 'new=400/day')
        await onePeriod(limiter)
        for (const limit of await stored('old', count)) expect(limit).toBeUndefined()
        for (const limit of await stored('new', count)) expect(limit).toMatchObject({capacityMilli: 400_000n})
        expect(await scene.totals('user-1', 'gpt-4', 'new', count)).toEqual({tokens: 400, consumed: 0})
        await limiter.acquire(request({rpm: 1, new: 400}))
        expect(await isAdmitted(limiter.acquire(request({new: 10})))).toBe(false)
      },
    )

    it('D-18 uses the next level, with its lifetime, when the limits of one are removed', async () => {
      const [, scope] = levels[0] as [string, ConfigScope]
      await scene.configure({level: 'system'}, 'rpm=10/day')
      const limiter = await liveBucket(scope, 1)
      expect((await scene.shards('user-1', 'gpt-4'))[0]?.ttlSeconds).toBeUndefined()
      await scene.configure(scope)
      await onePeriod(limiter)
      expect(await stored('rpm', 1)).toMatchObject([{capacityMilli: 10_000n, tokensMilli: 10_000n}])
      expect((await scene.shards('user-1', 'gpt-4'))[0]?.ttlSeconds).toBeGreaterThan(scene.nowMs / 1000)
    })

    it('D-18 applies a change within one cache period, even if another bucket has just read the old limits', async () => {
      await scene.configure(resource, 'rpm=1000/day')
      const limiter = scene.limiter()
      await limiter.acquire(request({rpm: 1}, 'early'))
      scene.nowMs += 30_000
      await limiter.acquire(request({rpm: 1}))
      scene.nowMs += 30_000
      await limiter.acquire(request({rpm: 1}, 'early'))
      scene.nowMs += 1
      await scene.configure(resource, 'rpm=5/day')
      const changedMs = scene.nowMs
      for (let step = 0; step < 60; step++) {
        scene.nowMs += 1000
        await limiter.acquire(request({}))
        await limiter.acquire(request({}, 'early'))
      }
      expect(scene.nowMs - changedMs).toBe(PERIOD_MS)
      for (const entity of ['early', 'user-1']) {
        expect(await scene.totals(entity, 'gpt-4', 'rpm'), entity).toMatchObject({tokens: 5})
      }
    })

    it('D-18 clamps a limit that Python lowered on shard 0 without clamping', async () => {
      await scene.configure(resource, 'rpm=100/day')
      const limiter = scene.limiter()
      await limiter.acquire(request({}))
      await scene.configure(resource, 'rpm=5/day')
      await python.paramSync('rpm', 5, 86_400)
      await onePeriod(limiter)
      expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 5, consumed: 0})
    })

    it('D-18 creates no tokens when a limit is raised and lowered repeatedly', async () => {
      await scene.configure(resource, 'rpm=100/day')
      await scene.limiter().acquire(request({rpm: 60}))
      for (let round = 0; round < 5; round++) {
        await scene.configure(resource, 'rpm=100000/day')
        await scene.limiter().acquire(request({rpm: 1}))
        expect(await failure(scene.limiter().acquire(request({rpm: 50})))).toMatchObject({code: 'limit.exceeded'})
        await scene.configure(resource, 'rpm=100/day')
        expect(await failure(scene.limiter().acquire(request({rpm: 50})))).toMatchObject({code: 'limit.exceeded'})
      }
      expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 35, consumed: 65})
    })
  })

  describe('D-19 default limits given by the caller', () => {
    const limit = {name: 'rpm', capacity: 100, refillAmount: 100, refillPeriodSeconds: 86_400}

    it('D-19 give way to configured ones, on live buckets too', async () => {
      const limiter = scene.limiter({defaultLimits: [limit]})
      await limiter.acquire(request({rpm: 10}))
      await scene.configure(resource, 'rpm=5/day')
      scene.nowMs += PERIOD_MS
      await limiter.acquire(request({}))
      expect(await admittedUntilRefused(limiter, {rpm: 1}, 100)).toBe(5)
      const error = await refusal(limiter.acquire(request({rpm: 1})))
      expect(error.statuses).toMatchObject([{source: 'resource', capacity: 5}])
    })

    it('D-19 apply to live buckets, not only at their creation', async () => {
      await scene.limiter({defaultLimits: [limit]}).acquire(request({rpm: 10}))
      const strict = scene.limiter({defaultLimits: [{...limit, capacity: 20, refillAmount: 20}]})
      await strict.acquire(request({}))
      scene.nowMs += PERIOD_MS
      await strict.acquire(request({}))
      expect(await admittedUntilRefused(strict, {rpm: 1}, 100)).toBe(20)
    })
  })
})
