import {beforeEach, describe, expect, it} from 'vitest'
import {parseLimit} from '../../src/lib/core/limits/limit-text.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {tidyBoosts} from '../../src/lib/repository/limits/limit-sync.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {admittedUntilRefused, refusal, request, splitInto} from './visit.js'

const MINUTE_MS = 60_000
const UNTIL = new Date('2026-11-16T15:00Z')

describeOnBoth('a temporary limit', {}, table => {
  const resource = {level: 'resource', resource: 'gpt-4'} as const
  let scene: Scene
  let repository: NamespaceRepository
  let limiter: RateLimiter

  beforeEach(() => {
    scene = new Scene(table)
    scene.nowMs = Date.parse('2026-11-16T14:36:12Z')
    repository = new NamespaceRepository(scene.tenant, 'tester')
    limiter = scene.limiter()
  })

  const set = (...texts: string[]) => repository.setLimits(resource, texts.map(parseLimit))
  const boost = (...texts: string[]) => repository.setLimits(resource, texts.map(parseLimit), {until: UNTIL})

  it('applies at once, refills exactly across its expiry, and expires', async () => {
    await set('tpm=60/min:10')
    expect(await admittedUntilRefused(limiter, {tpm: 1}, 100)).toBe(10)
    await boost('tpm=240/min:40')
    // Missing tokens are refilled at the new rate: 4 per second.
    scene.nowMs += 5000
    expect(await admittedUntilRefused(limiter, {tpm: 1}, 100)).toBe(20)
    // Full at 40 ten seconds before the expiry, which leaves 10.
    scene.nowMs = UNTIL.getTime() - 10_000
    expect(await admittedUntilRefused(limiter, {tpm: 1}, 100)).toBe(40)
    // A second of each rate.
    scene.nowMs = UNTIL.getTime() - 1000
    expect(await admittedUntilRefused(limiter, {tpm: 1}, 100)).toBe(36)
    scene.nowMs = UNTIL.getTime() + 1000
    expect(await admittedUntilRefused(limiter, {tpm: 1}, 100)).toBe(5)
    scene.nowMs += 10 * MINUTE_MS
    expect(await admittedUntilRefused(limiter, {tpm: 1}, 100)).toBe(10)
    // A process that has not seen it.
    scene.nowMs += MINUTE_MS
    expect(await admittedUntilRefused(scene.limiter(), {tpm: 1}, 100)).toBe(10)
    // Nobody has removed it.
    expect((await repository.configs.boosts())[0]?.limit.boost?.isEnded).toBe(true)
  })

  it('can be lower than the base', async () => {
    await set('tpm=60/min:20')
    await boost('tpm=6/min:2')
    expect(await admittedUntilRefused(limiter, {tpm: 1}, 100)).toBe(2)
    const {retryAfterMs} = await refusal(limiter.acquire(request({tpm: 1})))
    expect([10_000, 10_001]).toContain(retryAfterMs)
    scene.nowMs = UNTIL.getTime() + 20_000
    expect(await admittedUntilRefused(limiter, {tpm: 1}, 100)).toBe(20)
  })

  it('adds no cost to a request: one write, no read', async () => {
    await set('tpm=60/min:20')
    await boost('tpm=240/min:40')
    for (let warm = 0; warm < 3; warm++) await limiter.acquire(request({tpm: 1}))
    scene.calls.length = 0
    await limiter.acquire(request({tpm: 1}))
    expect(scene.calls).toEqual(['UpdateItem'])
  })

  it('ends at once for live buckets when it is removed early', async () => {
    await set('tpm=60/min:10')
    await boost('tpm=240/min:40')
    expect(await admittedUntilRefused(limiter, {tpm: 1}, 100)).toBe(40)
    scene.nowMs += 10_000
    await repository.endBoosts(resource, undefined)
    expect(await admittedUntilRefused(limiter, {tpm: 1}, 100)).toBe(10)
  })

  it('restores the level below for a scope without other limits', async () => {
    await set('tpm=60/min:10')
    const entity = {level: 'entity', entity: 'user-1', resource: 'gpt-4'} as const
    await repository.setLimits(entity, [parseLimit('tpm=240/min:40')], {until: UNTIL})
    expect(await admittedUntilRefused(limiter, {tpm: 1}, 100)).toBe(40)
    await set('tpm=60/min:7')
    // Its copy is that of before, even before it is removed.
    scene.nowMs = UNTIL.getTime() + MINUTE_MS
    expect(await admittedUntilRefused(limiter, {tpm: 1}, 100)).toBe(7)
    scene.nowMs += MINUTE_MS
    expect(await admittedUntilRefused(scene.limiter(), {tpm: 1}, 100)).toBe(7)
    scene.nowMs += 5 * MINUTE_MS
    await tidyBoosts(scene.tenant)
    scene.nowMs += MINUTE_MS
    expect(await admittedUntilRefused(limiter, {tpm: 1}, 100)).toBe(7)
  })

  describe('in a scope without other limits', () => {
    const entity = {level: 'entity', entity: 'user-1', resource: 'gpt-4'} as const
    const boostAlone = (...texts: string[]) => repository.setLimits(entity, texts.map(parseLimit), {until: UNTIL})

    it('gives way to the next level when it expires, to the millisecond, with any cache', async () => {
      await set('tpm=60/min:10')
      await boostAlone('tpm=240/min:40')
      await set('tpm=60/min:7')
      scene.nowMs = UNTIL.getTime() - 1
      expect(await admittedUntilRefused(limiter, {tpm: 1}, 100)).toBe(40)
      scene.nowMs = UNTIL.getTime() - 1 + 20_000
      expect(await admittedUntilRefused(limiter, {tpm: 1}, 100)).toBe(7)
    })

    it('gives way too if a client ahead moved the bucket past the expiry', async () => {
      await set('tpm=60/min:10')
      await boostAlone('tpm=240/min:40')
      await set('tpm=60/min:7')
      scene.nowMs = UNTIL.getTime() - 500
      for (let warm = 0; warm < 3; warm++) await limiter.acquire(request({tpm: 1}))
      // Like zae-limiter and its aggregator: by the bucket's windows, with the copied base after them.
      await scene.tenant.transport.send('UpdateItem', {
        TableName: table.name,
        Key: wireKey(keys.bucket(scene.tenant.namespace, 'user-1', 'gpt-4', 0)),
        UpdateExpression: 'SET vu = :until, rf = :end, b_tpm_tk = :full',
        ExpressionAttributeValues: {
          ':until': {N: String(UNTIL.getTime() + 86_400_000)},
          ':end': {N: String(UNTIL.getTime())},
          ':full': {N: '10000'},
        },
      })
      await limiter.acquire(request({tpm: 1}))
      scene.nowMs = UNTIL.getTime()
      expect(await admittedUntilRefused(limiter, {tpm: 1}, 100)).toBe(7)
    })

    it.each([1, 2])('stays expired for a process whose clock is behind: %i shards', async shards => {
      await set('tpm=60/min:10')
      await boostAlone('tpm=240/min:40')
      await set('tpm=60/min:10', 'rpm=4/day@UTC')
      scene.nowMs = UNTIL.getTime() - 5000
      await limiter.acquire(request({tpm: 1}))
      await splitInto(scene, shards)
      scene.nowMs = UNTIL.getTime() + 500
      // If one process restored what the other removed, it would be granted again.
      const admitted: number[] = []
      for (let times = 0; times < 3; times++) {
        const behind = scene.limiter({clock: () => scene.nowMs - 2000})
        for (const each of [limiter, behind]) {
          admitted.push(await admittedUntilRefused(each, {tpm: 1, rpm: 3}, 100))
          await each.acquire(request({tpm: 1}))
        }
        scene.nowMs += 100
      }
      expect(admitted.reduce((sum, each) => sum + each, 0)).toBe(1)
    })

    it('adds no cost to a request before and after its expiry: one write, no read', async () => {
      await set('tpm=60/min:20')
      await boostAlone('tpm=240/min:40')
      for (const from of [scene.nowMs, UNTIL.getTime() + 1000]) {
        scene.nowMs = from
        for (let warm = 0; warm < 3; warm++) await limiter.acquire(request({tpm: 1}))
        scene.calls.length = 0
        await limiter.acquire(request({tpm: 1}))
        expect(scene.calls).toEqual(['UpdateItem'])
      }
    })
  })
})
