import {beforeEach, describe, expect, it} from 'vitest'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {RateLimitExceeded} from '../../../src/lib/limiter/refusal/errors.js'
import {quotaHeaders} from '../../../src/lib/limiter/refusal/headers.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'

type Item = {readonly name: string} & Readonly<Record<string, string | number>>

/** A List of Strings with Integer parameters (RFC 9651), as the draft on RateLimit fields requires. */
function parseList(field: string): Item[] {
  const string = '"(?:[ !#-\\[\\]-~]|\\\\["\\\\])*"'
  const item = `${string}(?:; *[a-z*][a-z0-9_.*-]*=-?[0-9]{1,15})*`
  expect(field).toMatch(new RegExp(`^${item}(?:[ \\t]*,[ \\t]*${item})*$`))
  return [...field.matchAll(new RegExp(item, 'g'))].map(([text]) => {
    const [name = '', ...parameters] = text.split(';')
    return {
      name: JSON.parse(name),
      ...Object.fromEntries(parameters.map(each => each.trim().split('=')).map(([key, value]) => [key, Number(value)])),
    }
  })
}

/** The limits of a response by name, checked against the draft: q ≥ r, and w ≥ t > 0 where present. */
function readFields(headers: Readonly<Record<string, string>>): Record<string, Item> {
  const limits = parseList(headers.RateLimit ?? '')
  const policies = parseList(headers['RateLimit-Policy'] ?? '')
  expect(limits.map(({name}) => name)).toEqual(policies.map(({name}) => name))
  return Object.fromEntries(
    limits.map((limit, at) => {
      const both: Item = {...policies[at], ...limit}
      const {name, q, r, w = 1e15, t = 1} = both
      expect(r, name).toBeGreaterThanOrEqual(0)
      expect(q, name).toBeGreaterThanOrEqual(r as number)
      expect(t, name).toBeGreaterThan(0)
      expect(w, name).toBeGreaterThanOrEqual(t as number)
      return [name, both]
    }),
  )
}

/** 22:13:20 UTC: 6,400 seconds before midnight. */
const START_MS = 1_700_000_000_000

/** Limit, and its fields after a charge of 2. */
const KINDS: Readonly<Record<string, readonly [limit: string, fields: Record<string, number>]>> = {
  'a rate': ['100/min', {q: 100, w: 60, r: 98, t: 2}],
  'a rate over several periods': ['500/15min', {q: 500, w: 900, r: 498, t: 4}],
  'a rate with a burst': ['100/min:300', {q: 300, w: 180, r: 298, t: 2}],
  'a rate with a burst below the rate': ['100/min:50', {q: 50, w: 30, r: 48, t: 2}],
  'a calendar quota': ['100/day@UTC', {q: 100, w: 6401, r: 98, t: 6401}],
  'a calendar quota by cron': ['100@"0 9 * * 1-5"', {q: 100, w: 38_801, r: 98, t: 38_801}],
  'a session quota': ['100/5h!', {q: 100, w: 18_001, r: 98, t: 18_001}],
  'a scaled window': ['100/min,x0.5@"* 22 * * *"', {q: 50, w: 60, r: 48, t: 3}],
  'a window with a burst': ['100/min,200/min:600@"* 22 * * *"', {q: 600, w: 180, r: 598, t: 1}],
  'a quota with a window': ['100/day@UTC,40@"* 22 * * *"', {q: 40, r: 38}],
  'a soft rate': ['100/min,soft', {q: 100, w: 60, r: 98, t: 2}],
  'a soft quota': ['100/day@UTC,soft', {q: 100, w: 6401, r: 98, t: 6401}],
  'a money rate': ['$5/min', {q: 5_000_000, w: 60, r: 4_999_998, t: 1}],
  'a money quota': ['$500/month@UTC', {q: 500_000_000, r: 499_999_998}],
  'a slow rate': ['3/day:2', {q: 2, w: 57_601, r: 0, t: 57_601}],
}

