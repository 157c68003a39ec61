import {beforeEach, describe, expect, it} from 'vitest'
import {n} from '../../../src/lib/schema/attribute-value.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {PythonPeer} from '../../helpers/python-peer.js'
import {isAdmitted, refusal, request, splitInto} from '../visit.js'

const bucket = {entity: 'user-1', resource: 'gpt-4'}

describeOnBoth('reading without writing', {}, table => {
  let scene: Scene
  let python: PythonPeer
  beforeEach(async () => {
    scene = new Scene(table)
    python = new PythonPeer(scene)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min', 'tpm=1000/min')
  })

  it('D-46 reports an unused bucket as full', async () => {
    const limiter = scene.limiter()
    expect(await limiter.available(bucket)).toEqual({rpm: 100, tpm: 1000})
    expect(await limiter.timeUntilAvailable({...bucket, consume: {rpm: 100}})).toBe(0)
    expect(await limiter.check(request({rpm: 100, tpm: 1000}))).toMatchObject({admitted: true, retryAfterMs: 0})
  })

  it('D-46 C-23 counts all shards', async () => {
    await scene.limiter().acquire(request({rpm: 1}))
    await splitInto(scene, 4)
    const limiter = scene.limiter()
    expect(await limiter.available(bucket)).toEqual({rpm: 99, tpm: 1000})
    await python.adjust({tpm: 250}, 2)
    expect(await limiter.available(bucket)).toEqual({rpm: 99, tpm: 750})
    expect(await limiter.check(request({tpm: 750}))).toMatchObject({admitted: true})
    const check = await limiter.check(request({rpm: 1, tpm: 800}))
    expect(check).toMatchObject({
      admitted: false,
      statuses: [
        {name: 'rpm', exceeded: false},
        {name: 'tpm', exceeded: true, available: 750, requested: 800},
      ],
    })
    expect(await limiter.timeUntilAvailable({...bucket, consume: {tpm: 800}})).toBe(check.retryAfterMs)
    expect(check.retryAfterMs).toBeLessThanOrEqual(12_002)
    scene.nowMs += check.retryAfterMs as number
    expect(await isAdmitted(limiter.acquire(request({tpm: 800})))).toBe(true)
  })

  it('D-46 reports no more than the parent has left', async () => {
    await scene.entity('user-1', 'team-1')
    await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'tpm=400/min')
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 10, tpm: 100}))
    expect(await limiter.available(bucket)).toEqual({rpm: 90, tpm: 300})
    expect(await limiter.check(request({rpm: 90, tpm: 300}))).toMatchObject({admitted: true})
    const check = await limiter.check(request({rpm: 1, tpm: 301}))
    expect(check.admitted).toBe(false)
    expect(check.statuses.filter(({exceeded}) => exceeded)).toMatchObject([{entity: 'team-1', level: 'parent'}])
    scene.nowMs += check.retryAfterMs as number
    expect(await isAdmitted(limiter.acquire(request({rpm: 1, tpm: 301})))).toBe(true)
  })

  it('L2 adds no wait of a level that would admit the request', async () => {
    await scene.entity('user-1', 'team-1')
    await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'rpm=1k/sec:10')
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 10}))
    const {retryAfterMs} = await refusal(limiter.acquire(request({rpm: 5})))
    expect(retryAfterMs).toBe(6)
    expect(await limiter.check(request({rpm: 5}))).toMatchObject({admitted: false, retryAfterMs: 6})
  })

  it('D-46 reads each item once and writes nothing in a check', async () => {
    await scene.entity('user-1', 'team-1')
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    const before = await python.item()
    scene.calls.length = 0
    scene.nowMs += 1000
    await limiter.available(bucket)
    await limiter.check(request({rpm: 50}))
    await limiter.timeUntilAvailable({...bucket, consume: {rpm: 50}})
    expect(new Set(scene.calls)).toEqual(new Set(['BatchGetItem']))
    expect(scene.calls).toHaveLength(6)
    expect(await python.item()).toEqual(before)
  })

  it('D-46 uses changed limits before any request has met them', async () => {
    await scene.limiter().acquire(request({rpm: 10}))
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=20/min', 'new=7/min')
    const limiter = scene.limiter()
    expect(await limiter.available(bucket)).toEqual({rpm: 20, new: 7})
    expect(await limiter.timeUntilAvailable({...bucket, consume: {rpm: 21}})).toBeNull()
  })

  it('D-46 ignores a shard in debt for the others: check agrees with acquire', async () => {
    await scene.limiter().acquire(request({}))
    await splitInto(scene, 2)
    await python.adjust({rpm: 90}, 1)
    const limiter = scene.limiter()
    expect(await limiter.available(bucket)).toMatchObject({rpm: 50})
    expect(await limiter.check(request({rpm: 50}))).toMatchObject({admitted: true})
    expect(await isAdmitted(limiter.acquire(request({rpm: 50})))).toBe(true)
  })

  it('D-46 does not trust a shard count of 2048', async () => {
    await scene.limiter().acquire(request({rpm: 10}))
    await python.set({shard_count: n(2048)})
    scene.nowMs += 600
    const limiter = scene.limiter()
    scene.calls.length = 0
    expect(await limiter.available(bucket)).toEqual({rpm: 91, tpm: 1000})
    expect(await limiter.check(request({rpm: 91}))).toMatchObject({admitted: true})
    expect(scene.calls.length).toBeLessThanOrEqual(8)
    expect(await python.number('shard_count')).toBe(2048)
  })

  describe('a refusal', () => {
    it('L6 reports every requested limit with its state, without wcu', async () => {
      const limiter = scene.limiter()
      await limiter.acquire(request({rpm: 60, tpm: 10}))
      const error = await refusal(limiter.acquire(request({rpm: 50, tpm: 20})))
      expect(error).toMatchObject({name: 'RateLimitExceeded', code: 'limit.exceeded', retryAfterMs: 6001})
      expect(error.statuses).toEqual([
        {
          name: 'rpm',
          entity: 'user-1',
          resource: 'gpt-4',
          level: 'entity',
          source: 'resource',
          capacity: 100,
          refillAmount: 100,
          refillPeriodSeconds: 60,
          available: 40,
          requested: 50,
          fullAfterMs: 36_001,
          exceeded: true,
          retryAfterMs: 6001,
        },
        expect.objectContaining({name: 'tpm', available: 990, requested: 20, exceeded: false, retryAfterMs: 0}),
      ])
      expect(JSON.parse(JSON.stringify(error))).toEqual({
        type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
        title: 'Quota exceeded',
        status: 429,
        detail: 'Rate limit exceeded. Try again in 7 seconds.',
        'violated-policies': ['rpm'],
      })
      expect(error.toReferenceJSON()).toEqual({
        error: 'rate_limit_exceeded',
        contended: false,
        message: error.message,
        retry_after_seconds: 6.001,
        retry_after_ms: 6001,
        limits: [
          {
            entity_id: 'user-1',
            resource: 'gpt-4',
            limit_name: 'rpm',
            level: 'entity',
            source: 'resource',
            capacity: 100,
            refill_amount: 100,
            refill_period_seconds: 60,
            available: 40,
            requested: 50,
            exceeded: true,
            retry_after_seconds: 6.001,
          },
          expect.objectContaining({limit_name: 'tpm', exceeded: false, retry_after_seconds: 0}),
        ],
      })
      expect(error.headers()).toEqual({
        'Retry-After': '7',
        RateLimit: '"rpm";r=40;t=7, "tpm";r=990;t=1',
        'RateLimit-Policy': '"rpm";q=100;w=60, "tpm";q=1000;w=60',
      })
    })

    it('never mentions wcu: not in refusals, checks, leases, balances, or errors about names', async () => {
      const limiter = scene.limiter()
      const lease = await limiter.acquire(request({rpm: 60}))
      const outputs = [
        lease.consumed,
        await limiter.available(bucket),
        await limiter.check(request({rpm: 1})),
        await limiter.check(request({rpm: 99})),
        await limiter.resolveLimits(bucket),
        await refusal(limiter.acquire(request({rpm: 50}))),
        await limiter.acquire(request({nothing: 1})).catch(error => [error.message, error.details]),
        await limiter.acquire(request({rpm: 1000})).catch(error => [error.message, error.details]),
        await lease.adjust({nothing: 1}).catch(error => [error.message, error.details]),
      ]
      expect(JSON.stringify(outputs)).not.toContain('wcu')
    })

    it.each([1, 4])(
      'L3 throws another error for more than the capacity of %d shards, at once and every time',
      async count => {
        const limiter = scene.limiter()
        for (const shards of [0, count]) {
          if (shards > 0) {
            await scene.limiter().acquire(request({rpm: 1}))
            await splitInto(scene, shards)
            await limiter.acquire(request({rpm: 1}))
          }
          const error = await limiter.acquire(request({rpm: 1, tpm: 1001})).catch(caught => caught)
          expect(error).toMatchObject({
            name: 'RequestTooLarge',
            code: 'request.too-large',
            details: {entity: 'user-1', resource: 'gpt-4', limit: 'tpm', requested: 1001, capacity: 1000},
          })
          expect(error).not.toHaveProperty('retryAfterMs')
          expect(await limiter.check(request({tpm: 1001}))).toMatchObject({
            admitted: false,
            retryAfterMs: null,
          })
        }
        expect(await scene.totals('user-1', 'gpt-4', 'rpm', count)).toMatchObject({consumed: 2})
      },
    )

    it('L3 throws for more than the parent can hold too, and refunds the child', async () => {
      await scene.entity('user-1', 'team-1')
      await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'tpm=400/min')
      const limiter = scene.limiter()
      await limiter.acquire(request({tpm: 1}))
      expect(await limiter.acquire(request({tpm: 401})).catch(caught => caught)).toMatchObject({
        code: 'request.too-large',
        details: {entity: 'team-1', capacity: 400},
      })
      await limiter.settled()
      expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 999, consumed: 1})
    })
  })
})
