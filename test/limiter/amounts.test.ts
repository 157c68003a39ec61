import {beforeEach, describe, expect, it} from 'vitest'
import {isTroublesomeForPython} from '../../src/lib/core/names.js'
import {n} from '../../src/lib/schema/attribute-value.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {PythonPeer} from '../helpers/python-peer.js'
import {failure, isAdmitted, refusal, request} from './visit.js'

describeOnBoth('amounts and names', {}, table => {
  let scene: Scene
  let python: PythonPeer
  beforeEach(async () => {
    scene = new Scene(table)
    python = new PythonPeer(scene)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min', 'tpm=1000/min')
  })

  it('D-17 accepts names with - and . on all paths, and may warn', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'my-limit=10/min', 'v1.2-x=10/min', 'size=10/min')
    const consume = {'my-limit': 4, 'v1.2-x': 4, size: 4}
    const limiter = scene.limiter()
    const lease = await limiter.acquire(request(consume))
    await scene.limiter().acquire(request(consume))
    const error = await refusal(scene.limiter().acquire(request(consume)))
    expect(error.statuses.map(({name}) => name)).toEqual(Object.keys(consume))
    scene.nowMs += error.retryAfterMs
    await scene.limiter().acquire(request(consume))
    await lease.adjust({'my-limit': 1, 'v1.2-x': -1})
    await lease.rollback()
    for (const name of Object.keys(consume)) {
      expect(await scene.totals('user-1', 'gpt-4', name)).toMatchObject({consumed: 8})
    }
    expect(Object.keys(consume).map(isTroublesomeForPython)).toEqual([true, true, false])
  })

  describe('D-20 a limit in debt that is not requested', () => {
    beforeEach(async () => {
      const lease = await scene.limiter().acquire(request({rpm: 1, tpm: 1}))
      await lease.adjust({tpm: 5000})
    })

    it.each([
      ['not named', {rpm: 1}],
      ['asked for 0 of', {rpm: 1, tpm: 0}],
    ])('D-20 admits on the fast and slow path if the limit in debt is %s', async (_, consume) => {
      expect(await isAdmitted(scene.limiter().acquire(request(consume)))).toBe(true)
      await scene.limiter().acquire(request({rpm: 98}))
      scene.nowMs += 600
      // rpm is empty: only the slow path can admit this one.
      expect(await isAdmitted(scene.limiter().acquire(request(consume)))).toBe(true)
      const refused = await refusal(scene.limiter().acquire(request(consume)))
      expect(refused.statuses.map(({name}) => name)).toEqual(['rpm'])
    })

    it('D-20 refuses on both paths if 1 is requested', async () => {
      await refusal(scene.limiter().acquire(request({rpm: 1, tpm: 1})))
      scene.nowMs += 600
      await refusal(scene.limiter().acquire(request({rpm: 1, tpm: 1})))
      expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toMatchObject({consumed: 1})
    })
  })

  it.each([
    ['fast', {rpm: 1}],
    ['fast, given as 0', {rpm: 1, tpm: 0}],
  ])('D-21 charges an adjusted limit that was not consumed at both levels, after a %s acquire', async (_, consume) => {
    await scene.entity('user-1', 'team-1')
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    const lease = await limiter.acquire(request(consume))
    await lease.adjust({tpm: 750})
    for (const entity of ['user-1', 'team-1']) {
      expect(await scene.totals(entity, 'gpt-4', 'tpm')).toEqual({tokens: 250, consumed: 750})
    }
    expect(lease.consumed).toEqual({rpm: 1, tpm: 750})
    await lease.adjust({nothing: 1})
    expect(lease.unlimited).toEqual(['nothing'])
    await lease.rollback()
    for (const entity of ['user-1', 'team-1']) {
      expect(await scene.totals(entity, 'gpt-4', 'tpm')).toEqual({tokens: 1000, consumed: 0})
    }
  })

  it.each([
    ['negative (-50 made 148 of 100)', {rpm: -50}, 'request.amount'],
    ['a fraction', {rpm: 1.5}, 'request.amount'],
    ['no number', {rpm: Number.NaN}, 'request.amount'],
    ['infinite', {rpm: Number.POSITIVE_INFINITY}, 'request.amount'],
    ['beyond exact numbers', {rpm: 2 ** 53}, 'request.amount'],
    ['wcu', {wcu: 1}, 'name.invalid'],
    ['a name that is no name', {'a b': 1}, 'name.invalid'],
    ['an unknown name in strict mode', {rpm: 1, rpx: 1}, 'limit.unknown'],
  ])('D-22 rejects %s in consume and charges nothing', async (_, consume, code) => {
    const strict = true
    const limiter = scene.limiter({strict})
    expect(await failure(limiter.acquire(request(consume)))).toMatchObject({code})
    await limiter.acquire(request({rpm: 1}))
    const before = await python.item()
    expect(await failure(limiter.acquire(request(consume)))).toMatchObject({code})
    expect(await failure(scene.limiter().acquire({...request(consume), strict}))).toMatchObject({code})
    expect(await python.item()).toEqual(before)
  })

  it('D-22 rejects the same input in leases and checks as in acquire', async () => {
    const limiter = scene.limiter()
    const lease = await limiter.acquire(request({rpm: 10}))
    expect(await failure(lease.consume({rpm: -1}))).toMatchObject({code: 'request.amount'})
    expect(await failure(lease.release({rpm: -1}))).toMatchObject({code: 'request.amount'})
    expect(await failure(lease.adjust({rpm: 0.5}))).toMatchObject({code: 'request.amount'})
    expect(await failure(lease.adjust({wcu: 1}))).toMatchObject({code: 'name.invalid'})
    expect(await failure(lease.release({rpm: 11}))).toMatchObject({code: 'lease.over-release'})
    expect(await failure(lease.adjust({rpm: -11}))).toMatchObject({code: 'lease.over-release'})
    expect(await failure(limiter.check(request({rpm: -1})))).toMatchObject({code: 'request.amount'})
    expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 90, consumed: 10})
  })

  it('D-22 writes only whole numbers', async () => {
    const limiter = scene.limiter()
    const lease = await limiter.acquire(request({rpm: 7, tpm: 333}))
    scene.nowMs += 7_777
    await limiter.acquire(request({rpm: 100}))
    await lease.adjust({tpm: -100})
    for (const [name, value] of Object.entries((await python.item()) ?? {})) {
      if ('N' in value) expect(value.N, name).toMatch(/^-?\d+$/)
    }
  })

  it.each(['PK', 'SK', 'GSI4PK', 'GSI4SK', 'ttl'])(
    'D-43 rejects a resource named %s before anything is written',
    async resource => {
      expect(await failure(scene.limiter().acquire({entity: 'user-1', resource, consume: {rpm: 1}}))).toMatchObject({
        code: 'name.invalid',
      })
      expect(scene.calls).toEqual([])
    },
  )

  it.each(['ttl', 'window', 'window_start', 'resource', 'entity_id', 'total_events', 'PK', 'GSI2SK'])(
    'D-43 rejects a limit named %s before anything is written',
    async limit => {
      expect(await failure(scene.limiter().acquire(request({[limit]: 1})))).toMatchObject({code: 'name.invalid'})
      await expect(async () => scene.configure({level: 'system'}, `${limit}=1/min`)).rejects.toMatchObject({
        code: 'name.invalid',
      })
      expect(scene.calls).toEqual([])
    },
  )

  it('D-43 keeps limits apart whose names look like attributes of other limits', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'a=10/min', 'a_tk=20/min', 'a_tk_tc=30/min')
    const limiter = scene.limiter()
    await limiter.acquire(request({a: 1, a_tk: 2, a_tk_tc: 3}))
    await python.set({unrelated: n(1)})
    await scene.limiter().acquire(request({a: 1, a_tk: 2, a_tk_tc: 3}))
    expect(await limiter.available({entity: 'user-1', resource: 'gpt-4'})).toEqual({a: 8, a_tk: 16, a_tk_tc: 24})
  })
})
