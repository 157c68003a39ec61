import {beforeEach, expect, it} from 'vitest'
import type {Lease} from '../../src/lib/limiter/lease.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import type {PolicyScope} from '../../src/lib/repository/limits/change-options.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {bool, type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, isAdmitted, refusal, request, splitInto} from './visit.js'

const RESOURCE = {level: 'resource', resource: 'gpt-4'} as const
const ENTITY = {level: 'entity', entity: 'user-1', resource: 'gpt-4'} as const
const DEFAULT = {level: 'entity', entity: 'user-1', resource: '_default_'} as const

describeOnBoth('a bypass', {timeout: 60_000}, table => {
  let scene: Scene
  let repository: NamespaceRepository
  beforeEach(async () => {
    scene = new Scene(table)
    repository = new NamespaceRepository(scene.tenant, undefined)
    await scene.configure(RESOURCE, 'rpm=10/day')
  })

  const key = (shard = 0, entity = 'user-1') => wireKey(keys.bucket(scene.namespace, entity, 'gpt-4', shard))
  const stored = async (Key = key()): Promise<Item | undefined> =>
    (await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})).Item
  async function stamp(attributes: Item, Key = key()): Promise<void> {
    await table.transport.send('PutItem', {
      TableName: table.name,
      Item: {...(await stored(Key)), ...Key, ...attributes},
    })
  }
  const rpm = (entity = 'user-1', shards = 1) => scene.totals(entity, 'gpt-4', 'rpm', shards)
  /** A process that has used the bucket before. */
  async function running(amount = 1): Promise<RateLimiter> {
    const limiter = scene.limiter()
    for (let at = 0; at < 2; at++) await (await limiter.acquire(request({rpm: amount}))).commit()
    return limiter
  }
  /** Sets the switch. Refusals without a call last a second (`denyCacheMs`). */
  async function bypass(scope: PolicyScope): Promise<void> {
    await repository.setAccess(scope, 'bypass')
    scene.nowMs += 1001
  }
  /** Successive requests, all of which must be admitted. */
  async function bypassed(limiter: RateLimiter, times: number, amount = 1): Promise<Lease[]> {
    const leases: Lease[] = []
    for (let at = 0; at < times; at++) leases.push(await limiter.acquire(request({rpm: amount})))
    expect(leases.map(lease => lease.bypassed)).toEqual(leases.map(() => true))
    return leases
  }

  it('admits everything in every process once the command returns, counts it and takes no tokens', async () => {
    const limiters = [await running(), await running(), scene.limiter()]
    expect((await repository.setAccess(RESOURCE, 'bypass')).buckets).toEqual({checked: 1, updated: 1, failed: 0})
    expect(await stored()).toMatchObject({bypass: n(scene.nowMs + 54_000)})
    scene.nowMs += 1001
    for (const limiter of limiters) await bypassed(limiter, 5, 7)
    expect(await rpm()).toEqual({tokens: 6, consumed: 4 + 3 * 5 * 7})
    expect((await stored())?.rq).toEqual(n(4 + 15))
    const decision = await scene.limiter().tryAcquire(request({rpm: 9}))
    expect(decision).toMatchObject({admitted: true, bypassed: true})
  })

  it('admits requests above the capacity in processes that only know the limits', async () => {
    const limiter = await running()
    const [tooLarge, refused] = [request({rpm: 500}), {admitted: false, reason: 'too-large'}]
    expect(await limiter.tryAcquire(tooLarge)).toMatchObject(refused)
    await bypass(RESOURCE)
    scene.calls.length = 0
    await bypassed(limiter, 2, 500)
    // The first write shows the switch.
    expect(scene.calls).toEqual(['UpdateItem', 'UpdateItem', 'UpdateItem'])
    await repository.setAccess(RESOURCE, undefined)
    expect(await limiter.tryAcquire(tooLarge)).toMatchObject(refused)
    // The state just seen refuses without a call.
    scene.calls.length = 0
    expect(await limiter.tryAcquire(tooLarge)).toMatchObject(refused)
    expect(scene.calls).toEqual([])
  })

  it('costs one write per request, as usual', async () => {
    const limiter = await running()
    expect((await limiter.tryAcquire(request({rpm: 1}))).admitted).toBe(true)
    await repository.setAccess(RESOURCE, 'bypass')
    await bypassed(limiter, 1)
    scene.calls.length = 0
    await bypassed(limiter, 3, 50)
    expect(scene.calls).toEqual(['UpdateItem', 'UpdateItem', 'UpdateItem'])
  })

  it('costs an unaware process two writes and no read', async () => {
    const limiter = await running()
    await repository.setAccess(RESOURCE, 'bypass')
    scene.calls.length = 0
    await bypassed(limiter, 1)
    expect(scene.calls).toEqual(['UpdateItem', 'UpdateItem'])
    await bypassed(scene.limiter(), 1)
    expect(scene.calls.slice(2)).toEqual(['UpdateItem', 'UpdateItem'])
  })

  it('admits more than the capacity, and knows the configured limits', async () => {
    await repository.setAccess(RESOURCE, 'bypass')
    const limiter = scene.limiter()
    await bypassed(limiter, 2, 1000)
    expect(await failure(limiter.acquire({...request({tpm: 1}), strict: true}))).toMatchObject({code: 'limit.unknown'})
    expect(await rpm()).toEqual({tokens: 10, consumed: 2000})
  })

  it('is stamped on a new bucket, which is full', async () => {
    await repository.setAccess(RESOURCE, 'bypass')
    await bypassed(scene.limiter(), 1, 4)
    expect(await stored()).toMatchObject({bypass: n(scene.nowMs + 54_000), b_rpm_tk: n(10_000), b_rpm_tc: n(4000)})
  })

  it('ends with its command: the earlier balance remains and refills', async () => {
    for (const access of ['enabled', undefined] as const) {
      const limiter = await running(4)
      const before = await rpm()
      await bypass(RESOURCE)
      await bypassed(limiter, 3, 20)
      await repository.setAccess(RESOURCE, access)
      expect((await stored())?.bypass).toBeUndefined()
      for (const each of [limiter, scene.limiter()])
        expect(await isAdmitted(each.acquire(request({rpm: 3})))).toBe(false)
      expect(await rpm()).toEqual({tokens: before.tokens, consumed: before.consumed + 60})
      scene.nowMs += 86_400_000
    }
  })

  it('is decided by the most specific level with a switch', async () => {
    const limiter = await running(5)
    const other = () => isAdmitted(limiter.acquire(request({rpm: 11}, 'user-2')))
    await repository.setAccess(RESOURCE, 'bypass')
    expect(await other()).toBe(true)
    await repository.setAccess(DEFAULT, 'enabled')
    expect(await isAdmitted(limiter.acquire(request({rpm: 1})))).toBe(false)
    expect(await other()).toBe(true)
    await repository.setAccess(ENTITY, 'bypass')
    await repository.setAccess(RESOURCE, 'disabled')
    scene.nowMs += 1001
    await bypassed(limiter, 2, 30)
    expect(await failure(other())).toMatchObject({code: 'resource.disabled'})
    await repository.setAccess(ENTITY, undefined)
    await repository.setAccess(DEFAULT, undefined)
    expect(await failure(limiter.acquire(request({rpm: 1})))).toMatchObject({code: 'resource.disabled'})
    expect((await stored())?.bypass).toBeUndefined()
  })

  it('is renewed by the requests it admits, before the stamp expires', async () => {
    const limiters = [await running(5), await running(0)]
    await bypass(RESOURCE)
    for (let at = 0; at < 40; at++) {
      scene.nowMs += 5000
      for (const limiter of limiters) await bypassed(limiter, 1, 50)
      expect((await scene.shards('user-1', 'gpt-4'))[0]?.bypassUntilMs).toBeGreaterThan(scene.nowMs)
    }
    expect((await rpm()).consumed).toBe(10 + 40 * 2 * 50)
  })

  it('resumes after its stamp expired on an idle bucket, while it is configured', async () => {
    const limiter = await running(5)
    await repository.setAccess(RESOURCE, 'bypass')
    scene.nowMs += 100_000
    await bypassed(limiter, 2, 50)
    expect((await stored())?.bypass).toEqual(n(scene.nowMs + 54_000))
  })

  it('ends with its stamp if another client removed it without updating the bucket, and is removed', async () => {
    const limiter = await running(4)
    await bypass(RESOURCE)
    await bypassed(limiter, 1, 20)
    const config = wireKey(keys.resourceConfig(scene.namespace, 'gpt-4'))
    await stamp({disabled: bool(false)}, config)
    await bypassed(limiter, 1, 20)
    scene.nowMs += 54_000
    expect(await isAdmitted(limiter.acquire(request({rpm: 3})))).toBe(false)
    expect(await isAdmitted(limiter.acquire(request({rpm: 2})))).toBe(true)
    expect((await stored())?.bypass).toBeUndefined()
    expect((await rpm()).consumed).toBe(8 + 40 + 2)
    expect((await rpm()).tokens).toBeCloseTo(0, 1)
  })

  it('L6 names the exceeded limit if the configuration ends it before its stamp expires', async () => {
    const limiter = await running(4)
    await bypass(RESOURCE)
    await bypassed(limiter, 1, 20)
    await stamp({disabled: bool(false)}, wireKey(keys.resourceConfig(scene.namespace, 'gpt-4')))
    // The bucket is known well enough to refuse, but must be compared with the configuration.
    scene.nowMs += 29_900
    await bypassed(limiter, 1, 20)
    scene.nowMs += 200
    expect(await limiter.tryAcquire(request({rpm: 5}))).toMatchObject({admitted: false, reason: 'exceeded'})
  })

  it('is removed by a refused request too, after it ended', async () => {
    const limiter = await running(5)
    await stamp({bypass: n(scene.nowMs - 1)})
    scene.nowMs += 1001
    await refusal(limiter.acquire(request({rpm: 5})))
    await limiter.settled()
    expect((await stored())?.bypass).toBeUndefined()
    // As written by a version without a deadline.
    await stamp({bypass: bool(true)})
    scene.nowMs += 1001
    await refusal(limiter.acquire(request({rpm: 5})))
    await limiter.settled()
    expect((await stored())?.bypass).toBeUndefined()
    expect(await rpm()).toEqual({tokens: 0, consumed: 10})
  })

  it("honours another client's stamp, and its configuration if the stamp is missing", async () => {
    const limiter = await running(5)
    await stamp({bypass: n(scene.nowMs + 48_000)})
    scene.nowMs += 1001
    await bypassed(limiter, 2, 9)
    await stamp({bypass: n(scene.nowMs)})
    await refusal(limiter.acquire(request({rpm: 1})))
    expect((await rpm()).consumed).toBe(10 + 18)
    await stamp({disabled: s('bypass')}, wireKey(keys.resourceConfig(scene.namespace, 'gpt-4')))
    scene.nowMs += 60_000
    await bypassed(limiter, 2, 20)
    expect((await stored())?.bypass).toEqual(n(scene.nowMs + 54_000))
    expect((await rpm()).consumed).toBe(10 + 18 + 40)
  })

  it('is noticed by an aware process before it refuses for lack of tokens', async () => {
    await running(4)
    await stamp({disabled: s('bypass')}, wireKey(keys.resourceConfig(scene.namespace, 'gpt-4')))
    const limiter = scene.limiter()
    await limiter.check(request({rpm: 1}))
    await bypassed(limiter, 1, 5)
    expect(await rpm()).toEqual({tokens: 2, consumed: 13})
  })

  it('is stamped for a time that starts with the configuration read, however often others read it', async () => {
    await repository.setAccess(RESOURCE, 'bypass')
    const limiter = scene.limiter({configCacheMs: 40_000})
    await bypassed(limiter, 1, 5)
    scene.nowMs += 25_000
    await limiter.check(request({rpm: 1}))
    await stamp({disabled: bool(false)}, wireKey(keys.resourceConfig(scene.namespace, 'gpt-4')))
    scene.nowMs += 17_000
    expect((await limiter.acquire(request({rpm: 2}))).bypassed).toBe(false)
    expect(await rpm()).toEqual({tokens: 8, consumed: 7})
  })

  it('G9 counts settlements of leases and moves no tokens, whatever the switch is by then', async () => {
    const limiter = await running(2)
    await bypass(ENTITY)
    const [kept, returned, disposed, adjusted] = (await bypassed(limiter, 4, 20)) as [Lease, Lease, Lease, Lease]
    await adjusted.adjust({rpm: 5})
    await adjusted.release({rpm: 10})
    await repository.setAccess(ENTITY, 'enabled')
    const enforced = await limiter.acquire(request({rpm: 2}))
    expect(enforced.bypassed).toBe(false)
    expect(await rpm()).toEqual({tokens: 4, consumed: 6 + 3 * 20 + 15})
    await Promise.all([
      kept.commit(),
      returned.rollback(),
      disposed[Symbol.asyncDispose](),
      adjusted.adjust({rpm: 7}),
      enforced.adjust({rpm: -1}),
    ])
    expect(await rpm()).toEqual({tokens: 5, consumed: 5 + 20 + 22})
    expect((await stored())?.rq).toEqual(n(2 + 2 + 1))
    expect(kept.consumed).toEqual({rpm: 20})
    for (const lease of [kept, returned, adjusted]) expect(lease.limits.rpm?.available).toBe(6)
    expect(adjusted.consumed).toEqual({rpm: 22})
    await repository.setAccess(ENTITY, 'bypass')
    await enforced.rollback()
    expect(await rpm()).toEqual({tokens: 6, consumed: 4 + 20 + 22})
  })

  it('follows the current switch when a lease takes more', async () => {
    const limiter = await running(2)
    await bypass(ENTITY)
    const [lease] = (await bypassed(limiter, 1, 20)) as [Lease]
    await lease.consume({rpm: 30})
    await repository.setAccess(ENTITY, undefined)
    await lease.consume({rpm: 5})
    await refusal(lease.consume({rpm: 5}))
    expect(await rpm()).toEqual({tokens: 1, consumed: 4 + 50 + 5})
    await lease.rollback()
    expect(await rpm()).toEqual({tokens: 6, consumed: 4})
  })

  it('is refunded to the counters, even after a reset or changed limits', async () => {
    const limiter = await running(4)
    await bypass(ENTITY)
    const [first, second] = (await bypassed(limiter, 2, 20)) as [Lease, Lease]
    await repository.resetBucket({entity: 'user-1', resource: 'gpt-4'})
    await first.rollback()
    expect(await rpm()).toEqual({tokens: 10, consumed: 8 + 20})
    await repository.setLimits(RESOURCE, [{name: 'rpm', capacity: 3, refillAmount: 3, refillPeriodSeconds: 86_400}])
    await second.release({rpm: 5})
    expect(await rpm()).toEqual({tokens: 3, consumed: 8 + 15})
    await bypassed(limiter, 2, 9)
    expect(await rpm()).toEqual({tokens: 3, consumed: 8 + 15 + 18})
  })

  it('does not change the switch of the parent', async () => {
    await scene.entity('team')
    await scene.entity('user-1', 'team')
    const limiter = scene.limiter()
    const lease = await limiter.acquire(request({rpm: 4}))
    await repository.setAccess(ENTITY, 'bypass')
    scene.nowMs += 1001
    const [own] = (await bypassed(limiter, 1, 5)) as [Lease]
    expect(await rpm('team')).toEqual({tokens: 1, consumed: 9})
    expect(
      (await refusal(limiter.acquire(request({rpm: 2})))).statuses.filter(status => status.exceeded),
    ).toMatchObject([{level: 'parent', entity: 'team'}])
    expect(await rpm()).toEqual({tokens: 6, consumed: 9})
    await own.rollback()
    expect(await rpm('team')).toEqual({tokens: 6, consumed: 4})
    await repository.setAccess({level: 'entity', entity: 'team', resource: 'gpt-4'}, 'bypass')
    await repository.setAccess(ENTITY, undefined)
    scene.nowMs += 1001
    const shared = await limiter.acquire(request({rpm: 6}))
    expect(shared.bypassed).toBe(false)
    expect(await rpm('team')).toEqual({tokens: 6, consumed: 10})
    await shared.rollback()
    await lease.rollback()
    expect(await rpm('team')).toEqual({tokens: 10, consumed: 0})
  })

  it('applies to every shard, including later ones, and moves no tokens', async () => {
    const limiter = await running(2)
    await splitInto(scene, 2)
    expect((await repository.setAccess(ENTITY, 'bypass')).buckets.updated).toBe(2)
    await splitInto(scene, 4)
    for (const shard of [0, 1, 2, 3]) expect((await stored(key(shard)))?.bypass).toEqual(n(scene.nowMs + 54_000))
    scene.nowMs += 1001
    await bypassed(limiter, 12, 9)
    expect(await rpm('user-1', 4)).toEqual({tokens: 6, consumed: 4 + 12 * 9})
    await repository.setAccess(ENTITY, undefined)
    expect(await isAdmitted(scene.limiter().acquire(request({rpm: 7})))).toBe(false)
    expect(await isAdmitted(scene.limiter().acquire(request({rpm: 6})))).toBe(true)
  })

  it('admits requests that unstamped shards refuse, and stamps these shards', async () => {
    const limiter = await running(2)
    await splitInto(scene, 4)
    await stamp({disabled: s('bypass')}, wireKey(keys.resourceConfig(scene.namespace, 'gpt-4')))
    await stamp({bypass: n(scene.nowMs + 50_000)}, key(3))
    scene.nowMs += 1001
    for (let at = 0; at < 12; at++) await bypassed(scene.limiter(), 1, 9)
    await bypassed(limiter, 3, 9)
    expect(await rpm('user-1', 4)).toEqual({tokens: 6, consumed: 4 + 15 * 9})
  })

  it('is removed from the remaining shards by a request that needs all shards', async () => {
    const limiter = await running(2)
    await splitInto(scene, 4)
    await limiter.acquire(request({rpm: 0}))
    for (const shard of [1, 2]) await stamp({bypass: n(scene.nowMs - 1)}, key(shard))
    scene.nowMs += 1001
    expect(await isAdmitted(limiter.acquire(request({rpm: 6})))).toBe(true)
    expect(await rpm('user-1', 4)).toEqual({tokens: 0, consumed: 10})
    expect((await stored(key(1)))?.bypass ?? (await stored(key(2)))?.bypass).toBeUndefined()
  })

  it('does not refuse checks either', async () => {
    const limiter = await running(5)
    const whose = {entity: 'user-1', resource: 'gpt-4'}
    expect(await limiter.check({...whose, consume: {rpm: 1}})).toMatchObject({admitted: false})
    await repository.setAccess(ENTITY, 'bypass')
    expect(await scene.limiter().check({...whose, consume: {rpm: 99}})).toMatchObject({admitted: true, retryAfterMs: 0})
    expect(await scene.limiter().timeUntilAvailable({...whose, consume: {rpm: 99}})).toBe(0)
    // The balance stays.
    expect(await scene.limiter().available(whose)).toEqual({rpm: 0})
  })

  it('admits one resource together with the others, or none', async () => {
    await scene.configure({level: 'resource', resource: 'files'}, 'rpm=3/min')
    await repository.setAccess(RESOURCE, 'bypass')
    const limiter = scene.limiter()
    const both = {...request({rpm: 50}), resources: {files: {rpm: 2}}}
    const lease = await limiter.acquire(both)
    expect([lease.bypassed, lease.resources('files').bypassed]).toEqual([true, false])
    await refusal(limiter.acquire(both))
    expect(await rpm()).toEqual({tokens: 10, consumed: 50})
  })

  it('neither opens a session nor ends one early', async () => {
    await scene.configure(RESOURCE, 'rpm=10/hour!')
    await repository.setAccess(RESOURCE, 'bypass')
    const limiter = scene.limiter()
    await bypassed(limiter, 3, 5)
    expect(await stored()).toMatchObject({b_rpm_tk: n(10_000), b_rpm_tc: n(15_000), vu: n(0)})
    expect((await stored())?.b_rpm_ws).toBeUndefined()
    scene.calls.length = 0
    await bypassed(limiter, 2, 5)
    expect(scene.calls).toEqual(['UpdateItem', 'UpdateItem'])
    scene.nowMs += 40_000
    await bypassed(limiter, 2, 5)
    expect((await stored())?.b_rpm_ws).toBeUndefined()
    scene.nowMs += 1000
    await repository.setAccess(RESOURCE, undefined)
    expect(await isAdmitted(limiter.acquire(request({rpm: 11})))).toBe(false)
    expect(await isAdmitted(limiter.acquire(request({rpm: 10})))).toBe(true)
    expect(await stored()).toMatchObject({b_rpm_tk: n(0), b_rpm_ws: n(scene.nowMs)})
  })

  it('counts nothing as taken from a session that another shard opened', async () => {
    await scene.configure(RESOURCE, 'rpm=10/hour!')
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    await splitInto(scene, 2)
    const startMs = scene.nowMs + 3_600_000
    scene.nowMs = startMs + 1000
    for (const shard of [0, 1]) await stamp({b_rpm_ws: n(startMs), vu: n(0)}, key(shard))
    for (const shard of [0, 1])
      await stamp({b_rpm_wtc: (await stored(key(shard)))?.b_rpm_tc as Item[string]}, key(shard))
    await repository.setAccess(RESOURCE, 'bypass')
    for (let at = 0; at < 4; at++) await bypassed(scene.limiter({random: () => (at % 2) / 2}), 1, 3)
    await repository.setAccess(RESOURCE, undefined)
    expect(await isAdmitted(scene.limiter().acquire(request({rpm: 10})))).toBe(true)
    expect(await rpm('user-1', 2)).toEqual({tokens: 0, consumed: 1 + 12 + 10})
  })

  it('does not change a calendar quota across its reset', async () => {
    await scene.configure(RESOURCE, 'rpm=10/hour@UTC')
    const limiter = await running(4)
    await bypass(RESOURCE)
    await bypassed(limiter, 2, 9)
    await bypassed(limiter, 2, 50)
    expect((await rpm()).tokens).toBe(2)
    const [lease] = (await bypassed(limiter, 1, 50)) as [Lease]
    scene.nowMs += 3_600_000
    await bypassed(limiter, 2, 50)
    await lease.rollback()
    await repository.setAccess(RESOURCE, undefined)
    expect(await isAdmitted(limiter.acquire(request({rpm: 10})))).toBe(true)
    expect(await rpm()).toEqual({tokens: 0, consumed: 8 + 18 + 200 + 10})
  })

  it('ends at its instant in every process, with the mark on the bucket', async () => {
    const limiter = await running(5)
    const endMs = Math.ceil((scene.nowMs + 600_000) / 60_000) * 60_000
    await repository.setAccess(ENTITY, 'bypass', {until: new Date(endMs)})
    const other = scene.limiter({configCacheMs: 600_000})
    scene.nowMs += 1001
    for (const atMs of [scene.nowMs, endMs - 30_000, endMs - 1]) {
      scene.nowMs = atMs
      for (const each of [limiter, other]) await bypassed(each, 2, 50)
    }
    expect((await stored())?.bypass).toEqual(n(endMs))
    scene.nowMs = endMs
    for (const each of [limiter, other, scene.limiter()])
      expect(await isAdmitted(each.acquire(request({rpm: 6})))).toBe(false)
    expect(await stored()).not.toHaveProperty('bypass')
  })
})
