import {beforeEach, expect, it} from 'vitest'
import type {Lease} from '../../src/lib/limiter/lease.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {CHILDREN, useFleet} from './fleet.js'
import {type PeerScene, usePeers} from './peers.js'
import {describeWithPeers, limit, quota} from './python-client.js'

const ENTITY = {level: 'entity', entity: 'u', resource: 'gpt'} as const

describeWithPeers('a bypass shared with zae-limiter 0.17', () => {
  const peers = usePeers('0.17')
  let scene: PeerScene

  beforeEach(async () => {
    scene = await peers.currentScene()
    await scene.client.repository('set_resource_defaults', {resource: 'gpt', limits: [limit('rpm', 10, 86_400)]})
  })

  const rpm = () => scene.totals('u', 'gpt', 'rpm')
  const python = (tokens: number, options = {}) => scene.client.acquire('u', 'gpt', {rpm: tokens}, options)
  const zael = (limiter: RateLimiter, tokens: number) =>
    limiter.acquire({entity: 'u', resource: 'gpt', consume: {rpm: tokens}})
  const set = (who: 'python' | 'zael', access: 'bypass' | undefined) => {
    if (who === 'zael') return scene.repository.setAccess(ENTITY, access)
    return scene.client.repository(access ? 'bypass_entity' : 'clear_entity_disabled', {
      entity_id: 'u',
      resource: 'gpt',
    })
  }

  it.each([
    ['python', 'zael'],
    ['zael', 'python'],
  ] as const)(
    'G9: admits, counts and takes nothing if %s sets and %s ends it; no token is created or lost',
    async (sets, ends) => {
      await using running = scene.limiter()
      expect(await python(1, {times: 2})).toMatchObject({admitted: 2, bypassed: 0})
      for (let at = 0; at < 2; at++) expect((await zael(running, 1)).bypassed).toBe(false)
      await set(sets, 'bypass')
      await scene.pass(1001)
      expect(await python(9, {times: 3})).toMatchObject({admitted: 3, bypassed: 3})
      for (let at = 0; at < 3; at++) expect((await zael(running, 9)).bypassed).toBe(true)
      expect(await scene.ask('u', 'gpt', {rpm: 9}, 3)).toMatchObject({admitted: 3})
      expect(await rpm()).toEqual({tokens: 6, consumed: 4 + 81})
      await set(ends, undefined)
      expect(await python(7)).toMatchObject({admitted: 0, refused: 1})
      expect(await python(2)).toMatchObject({admitted: 1, bypassed: 0})
      expect((await running.tryAcquire({entity: 'u', resource: 'gpt', consume: {rpm: 5}})).admitted).toBe(false)
      expect((await zael(running, 4)).bypassed).toBe(false)
      expect(await rpm()).toEqual({tokens: 0, consumed: 85 + 6})
    },
  )

  it('is renewed by both beyond its deadline, on buckets that either has created', async () => {
    await using running = scene.limiter()
    await set('zael', 'bypass')
    expect(await python(9, {times: 2})).toMatchObject({admitted: 2, bypassed: 2})
    for (let at = 0; at < 2; at++) {
      await scene.pass(70_000)
      expect((await zael(running, 20)).bypassed).toBe(true)
      expect(await python(20)).toMatchObject({bypassed: 1})
      await scene.pass(70_000)
      expect(await python(20)).toMatchObject({bypassed: 1})
      expect((await zael(running, 20)).bypassed).toBe(true)
    }
    expect(await rpm()).toEqual({tokens: 10, consumed: 18 + 8 * 20})
    await scene.client.repository('bypass_entity', {entity_id: 'v', resource: 'gpt'})
    expect(await scene.ask('v', 'gpt', {rpm: 50}, 2)).toMatchObject({admitted: 2})
    expect(await scene.client.acquire('v', 'gpt', {rpm: 50})).toMatchObject({bypassed: 1})
    expect(await scene.totals('v', 'gpt', 'rpm')).toEqual({tokens: 10, consumed: 150})
  })

  it('counts settlements of leases only in the counters, whoever ended it by then', async () => {
    await using running = scene.limiter()
    await zael(running, 4)
    await set('python', 'bypass')
    await scene.pass(1001)
    expect(await python(9, {adjust: {rpm: 5}})).toMatchObject({bypassed: 1})
    expect(await python(9, {release: {rpm: 4}})).toMatchObject({bypassed: 1})
    expect(await python(9, {rollBack: true})).toMatchObject({bypassed: 1})
    const leases: Lease[] = []
    for (let at = 0; at < 3; at++) leases.push(await zael(running, 9))
    expect(await rpm()).toEqual({tokens: 6, consumed: 4 + 14 + 5 + 27})
    await set('python', undefined)
    await leases[0]?.rollback()
    await leases[1]?.adjust({rpm: 30})
    await leases[2]?.release({rpm: 2})
    expect(await rpm()).toEqual({tokens: 6, consumed: 4 + 14 + 5 + 39 + 7})
    expect(await python(6)).toMatchObject({admitted: 1, bypassed: 0})
    expect(await rpm()).toEqual({tokens: 0, consumed: 75})
  })

  it('keeps quotas as they are, and opens no session', async () => {
    const limits = [quota('rpd', 10, {cron: '0 0 * * *'}), quota('s', 10, {afterSeconds: 3600})]
    await scene.client.repository('set_limits', {entity_id: 'u', resource: 'gpt', limits})
    await set('zael', 'bypass')
    const consume = {rpd: 7, s: 7}
    expect(await scene.ask('u', 'gpt', consume, 3)).toMatchObject({admitted: 3})
    expect(await scene.client.acquire('u', 'gpt', consume, {times: 3})).toMatchObject({bypassed: 3})
    expect((await scene.bucketItem('u', 'gpt')).b_s_ws).toBeUndefined()
    await set('zael', undefined)
    expect(await scene.client.acquire('u', 'gpt', consume)).toMatchObject({admitted: 1, bypassed: 0})
    expect(await scene.ask('u', 'gpt', consume, 1)).toMatchObject({refused: 1})
    expect(await scene.ask('u', 'gpt', {rpd: 3, s: 3}, 1)).toMatchObject({admitted: 1})
    for (const name of ['rpd', 's']) expect(await scene.totals('u', 'gpt', name)).toEqual({tokens: 0, consumed: 52})
  })

  it('applies to every shard of a split bucket, whoever made it', async () => {
    await python(1)
    await scene.client.repository('bump_shard_count', {entity_id: 'u', resource: 'gpt', current_count: 1})
    await set('zael', 'bypass')
    await using running = scene.limiter()
    for (let at = 0; at < 8; at++) expect((await zael(running, 9)).bypassed).toBe(true)
    expect(await python(9, {times: 8})).toMatchObject({admitted: 8, bypassed: 8})
    await set('python', undefined)
    expect((await scene.totals('u', 'gpt', 'rpm', 2)).consumed).toBe(1 + 16 * 9)
    expect((await scene.totals('u', 'gpt', 'rpm', 2)).tokens).toBeLessThanOrEqual(9)
  })

  it('is counted as usage, for every client', async () => {
    await python(1)
    await set('zael', 'bypass')
    const records = await scene.changes(async () => {
      await scene.ask('u', 'gpt', {rpm: 9}, 2)
      await python(9, {times: 2})
    })
    await scene.aggregate(records)
    const usage = await scene.repository.usageTotals({entity: 'u', resource: 'gpt'})
    expect(usage.limits.rpm).toMatchObject({total: 36})
  })
})

