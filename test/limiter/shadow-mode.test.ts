import {beforeEach, expect, it} from 'vitest'
import type {Lease} from '../../src/lib/limiter/lease.js'
import {
  RateLimitExceeded,
  RateLimiterUnavailable,
  RequestTooLarge,
  ResourceDisabled,
} from '../../src/lib/limiter/refusal/errors.js'
import type {DecisionEvent} from '../../src/lib/limiter/request/decision-event.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {readRefusals} from '../../src/lib/schema/refusal-counts.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {request} from './visit.js'

const shadow = (consume: Record<string, number>) => ({...request(consume), enforce: false})

describeOnBoth('shadow mode', {}, table => {
  let scene: Scene
  let events: DecisionEvent[]
  const onDecision = (event: DecisionEvent) => void events.push(event)
  const last = () => events.at(-1) as DecisionEvent
  beforeEach(async () => {
    scene = new Scene(table)
    events = []
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/min', 'tpm=1000/min')
  })

  const item = async (entity = 'user-1') => {
    const Key = wireKey(keys.bucket(scene.namespace, entity, 'gpt-4', 0))
    return (await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})).Item ?? {}
  }

  it('charges a request that fits as always', async () => {
    const limiter = scene.limiter({onDecision})
    const decision = await limiter.tryAcquire(shadow({rpm: 4}))
    expect(decision).toMatchObject({admitted: true, wouldRefuse: undefined, share: 0.4, lease: {isMetered: true}})
    expect(last()).toMatchObject({outcome: 'admitted', reason: undefined, error: undefined})
    expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 6, consumed: 4})
  })

  it('S4 admits a request that would be refused, and changes neither balances nor refusal counts', async () => {
    const limiter = scene.limiter({onDecision})
    await limiter.acquire(request({rpm: 9, tpm: 100}))
    const before = await item()
    const decision = await limiter.tryAcquire(shadow({rpm: 2, tpm: 10}))
    if (!decision.admitted) throw new Error('refused')
    expect(decision.wouldRefuse).toBeInstanceOf(RateLimitExceeded)
    expect(decision).toMatchObject({
      wouldRefuse: {retryAfterMs: 6001, statuses: [{name: 'rpm', exceeded: true}, {name: 'tpm'}]},
      limits: {rpm: {available: 1, requested: 2}, tpm: {available: 900}},
      share: 0.9,
      lease: {isMetered: false},
    })
    expect(decision.headers().RateLimit).toContain('"rpm";r=1;')
    expect(decision.headers()).not.toHaveProperty('Retry-After')
    expect(last()).toMatchObject({
      outcome: 'would-refuse',
      reason: 'exceeded',
      refusedBy: {resource: 'gpt-4', limit: 'rpm', level: 'entity'},
      retryAfterMs: 6001,
      limits: {rpm: {available: 1}},
      share: 0.9,
    })
    expect(last().error).toBe(decision.wouldRefuse)
    await limiter.close()
    expect(await item()).toEqual(before)
  })

  it('counts refusals of other requests, but not those of shadow mode', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 10}))
    for (const enforce of [false, true, false]) await limiter.tryAcquire({...request({rpm: 1}), enforce})
    await limiter.close()
    expect(readRefusals(await item())).toMatchObject({requests: 1})
  })

  it('charges nothing for settlements of a request that would be refused', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 10}))
    const before = await item()
    const lease = await limiter.acquire(shadow({rpm: 1, tpm: 500}))
    await lease.adjust({tpm: 400})
    await lease.consume({tpm: 5})
    await lease.release({tpm: 900})
    expect(lease.consumed).toEqual({})
    await lease.rollback()
    await limiter.withLease(shadow({rpm: 1}), each => each.adjust({tpm: 100}))
    expect(await item()).toEqual(before)
  })

  it('takes no further tokens that do not fit, and does not refuse them', async () => {
    const limiter = scene.limiter()
    const lease = await limiter.acquire(shadow({rpm: 9, tpm: 1}))
    await lease.consume({rpm: 2})
    await lease.consume({rpm: 11})
    expect(lease.consumed).toEqual({rpm: 9, tpm: 1})
    await limiter.close()
    expect(readRefusals(await item())?.requests ?? 0).toBe(0)
    expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 1, consumed: 9})
  })

  it('admits oversized requests, disabled resources and requests in an outage', async () => {
    const wouldRefuse = async (consume: Record<string, number>) =>
      (await scene.limiter({onDecision, timeoutMs: 500}).acquire(shadow(consume))).wouldRefuse
    expect(await wouldRefuse({rpm: 11})).toBeInstanceOf(RequestTooLarge)
    expect(last()).toMatchObject({outcome: 'would-refuse', reason: 'too-large', refusedBy: {limit: 'rpm'}})
    const repository = new NamespaceRepository(scene.tenant, undefined)
    await repository.setAccess({level: 'resource', resource: 'gpt-4'}, 'disabled')
    expect(await wouldRefuse({rpm: 1})).toBeInstanceOf(ResourceDisabled)
    expect(last()).toMatchObject({outcome: 'would-refuse', reason: 'disabled', limits: {}, share: undefined})
    scene.transport = {send: () => new Promise(() => {})}
    expect(await wouldRefuse({rpm: 1})).toBeInstanceOf(RateLimiterUnavailable)
    expect(last()).toMatchObject({outcome: 'would-refuse', reason: 'unavailable', refusedBy: undefined})
  })

  it('ignores an outage when it settles', async () => {
    const limiter = scene.limiter({timeoutMs: 500, sleep: async () => {}})
    const leases: Lease[] = []
    for (const enforce of [false, true]) leases.push(await limiter.acquire({...request({rpm: 1}), enforce}))
    scene.transport = {send: () => new Promise(() => {})}
    const outcomes = await Promise.allSettled(leases.map(lease => lease.consume({rpm: 1})))
    expect(outcomes.map(({status}) => status)).toEqual(['fulfilled', 'rejected'])
  })

  it('does not wait', async () => {
    const waits: number[] = []
    const limiter = scene.limiter({sleep: async ms => void waits.push(ms)})
    await limiter.acquire(request({rpm: 10}))
    const patient = {...shadow({rpm: 1}), waitMs: 60_000, onWait: (ms: number) => waits.push(ms)}
    expect(await limiter.tryAcquire(patient)).toMatchObject({admitted: true, wouldRefuse: {retryAfterMs: 6001}})
    expect(waits).toEqual([])
  })

  it('S5 charges no resource if one of them would refuse', async () => {
    await scene.configure({level: 'resource', resource: 'search'}, 'rpm=1/min')
    const limiter = scene.limiter({onDecision})
    const both = {...shadow({rpm: 1}), resources: {search: {rpm: 1}}}
    expect((await limiter.acquire(both)).wouldRefuse).toBeUndefined()
    const lease = await limiter.acquire(both)
    expect(lease.wouldRefuse).toBeInstanceOf(RateLimitExceeded)
    expect(lease.resources('search').isMetered).toBe(false)
    expect(last()).toMatchObject({outcome: 'would-refuse', refusedBy: {resource: 'search'}})
    await limiter.settled()
    expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 9, consumed: 1})
    expect(await scene.totals('user-1', 'search', 'rpm')).toEqual({tokens: 0, consumed: 1})
  })

  it('still throws errors, and accepts no other value', async () => {
    const limiter = scene.limiter()
    await expect(limiter.acquire({...shadow({rpm: 1}), resource: 'unknown'})).rejects.toMatchObject({
      code: 'limits.missing',
    })
    await expect(limiter.acquire({...request({rpm: 1}), enforce: 'false' as never})).rejects.toMatchObject({
      code: 'option.invalid',
      message: 'enforce must be true or false, not "false".',
    })
  })
})
