import {beforeEach, describe, expect, it} from 'vitest'
import {expressLimiter} from '../../src/lib/adapters/express.js'
import {fastifyLimiter} from '../../src/lib/adapters/fastify.js'
import {honoLimiter} from '../../src/lib/adapters/hono.js'
import {type LimitState, shareUsed} from '../../src/lib/core/limits/limit-state.js'
import {defineLimits, formatLimit, type LimitName} from '../../src/lib/core/limits/limit-text.js'
import {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded, RequestTooLarge} from '../../src/lib/limiter/refusal/errors.js'
import {balanceHeaders, quotaHeaders} from '../../src/lib/limiter/refusal/headers.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, refusal, request, splitInto} from './visit.js'

describeOnBoth('decisions', {}, table => {
  let scene: Scene
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/min', 'tpm=1000/min')
  })

  it('returns a lease and balances with an admission, without another call', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    scene.calls.length = 0
    const decision = await limiter.tryAcquire(request({rpm: 2, tpm: 300}))
    expect(scene.calls).toEqual(['UpdateItem'])
    expect(decision).toMatchObject({
      admitted: true,
      waitedMs: 0,
      limits: {
        rpm: {entity: 'user-1', level: 'entity', capacity: 10, available: 7, refillAmount: 10, refillPeriodSeconds: 60},
        tpm: {capacity: 1000, available: 700},
      },
    })
    if (!decision.admitted) throw new Error('refused')
    expect(decision.limits.rpm?.fullAfterMs).toBe(18_001)
    expect(Object.keys(decision.limits).sort()).toEqual(['rpm', 'tpm'])
    expect(decision.headers()).toEqual({
      RateLimit: '"rpm";r=7;t=19, "tpm";r=700;t=19',
      'RateLimit-Policy': '"rpm";q=10;w=60, "tpm";q=1000;w=60',
    })
    await limiter.settled()
    expect(scene.calls).toEqual(['UpdateItem'])
  })

  it('returns a refusal as a value, with the true wait and the fields of a 429', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 10, tpm: 100}))
    const decision = await limiter.tryAcquire(request({rpm: 1, tpm: 1}))
    if (decision.admitted) throw new Error('admitted')
    expect(decision).toMatchObject({
      reason: 'exceeded',
      retryAfterMs: 6001,
      limits: {rpm: {available: 0, capacity: 10, fullAfterMs: 60_001}, tpm: {available: 900, fullAfterMs: 6001}},
    })
    expect(decision.error).toBeInstanceOf(RateLimitExceeded)
    expect(decision.headers()).toEqual({
      'Retry-After': '7',
      RateLimit: '"rpm";r=0;t=7, "tpm";r=900;t=7',
      'RateLimit-Policy': '"rpm";q=10;w=60, "tpm";q=1000;w=60',
    })
    scene.nowMs += Number(decision.retryAfterMs)
    expect(await limiter.tryAcquire(request({rpm: 1, tpm: 1}))).toMatchObject({admitted: true})
  })

  it('refuses an oversized request without a wait or Retry-After', async () => {
    const limiter = scene.limiter()
    const decision = await limiter.tryAcquire(request({rpm: 11}))
    if (decision.admitted) throw new Error('admitted')
    expect(decision).toMatchObject({reason: 'too-large', retryAfterMs: null, limits: {}})
    expect(decision.headers()).toEqual({})
    expect(decision.error).toMatchObject({limit: 'rpm', requested: 11, capacity: 10, entity: 'user-1'})
    expect(await failure(limiter.acquire(request({rpm: 11})))).toBeInstanceOf(RequestTooLarge)
  })

  it('throws for invalid input and when its signal aborts', async () => {
    const patient = scene.limiter()
    await expect(patient.tryAcquire({...request({rpx: 1}), strict: true})).rejects.toMatchObject({
      code: 'limit.unknown',
    })
    await expect(patient.tryAcquire(request({rpm: -1}))).rejects.toMatchObject({code: 'request.amount'})
    const aborted = patient.tryAcquire({...request({rpm: 1}), signal: AbortSignal.abort()})
    await expect(aborted).rejects.toMatchObject({code: 'dynamo.aborted'})
  })

  it('refuses as unavailable during an outage if the policy blocks, and admits unmetered if it allows', async () => {
    scene.transport = {send: () => new Promise(() => {})}
    const limiter = scene.limiter({timeoutMs: 20})
    const blocked = await limiter.tryAcquire(request({rpm: 1}))
    if (blocked.admitted) throw new Error('admitted')
    expect(blocked).toMatchObject({reason: 'unavailable', retryAfterMs: 1000, limits: {}, waitedMs: 0})
    expect(blocked.headers()).toEqual({'Retry-After': '1'})
    expect(blocked.error.toProblem()).toEqual({
      type: 'about:blank',
      title: 'Service Unavailable',
      status: 503,
      detail: 'The request could not be admitted now. Try again.',
    })
    expect(await failure(limiter.acquire(request({rpm: 1})))).toMatchObject({code: 'limiter.unavailable'})
    const open = await limiter.tryAcquire({...request({rpm: 1}), onUnavailable: 'allow'})
    expect(open).toMatchObject({admitted: true, limits: {}, lease: {isMetered: false}})
    expect(open.headers()).toEqual({})
  })

  it('L6 counts the tokens of a top-up in the balance, the capacity and the headers of a quota', async () => {
    await scene.configure({level: 'resource', resource: 'batch'}, 'rpd=10/day@UTC')
    const bucket = {entity: 'user-1', resource: 'batch'}
    const limiter = scene.limiter()
    await limiter.acquire({...bucket, consume: {rpd: 1}})
    await new NamespaceRepository(scene.tenant, undefined).topUpBucket(bucket, {rpd: 5})
    const {limits, ...lease} = await limiter.tryAcquire({...bucket, consume: {rpd: 1}})
    expect(limits.rpd).toMatchObject({available: 13, capacity: 15})
    expect(lease.headers()).toMatchObject({
      RateLimit: expect.stringMatching(/^"rpd";r=13;t=\d+$/),
      'RateLimit-Policy': expect.stringMatching(/^"rpd";q=15;w=\d+$/),
    })
    const [checked] = (await limiter.check({...bucket, consume: {rpd: 1}})).statuses
    expect(checked).toMatchObject({available: 13, capacity: 15, fullAfterMs: limits.rpd?.fullAfterMs})
  })

  it('reports the tighter limit of entity and parent', async () => {
    await scene.entity('user-1', 'team-1')
    await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'rpm=4/min')
    const limiter = scene.limiter()
    const lease = await limiter.acquire(request({rpm: 1, tpm: 1}))
    expect(lease.limits).toMatchObject({
      rpm: {entity: 'team-1', level: 'parent', capacity: 4, available: 3},
      tpm: {entity: 'user-1', level: 'entity', capacity: 1000, available: 999},
    })
    expect(lease.headers().RateLimit).toBe('"rpm";r=3;t=16, "tpm";r=999;t=1')
    const error = await refusal(limiter.acquire(request({rpm: 4, tpm: 1})))
    expect(error.limits).toMatchObject({rpm: {entity: 'team-1', level: 'parent', available: 3}})
    expect(error.headers().RateLimit).toBe('"rpm";r=3;t=16')
  })

  it("updates balances with the lease's settlements and the clock", async () => {
    const limiter = scene.limiter()
    const lease = await limiter.acquire(request({rpm: 1, tpm: 500}))
    await lease.adjust({tpm: 600})
    expect(lease.limits.tpm?.available).toBe(-100)
    expect(lease.headers().RateLimit).toContain('"tpm";r=0;')
    scene.nowMs += 12_000
    expect(lease.limits.tpm?.available).toBe(100)
    await lease.consume({rpm: 4, tpm: 100})
    expect(lease.limits).toMatchObject({rpm: {available: 6}, tpm: {available: 0}})
    await lease.release({tpm: 50})
    expect(lease.limits.tpm?.available).toBe(50)
    await lease.rollback()
    expect(lease.limits).toMatchObject({rpm: {available: 10}, tpm: {available: 1000}})
    scene.nowMs += 1
    expect(await limiter.available({entity: 'user-1', resource: 'gpt-4'})).toEqual({rpm: 10, tpm: 1000})
  })

  it('reports the used share of the tightest limit after the request, without another call', async () => {
    const limiter = scene.limiter()
    const first = await limiter.tryAcquire(request({rpm: 1, tpm: 400}))
    scene.calls.length = 0
    expect(first.share).toBe(0.4)
    const second = await limiter.tryAcquire(request({rpm: 9}))
    if (!second.admitted) throw new Error('refused')
    expect(second.share).toBe(1)
    expect(second.lease.share).toBe(1)
    expect(scene.calls).toEqual(['UpdateItem'])
    const refused = await limiter.tryAcquire(request({rpm: 1, tpm: 1}))
    expect(refused).toMatchObject({admitted: false, share: 1})
    await second.lease.adjust({tpm: 1100})
    expect(second.share).toBe(1.5)
    scene.nowMs += 3_600_000
    expect(second.share).toBe(0)
  })

  it('takes the used share from the parent and from further resources if they are tighter', async () => {
    await scene.entity('user-1', 'team-1')
    await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'rpm=100/min', 'rpd=10/day@UTC')
    await scene.configure({level: 'resource', resource: 'search'}, 'rpm=4/min')
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 80}, 'team-1'))
    const lease = await limiter.acquire(request({rpm: 1, tpm: 1}))
    expect(lease.limits.rpm).toMatchObject({level: 'entity', available: 9})
    expect(lease.share).toBe(0.81)
    expect((await limiter.acquire(request({rpd: 10}))).share).toBe(1)
    const alone = {...request({rpm: 1}, 'user-2'), resources: {search: {rpm: 3}}}
    expect((await limiter.acquire(alone)).share).toBe(0.75)
    expect((await refusal(limiter.acquire(alone))).share).toBe(0.75)
  })

  it('reports no used share if no balance is known, and 0 for a balance above the capacity', async () => {
    expect(await scene.limiter().tryAcquire(request({rpm: 11}))).toMatchObject({admitted: false, share: undefined})
    scene.transport = {send: () => new Promise(() => {})}
    const limiter = scene.limiter({timeoutMs: 20, onUnavailable: 'allow'})
    expect(await limiter.tryAcquire(request({rpm: 1}))).toMatchObject({admitted: true, share: undefined})
    const full = {name: 'rpm', entity: 'e', resource: 'r', level: 'entity', ...{refillAmount: 1, requested: 0}} as const
    const state = {...full, ...{refillPeriodSeconds: 60, fullAfterMs: 0, exceeded: false, retryAfterMs: 0}}
    expect(shareUsed([{...state, capacity: 10, available: 12}])).toBe(0)
    expect(shareUsed([{...state, capacity: 0, available: 0}])).toBe(1)
  })

  it('reports no refill that a full bucket did not earn, neither before a first charge nor before a settlement', async () => {
    await scene.limiter().acquire(request({rpm: 1, tpm: 1}))
    scene.nowMs += 3_600_000
    const limiter = scene.limiter()
    const [lease, other] = await Promise.all([
      limiter.acquire(request({rpm: 1, tpm: 500})),
      limiter.acquire(request({rpm: 2, tpm: 300})),
    ])
    // The second one came while the first was written.
    expect(lease.limits).toMatchObject({rpm: {available: 9}, tpm: {available: 500}})
    expect(other.limits).toMatchObject({rpm: {available: 7}, tpm: {available: 200}})
    scene.nowMs += 3_600_000
    await lease.adjust({tpm: 600})
    expect(lease.limits).toMatchObject({rpm: {available: 10}, tpm: {available: 400}})
    expect(await limiter.available({entity: 'user-1', resource: 'gpt-4'})).toEqual({rpm: 10, tpm: 400})
  })

  it('reports exact balances if all shards were charged together, and an estimate for one shard', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 2}))
    await splitInto(scene, 4)
    scene.nowMs += 1000
    const one = scene.limiter()
    const lease = await one.acquire(request({tpm: 10}))
    expect(lease.limits.tpm).toMatchObject({capacity: 1000, available: 960})
    const gathered = await one.acquire(request({tpm: 900}))
    expect(gathered.limits.tpm?.available).toBe(90)
  })
})

