import {beforeEach, describe, expect, it} from 'vitest'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import type {ProviderFeedback} from '../../src/lib/repository/operations/provider-feedback.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, isAdmitted, refusal} from './visit.js'

const WHO = {entity: 'provider:anthropic:org-1', resource: 'sonnet'}
const SCOPE = {level: 'entity', ...WHO} as const
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

describeOnBoth('provider feedback beside other writes', {}, table => {
  let scene: Scene
  beforeEach(() => {
    scene = new Scene(table)
  })

  const take = (consume: Record<string, number> = {rpm: 1}, limiter = scene.limiter()) =>
    limiter.acquire({...WHO, consume})
  const totals = (limit = 'rpm', count = 1) => scene.totals(WHO.entity, WHO.resource, limit, count)
  const report = (
    feedback: Omit<ProviderFeedback, 'entity' | 'resource'>,
    limiter = scene.limiter({sleep: async () => {}}),
  ) => limiter.reportProviderLimits({...WHO, ...feedback})
  /** A limiter that runs `event` just before its first write. */
  const overtakenBy = (event: () => Promise<unknown>): RateLimiter => {
    let hasHappened = false
    const transport: Transport = {
      send: async (operation, input, options) => {
        if (operation === 'UpdateItem' && !hasHappened) {
          hasHappened = true
          await event()
        }
        return scene.table.transport.send(operation, input, options)
      },
    }
    return scene.limiter({transport, sleep: async () => {}})
  }

  it('never raises the balance above the capacity if a refund comes between its read and its write (S1)', async () => {
    await scene.configure(SCOPE, 'rpm=600/min')
    const lease = await take({rpm: 600})
    scene.nowMs += 50_000
    // 500 are refilled, and 450 are reported. With the refund there would be 1,050.
    await report(
      {left: {rpm: 450}},
      overtakenBy(() => lease.rollback()),
    )
    expect((await totals()).tokens).toBeLessThanOrEqual(600)
    expect((await totals()).consumed).toBe(0)
  })

  it('keeps charges between its read and its write (S2)', async () => {
    await scene.configure(SCOPE, 'rpm=600/min')
    await take()
    scene.nowMs += 1000
    const other = scene.limiter()
    await report(
      {left: {rpm: 100}},
      overtakenBy(() => take({rpm: 30}, other)),
    )
    expect(await totals()).toEqual({tokens: 100, consumed: 31})
  })

  it('lowers once if a process whose clock is behind repeats it between read and write (S6)', async () => {
    await scene.configure(SCOPE, 'rpm=600/min')
    await take()
    scene.nowMs += 1000
    const behind = scene.limiter({clock: () => scene.nowMs - 5000, sleep: async () => {}})
    await report(
      {left: {rpm: 100}},
      overtakenBy(() => report({left: {rpm: 100}}, behind)),
    )
    expect((await totals()).tokens).toBe(100)
  })

  it('voids a request that another process planned before, even from a clock that is behind (S2 S3)', async () => {
    await scene.configure(SCOPE, 'rpm=600/min')
    let event: () => Promise<unknown> = async () => {}
    const transport: Transport = {
      send: async (operation, input, options) => {
        const before = event
        event = async () => {}
        await before()
        return scene.table.transport.send(operation, input, options)
      },
    }
    const limiter = scene.limiter({transport})
    await take({rpm: 599}, limiter)
    await take({rpm: 1}, limiter)
    scene.nowMs += 1000
    const behind = scene.limiter({clock: () => scene.nowMs - 5000, sleep: async () => {}})
    // Ten are refilled; the request's write credits and takes them.
    event = () => report({refused: {consume: {rpm: 1}, retryAfterMs: 30_000}}, behind)
    await refusal(take({rpm: 10}, limiter))
    expect((await totals()).consumed).toBe(600)
  })

  it('reaches both halves of a concurrent split (S8)', async () => {
    await scene.configure(SCOPE, 'rpm=600/min')
    await take({rpm: 100})
    const split = () => splitBucket(scene.tenant, WHO.entity, WHO.resource, 1)
    expect(await report({left: {rpm: 100}}, overtakenBy(split))).toEqual({lowered: ['rpm']})
    expect((await totals('rpm', 2)).tokens).toBe(100)
  })

  it('clears a refusal at the reported instant despite a concurrent split', async () => {
    await scene.configure(SCOPE, 'rpm=600/min')
    await take({rpm: 100})
    const split = () => splitBucket(scene.tenant, WHO.entity, WHO.resource, 1)
    await report({refused: {consume: {rpm: 1}, retryAfterMs: 2000}}, overtakenBy(split))
    scene.nowMs += 1999
    await refusal(take())
    scene.nowMs += 1
    await take()
  })

  it('undoes no more of a concurrent reset than reported', async () => {
    await scene.configure(SCOPE, 'rpm=600/min')
    await take({rpm: 600})
    scene.nowMs += 1000
    const reset = () => new NamespaceRepository(scene.tenant, undefined).resetBucket(WHO)
    await report({left: {rpm: 5}}, overtakenBy(reset))
    expect(await totals()).toMatchObject({tokens: 5})
  })

  describe('the age of feedback', () => {
    beforeEach(() => scene.configure(SCOPE, 'rpm=600/min'))

    it('adds the refill since', async () => {
      await take()
      expect(await report({left: {rpm: 100}, ageMs: 20_000})).toEqual({lowered: ['rpm']})
      expect((await totals()).tokens).toBe(300)
    })

    it('makes feedback older than the fill time meaningless', async () => {
      await take()
      expect(await report({left: {rpm: 0}, ageMs: 60_000})).toEqual({lowered: []})
      expect((await totals()).tokens).toBe(599)
    })

    it('counts once over all shards', async () => {
      await take()
      await splitBucket(scene.tenant, WHO.entity, WHO.resource, 1)
      await report({left: {rpm: 100}, ageMs: 20_000})
      expect((await totals('rpm', 2)).tokens).toBe(300)
    })

    it('keeps an older response from changing what a newer one left', async () => {
      await take()
      await report({left: {rpm: 90}})
      expect(await report({left: {rpm: 500}, ageMs: 3000})).toEqual({lowered: []})
      expect(await report({left: {rpm: 60}, ageMs: 3000})).toEqual({lowered: []})
      expect((await totals()).tokens).toBe(90)
    })

    it.each([-1, Number.NaN, Number.POSITIVE_INFINITY])('rejects %s', async ageMs => {
      await take()
      expect(await failure(report({left: {rpm: 0}, ageMs}))).toHaveProperty('kind', 'usage')
    })
  })

  describe('limits of other kinds', () => {
    it('creates no tokens under a schedule with another period, and clears no later than reported (S3)', async () => {
      // Per second outside of the window, per day in it: their fractions differ.
      scene.nowMs = Date.parse('2026-03-10T09:10:00Z')
      await scene.configure(SCOPE, 'rpm=10/s,100/day@"* 9 * * *"')
      await take()
      await report({refused: {consume: {rpm: 1}, retryAfterMs: 777_777}})
      expect((await totals()).tokens).toBeLessThan(1)
      scene.nowMs += 700_000
      await refusal(take())
      scene.nowMs += 77_777
      await take()
      await refusal(take())
    })

    it('counts on the rate that takes effect before the reported instant', async () => {
      scene.nowMs = Date.parse('2026-03-10T09:59:50Z')
      // One in ten seconds until ten, then one a second.
      await scene.configure(SCOPE, 'rpm=60/min:10,6/min:10@"* 9 * * *"')
      await take()
      await report({refused: {consume: {rpm: 1}, retryAfterMs: 20_000}})
      scene.nowMs += 19_999
      await refusal(take())
      scene.nowMs += 1
      await take()
      await refusal(take())
    })

    it('lowers a session, and starts the next one whole', async () => {
      await scene.configure(SCOPE, 'rpm=100/5h!')
      await take()
      expect(await report({refused: {consume: {rpm: 1}, retryAfterMs: 1000}})).toEqual({lowered: []})
      expect(await report({left: {rpm: 1}})).toEqual({lowered: ['rpm']})
      await take()
      await refusal(take())
      scene.nowMs += 5 * HOUR_MS
      await take({rpm: 100})
      expect(await totals()).toMatchObject({tokens: 0})
    })

    it('lowers a quota of yesterday by no more than is left of it today', async () => {
      scene.nowMs = Date.parse('2026-03-10T23:00:00Z')
      await scene.configure(SCOPE, 'rpm=100/day@UTC')
      await take({rpm: 90})
      scene.nowMs += 2 * HOUR_MS
      expect(await report({left: {rpm: 60}})).toEqual({lowered: ['rpm']})
      expect(await totals()).toEqual({tokens: 60, consumed: 90})
      scene.nowMs += DAY_MS
      await take({rpm: 100})
    })

    it('lowers a soft limit, which refuses nothing', async () => {
      await scene.configure(SCOPE, 'rpm=60/min,soft')
      await take()
      await report({left: {rpm: 0}})
      const lease = await take()
      expect(lease.overdrawn).toEqual(['rpm'])
      expect(await totals()).toEqual({tokens: -1, consumed: 2})
    })

    it.each(['bypass', 'disabled'] as const)(
      'lowers a bucket with the switch "%s" and counts nothing',
      async access => {
        await scene.configure(SCOPE, 'rpm=60/min')
        await take()
        const tenant = new NamespaceRepository(scene.tenant, undefined)
        await tenant.setAccess(SCOPE, access)
        expect(await report({left: {rpm: 3}})).toEqual({lowered: ['rpm']})
        await tenant.setAccess(SCOPE, undefined)
        expect(await totals()).toEqual({tokens: 3, consumed: 1})
        await take({rpm: 3})
        await refusal(take())
      },
    )
  })

  it('makes cascading children of the provider wait for the reported instant, without a charge', async () => {
    await scene.configure({level: 'resource', resource: WHO.resource}, 'rpm=1k/min')
    await scene.configure(SCOPE, 'rpm=600/min')
    await scene.entity(WHO.entity)
    await scene.entity('user-1', WHO.entity)
    const ask = (limiter = scene.limiter()) =>
      limiter.acquire({entity: 'user-1', resource: WHO.resource, consume: {rpm: 1}})
    await ask()
    await report({refused: {consume: {rpm: 1}, retryAfterMs: 1500}})
    scene.nowMs += 1499
    await refusal(ask())
    expect(await scene.totals('user-1', WHO.resource, 'rpm')).toMatchObject({consumed: 1})
    scene.nowMs += 1
    await ask()
    expect(await totals()).toEqual({tokens: 0, consumed: 2})
  })

  it('reports waits by its own feedback in the same process (L2)', async () => {
    await scene.configure(SCOPE, 'rpm=600/min')
    const limiter = scene.limiter({sleep: async () => {}})
    await take({rpm: 600}, limiter)
    scene.nowMs += 10
    await refusal(take({rpm: 2}, limiter))
    await report({refused: {consume: {rpm: 1}, retryAfterMs: 5000}}, limiter)
    expect((await refusal(take({rpm: 2}, limiter))).retryAfterMs).toBeGreaterThan(5000)
  })

  it('affects no other namespace (S11)', async () => {
    const other = new Scene(table)
    for (const each of [scene, other]) {
      await each.configure(SCOPE, 'rpm=600/min')
      await each.limiter().acquire({...WHO, consume: {rpm: 1}})
    }
    await report({left: {rpm: 0}})
    expect(await other.totals(WHO.entity, WHO.resource, 'rpm')).toEqual({tokens: 599, consumed: 1})
  })

  it('ignores the limit that measures writes of an item', async () => {
    await scene.configure(SCOPE, 'rpm=600/min')
    await take()
    expect(await failure(report({left: {wcu: 0}}))).toHaveProperty('kind', 'usage')
  })

  it('never creates tokens when it is repeated after a lost answer beside requests (S1)', async () => {
    await scene.configure(SCOPE, 'rpm=600/min:60')
    let admitted = 0
    const limiters = Array.from({length: 3}, () => scene.limiter({denyCacheMs: 0, sleep: async () => {}}))
    const startMs = scene.nowMs
    for (let step = 0; step < 120; step++) {
      const limiter = limiters[step % 3] as RateLimiter
      if (await isAdmitted(take({rpm: (step % 5) + 1}, limiter))) admitted += (step % 5) + 1
      if (step % 7 === 0) await report({left: {rpm: step % 60}, ageMs: (step % 4) * 100}, limiter)
      if (step % 31 === 0) await report({refused: {consume: {rpm: 1}, retryAfterMs: step * 3}}, limiter)
      scene.nowMs += 83
    }
    const {tokens, consumed} = await totals()
    expect(consumed).toBe(admitted)
    expect(consumed + tokens).toBeLessThanOrEqual(60 + (scene.nowMs - startMs) / 100)
  })

  it('is rejected by a closed limiter, which writes nothing', async () => {
    await scene.configure(SCOPE, 'rpm=600/min')
    await take()
    const limiter = scene.limiter()
    await limiter.close()
    expect(await failure(report({left: {rpm: 0}}, limiter))).toHaveProperty('name', 'LimiterClosed')
    expect((await totals()).tokens).toBe(599)
  })
})
