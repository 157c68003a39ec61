import {beforeEach, describe, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {given, request, splitInto} from './visit.js'

const RESOURCE = {level: 'resource', resource: 'gpt-4'} as const

describeOnBoth('S9 a quota whose allowance changes within a period', {}, table => {
  let scene: Scene
  beforeEach(() => {
    scene = new Scene(table)
    scene.nowMs = Date.parse('2026-03-10T09:00:00Z')
  })

  const repository = () => new NamespaceRepository(scene.tenant, undefined)
  const change = async (limit: string) => repository().setLimits(RESOURCE, parseLimits([limit]))
  const left = async () => (await scene.limiter().available(request({}))).q

  async function use(q: number): Promise<void> {
    await using limiter = scene.limiter({denyCacheMs: 0})
    await (await limiter.acquire(request({q}))).commit()
    await limiter.settled()
  }

  describe.each(['/month@UTC', '/5h!'])('of kind %s', kind => {
    beforeEach(async () => {
      await scene.configure(RESOURCE, `q=10${kind}`)
      await use(8)
    })

    it.each([
      ['lowered', 9, 1],
      ['lowered to the use', 8, 0],
      ['raised', 20, 12],
    ])('leaves the new allowance less the use when it is %s to %i', async (_, allowance, expected) => {
      await change(`q=${allowance}${kind}`)
      expect(await left()).toBe(expected)
      expect(await given(scene, 30)).toBe(expected)
    })

    it('refuses until the next period when more is used than the new allowance', async () => {
      await change(`q=5${kind}`)
      expect(await left()).toBe(-3)
      expect(await given(scene, 1)).toBe(0)
      await change(`q=9${kind}`)
      expect(await given(scene, 9)).toBe(1)
      scene.nowMs += 40 * 86_400_000
      expect(await given(scene, 30)).toBe(9)
    })

    it('S1 mints nothing when it is raised and lowered repeatedly', async () => {
      for (const allowance of [20, 5, 12, 3, 20, 10, 20]) await change(`q=${allowance}${kind}`)
      expect(await given(scene, 30)).toBe(12)
    })

    it('keeps a top-up beside the new allowance', async () => {
      await repository().topUpBucket({entity: 'user-1', resource: 'gpt-4'}, {q: 4})
      await change(`q=9${kind}`)
      expect(await left()).toBe(5)
      await change(`q=12${kind}`)
      expect(await given(scene, 30)).toBe(8)
    })

    it('returns a refund to the new allowance', async () => {
      await using limiter = scene.limiter()
      const lease = await limiter.acquire(request({q: 2}))
      await change(`q=9${kind}`)
      await lease.rollback()
      await limiter.settled()
      expect(await left()).toBe(1)
    })

    it('admits at once in a process that knows the bucket as empty', async () => {
      await using limiter = scene.limiter({denyCacheMs: 0})
      expect((await limiter.tryAcquire(request({q: 3}))).admitted).toBe(false)
      await change(`q=20${kind}`)
      expect((await limiter.tryAcquire(request({q: 12}))).admitted).toBe(true)
      expect((await limiter.tryAcquire(request({q: 1}))).admitted).toBe(false)
    })

    it('follows a change that leaves the buckets to the next request', async () => {
      await scene.configure(RESOURCE, `q=20${kind}`)
      scene.nowMs += 61_000
      expect(await given(scene, 30)).toBe(12)
    })
  })

  it.each([2, 8])('S8 lets the other shards of %i pay for the one that used most', async count => {
    await scene.configure(RESOURCE, 'q=80/month@UTC')
    await use(1)
    await splitInto(scene, count)
    // A single process stays on one shard until it is empty.
    const part = Math.floor(79 / count)
    expect(await given(scene, part)).toBe(part)
    await change('q=40/month@UTC')
    const expected = 40 - 1 - part
    expect(await given(scene, 99)).toBe(expected > 0 ? expected : 0)
    await change('q=80/month@UTC')
    expect(await given(scene, 99)).toBe(40)
  })

  it('S8 lowers several shards under traffic without granting more than the allowance', async () => {
    await scene.configure(RESOURCE, 'q=400/month@UTC')
    await use(1)
    await splitInto(scene, 4)
    const [first, second] = [scene.limiter({denyCacheMs: 0}), scene.limiter({denyCacheMs: 0})]
    let admitted = 1
    const traffic = [first, second].map(async limiter => {
      for (let count = 0; count < 60; count++) if ((await limiter.tryAcquire(request({q: 1}))).admitted) admitted++
    })
    for (const allowance of [300, 400, 250]) await change(`q=${allowance}/month@UTC`)
    await Promise.all(traffic)
    await Promise.all([first.settled(), second.settled()])
    expect(admitted + (await given(scene, 500))).toBe(250)
  })

  it.each([
    ['a window', 'q=6/month@UTC,50@"* * * * * UTC"', 'q=50/month@UTC'],
    ['another period', 'q=6/day@UTC', 'q=50/month@UTC'],
    ['a rate', 'q=6/min', 'q=50/month@UTC'],
  ])('S1 S9 neither mints nor loses tokens in the period in which it replaced %s', async (_, first, second) => {
    await scene.configure(RESOURCE, 'q=6/month@UTC')
    await use(5)
    await change(first)
    await change(second)
    const kept = await left()
    for (const allowance of [60, 6, 100, 20]) await change(`q=${allowance}/month@UTC`)
    expect(await left()).toBe(Math.min(kept ?? 0, 6))
    scene.nowMs += 40 * 86_400_000
    expect(await given(scene, 99)).toBe(20)
    await change('q=60/month@UTC')
    expect(await given(scene, 99)).toBe(40)
  })

  it('S1 mints nothing after a window that was open at the reset', async () => {
    await scene.configure(RESOURCE, 'q=6/month@UTC,50@"* * 10 3 * UTC"')
    await use(44)
    scene.nowMs += 86_400_000
    expect(await left()).toBe(6)
    await change('q=6/month@UTC')
    await change('q=50/month@UTC')
    expect(await given(scene, 99)).toBe(6)
  })

  it('S9 keeps the balance of a quota with windows, as zae-limiter does', async () => {
    await scene.configure(RESOURCE, 'q=10/month@UTC,x2@"* 20 * * * UTC"')
    await use(8)
    await change('q=20/month@UTC,x2@"* 20 * * * UTC"')
    expect(await left()).toBe(2)
    await change('q=1/month@UTC,x2@"* 20 * * * UTC"')
    expect(await left()).toBe(1)
  })
})