describe('header fields', () => {
  const status = (more: Partial<LimitState>): LimitState => ({
    ...{name: 'rpm', entity: 'e', resource: 'r', level: 'entity', source: 'resource'},
    ...{capacity: 10, refillAmount: 10, refillPeriodSeconds: 60, available: 0, requested: 1, fullAfterMs: 60_000},
    ...{exceeded: true, retryAfterMs: 6001},
    ...more,
  })

  it.each([1, 999, 1000, 1001, 0.2, 2 ** 31])('rounds Retry-After of %d ms up to whole seconds, at least one', ms => {
    const {'Retry-After': seconds} = new RateLimitExceeded([status({})], ms).headers()
    expect(seconds).toMatch(/^[1-9]\d*$/)
    expect(Number(seconds) * 1000).toBeGreaterThanOrEqual(ms)
    expect(Number(seconds)).toBeLessThan(ms / 1000 + 1.001)
  })

  it('contain only non-negative whole numbers', () => {
    const quota = {name: 'rpm', capacity: 10, refillAmount: 10, refillPeriodSeconds: 60, available: -5}
    for (const resetMs of [null, Number.POSITIVE_INFINITY, Number.NaN, 0, 1.5]) {
      const {RateLimit} = quotaHeaders([{...quota, resetMs}])
      expect(RateLimit).toMatch(/^"rpm";r=0(;t=\d+)?$/)
    }
    expect(balanceHeaders({})).toEqual({})
    const neverFull = new RateLimitExceeded(
      [status({refillAmount: 0, fullAfterMs: null, exceeded: false, retryAfterMs: 0})],
      1,
    )
    expect(neverFull.headers().RateLimit).toBe('"rpm";r=0')
    expect(neverFull.limits.rpm?.fullAfterMs).toBeNull()
  })
})

