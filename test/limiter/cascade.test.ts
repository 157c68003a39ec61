import {beforeEach, describe, expect, it} from 'vitest'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {PythonPeer} from '../helpers/python-peer.js'
import {refusal, request} from './visit.js'

const PERIOD_MS = 60_000

describeOnBoth('cascade', {}, table => {
  let scene: Scene
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/day')
  })

  const consumed = async (entity: string) => (await scene.totals(entity, 'gpt-4', 'rpm')).consumed

  describe('D-23 a full parent', () => {
    beforeEach(async () => {
      await scene.entity('user-1', 'team-1')
      await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'rpm=10/min')
      await scene.limiter().acquire(request({rpm: 10}))
    })

    it.each([
      ['one after the other', 0],
      ['side by side', 1],
    ])('D-23 refuses with the true wait, without wcu (asked %s)', async (_, admittedBefore) => {
      const limiter = scene.limiter({denyCacheMs: 0})
      if (admittedBefore > 0) {
        scene.nowMs += 6000
        await limiter.acquire(request({rpm: 1}))
      }
      const error = await refusal(limiter.acquire({...request({rpm: 5}), onUnavailable: 'allow'}))
      expect(error.retryAfterMs).toBe(30_001)
      expect(error.statuses.filter(({exceeded}) => exceeded)).toMatchObject([
        {entity: 'team-1', level: 'parent', name: 'rpm', available: 0, requested: 5, capacity: 10},
      ])
      expect(JSON.stringify([error.statuses, error, error.message, error.details, error.headers()])).not.toContain(
        'wcu',
      )
      await limiter.settled()
      expect(await consumed('user-1')).toBe(10 + admittedBefore)
      expect(await consumed('team-1')).toBe(10 + admittedBefore)
      scene.nowMs += error.retryAfterMs
      await limiter.acquire(request({rpm: 5}))
      expect(await consumed('team-1')).toBe(15 + admittedBefore)
    })

    it('D-23 reports the longer wait if both refuse', async () => {
      await scene.configure({level: 'entity', entity: 'user-1', resource: 'gpt-4'}, 'rpm=10/hour')
      const limiter = scene.limiter()
      // The child then has its new limit and, like its parent, nothing left.
      scene.nowMs += PERIOD_MS
      await limiter.acquire(request({rpm: 10}))
      const error = await refusal(limiter.acquire(request({rpm: 10})))
      expect(error.retryAfterMs).toBe(3_600_001)
      expect(error.statuses).toMatchObject([
        {entity: 'user-1', level: 'entity', exceeded: true, retryAfterMs: 3_600_001},
        {entity: 'team-1', level: 'parent', exceeded: true, retryAfterMs: 60_001},
      ])
      scene.nowMs += error.retryAfterMs
      await limiter.acquire(request({rpm: 10}))
    })

    it('L2 includes charges of another process to the parent in the wait', async () => {
      await scene.entity('user-2', 'team-1')
      await scene.configure({level: 'entity', entity: 'user-1', resource: 'gpt-4'}, 'rpm=10/30sec')
      const limiter = scene.limiter()
      scene.nowMs += 60_000
      await limiter.acquire(request({rpm: 1}, 'user-2'))
      scene.nowMs += 6000
      await scene.limiter().acquire(request({rpm: 10}))
      scene.nowMs += 3000
      // The child, which is asked alone while its parent is unknown, has 1; the parent has half a token.
      const error = await refusal(limiter.acquire(request({rpm: 10})))
      expect(error.retryAfterMs).toBe(57_001)
      scene.nowMs += error.retryAfterMs
      await limiter.acquire(request({rpm: 10}))
    })
  })

  describe('D-25 changes of cascade and parent', () => {
    it('D-25 charges the parent within one cache period if the entity is created after its bucket', async () => {
      const limiter = scene.limiter()
      await limiter.acquire(request({rpm: 1}))
      await scene.entity('user-1', 'team-1')
      scene.nowMs += PERIOD_MS
      for (let admitted = 0; admitted < 5; admitted++) await limiter.acquire(request({rpm: 1}))
      expect(await consumed('team-1')).toBe(5)
      expect(await new PythonPeer(scene).item()).toMatchObject({cascade: {BOOL: true}, parent_id: {S: 'team-1'}})
      // Other processes see it in the bucket.
      await scene.limiter().acquire(request({rpm: 1}))
      expect(await consumed('team-1')).toBe(6)
    })

    it('D-25 reads the entity consistently at the first acquire after its creation', async () => {
      const consistent: unknown[] = []
      const {transport} = scene
      scene.transport = {
        send: (operation, input, options) => {
          if (operation === 'GetItem') consistent.push((input as {ConsistentRead?: boolean}).ConsistentRead)
          return transport.send(operation, input, options)
        },
      }
      await scene.entity('user-1', 'team-1')
      await scene.limiter().acquire(request({rpm: 1}))
      expect(new Set(consistent)).toEqual(new Set([true]))
      expect(await consumed('team-1')).toBe(1)
    })

    it('D-25 charges a new parent within one cache period, and leaves nothing on the old one', async () => {
      await scene.entity('user-1', 'team-1')
      const limiter = scene.limiter()
      const other = scene.limiter()
      for (const each of [limiter, other]) await each.acquire(request({rpm: 1}))
      await scene.entity('user-1', 'team-2')
      scene.nowMs += PERIOD_MS
      for (const each of [limiter, other]) {
        await each.acquire(request({rpm: 1}))
        await each.acquire(request({rpm: 1}))
      }
      for (const each of [limiter, other]) await each.settled()
      expect(await consumed('team-1')).toBe(2)
      expect(await consumed('team-2')).toBe(4)
      expect(await consumed('user-1')).toBe(6)
    })

    it.each(['team-2', undefined])(
      'D-25 refunds the former parent if a process still expects it (now %s)',
      async now => {
        await scene.entity('user-1', 'team-1')
        const limiter = scene.limiter()
        await limiter.acquire(request({rpm: 1}))
        await scene.entity('user-1', now)
        // Its second decision updates the bucket from the entity's record.
        const other = scene.limiter()
        for (let admitted = 0; admitted < 2; admitted++) await other.acquire(request({rpm: 1}))
        await limiter.acquire(request({rpm: 5}))
        for (const each of [limiter, other]) await each.settled()
        const [former, present] = [await consumed('team-1'), now === undefined ? 0 : await consumed(now)]
        expect({former, present}).toEqual({former: 2, present: now === undefined ? 0 : 6})
        expect(await consumed('user-1')).toBe(8)
      },
    )

    it('D-25 refunds everything of a lease that started without a parent and took more with one', async () => {
      const limiter = scene.limiter()
      const lease = await limiter.acquire(request({rpm: 1}))
      await scene.entity('user-1', 'team-1')
      scene.nowMs += PERIOD_MS
      await lease.consume({rpm: 5})
      expect(await consumed('team-1')).toBe(5)
      await lease.rollback()
      expect(await consumed('team-1')).toBe(0)
      expect(await consumed('user-1')).toBe(0)
    })

    it('D-25 stops charging the parent within one cache period after cascade ends', async () => {
      await scene.entity('user-1', 'team-1')
      const limiter = scene.limiter()
      await limiter.acquire(request({rpm: 1}))
      await scene.entity('user-1')
      scene.nowMs += PERIOD_MS
      for (let admitted = 0; admitted < 3; admitted++) await limiter.acquire(request({rpm: 1}))
      await limiter.settled()
      expect(await consumed('team-1')).toBe(1)
      expect(await consumed('user-1')).toBe(4)
    })
  })

  it('D-26 charges exactly child and parent, never a grandparent', async () => {
    await scene.entity('user-1', 'team-1')
    await scene.entity('team-1', 'org-1')
    const limiter = scene.limiter()
    // The parent's own bucket is known to cascade, which misled the sequential path.
    await limiter.acquire(request({rpm: 2}, 'team-1'))
    expect(await consumed('org-1')).toBe(2)
    const leases = []
    for (let admitted = 0; admitted < 3; admitted++) leases.push(await limiter.acquire(request({rpm: 1})))
    leases.push(await scene.limiter().acquire(request({rpm: 1})))
    expect(await consumed('user-1')).toBe(4)
    expect(await consumed('team-1')).toBe(6)
    expect(await consumed('org-1')).toBe(2)
    for (const lease of leases) await lease.rollback()
    expect(await consumed('user-1')).toBe(0)
    expect(await consumed('team-1')).toBe(2)
    expect(await consumed('org-1')).toBe(2)
  })
})