describeOnBoth('rate limit headers', {}, table => {
  let scene: Scene
  beforeEach(() => {
    scene = new Scene(table)
    scene.nowMs = START_MS
  })

  const bucket = {entity: 'user-1', resource: 'gpt-4'}

  describe.each(Object.entries(KINDS))('%s', (_, [limit, fields]) => {
    it('has a policy with the maximum of r and the window, when admitted and when refused', async () => {
      await scene.configure({level: 'resource', resource: 'gpt-4'}, `many-calls.v1=${limit}`)
      const limiter = scene.limiter()
      const admitted = await limiter.tryAcquire({...bucket, consume: {'many-calls.v1': 2}})
      expect(readFields(admitted.headers())['many-calls.v1']).toMatchObject(fields)
      const refused = await limiter.tryAcquire({...bucket, consume: {'many-calls.v1': fields.q as number}})
      if (limit.endsWith('soft')) return expect(readFields(refused.headers())['many-calls.v1']).toMatchObject({r: 0})
      const {'many-calls.v1': policy} = readFields(refused.headers())
      expect(refused.admitted).toBe(false)
      expect(policy).toMatchObject({q: fields.q, r: fields.r})
      if (fields.w) expect(policy?.w).toBe(fields.w)
      expect(policy?.t).toBe(Number(refused.headers()['Retry-After']))
    })
  })

  it('counts top-ups of quotas and temporary limits in q', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpd=10/day@UTC', 'rpm=10/min')
    const limiter = scene.limiter({configCacheMs: 0})
    const consume = {rpd: 1, rpm: 1}
    await limiter.acquire({...bucket, consume})
    const repository = new NamespaceRepository(scene.tenant, undefined)
    await repository.topUpBucket(bucket, {rpd: 5})
    const toppedUp = await limiter.tryAcquire({...bucket, consume})
    expect(readFields(toppedUp.headers())).toMatchObject({rpd: {q: 15, r: 13, w: 6401}, rpm: {q: 10, r: 8, w: 60}})
    const resource = {level: 'resource', resource: 'gpt-4'} as const
    await repository.setLimits(resource, [parseLimit('rpm=240/min:40')], {until: new Date(START_MS + 3_600_000)})
    const boosted = await scene.limiter().tryAcquire({...bucket, consume})
    expect(readFields(boosted.headers())).toMatchObject({rpd: {q: 15, r: 12}, rpm: {q: 40, r: 7, w: 10}})
  })

  it('has the window at least as long as the wait when a limit is in debt', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/min')
    const limiter = scene.limiter()
    const lease = await limiter.acquire({...bucket, consume: {rpm: 10}})
    await lease.adjust({rpm: 30})
    expect(readFields(lease.headers())).toMatchObject({rpm: {q: 10, r: 0, t: 241, w: 241}})
    const refused = await limiter.tryAcquire({...bucket, consume: {rpm: 1}})
    expect(readFields(refused.headers())).toMatchObject({rpm: {r: 0, t: 187, w: 187}})
  })

  it('omits t for a full limit', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/min', 'rpd=10/day@UTC')
    const decision = await scene.limiter().tryAcquire({...bucket, consume: {rpm: 1}})
    expect(decision.headers()).toEqual({
      RateLimit: '"rpd";r=10, "rpm";r=9;t=7',
      'RateLimit-Policy': '"rpd";q=10, "rpm";q=10;w=60',
    })
  })
})

describe('quotaHeaders', () => {
  it('keeps to integers of 15 digits, and r to q', () => {
    const limit = {name: 'x', capacity: 9e12, available: 9e12 + 5, refillAmount: 1, refillPeriodSeconds: 1e9}
    const most = 999_999_999_999_999
    expect(readFields(quotaHeaders([{...limit, resetMs: 1e30}]))).toMatchObject({
      x: {q: 9e12, r: 9e12, w: most, t: most},
    })
    expect(readFields(quotaHeaders([{...limit, resetMs: null}]))).toMatchObject({x: {w: most}})
    expect(quotaHeaders([])).toEqual({})
  })

  it('states no time for a limit that never admits', () => {
    const state = {name: 'x', entity: 'e', resource: 'r', level: 'entity', capacity: 1, available: 0} as const
    const rate = {refillAmount: 0, refillPeriodSeconds: 1, fullAfterMs: null, requested: 1, exceeded: true}
    const error = new RateLimitExceeded([{...state, ...rate, retryAfterMs: null}], null)
    expect(error.headers()).toEqual({RateLimit: '"x";r=0', 'RateLimit-Policy': '"x";q=1'})
  })
})
