import {beforeEach, expect, it} from 'vitest'
import {Unavailable} from '../../../src/lib/dynamo/errors.js'
import {RequestTooLarge} from '../../../src/lib/limiter/refusal/errors.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {failure, refusal, request} from '../visit.js'

describeOnBoth('several resources in one request', {}, table => {
  let scene: Scene
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/min')
    await scene.configure({level: 'resource', resource: 'search'}, 'rpm=4/min')
    await scene.configure({level: 'resource', resource: 'tools'}, 'calls=2/min')
  })

  const both = (own: number, search: number) => ({...request({rpm: own}), resources: {search: {rpm: search}}})
  const consumed = async () => [
    (await scene.totals('user-1', 'gpt-4', 'rpm')).consumed,
    (await scene.totals('user-1', 'search', 'rpm')).consumed,
  ]

  it('charges each to its own bucket, with one write each', async () => {
    const limiter = scene.limiter()
    await limiter.acquire({...both(1, 1), resources: {search: {rpm: 1}, tools: {calls: 1}}})
    scene.calls.length = 0
    const lease = await limiter.acquire({...both(2, 1), resources: {search: {rpm: 1}, tools: {calls: 1}}})
    expect(scene.calls).toEqual(['UpdateItem', 'UpdateItem', 'UpdateItem'])
    expect([lease.consumed, lease.resources('search').consumed, lease.resources('tools').consumed]).toEqual([
      {rpm: 2},
      {rpm: 1},
      {calls: 1},
    ])
    expect(lease.resources('search').limits.rpm).toMatchObject({capacity: 4, available: 2})
    expect(lease.resources('gpt-4')).toBe(lease)
    expect(await consumed()).toEqual([3, 2])
  })

  it('S4 charges none if one refuses, whether that is known or not', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(both(1, 3))
    const unknown = await refusal(scene.limiter().acquire(both(1, 2)))
    expect(unknown.statuses.filter(({exceeded}) => exceeded)).toMatchObject([{resource: 'search', available: 1}])
    await limiter.settled()
    expect(await consumed()).toEqual([1, 3])
    await refusal(limiter.acquire(both(1, 2)))
    scene.calls.length = 0
    await refusal(limiter.acquire(both(1, 2)))
    expect(scene.calls).toEqual([])
    expect(await consumed()).toEqual([1, 3])
  })

  it('L2 reports the longest wait, even of a resource that was not asked', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(both(10, 4))
    // gpt-4 regains one after 6 s, search two after 30 s.
    expect((await refusal(limiter.acquire(both(1, 2)))).retryAfterMs).toBe(30_001)
    expect((await refusal(limiter.acquire(both(6, 1)))).retryAfterMs).toBe(36_001)
    scene.nowMs += 36_001
    await limiter.acquire(both(6, 1))
  })

  it("charges all together with the entity's parent, or none", async () => {
    await scene.entity('user-1', 'team-1')
    await scene.configure({level: 'entity', entity: 'team-1', resource: 'search'}, 'rpm=1/min')
    const limiter = scene.limiter()
    await limiter.acquire(both(1, 1))
    expect((await refusal(limiter.acquire(both(1, 1)))).statuses.find(({exceeded}) => exceeded)).toMatchObject({
      entity: 'team-1',
      resource: 'search',
      level: 'parent',
    })
    await limiter.settled()
    expect(await consumed()).toEqual([1, 1])
    expect((await scene.totals('team-1', 'gpt-4', 'rpm')).consumed).toBe(1)
  })

  it('adjusts each separately, and refunds or keeps all together', async () => {
    const limiter = scene.limiter()
    const lease = await limiter.acquire(both(2, 2))
    await lease.resources('search').adjust({rpm: 1})
    await lease.resources('search').release({rpm: 2})
    expect(await consumed()).toEqual([2, 1])
    await lease.rollback()
    expect(await consumed()).toEqual([0, 0])
    const kept = await limiter.acquire(both(1, 1))
    await kept.commit()
    await expect(kept.resources('search').adjust({rpm: 1})).rejects.toMatchObject({code: 'lease.ended'})
    expect(await consumed()).toEqual([1, 1])
  })

  it('S4 charges none if the request can never fit or names an unknown limit', async () => {
    const limiter = scene.limiter()
    expect(await failure(limiter.acquire(both(1, 5)))).toBeInstanceOf(RequestTooLarge)
    const unknown = limiter.acquire({...request({rpm: 1}), resources: {search: {tpm: 1}}, strict: true})
    await expect(unknown).rejects.toMatchObject({
      code: 'limit.unknown',
    })
    await limiter.settled()
    expect((await scene.totals('user-1', 'gpt-4', 'rpm')).consumed).toBe(0)
  })

  it('admits all unmetered when the table is unavailable and the policy allows', async () => {
    scene.transport = {send: () => Promise.reject(new Unavailable('UpdateItem', false, new Error('away')))}
    const lease = await scene.limiter({onUnavailable: 'allow', timeoutMs: 50}).acquire(both(1, 1))
    expect([lease.isMetered, lease.resources('search').isMetered]).toEqual([false, false])
    await lease.resources('search').adjust({rpm: 1})
    await lease.commit()
  })

  it.each([
    ['the main resource again', {'gpt-4': {rpm: 1}}, 'request.resources'],
    ['too many', Object.fromEntries(Array.from({length: 16}, (_, i) => [`r${i}`, {rpm: 1}])), 'request.resources'],
    ['a name that is none', {'a b': {rpm: 1}}, 'name.invalid'],
    ['an amount that is none', {search: {rpm: -1}}, 'request.amount'],
  ])('rejects %s without a call', async (_, resources, code) => {
    await expect(scene.limiter().acquire({...request({rpm: 1}), resources})).rejects.toMatchObject({code})
    expect(scene.calls).toEqual([])
  })

  it('gives access only to requested resources', async () => {
    const lease = await scene.limiter().acquire(both(1, 1))
    expect(() => lease.resources('tools')).toThrow('The lease has no resource "tools", only gpt-4, search.')
  })
})