describeOnBoth('withLease', {}, table => {
  let scene: Scene
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/min')
  })
  const tokens = async () => (await scene.totals('user-1', 'gpt-4', 'rpm')).tokens

  it.each([
    ['committed', 8],
    ['rolled back', 10],
  ])('returns the result of a callback that has %s the lease itself', async (how, left) => {
    const result = await scene.limiter().withLease(request({rpm: 2}), async lease => {
      await (how === 'committed' ? lease.commit() : lease.rollback())
      return 'done'
    })
    expect(result).toBe('done')
    expect(await tokens()).toBe(left)
  })

  it('throws the error of the callback and refunds the tokens', async () => {
    const limiter = scene.limiter()
    const failing = limiter.withLease(request({rpm: 2}), () => {
      throw new Error('the model failed')
    })
    await expect(failing).rejects.toThrow('the model failed')
    expect(await tokens()).toBe(10)
  })

  it('throws the error of a callback that committed before, and keeps the charge', async () => {
    const failing = scene.limiter().withLease(request({rpm: 2}), async lease => {
      await lease.commit()
      throw new Error('too late')
    })
    await expect(failing).rejects.toThrow('too late')
    expect(await tokens()).toBe(8)
  })
})

describe('options', () => {
  const open = {stack: 'test', transport: {send: () => Promise.reject(new Error('nothing is sent'))}}
  const charged = {entity: () => 'e', resource: 'r'}
  const bad = [Number.NaN, Number.POSITIVE_INFINITY, -1, 2 ** 31, '5' as unknown as number]

  it.each(bad)('rejects a time of %s', async ms => {
    for (const option of ['timeoutMs', 'denyCacheMs', 'configCacheMs']) {
      expect(() => new RateLimiter({...open, [option]: ms})).toThrow(expect.objectContaining({code: 'option.invalid'}))
    }
    const limiter = new RateLimiter(open)
    for (const option of ['timeoutMs', 'waitMs']) {
      const asked = limiter.acquire({...request({rpm: 1}), [option]: ms})
      await expect(asked).rejects.toMatchObject({name: 'InvalidInput', code: 'option.invalid', details: {option}})
    }
  })

  it.each([
    [{maxShards: 0}, 'option.invalid'],
    [{maxShards: 1.5}, 'option.invalid'],
    [{bucketTtlMultiplier: Number.NaN}, 'option.invalid'],
    [{namespace: ''}, 'name.invalid'],
    [{namespace: 'a/b'}, 'name.invalid'],
    [{namespaceId: '_'}, 'name.invalid'],
    [{namespaceId: 'a/b'}, 'name.invalid'],
    [{namespaceId: ''}, 'name.invalid'],
  ])('rejects %j', (options, code) => {
    expect(() => new RateLimiter({...open, ...options})).toThrow(expect.objectContaining({name: 'InvalidInput', code}))
  })

  it('requires names to be strings', async () => {
    const entity = 42 as unknown as string
    await expect(new RateLimiter(open).acquire({...request({rpm: 1}), entity})).rejects.toMatchObject({
      code: 'name.invalid',
    })
  })

  it('accepts only its own limits in a typed limiter; the compiler checks this', () => {
    const limiter = new RateLimiter<'rpm' | 'tpm'>(open)
    const ask = (typed: typeof limiter) => [
      typed.acquire({entity: 'e', resource: 'r', consume: {rpm: 1}}).then(lease => lease.adjust({tpm: 1})),
      // @ts-expect-error a typing error
      typed.acquire({entity: 'e', resource: 'r', consume: {rmp: 1}}),
      // @ts-expect-error a typing error
      typed.acquire({entity: 'e', resource: 'r', consume: {rpm: 1}}).then(lease => lease.adjust({tmp: 1})),
    ]
    expect(ask).toBeTypeOf('function')
  })

  it('types limiters and adapters by limits defined once; the compiler checks this', () => {
    const limits = defineLimits(['rpm=60/min', 'tpm:100k/min'])
    const limiters = [
      new RateLimiter<LimitName<typeof limits>>(open),
      new RateLimiter({...open, defaultLimits: limits}),
    ]
    const ask = (typed: (typeof limiters)[number], untyped: RateLimiter) => [
      honoLimiter(typed, {...charged, consume: {rpm: 1}}),
      // @ts-expect-error a typing error
      honoLimiter(typed, {...charged, consume: {rmp: 1}}),
      // @ts-expect-error a typing error
      expressLimiter(typed, {...charged, consume: () => ({rmp: 1})}),
      // @ts-expect-error a typing error
      fastifyLimiter(typed, {...charged, consume: {rmp: 1}}),
      honoLimiter(untyped, {...charged, consume: {anything: 1}}),
    ]
    expect(ask).toBeTypeOf('function')
    expect(limits.map(formatLimit)).toEqual(['rpm=60/min', 'tpm=100k/min'])
  })
})
