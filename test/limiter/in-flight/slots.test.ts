import {beforeEach, expect, it} from 'vitest'
import type {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import type {DecisionEvent} from '../../../src/lib/limiter/request/decision-event.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {keys, wireKey} from '../../../src/lib/schema/keys.js'
import type {BucketSlots} from '../../../src/lib/schema/slot-attributes.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {request, splitInto} from '../visit.js'
import {slotsIn} from './slots.js'

/** Getters of an event. */
const pick = ({limits, share}: DecisionEvent) => ({limits, share})

const held = (slots: BucketSlots | undefined) =>
  [...(slots?.accounts.values() ?? [])].map(account => account.held.get('parallel') ?? 0).sort()

describeOnBoth('in-flight limits', {timeout: 60_000}, table => {
  let scene: Scene
  let [first, second]: RateLimiter[] = []
  beforeEach(async () => {
    scene = new Scene(table)
    first = scene.limiter()
    second = scene.limiter()
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1000/min', 'parallel=3/inflight')
  })

  const acquire = (limiter: RateLimiter | undefined, consume: Record<string, number> = {rpm: 1}) =>
    (limiter as RateLimiter).tryAcquire(request(consume))
  const slots = () => slotsIn(scene, 'user-1', 'gpt-4')
  const free = async () => (await slots())?.limits.get('parallel')?.free

  it('S12 admit as many requests as there are slots, over all processes', async () => {
    const decisions = [await acquire(first), await acquire(second), await acquire(first)]
    expect(decisions.map(({admitted}) => admitted)).toEqual([true, true, true])
    expect([await free(), held(await slots())]).toEqual([0, [1, 2]])
    const refused = await acquire(second)
    expect(refused).toMatchObject({admitted: false, reason: 'in-flight', retryAfterMs: 1000})
    expect(refused.limits.parallel).toMatchObject({
      capacity: 3,
      available: 0,
      requested: 1,
      exceeded: true,
      inFlight: true,
    })
    expect((await scene.totals('user-1', 'gpt-4', 'rpm')).consumed).toBe(3)
    expect(await first?.check(request({rpm: 1}))).toMatchObject({admitted: false, retryAfterMs: 1000, unlimited: []})
    for (const decision of decisions) if (decision.admitted) await decision.lease.commit()
    expect([await free(), held(await slots())]).toEqual([3, []])
    await first?.settled()
    expect((await acquire(second)).admitted).toBe(true)
  })

  it('L2 S12 refuse a new process with their wait alone, whatever else it asks for', async () => {
    await Promise.all([1, 2, 3].map(() => acquire(first)))
    // The second time, the process knows the refusal.
    for (const refused of [await acquire(second, {rpm: 1, tpm: 5}), await acquire(second, {rpm: 1, tpm: 5})]) {
      expect(refused).toMatchObject({admitted: false, reason: 'in-flight', retryAfterMs: 1000})
      expect(Object.keys(refused.limits).sort()).toEqual(['parallel', 'rpm'])
    }
  })

  it('L6 are balances of a decision, a lease and a read', async () => {
    const events: DecisionEvent[] = []
    const watched = scene.limiter({onDecision: event => void events.push({...event, ...pick(event)})})
    const decisions = [await acquire(watched), await acquire(watched), await acquire(watched), await acquire(watched)]
    const level = {capacity: 3, inFlight: true, fullAfterMs: null, refillAmount: 0}
    const after = (available: number) => ({limits: {parallel: {...level, available}}})
    const expected = [
      {...after(2), share: 1 / 3},
      {...after(1), share: 2 / 3},
      {...after(0), share: 1},
      {...after(0), share: 1},
    ]
    expect(decisions).toMatchObject(expected)
    expect(events).toMatchObject(expected)
    expect(decisions[1]?.headers().RateLimit).toMatch(/^"parallel";r=1, "rpm";r=998;t=\d+$/)
    const bucket = {entity: 'user-1', resource: 'gpt-4'}
    expect(await second?.available(bucket)).toEqual({rpm: 997, parallel: 0})
    expect(await second?.available({...bucket, entity: 'user-2'})).toEqual({rpm: 1000, parallel: 3})
    if (decisions[0]?.admitted) await decisions[0].lease.commit()
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1000/min', 'parallel=10/inflight')
    second?.invalidate()
    expect(await second?.available(bucket)).toMatchObject({parallel: 8})
  })

  it('L6 are the lower balance of the entity and its parent', async () => {
    await scene.entity('team-1')
    await scene.entity('user-1', 'team-1')
    await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'rpm=1000/min', 'parallel=1/inflight')
    const taken = await acquire(first)
    expect(taken).toMatchObject({limits: {parallel: {level: 'parent', available: 0}}, share: 1})
    expect(await second?.available({entity: 'user-1', resource: 'gpt-4'})).toMatchObject({parallel: 0})
  })

  it('take as many slots as a request names, or none', async () => {
    const two = await acquire(first, {rpm: 1, parallel: 2})
    expect(two).toMatchObject({admitted: true, unlimited: []})
    expect(await free()).toBe(1)
    expect(await acquire(second, {parallel: 2})).toMatchObject({admitted: false, reason: 'in-flight'})
    expect(await acquire(second, {rpm: 1, parallel: 0})).toMatchObject({admitted: true})
    expect(await free()).toBe(1)
    expect(await acquire(second, {parallel: 4})).toMatchObject({admitted: false, reason: 'too-large'})
    expect(await acquire(second, {parallel: 1})).toMatchObject({admitted: true})
    expect(await free()).toBe(0)
  })

  it('pass a slot from a lease that ends to the next request in one write', async () => {
    const ending = await first?.acquire({...request({rpm: 1}), settle: 'soon'})
    await ending?.commit()
    expect((await acquire(first)).admitted).toBe(true)
    expect(await free()).toBe(2)
  })

  it('L6 refuse requests of a batch by the state after it', async () => {
    await acquire(second, {rpm: 1, parallel: 2})
    await acquire(first, {rpm: 1, parallel: 0})
    const decisions = await Promise.all([acquire(first), acquire(first)])
    expect(decisions[0]?.admitted).toBe(true)
    expect(decisions[1]).toMatchObject({admitted: false, reason: 'in-flight', limits: {parallel: {available: 0}}})
  })

  it('L6 count leases of a bucket that was deleted in the next one', async () => {
    const leases = [await first?.acquire(request({rpm: 1})), await first?.acquire(request({rpm: 1, parallel: 2}))]
    const Key = wireKey(keys.bucket(scene.namespace, 'user-1', 'gpt-4', 0))
    await table.transport.send('DeleteItem', {TableName: table.name, Key})
    first?.invalidate()
    expect(await acquire(first)).toMatchObject({
      reason: 'in-flight',
      limits: {parallel: {available: 0, exceeded: true}},
    })
    for (const lease of leases) await lease?.commit()
    expect(await free()).toBe(3)
  })

  it('end when their bucket was deleted, and the next one has no in-flight limits', async () => {
    const lease = await first?.acquire(request({rpm: 1}))
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1000/min')
    await table.transport.send('DeleteItem', {
      TableName: table.name,
      Key: wireKey(keys.bucket(scene.namespace, 'user-1', 'gpt-4', 0)),
    })
    first?.invalidate()
    expect((await acquire(first)).admitted).toBe(true)
    const {calls, transport} = scene
    const most = calls.length + 20
    scene.transport = {
      send: (...call) => (calls.length < most ? transport.send(...call) : Promise.reject(new Error('too many calls'))),
    }
    await lease?.commit()
    expect(calls.length).toBeLessThan(most - 15)
  })

  it('return slots at a rollback, and with settle soon', async () => {
    const lease = await first?.acquire(request({rpm: 1}))
    await lease?.rollback()
    expect([await free(), (await scene.totals('user-1', 'gpt-4', 'rpm')).consumed]).toEqual([3, 0])
    const soon = await first?.acquire({...request({rpm: 1}), settle: 'soon'})
    await soon?.commit()
    await first?.close()
    expect(await free()).toBe(3)
  })

  it('S12 change the capacity while slots are held', async () => {
    const leases = [await first?.acquire(request({rpm: 1})), await second?.acquire(request({rpm: 1}))]
    for (const [capacity, left] of [
      [1, -1],
      [10, 8],
    ] as const) {
      await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1000/min', `parallel=${capacity}/inflight`)
      first?.invalidate()
      const decision = await acquire(first, {rpm: 1, parallel: 0})
      expect([decision.admitted, await free()]).toEqual([true, left])
    }
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1000/min')
    first?.invalidate()
    await acquire(first)
    expect((await slots())?.limits.size).toBe(0)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1000/min', 'parallel=5/inflight')
    first?.invalidate()
    await acquire(first, {rpm: 1, parallel: 0})
    expect(await free()).toBe(3)
    for (const lease of leases) await lease?.commit()
    expect(await free()).toBe(5)
  })

  it('S9 follow a command that sets their capacity, with the buckets it updates', async () => {
    const lease = await first?.acquire(request({rpm: 1}))
    const namespace = new NamespaceRepository(scene.tenant, undefined)
    await namespace.setLimits({level: 'resource', resource: 'gpt-4'}, ['rpm=1000/min', 'parallel=7/inflight'])
    expect((await slots())?.limits.get('parallel')).toEqual({capacity: 7, free: 6})
    await namespace.unsetLimit({level: 'resource', resource: 'gpt-4'}, 'parallel')
    expect((await slots())?.limits.size).toBe(0)
    await lease?.commit()
    expect(await slots()).toBe(undefined)
  })

  it('S8 count the slots of a split bucket once', async () => {
    await acquire(first)
    await splitInto(scene, 4)
    const decisions = []
    for (let index = 0; index < 4; index++) decisions.push(await acquire(second))
    expect(decisions.map(({admitted}) => admitted)).toEqual([true, true, false, false])
    expect(decisions[2]).toMatchObject({reason: 'in-flight'})
    expect((await scene.totals('user-1', 'gpt-4', 'rpm', 4)).consumed).toBe(3)
  })
})
