import {expect, it} from 'vitest'
import {slotsIn} from '../limiter/in-flight/slots.js'
import {request} from '../limiter/visit.js'
import {type PeerScene, usePeers} from './peers.js'
import {describeWithPeers, limit} from './python-client.js'

describeWithPeers.each(['0.10', '0.17'] as const)('an in-flight limit beside zae-limiter %s', release => {
  const peers = usePeers(release)

  async function sceneWith(...limits: string[]): Promise<PeerScene> {
    const scene = await peers.scene()
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1000/min', ...limits)
    return scene
  }

  const free = async (scene: PeerScene) => (await slotsIn(scene, 'user-1', 'gpt-4'))?.limits.get('parallel')?.free

  it('S12 is not seen by its requests, and keeps its slots', async () => {
    const scene = await sceneWith('parallel=2/inflight')
    await using limiter = scene.limiter()
    const lease = await limiter.acquire(request({rpm: 1}))
    expect(await scene.client.acquire('user-1', 'gpt-4', {rpm: 1}, {times: 5})).toMatchObject({admitted: 5})
    expect(await free(scene)).toBe(1)
    await lease.commit()
    expect(await free(scene)).toBe(2)
    expect((await scene.totals('user-1', 'gpt-4', 'rpm')).consumed).toBe(6)
  })

  it('S12 is in force for a bucket that it has created', async () => {
    const scene = await sceneWith('parallel=1/inflight')
    await scene.client.acquire('user-1', 'gpt-4', {rpm: 1})
    await using limiter = scene.limiter()
    // The first decision of a process on a bucket may use the limits that the bucket has.
    await (await limiter.acquire(request({rpm: 1}))).commit()
    const lease = await limiter.acquire(request({rpm: 1}))
    expect(await limiter.tryAcquire(request({rpm: 1}))).toMatchObject({admitted: false, reason: 'in-flight'})
    await lease.commit()
  })

  it('S12 counts the slots of a bucket once that it has split', async () => {
    const scene = await sceneWith('parallel=2/inflight')
    await using first = scene.limiter()
    await using second = scene.limiter()
    const lease = await first.acquire(request({rpm: 1}))
    await scene.client.repository('bump_shard_count', {entity_id: 'user-1', resource: 'gpt-4', current_count: 1})
    await scene.client.acquire('user-1', 'gpt-4', {rpm: 1}, {times: 8})
    const decisions = []
    for (let index = 0; index < 6; index++) decisions.push(await second.tryAcquire(request({rpm: 1})))
    expect(decisions.filter(({admitted}) => admitted)).toHaveLength(1)
    expect(await free(scene)).toBe(0)
    for (const decision of decisions) if (decision.admitted) await decision.lease.commit()
    await lease.commit()
    expect(await free(scene)).toBe(2)
  })

  it('is gone from a configuration that it replaces, and from the buckets', async () => {
    const scene = await sceneWith('parallel=2/inflight')
    await using limiter = scene.limiter()
    await (await limiter.acquire(request({rpm: 1}))).commit()
    await scene.client.repository('set_resource_defaults', {resource: 'gpt-4', limits: [limit('rpm', 500)]})
    limiter.invalidate()
    const leases = [1, 2, 3].map(() => limiter.acquire(request({rpm: 1})))
    expect(await Promise.all(leases)).toHaveLength(3)
    expect((await slotsIn(scene, 'user-1', 'gpt-4'))?.limits.size ?? 0).toBe(0)
  })
})
