import {beforeEach, describe, expect, it} from 'vitest'
import {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import type {RateLimiterOptions} from '../../src/lib/limiter/request/options.js'
import {Namespaces} from '../../src/lib/repository/namespaces/namespaces.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import type {TableSeams} from '../../src/lib/repository/table/open-table.js'
import {FaultTransport, faultsOf} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {slotsIn} from './in-flight/slots.js'
import {failure, isAdmitted, refusal, request} from './visit.js'

const CACHE_MS = 31_000
const LEVELS = ['key', 'user', 'team', 'org'] as const

const of = (consume: Record<string, number>, entity = 'key') => request(consume, entity)

describeOnBoth('a hierarchy of four levels', {timeout: 60_000}, table => {
  let scene: Scene
  let faults: FaultTransport
  beforeEach(async () => {
    scene = new Scene(table)
    faults = new FaultTransport(table.transport)
    scene.transport = {
      send: (operation, input, options) => {
        scene.calls.push(operation)
        return faults.send(operation, input, options)
      },
    }
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/day')
    await scene.entity('org')
    await scene.entity('team', 'org')
    await scene.entity('user', 'team')
    await scene.entity('key', 'user')
    await scene.levels('all')
  })

  const limiterOf = (options: RateLimiterOptions & TableSeams = {}) =>
    scene.limiter({sleep: async () => {}, ...options})
  const limit = (entity: string, ...limits: string[]) =>
    scene.configure({level: 'entity', entity, resource: 'gpt-4'}, ...limits)
  const consumed = async (...entities: readonly string[]) => {
    const totals = entities.map(async entity => (await scene.totals(entity, 'gpt-4', 'rpm')).consumed)
    return Promise.all(totals)
  }

  describe('charging', () => {
    it('S10 charges every level, and names the parents in the lease', async () => {
      await limit('org', 'rpm=50/day')
      const limiter = limiterOf()
      const lease = await limiter.acquire(of({rpm: 5}))
      expect(lease.parents).toEqual(['user', 'team', 'org'])
      expect(lease.parent).toBe('user')
      await limiter.acquire(of({rpm: 2}, 'team'))
      expect(await consumed(...LEVELS)).toEqual([5, 5, 7, 7])
      expect(lease.limits.rpm).toMatchObject({entity: 'org', level: 'parent', available: 45})
    })

    it('writes once per level and reads nothing when the chain is known', async () => {
      const limiter = limiterOf()
      await limiter.acquire(of({rpm: 1}))
      scene.calls.length = 0
      await limiter.acquire(of({rpm: 1}))
      expect(scene.calls).toEqual(Array(4).fill('UpdateItem'))
    })

    it('shares the write of a common ancestor between concurrent requests', async () => {
      for (const key of ['key-2', 'key-3', 'key-4']) await scene.entity(key, 'user')
      const keys = ['key', 'key-2', 'key-3', 'key-4']
      const limiter = limiterOf()
      await Promise.all(keys.map(key => limiter.acquire(of({rpm: 1}, key))))
      scene.calls.length = 0
      await Promise.all(keys.map(key => limiter.acquire(of({rpm: 1}, key))))
      // One per key; per ancestor one, and one for the requests that came while it was under way.
      expect(scene.calls.length).toBeLessThanOrEqual(4 + 3 * 2)
      expect(await consumed('user', 'team', 'org')).toEqual([8, 8, 8])
    })

    it('charges only the direct parent by default, with the same calls as before', async () => {
      await scene.levels('parent')
      const limiter = limiterOf()
      expect((await limiter.acquire(of({rpm: 1}))).parents).toEqual(['user'])
      scene.calls.length = 0
      await limiter.acquire(of({rpm: 1}))
      expect(scene.calls).toEqual(['UpdateItem', 'UpdateItem'])
      expect(await consumed(...LEVELS)).toEqual([2, 2, 0, 0])
    })

    it('stops at the first link that does not cascade, by the entity or by a policy', async () => {
      const repository = new NamespaceRepository(scene.tenant, undefined)
      await repository.setCascade({level: 'entity', entity: 'team', resource: 'gpt-4'}, false)
      const limiter = limiterOf()
      expect((await limiter.acquire(of({rpm: 1}))).parents).toEqual(['user', 'team'])
      await repository.setCascade({level: 'entity', entity: 'team', resource: 'gpt-4'}, undefined)
      await limiter.acquire(of({rpm: 1}))
      await limiter.settled()
      expect(await consumed(...LEVELS)).toEqual([2, 2, 2, 1])
    })

    it('charges at most eight levels', async () => {
      const ids = Array.from({length: 10}, (_, at) => `level-${at}`)
      for (const [at, id] of ids.entries()) await scene.entity(id, ids[at + 1])
      const limiter = limiterOf()
      for (let count = 0; count < 2; count++) await limiter.acquire(of({rpm: 1}, 'level-0'))
      expect(await consumed(...ids)).toEqual([2, 2, 2, 2, 2, 2, 2, 2, 0, 0])
    })

    it.each([
      ['itself', 'key', ['key']],
      ['its child', 'user', ['key', 'user']],
      ['a level below', 'org', ['key', 'user', 'team', 'org']],
    ])('charges no entity twice if another client has made an ancestor the child of %s', async (_, top, charged) => {
      await scene.entity(top, 'key')
      const limiter = limiterOf()
      for (let count = 0; count < 3; count++) await limiter.acquire(of({rpm: 1}))
      await limiter.acquire(of({rpm: 1}, charged.at(-1)))
      expect(await consumed(...charged)).toEqual(charged.map(() => 4))
      expect(await limiter.available({entity: 'key', resource: 'gpt-4'})).toEqual({rpm: 96})
    })
  })

  describe('the setting', () => {
    const registered = async () => {
      const namespaces = new Namespaces(scene.tenant)
      const name = `levels-${scene.namespace}`
      const {namespace} = await namespaces.register(name)
      Object.assign(scene, {namespace: namespace.id})
      await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/day')
      for (const [at, id] of LEVELS.entries()) await scene.entity(id, LEVELS[at + 1])
      return {name, namespaces}
    }

    it('is followed within the cache time by a limiter that knows the namespace by name', async () => {
      const {name, namespaces} = await registered()
      const options = {stack: table.name, transport: scene.transport, clock: () => scene.nowMs}
      const limiter = new RateLimiter({...options, namespace: name, onUnavailable: 'block'})
      await limiter.acquire(of({rpm: 1}))
      await namespaces.setLevels(name, 'all')
      scene.nowMs += CACHE_MS
      await limiter.acquire(of({rpm: 1}))
      expect(await consumed(...LEVELS)).toEqual([2, 2, 1, 1])
      await namespaces.setLevels(name, 'parent')
      scene.nowMs += CACHE_MS
      await limiter.acquire(of({rpm: 1}))
      expect(await consumed(...LEVELS)).toEqual([3, 3, 1, 1])
    })

    it('is followed within the cache time by a limiter that knows the namespace by id', async () => {
      await scene.levels('parent')
      const limiter = limiterOf()
      await limiter.acquire(of({rpm: 1}))
      await scene.levels('all')
      scene.nowMs += CACHE_MS
      for (let count = 0; count < 2; count++) await limiter.acquire(of({rpm: 1}))
      expect(await consumed(...LEVELS)).toEqual([3, 3, 2, 2])
      await scene.levels('parent')
      scene.nowMs += CACHE_MS
      for (let count = 0; count < 2; count++) await limiter.acquire(of({rpm: 1}))
      await limiter.settled()
      expect(await consumed(...LEVELS)).toEqual([5, 5, 2, 2])
    })

    it('fails the request, and charges nobody, if it is unknown and cannot be read', async () => {
      const limiter = limiterOf()
      faults.start({kind: 'lost before apply', at: 'GetItem SYSTEM# (1)', on: 'GetItem SYSTEM#', times: 1000})
      expect(await failure(limiter.acquire(of({rpm: 1})))).toMatchObject({code: 'limiter.unavailable'})
      await limiter.settled()
      expect(faults.hits).toBeGreaterThan(0)
      faults.start(undefined)
      expect(await consumed(...LEVELS)).toEqual([0, 0, 0, 0])
      await limiter.acquire(of({rpm: 1}))
      expect(await consumed(...LEVELS)).toEqual([1, 1, 1, 1])
    })

    it('is kept while the namespace is deleted, and comes back with it', async () => {
      const {name, namespaces} = await registered()
      const {id} = await namespaces.setLevels(name, 'all')
      await namespaces.delete(name)
      await expect(namespaces.setLevels(id, 'parent')).rejects.toMatchObject({code: 'namespace.state'})
      await namespaces.recover(id)
      expect([await namespaces.resolve(name), await namespaces.show(id)]).toMatchObject([
        {levels: 'all'},
        {levels: 'all'},
      ])
    })
  })

  describe('refusals', () => {
    it.each([
      ['cold', 0],
      ['warm', 1],
    ])('S10 charges nobody if the top refuses, with a %s chain', async (_, before) => {
      await limit('org', 'rpm=10/min')
      const limiter = limiterOf({denyCacheMs: 0})
      for (let count = 0; count < before; count++) await limiter.acquire(of({rpm: 1}))
      await scene.limiter().acquire(of({rpm: 8}, 'org'))
      const error = await refusal(limiter.acquire(of({rpm: 5})))
      expect(error.statuses.filter(({exceeded}) => exceeded)).toMatchObject([{entity: 'org', level: 'parent'}])
      await limiter.settled()
      expect(await consumed(...LEVELS)).toEqual([before, before, before, 8 + before])
      scene.nowMs += error.retryAfterMs
      await limiter.acquire(of({rpm: 5}))
    })

    it('refuses without a call if any level is known to refuse', async () => {
      await limit('org', 'rpm=10/min')
      const limiter = limiterOf()
      await limiter.acquire(of({rpm: 10}))
      await refusal(limiter.acquire(of({rpm: 5})))
      scene.calls.length = 0
      await refusal(limiter.acquire(of({rpm: 5})))
      expect(scene.calls).toEqual([])
      await limiter.settled()
      expect(await consumed(...LEVELS)).toEqual([10, 10, 10, 10])
    })

    it('L2 states the longest wait of all levels, whichever refused first', async () => {
      await limit('user', 'rpm=10/min')
      await limit('org', 'rpm=10/hour')
      await limiterOf().acquire(of({rpm: 10}))
      const error = await refusal(limiterOf().acquire(of({rpm: 10})))
      expect(error.retryAfterMs).toBe(3_600_001)
      expect(error.statuses.map(({entity}) => entity)).toEqual(['user', 'org'])
      scene.nowMs += error.retryAfterMs
      await limiterOf().acquire(of({rpm: 10}))
    })

    it('L2 states the wait of an ancestor, although a cache of one entity does not hold the whole path', async () => {
      await limit('team', 'rpm=10/min')
      await limit('org', 'rpm=10/hour')
      for (const limiter of [limiterOf(), limiterOf({cacheSize: 1})]) await limiter.acquire(of({rpm: 5}, 'team'))
      const limiter = limiterOf({cacheSize: 1})
      const {retryAfterMs} = await refusal(limiter.acquire(of({rpm: 1}, 'team')))
      expect((await refusal(limiter.acquire(of({rpm: 1}, 'team')))).retryAfterMs).toBe(retryAfterMs)
      expect(retryAfterMs).toBe(360_001)
    })

    it('refuses a request larger than the capacity of an ancestor as too large', async () => {
      await limit('org', 'rpm=10/min')
      const limiter = limiterOf()
      expect(await limiter.tryAcquire(of({rpm: 11}))).toMatchObject({reason: 'too-large', error: {entity: 'org'}})
      await limiter.settled()
      expect((await consumed('key', 'user', 'team')).every(tokens => tokens === 0)).toBe(true)
    })

    it('follows the switches of an ancestor', async () => {
      const repository = new NamespaceRepository(scene.tenant, undefined)
      await limit('org', 'rpm=10/min')
      const limiter = limiterOf()
      await limiter.acquire(of({rpm: 10}))
      const scope = {level: 'entity', entity: 'org', resource: '_default_'} as const
      await repository.setAccess(scope, 'bypass')
      scene.nowMs += 1001
      await limiter.acquire(of({rpm: 10}))
      expect(await consumed(...LEVELS)).toEqual([20, 20, 20, 20])
      await repository.setAccess(scope, 'disabled')
      expect(await limiter.tryAcquire(of({rpm: 1}))).toMatchObject({reason: 'disabled', error: {entity: 'org'}})
      await limiter.settled()
      expect(await consumed(...LEVELS)).toEqual([20, 20, 20, 20])
    })

    it('charges all resources at all levels, or none', async () => {
      await scene.configure({level: 'resource', resource: 'tools'}, 'rpm=100/day')
      await scene.configure({level: 'entity', entity: 'org', resource: 'tools'}, 'rpm=1/day')
      const limiter = limiterOf()
      const both = {...of({rpm: 1}), resources: {tools: {rpm: 1}}}
      await limiter.acquire(both)
      await refusal(limiter.acquire(both))
      await refusal(limiter.acquire(both))
      await limiter.settled()
      expect(await consumed(...LEVELS)).toEqual([1, 1, 1, 1])
    })

    it('knows the limits of every level: strict requests, checks and balances', async () => {
      await limit('org', 'rpm=20/day', 'usd=5/day')
      const limiter = limiterOf()
      const lease = await limiter.acquire({...of({rpm: 1, usd: 2}), strict: true})
      expect(lease.unlimited).toEqual([])
      expect((await scene.totals('org', 'gpt-4', 'usd')).consumed).toBe(2)
      expect(await limiter.available({entity: 'key', resource: 'gpt-4'})).toEqual({rpm: 19})
      expect(await limiter.check(of({rpm: 20}))).toMatchObject({admitted: false})
      expect(await limiter.check({...of({usd: 3}), strict: true})).toMatchObject({admitted: true})
      expect(await failure(limiter.acquire({...of({rpm: 1, typo: 2}), strict: true}))).toMatchObject({
        code: 'limit.unknown',
      })
      await limiter.settled()
      expect(await consumed(...LEVELS)).toEqual([1, 1, 1, 1])
    })
  })

  describe('leases', () => {
    it('S10 settle, refund and roll back at every level', async () => {
      const limiter = limiterOf()
      const lease = await limiter.acquire(of({rpm: 5}))
      await lease.adjust({rpm: 3})
      expect(await consumed(...LEVELS)).toEqual([8, 8, 8, 8])
      await lease.release({rpm: 2})
      await lease.consume({rpm: 4})
      expect(await consumed(...LEVELS)).toEqual([10, 10, 10, 10])
      await lease.rollback()
      expect(await consumed(...LEVELS)).toEqual([0, 0, 0, 0])
    })

    it('S12 take a slot at every level, and return all', async () => {
      await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/day', 'parallel=5/inflight')
      const free = async () =>
        Promise.all(LEVELS.map(async id => (await slotsIn(scene, id, 'gpt-4'))?.limits.get('parallel')?.free))
      const limiter = limiterOf()
      const leases = [await limiter.acquire(of({rpm: 1})), await limiter.acquire(of({rpm: 1}, 'user'))]
      expect(await free()).toEqual([4, 3, 3, 3])
      for (const lease of leases) await lease.commit()
      expect(await free()).toEqual([5, 5, 5, 5])
    })

    it.each([
      ['to another team', 'user', 'team-2', ['key', 'user', 'team-2', 'org']],
      ['up', 'user', 'org', ['key', 'user', 'org']],
      ['out of the tree', 'user', undefined, ['key', 'user']],
    ])('S10 charge no entity twice after a subtree has moved %s', async (_, entity, parent, after) => {
      const repository = new NamespaceRepository(scene.tenant, undefined)
      await scene.entity('team-2', 'org')
      const limiter = limiterOf()
      const lease = await limiter.acquire(of({rpm: 5}))
      await repository.entities.update(entity, {parent: parent ?? null, cascade: parent !== undefined})
      const next = await limiter.acquire(of({rpm: 1}))
      expect([...LEVELS.slice(0, 1), ...next.parents]).toEqual(after)
      await limiter.settled()
      await next.rollback()
      await lease.consume({rpm: 10})
      await limiter.settled()
      // Settled where the request was charged at first; no level counts it twice.
      const before = await consumed(...LEVELS)
      await lease.adjust({rpm: 7})
      expect(await consumed(...LEVELS)).toEqual(before.map(tokens => tokens + 7))
      await lease.rollback()
      expect(await consumed(...LEVELS)).toEqual([0, 0, 0, 0])
      expect((await consumed('team-2'))[0]).toBe(0)
    })

    it('S10 charge no entity twice after a level was put in between', async () => {
      const repository = new NamespaceRepository(scene.tenant, undefined)
      await repository.entities.update('user', {parent: 'org', cascade: true})
      const limiter = limiterOf()
      const lease = await limiter.acquire(of({rpm: 5}))
      expect(lease.parents).toEqual(['user', 'org'])
      await repository.entities.update('user', {parent: 'team', cascade: true})
      await lease.consume({rpm: 10})
      await limiter.settled()
      expect(await consumed(...LEVELS)).toEqual([15, 15, 10, 15])
      await lease.adjust({rpm: 1})
      expect(await consumed(...LEVELS)).toEqual([16, 16, 11, 16])
      await lease.rollback()
      expect(await consumed(...LEVELS)).toEqual([0, 0, 0, 0])
    })
  })

  describe('moves', () => {
    it('S10 charges the new ancestors with the next request, in every process, and no former one', async () => {
      const repository = new NamespaceRepository(scene.tenant, undefined)
      await scene.entity('org-2')
      const limiters = [limiterOf(), limiterOf()]
      for (const limiter of limiters) await limiter.acquire(of({rpm: 1}))
      await repository.entities.update('team', {parent: 'org-2', cascade: true})
      for (const limiter of limiters) await limiter.acquire(of({rpm: 1}))
      for (const limiter of limiters) await limiter.settled()
      expect(await consumed(...LEVELS, 'org-2')).toEqual([4, 4, 4, 2, 2])
    })

    it('is not refused by an ancestor that the team has left', async () => {
      const repository = new NamespaceRepository(scene.tenant, undefined)
      await limit('org', 'rpm=10/day')
      await scene.entity('org-2')
      const limiter = limiterOf()
      await limiter.acquire(of({rpm: 10}))
      await refusal(limiter.acquire(of({rpm: 5})))
      await repository.entities.update('team', {parent: 'org-2', cascade: true})
      scene.nowMs += 1001
      expect((await limiter.acquire(of({rpm: 5}))).parents).toEqual(['user', 'team', 'org-2'])
      await limiter.settled()
      expect(await consumed(...LEVELS, 'org-2')).toEqual([15, 15, 15, 10, 5])
    })
  })

  describe('faults', () => {
    const kinds = faultsOf('UpdateItem')
    it.each(kinds)('S5 S6 S10 charges every level once or none, whichever write is %s', async kind => {
      let hits = 0
      for (const entity of LEVELS) {
        for (const isWarm of [false, true]) {
          const before = await consumed(...LEVELS)
          const limiter = limiterOf()
          if (isWarm) await limiter.acquire(of({rpm: 1}))
          faults.start({kind, at: `UpdateItem BUCKET#${entity}#gpt-4#0 (1)`})
          const admitted = (await isAdmitted(limiter.acquire(of({rpm: 1})))) ? 1 : 0
          hits += faults.hits
          await limiter.settled()
          faults.start(undefined)
          const gained = (await consumed(...LEVELS)).map((tokens, at) => tokens - (before[at] as number))
          expect([entity, isWarm, gained]).toEqual([entity, isWarm, Array(4).fill(admitted + (isWarm ? 1 : 0))])
        }
      }
      expect(hits).toBe(2 * LEVELS.length)
    })

    it('refunds every level if one of them cannot be reached', async () => {
      const limiter = limiterOf()
      await limiter.acquire(of({rpm: 1}))
      for (const entity of LEVELS) {
        const on = `UpdateItem BUCKET#${entity}#gpt-4#0`
        faults.start({kind: 'unreachable', at: `${on} (1)`, on, times: 1000})
        expect(await failure(limiter.acquire(of({rpm: 1})))).toMatchObject({code: 'limiter.unavailable'})
        faults.start(undefined)
        await limiter.settled()
        expect(await consumed(...LEVELS)).toEqual([1, 1, 1, 1])
      }
    })
  })
})
