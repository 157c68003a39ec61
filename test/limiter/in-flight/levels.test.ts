import {beforeEach, expect, it} from 'vitest'
import type {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {FaultTransport} from '../../helpers/fault-transport.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {request} from '../visit.js'
import {slotsIn} from './slots.js'

describeOnBoth('slots', {timeout: 60_000}, table => {
  let scene: Scene
  let faults: FaultTransport
  let limiter: RateLimiter
  beforeEach(() => {
    scene = new Scene(table)
    faults = new FaultTransport(table.transport)
    scene.transport = faults
    limiter = scene.limiter({sleep: async () => {}})
  })

  const free = async (entity = 'user-1', resource = 'gpt-4') =>
    (await slotsIn(scene, entity, resource))?.limits.get('parallel')?.free

  it('S10 S12 are taken from the parent too, and returned if the parent has none', async () => {
    await scene.entity('team-1')
    for (const user of ['user-1', 'user-2', 'user-3']) await scene.entity(user, 'team-1')
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min', 'parallel=5/inflight')
    await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'rpm=100/min', 'parallel=2/inflight')
    const [first, second] = [
      await limiter.acquire(request({rpm: 1}, 'user-1')),
      await limiter.acquire(request({rpm: 1}, 'user-2')),
    ]
    expect([await free('user-1'), await free('user-2'), await free('team-1')]).toEqual([4, 4, 0])
    const refused = await limiter.tryAcquire(request({rpm: 1}, 'user-3'))
    expect(refused).toMatchObject({admitted: false, reason: 'in-flight'})
    expect(refused.limits.parallel).toMatchObject({level: 'parent', capacity: 2, available: 0})
    await limiter.settled()
    expect([await free('user-3'), (await scene.totals('user-3', 'gpt-4', 'rpm')).consumed]).toEqual([5, 0])
    await first.commit()
    await second.rollback()
    expect([await free('user-1'), await free('user-2'), await free('team-1')]).toEqual([5, 5, 2])
  })

  it('S5 are taken from all resources of a request, or from none', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min', 'parallel=2/inflight')
    await scene.configure({level: 'resource', resource: 'tools'}, 'rpm=100/min', 'parallel=1/inflight')
    const both = {...request({rpm: 1}), resources: {tools: {rpm: 1}}}
    const lease = await limiter.acquire(both)
    expect([await free(), await free('user-1', 'tools')]).toEqual([1, 0])
    expect(await limiter.tryAcquire(both)).toMatchObject({admitted: false, reason: 'in-flight'})
    await limiter.settled()
    expect(await free()).toBe(1)
    await lease.commit()
    expect([await free(), await free('user-1', 'tools')]).toEqual([2, 1])
  })

  it('S12 are returned with a later write if the first one fails', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min', 'parallel=2/inflight')
    const lease = await limiter.acquire(request({rpm: 1}))
    faults.start({kind: 'unreachable', at: 1, times: 30})
    await lease.commit()
    expect(await free()).toBe(1)
    faults.stop()
    await expect.poll(() => free()).toBe(2)
    expect(limiter.cacheEntries?.queues).toBe(1)
    await limiter.close()
  })

  it.each(['lost after apply', 'lost before apply', '5xx', 'overtaken'] as const)(
    'S6 S12 are taken and returned once if any call is %s',
    async kind => {
      await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min', 'parallel=3/inflight')
      await (await limiter.acquire(request({rpm: 1}))).commit()
      for (let at = 1; at <= 4; at++) {
        faults.start({kind, at})
        const decision = await limiter.tryAcquire(request({rpm: 1}))
        if (decision.admitted) await decision.lease.commit()
        faults.stop()
        await (await limiter.acquire(request({rpm: 1}))).commit()
        await limiter.settled()
        expect({at, free: await free()}).toEqual({at, free: 3})
      }
      expect((await slotsIn(scene, 'user-1', 'gpt-4'))?.accounts.size).toBe(0)
    },
  )
})
