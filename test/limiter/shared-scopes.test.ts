import {afterEach, beforeEach, describe, expect, it, vi} from 'vitest'
import {Unavailable} from '../../src/lib/dynamo/errors.js'
import type {DecisionEvent} from '../../src/lib/index.js'
import {RequestTooLarge, ResourceDisabled} from '../../src/lib/limiter/refusal/errors.js'
import type {AcquireRequest} from '../../src/lib/limiter/request/options.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {type RefusalCounts, readRefusals} from '../../src/lib/schema/refusal-counts.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {seededRandom} from './fixtures/seeded-random.js'
import {StoppableProcess} from './fixtures/stoppable-process.js'
import {slotsIn} from './in-flight/slots.js'
import {failure, isAdmitted, refusal, splitInto} from './visit.js'

const POOL = {entity: 'pool-eu', resource: 'gpt-4'}
const OTHER = {entity: 'pool-us', resource: 'gpt-4'}

describeOnBoth('shared scopes', {timeout: 60_000}, table => {
  let scene: Scene
  let faults: FaultTransport
  let repository: NamespaceRepository
  beforeEach(async () => {
    scene = new Scene(table)
    faults = new FaultTransport(table.transport)
    scene.transport = {
      send: (operation, input, options) => {
        scene.calls.push(operation)
        return faults.send(operation, input, options)
      },
    }
    repository = new NamespaceRepository(scene.tenant, undefined)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min', 'tpm=1000/min')
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  const limits = (entity: string, ...texts: string[]) =>
    scene.configure({level: 'entity', entity, resource: 'gpt-4'}, ...texts)
  /** A request of a user that also takes from a pool. */
  const of = (tpm: number, pool = tpm, more: Partial<AcquireRequest> = {}): AcquireRequest => ({
    ...{entity: 'user-1', resource: 'gpt-4', consume: {tpm}},
    resources: [{...POOL, consume: {tpm: pool}}],
    ...more,
  })
  const consumed = (...entities: readonly string[]) =>
    Promise.all(entities.map(async entity => (await scene.totals(entity, 'gpt-4', 'tpm')).consumed))
  const tokens = async (entity: string) => (await scene.totals(entity, 'gpt-4', 'tpm')).tokens
  const counts = async (entity: string): Promise<RefusalCounts> => {
    const Key = wireKey(keys.bucket(scene.namespace, entity, 'gpt-4', 0))
    const {Item} = await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})
    return readRefusals(Item ?? {})
  }

  describe('charging', () => {
    it('charges each bucket its own amounts with one write, and names them in the lease', async () => {
      const limiter = scene.limiter()
      await limiter.acquire(of(1))
      scene.calls.length = 0
      const lease = await limiter.acquire(of(10, 30))
      expect(scene.calls).toEqual(['UpdateItem', 'UpdateItem'])
      expect(await consumed('user-1', 'pool-eu')).toEqual([11, 31])
      expect([lease.consumed, lease.resources(POOL).consumed]).toEqual([{tpm: 10}, {tpm: 30}])
      expect(lease.resources('gpt-4')).toBe(lease)
      expect(lease.resources(POOL).limits.tpm).toMatchObject({entity: 'pool-eu', level: 'entity', available: 969})
      expect(() => lease.resources('search')).toThrow(
        'The lease has no resource "search", only gpt-4, gpt-4 of pool-eu.',
      )
      expect(() => lease.resources(OTHER)).toThrow('no resource "gpt-4 of pool-us"')
    })

    it('S10 charges the parents of both, each for its own entity', async () => {
      await scene.entity('user-1', 'org')
      await scene.entity('pool-eu', 'fleet')
      const lease = await scene.limiter().acquire(of(10, 30))
      expect([lease.parents, lease.resources(POOL).parents]).toEqual([['org'], ['fleet']])
      expect(await consumed('user-1', 'org', 'pool-eu', 'fleet')).toEqual([10, 10, 30, 30])
    })

    it('takes further resources of the entity in the list too', async () => {
      const resources = [{entity: 'user-1', resource: 'search', consume: {rpm: 1}}]
      await scene.configure({level: 'resource', resource: 'search'}, 'rpm=4/min')
      const lease = await scene.limiter().acquire(of(1, 1, {resources}))
      expect(lease.resources('search').consumed).toEqual({rpm: 1})
    })

    it('adjusts each separately, and keeps or refunds all together', async () => {
      const limiter = scene.limiter()
      const lease = await limiter.acquire(of(100))
      await lease.resources(POOL).adjust({tpm: 20})
      await lease.resources(POOL).consume({tpm: 5})
      expect(await consumed('user-1', 'pool-eu')).toEqual([100, 125])
      await lease.rollback()
      expect(await consumed('user-1', 'pool-eu')).toEqual([0, 0])
      await (await limiter.acquire(of(7, 8))).commit()
      expect(await consumed('user-1', 'pool-eu')).toEqual([7, 8])
    })

    it.each([
      ['its own bucket', [{entity: 'user-1', resource: 'gpt-4', consume: {tpm: 1}}], 'request.resources'],
      ['a bucket twice', [1, 2].map(tpm => ({...POOL, consume: {tpm}})), 'request.resources'],
      [
        '16 buckets',
        Array.from({length: 16}, (_, at) => ({entity: `p${at}`, resource: 'r', consume: {}})),
        'request.resources',
      ],
      ['an id that is none', [{...POOL, entity: 'a b', consume: {tpm: 1}}], 'name.invalid'],
      ['no entity', [{resource: 'gpt-4', consume: {tpm: 1}}], 'name.invalid'],
      ['no amounts', [POOL], 'request.amount'],
      ['a negative amount', [{...POOL, consume: {tpm: -1}}], 'request.amount'],
      ['an empty place', [null], 'request.resources'],
      ['a text', 'pool-eu', 'request.resources'],
    ])('rejects %s without a call', async (_, resources, code) => {
      const request = {...of(1), resources} as AcquireRequest
      expect(await failure(scene.limiter().acquire(request))).toMatchObject({code})
      expect(scene.calls).toEqual([])
    })
  })

  describe('refusals', () => {
    it('S4 S5 charge nothing if the pool refuses, whether that is known or not', async () => {
      await limits('pool-eu', 'tpm=100/min')
      await scene.entity('user-1', 'org')
      const limiter = scene.limiter()
      await limiter.acquire(of(80))
      const refused = await refusal(limiter.acquire(of(60)))
      expect(refused.statuses.filter(({exceeded}) => exceeded)).toMatchObject([
        {...POOL, available: 20, level: 'entity'},
      ])
      expect(refused.retryAfterMs).toBe(24_001)
      await limiter.settled()
      scene.calls.length = 0
      expect((await refusal(limiter.acquire(of(60)))).retryAfterMs).toBe(24_001)
      expect(scene.calls).toEqual([])
      expect(await consumed('user-1', 'org', 'pool-eu')).toEqual([80, 80, 80])
      expect(await tokens('user-1')).toBe(920)
      scene.nowMs += 24_001
      await limiter.acquire(of(60))
    })

    it('L2 state the longest wait of all buckets, which admits', async () => {
      await limits('pool-eu', 'tpm=100/min')
      const limiter = scene.limiter()
      await limiter.acquire(of(1000, 100))
      // The user regains 100 after 6 s, the pool 50 after 30 s.
      expect((await refusal(limiter.acquire(of(100, 50)))).retryAfterMs).toBe(30_001)
      expect((await refusal(limiter.acquire(of(600, 10)))).retryAfterMs).toBe(36_001)
      scene.nowMs += 36_001
      await limiter.acquire(of(600, 10))
    })

    it('name the pool and its limit in the decision event', async () => {
      const events: DecisionEvent[] = []
      await limits('pool-eu', 'tpm=100/min')
      await scene.entity('pool-eu', 'fleet')
      await limits('fleet', 'tpm=90/min')
      const limiter = scene.limiter({onDecision: event => events.push(event)})
      await limiter.tryAcquire(of(95))
      await limiter.tryAcquire(of(10, 101))
      await repository.setAccess({level: 'entity', ...POOL}, 'disabled')
      await limiter.tryAcquire(of(10))
      expect(events.map(({reason, refusedBy}) => ({reason, ...refusedBy}))).toMatchObject([
        {reason: 'too-large', entity: 'fleet', resource: 'gpt-4', limit: 'tpm', level: 'parent'},
        {reason: 'too-large', ...POOL, limit: 'tpm', level: 'entity'},
        {reason: 'disabled', ...POOL, limit: undefined, level: 'entity'},
      ])
      expect(events[0]?.resources).toEqual([{...POOL, consume: {tpm: 95}}])
    })

    it('come from the switch of a pool, and a bypassed pool only counts', async () => {
      const limiter = scene.limiter()
      await limiter.acquire(of(10))
      await repository.setAccess({level: 'entity', ...POOL}, 'disabled')
      expect(await failure(limiter.acquire(of(10)))).toBeInstanceOf(ResourceDisabled)
      await limiter.settled()
      expect(await consumed('user-1')).toEqual([10])
      await repository.setAccess({level: 'entity', ...POOL}, 'bypass')
      limiter.invalidate()
      const lease = await limiter.acquire(of(10, 5000))
      expect([lease.bypassed, lease.resources(POOL).bypassed]).toEqual([false, true])
      expect([await consumed('user-1'), await tokens('pool-eu')]).toEqual([[20], 990])
    })

    it('come from the slots of a pool, which return when the lease ends', async () => {
      await limits('pool-eu', 'tpm=1000/min', 'parallel=1/inflight')
      const limiter = scene.limiter()
      const lease = await limiter.acquire(of(10))
      expect((await refusal(limiter.acquire(of(10)))).inFlight).toBe(true)
      await lease.commit()
      expect((await slotsIn(scene, 'pool-eu', 'gpt-4'))?.limits.get('parallel')).toEqual({capacity: 1, free: 1})
      await (await limiter.acquire(of(10))).rollback()
      expect(await consumed('user-1', 'pool-eu')).toEqual([10, 10])
    })

    it('admit uncharged in shadow mode and in an outage', async () => {
      await limits('pool-eu', 'tpm=100/min')
      const limiter = scene.limiter()
      const shadow = await limiter.acquire(of(10, 101, {enforce: false}))
      expect([shadow.isMetered, shadow.wouldRefuse, shadow.resources(POOL).isMetered]).toEqual([
        false,
        expect.any(RequestTooLarge),
        false,
      ])
      await limiter.settled()
      expect(await consumed('user-1', 'pool-eu')).toEqual([0, 0])
      scene.transport = {send: () => Promise.reject(new Unavailable('UpdateItem', false, new Error('away')))}
      const open = await scene.limiter({onUnavailable: 'allow', timeoutMs: 50}).acquire(of(10))
      expect([open.isMetered, open.resources(POOL).isMetered]).toEqual([false, false])
      await open.commit()
    })
  })

  describe('a bucket that several parts charge', () => {
    /** Both pools belong to one fleet. */
    const both = (eu: number, us: number): AcquireRequest => ({
      ...of(1, eu),
      resources: [
        {...POOL, consume: {tpm: eu}},
        {...OTHER, consume: {tpm: us}},
      ],
    })
    beforeEach(async () => {
      for (const {entity} of [POOL, OTHER]) await scene.entity(entity, 'fleet')
      await limits('fleet', 'tpm=100/min')
    })

    it('S10 is charged for each, and the lease shows the balance after both (L6)', async () => {
      const limiter = scene.limiter()
      for (let count = 0; count < 2; count++) {
        const lease = await limiter.acquire(both(10, 20))
        const left = 100 - 30 * (count + 1)
        for (const scope of [POOL, OTHER])
          expect(lease.resources(scope).limits.tpm).toMatchObject({entity: 'fleet', available: left})
      }
      expect(await consumed('user-1', 'pool-eu', 'pool-us', 'fleet')).toEqual([2, 20, 40, 60])
      const lease = await limiter.acquire(both(10, 20))
      await lease.rollback()
      expect(await consumed('user-1', 'pool-eu', 'pool-us', 'fleet')).toEqual([2, 20, 40, 60])
    })

    it.each([
      ['a new process', () => scene.limiter()],
      ['a process without cached refusals', () => scene.limiter({denyCacheMs: 0})],
    ])('L2 admits after the stated wait, which covers the sum, in %s', async (_, start) => {
      const limiter = scene.limiter()
      await limiter.acquire(of(1, 80, {resources: [{entity: 'fleet', resource: 'gpt-4', consume: {tpm: 50}}]}))
      for (const asked of [limiter, start()]) {
        // 50 are left for 70, then for 100 of 100.
        expect((await refusal(asked.acquire(both(40, 30)))).retryAfterMs).toBe(12_001)
        const refused = await refusal(asked.acquire(both(50, 50)))
        expect(refused.retryAfterMs).toBe(30_001)
        expect(refused.statuses.filter(({exceeded}) => exceeded)).toMatchObject([
          {entity: 'fleet', level: 'parent', requested: 100, available: 50},
        ])
        await asked.settled()
        expect(await consumed('pool-eu', 'pool-us', 'fleet')).toEqual([0, 0, 50])
      }
      scene.nowMs += 30_001
      await start().acquire(both(50, 50))
    })

    it('L2 costs no call if the sum is known not to fit', async () => {
      const limiter = scene.limiter()
      await limiter.acquire(both(30, 30))
      await refusal(limiter.acquire(both(25, 25)))
      scene.calls.length = 0
      expect((await refusal(limiter.acquire(both(25, 25)))).retryAfterMs).toBe(6001)
      expect(scene.calls).toEqual([])
    })

    it('L3 refuses a sum above its capacity as too large, even if it refills in between', async () => {
      const limiter = scene.limiter()
      const error = {entity: 'fleet', limit: 'tpm', requested: 120, capacity: 100}
      for (let count = 0; count < 2; count++) {
        expect(await failure(limiter.acquire(both(60, 60)))).toMatchObject({code: 'request.too-large', ...error})
        await limiter.settled()
        expect(await consumed('user-1', 'pool-eu', 'pool-us', 'fleet')).toEqual([0, 0, 0, 0])
      }
      // Each write finds a full bucket.
      const {transport} = scene
      scene.transport = {
        send: (operation, input, options) => {
          if (operation === 'UpdateItem' && JSON.stringify(input).includes('fleet')) scene.nowMs += 120_000
          return transport.send(operation, input, options)
        },
      }
      const impatient = scene.limiter({denyCacheMs: 0})
      expect(await failure(impatient.acquire(both(60, 60)))).toMatchObject(error)
      await impatient.settled()
      expect(await consumed('user-1', 'pool-eu', 'pool-us', 'fleet')).toEqual([0, 0, 0, 0])
    })

    it('S12 gives a slot to each, and is too large for more than there are', async () => {
      await limits('fleet', 'tpm=100/min', 'parallel=2/inflight')
      const limiter = scene.limiter()
      const lease = await limiter.acquire(both(1, 1))
      expect((await slotsIn(scene, 'fleet', 'gpt-4'))?.limits.get('parallel')).toEqual({capacity: 2, free: 0})
      await lease.commit()
      const one = await limiter.acquire(of(1))
      expect((await refusal(limiter.acquire(both(1, 1)))).inFlight).toBe(true)
      await one.commit()
      expect((await slotsIn(scene, 'fleet', 'gpt-4'))?.limits.get('parallel')).toEqual({capacity: 2, free: 2})
      const third = {entity: 'fleet', resource: 'gpt-4', consume: {}}
      const request = {...both(1, 1), resources: [...(both(1, 1).resources as []), third]}
      expect(await failure(limiter.acquire(request))).toMatchObject({code: 'request.too-large', limit: 'parallel'})
      await limiter.settled()
      expect((await slotsIn(scene, 'fleet', 'gpt-4'))?.limits.get('parallel')).toEqual({capacity: 2, free: 2})
    })

    it('may have shards', async () => {
      const limiter = scene.limiter({denyCacheMs: 0})
      await limiter.acquire(both(1, 1))
      await splitInto(scene, 4, 'fleet')
      for (let count = 0; count < 7; count++) await limiter.acquire(both(7, 7))
      await limiter.settled()
      expect((await scene.totals('fleet', 'gpt-4', 'tpm', 4)).tokens).toBe(0)
      const {retryAfterMs} = await refusal(limiter.acquire(both(40, 60)))
      scene.nowMs += retryAfterMs
      await limiter.acquire(both(40, 60))
    })
  })

  describe('counted refusals', () => {
    it('L6 count at the pool, and once at the own bucket, with the pool', async () => {
      await limits('pool-eu', 'tpm=100/min')
      const limiter = scene.limiter()
      for (let count = 0; count < 3; count++) await limiter.tryAcquire(of(60))
      await limiter.close()
      expect(await counts('pool-eu')).toMatchObject({
        ...{requests: 2, byParent: 0, callers: new Map([['gpt-4', 2]])},
        limits: new Map([['tpm', {requests: 2, tokens: 120n}]]),
      })
      const accounts = new Map([['pool-eu#gpt-4', 2]])
      expect(await counts('user-1')).toMatchObject({requests: 0, byParent: 2, accounts, limits: new Map()})
    })

    it('L6 name only buckets that the request names or that refused', async () => {
      await scene.entity('pool-eu', 'fleet')
      await limits('fleet', 'tpm=100/min')
      await scene.configure({level: 'resource', resource: 'chat'}, 'tpm=1000/min')
      const limiter = scene.limiter()
      const request = {...of(60), resource: 'chat'}
      for (let count = 0; count < 3; count++) await limiter.tryAcquire(request)
      await limiter.close()
      expect(await counts('fleet')).toMatchObject({requests: 2, byParent: 0})
      expect(await counts('pool-eu')).toMatchObject({requests: 0, byParent: 2, callers: new Map([['chat', 2]])})
      expect(await scene.shards('user-1', 'gpt-4')).toEqual([])
      const Key = wireKey(keys.bucket(scene.namespace, 'user-1', 'chat', 0))
      const {Item = {}} = await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})
      expect(readRefusals(Item)).toMatchObject({byParent: 2, accounts: new Map([['pool-eu#gpt-4', 2]])})
    })

    it('L6 count at the own bucket, although the cache no longer holds the parents that refused', async () => {
      await scene.entity('team-1')
      await scene.entity('user-1', 'team-1')
      await limits('team-1', 'tpm=100/min')
      const limiter = scene.limiter({cacheSize: 1})
      for (let count = 0; count < 3; count++) await limiter.tryAcquire(of(60, 1))
      await limiter.close()
      expect(await counts('team-1')).toMatchObject({requests: 2, byParent: 0})
      expect(await counts('user-1')).toMatchObject({requests: 0, byParent: 2})
    })

    it('L6 count a request once at a bucket, if it and two pools refuse', async () => {
      for (const {entity} of [POOL, OTHER]) await limits(entity, 'tpm=100/min')
      const limiter = scene.limiter()
      const ask = (own: number) =>
        limiter.tryAcquire({...of(own), resources: [POOL, OTHER].map(pool => ({...pool, consume: {tpm: 60}}))})
      await ask(600)
      await ask(600)
      await ask(10)
      await limiter.close()
      expect(await counts('user-1')).toMatchObject({
        requests: 1,
        byParent: 1,
        accounts: new Map([['pool-eu#gpt-4', 1]]),
      })
      expect([await counts('pool-eu'), await counts('pool-us')]).toMatchObject([{requests: 2}, {requests: 2}])
    })

    it('go to the caller, if the request has one, also when a lease asks for more', async () => {
      await limits('pool-eu', 'tpm=100/min')
      const caller = {entity: 'user-9', resource: 'gpt-4'}
      const limiter = scene.limiter()
      await limiter.acquire({...caller, consume: {tpm: 1}})
      const lease = await limiter.acquire(of(60, 60, {caller}))
      await limiter.tryAcquire(of(60, 60, {caller}))
      await refusal(lease.resources(POOL).consume({tpm: 60}))
      await limiter.close()
      expect(await counts('user-9')).toMatchObject({byParent: 2, accounts: new Map([['pool-eu#gpt-4', 2]])})
      expect(await counts('user-1')).toMatchObject({requests: 0, byParent: 0})
      expect(await counts('pool-eu')).toMatchObject({requests: 2})
    })
  })

  describe('concurrency and faults', () => {
    it('S2 S5 charges user and pool alike from many processes', async () => {
      await limits('pool-eu', 'tpm=300/min')
      const limiters = [scene.limiter(), scene.limiter(), scene.limiter({denyCacheMs: 0})]
      const asked = Array.from({length: 120}, (_, at) =>
        isAdmitted((limiters[at % 3] as (typeof limiters)[0]).acquire({...of(5), entity: `user-${at % 4}`})),
      )
      const admitted = (await Promise.all(asked)).filter(Boolean).length
      for (const limiter of limiters) await limiter.close()
      const [pool = 0, ...users] = await consumed('pool-eu', 'user-0', 'user-1', 'user-2', 'user-3')
      expect(pool).toBe(5 * admitted)
      expect(users.reduce((sum, each) => sum + each, 0)).toBe(pool)
      expect([pool <= 300, await tokens('pool-eu')]).toEqual([true, 300 - pool])
      expect(pool).toBeGreaterThan(0)
    })

    it.each(['lost after apply', 'lost before apply', '5xx'] as const)(
      'S5 S6 charges both once if a write is %s',
      async kind => {
        for (const at of [1, 2]) {
          const limiter = scene.limiter({sleep: async () => {}})
          const before = await consumed('user-1', 'pool-eu')
          faults.start({kind, at, operation: 'UpdateItem'})
          await limiter.acquire(of(10))
          await limiter.settled()
          expect(faults.hits).toBe(1)
          expect(await consumed('user-1', 'pool-eu')).toEqual(before.map(each => each + 10))
        }
      },
    )

    it('S2 S5 S10 charges every bucket exactly what was admitted below it, while calls fail and leases settle', async () => {
      const above = {'user-0': 'org', 'user-1': 'org', 'pool-eu': 'fleet', 'pool-us': 'fleet'}
      for (const [entity, parent] of Object.entries(above)) await scene.entity(entity, parent)
      await limits('org', 'tpm=400/min')
      for (const {entity} of [POOL, OTHER]) await limits(entity, 'tpm=300/min')
      await limits('fleet', 'tpm=500/min')
      const random = seededRandom(7)
      const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T
      const {transport} = scene
      scene.transport = {
        send: (operation, input, options) =>
          random() < 0.1
            ? Promise.reject(new Unavailable(operation, false, new Error('cut off')))
            : transport.send(operation, input, options),
      }
      const processes = Array.from({length: 3}, () => scene.limiter({sleep: async () => {}, random}))
      const expected = new Map<string, number>()
      let admitted = 0
      const play = async (): Promise<void> => {
        const user = pick(['user-0', 'user-1', 'user-2'])
        const scopes = pick([[POOL], [OTHER], [POOL, OTHER], [POOL, {entity: 'fleet', resource: 'gpt-4'}]])
        const resources = scopes.map(scope => ({...scope, consume: {tpm: pick([1, 5, 20])}}))
        const request = {...of(pick([1, 5, 20])), entity: user, resources}
        const lease = await pick(processes)
          .acquire(request)
          .catch(() => undefined)
        if (!lease) return
        admitted++
        const parts = [lease, ...scopes.map(scope => lease.resources(scope))]
        if (random() < 0.5) await pick(parts).adjust({tpm: pick([-1, 3, 9])})
        if (random() < 0.3) return lease.rollback()
        await lease.commit()
        for (const {entity, consumed: used, parents} of parts)
          for (const each of [entity, ...parents]) expected.set(each, (expected.get(each) ?? 0) + (used.tpm ?? 0))
      }
      for (let round = 0; round < 12; round++) {
        await Promise.all(Array.from({length: 10}, play))
        scene.nowMs += pick([0, 100, 5000])
      }
      scene.transport = {send: transport.send}
      for (const each of processes) await each.close()
      const all = [...expected.keys()].sort()
      expect(await consumed(...all)).toEqual(all.map(entity => expected.get(entity)))
      expect([admitted > 20, admitted < 120, all]).toEqual([
        true,
        true,
        ['fleet', 'org', 'pool-eu', 'pool-us', 'user-0', 'user-1', 'user-2'],
      ])
    })

    it('S13 returns the quota tokens of all buckets that a dead process has reserved', async () => {
      for (const entity of ['user-1', 'pool-eu']) await limits(entity, 'tpm=1000/day@UTC')
      const gateway = new StoppableProcess(scene)
      const other = scene.limiter({denyCacheMs: 0})
      await gateway.limiter.acquire(of(400, 500, {reserve: true}))
      await gateway.pass(2)
      gateway.isRunning = false
      expect((await other.tryAcquire(of(600, 950))).admitted).toBe(false)
      await gateway.pass(45)
      expect(await consumed('user-1', 'pool-eu')).toEqual([0, 0])
      expect((await other.tryAcquire(of(1000))).admitted).toBe(true)
    })
  })
})