describeWithPeers('a bypass that is switched under traffic of both', () => {
  const fleet = useFleet('0.17')

  it('counts every admission once, and takes every one that was not bypassed once', async () => {
    const family = await fleet.family(limit('rpm', 1000, 86_400), limit('rpm', 100_000, 86_400))
    const {scene, clients} = family
    const tenant = new NamespaceRepository(scene.tenant, undefined)
    const counts = {admitted: 0, taken: 0}
    const note = (admitted: number, bypassed: number) => {
      counts.admitted += admitted
      counts.taken += admitted - bypassed
    }
    const [entity = ''] = CHILDREN
    const scope = {level: 'entity', entity, resource: 'gpt'} as const
    const viaZael = async () => {
      await using limiter = scene.limiter()
      for (let at = 0; at < 16; at++) {
        const decision = await limiter.tryAcquire({entity, resource: 'gpt', consume: {rpm: 1}})
        if (decision.admitted) note(1, decision.bypassed ? 1 : 0)
      }
    }
    const viaPython = async (client: (typeof clients)[number]) => {
      for (let at = 0; at < 4; at++) {
        const {admitted, bypassed} = await client.acquire(entity, 'gpt', {rpm: 1}, {times: 4})
        note(admitted, bypassed)
      }
    }
    const switching = async () => {
      for (let at = 0; at < 3; at++) {
        await tenant.setAccess(scope, 'bypass')
        await scene.client.repository('clear_entity_disabled', {entity_id: entity, resource: 'gpt'})
        await scene.client.repository('bypass_entity', {entity_id: entity, resource: 'gpt'})
        await tenant.setAccess(scope, undefined)
      }
    }
    await Promise.all([viaZael(), viaZael(), ...clients.map(viaPython), switching()])
    expect(counts.admitted).toBe(64)
    expect(await scene.totals(entity, 'gpt', 'rpm')).toEqual({tokens: 1000 - counts.taken, consumed: 64})
    // The parent has no switch: it is charged for all.
    expect(await scene.totals('org', 'gpt', 'rpm')).toEqual({tokens: 100_000 - 64, consumed: 64})
  })
})
