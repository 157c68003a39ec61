import {beforeEach, describe, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {n} from '../../src/lib/schema/attribute-value.js'
import type {BucketRecord} from '../../src/lib/schema/bucket-record.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {given, request, splitInto} from './visit.js'

const RESOURCE = {level: 'resource', resource: 'gpt-4'} as const
const at = (time: string): number => Date.parse(`2026-03-10T${time}:00Z`)

describeOnBoth('a quota allowance, as zae-limiter clients count it too', {}, table => {
  let scene: Scene
  beforeEach(() => {
    scene = new Scene(table)
  })

  it.each([
    ['11:00, which has passed', '0 11 * * *', 5],
    ['13:00, which has not', '0 13 * * *', 0],
  ])('is granted once more if its reset moved to %s since the last refill', async (_, cron, more) => {
    scene.nowMs = at('09:00')
    await scene.configure(RESOURCE, 'q=5/day@UTC')
    expect(await given(scene, 9)).toBe(5)
    scene.nowMs = at('12:00')
    await new NamespaceRepository(scene.tenant, undefined).setLimits(RESOURCE, parseLimits([`q=5@"${cron} UTC"`]))
    expect(await given(scene, 9)).toBe(more)
    scene.nowMs = at('12:30')
    expect(await given(scene, 9)).toBe(0)
  })

  it('is what the schedule allows when a session starts on each shard', async () => {
    scene.nowMs = at('03:00')
    await scene.configure(RESOURCE, 'q=20/5h!,x0.1@"* 9 * * * UTC"')
    expect(await given(scene, 1)).toBe(1)
    await splitInto(scene, 2)
    // Two tokens, one on each shard; the other shard starts only when it is used.
    scene.nowMs = at('09:30')
    expect(await given(scene, 1)).toBe(1)
    scene.nowMs = at('10:30')
    const rest = await given(scene, 30)
    // Never more than the whole allowance of the window, whenever shards start.
    expect([rest + 1 > 2, rest + 1 <= 20]).toEqual([true, true])
    expect(await given(scene, 1)).toBe(0)
  })

  describe.each([
    ['a calendar quota', 'q=1000/month@UTC'],
    ['a session', 'q=1000/5h!'],
  ])('S2 S8 of %s', (_, limit) => {
    it.each([2, 32])('is whole again when tokens taken before a split into %i shards are refunded', async count => {
      scene.nowMs = at('09:00')
      await scene.configure(RESOURCE, limit)
      await using limiter = scene.limiter()
      const whole = await limiter.acquire(request({q: 700}))
      const part = await limiter.acquire(request({q: 200}))
      await splitInto(scene, count)
      await part.adjust({q: -150})
      await part.commit()
      expect(await scene.limiter().available(request({}))).toEqual({q: 250})
      await whole.rollback()
      await limiter.settled()
      expect(await scene.limiter().available(request({}))).toEqual({q: 950})
      expect((await limiter.tryAcquire(request({q: 950}))).admitted).toBe(true)
    })

    it('is whole again when two processes refund tokens from before a split, and one from after', async () => {
      scene.nowMs = at('09:00')
      await scene.configure(RESOURCE, limit)
      await using one = scene.limiter()
      await using other = scene.limiter()
      const leases = [await one.acquire(request({q: 10})), await other.acquire(request({q: 400}))]
      await splitInto(scene, 2)
      await leases[0]?.adjust({q: 290})
      await Promise.all(leases.map(lease => lease.rollback()))
      await Promise.all([one.settled(), other.settled()])
      expect(await scene.limiter().available(request({}))).toEqual({q: 1000})
    })
  })

  describe.each([
    ['a calendar quota', 'q=1000/month@UTC', 'q=50/month@UTC'],
    ['a session', 'q=1000/5h!', 'q=50/5h!'],
    ['a session that becomes a calendar quota', 'q=1000/5h!', 'q=50/month@UTC'],
    ['a calendar quota that becomes a session', 'q=1000/month@UTC', 'q=50/5h!'],
  ])('S8 S9 of %s', (_, before, after) => {
    // Another kind of quota keeps the balance, up to its own allowance.
    const left = (used: number) => (before.slice(6) === after.slice(4) ? 50 - used : 50)
    const lower = () => new NamespaceRepository(scene.tenant, undefined).setLimits(RESOURCE, parseLimits([after]))

    it.each([1, 32])('is lowered on %i shards, even if they were split since it began', async count => {
      scene.nowMs = at('09:00')
      await scene.configure(RESOURCE, before)
      expect(await given(scene, 3)).toBe(3)
      await splitInto(scene, count)
      await lower()
      expect(await scene.limiter().available(request({}))).toEqual({q: left(3)})
      expect(await given(scene, 60)).toBe(left(3))
      expect(await scene.limiter().available(request({}))).toEqual({q: 0})
    })

    it('is lowered if another client has split the bucket', async () => {
      scene.nowMs = at('09:00')
      await scene.configure(RESOURCE, before)
      expect(await given(scene, 1)).toBe(1)
      await splitInto(scene, 4)
      // Other clients keep the old mark on shards that they split.
      for (const [shard, count] of [1, 2].entries()) await mark(shard, count)
      expect(await given(scene, 30)).toBe(30)
      expect((await scene.shards('user-1', 'gpt-4', 4)).map(grantCount)).toEqual([4, 4, 4, 4])
      await lower()
      expect(await given(scene, 60)).toBe(left(31))
    })

    it('is lowered if no client has marked the grants of the shards', async () => {
      scene.nowMs = at('09:00')
      await scene.configure(RESOURCE, before)
      expect(await given(scene, 1)).toBe(1)
      await splitInto(scene, 4)
      for (const shard of [0, 1, 2, 3]) await mark(shard, undefined)
      await lower()
      expect(await given(scene, 60)).toBe(left(1))
    })
  })

  it('S8 S9 is cut by a schedule window on shards that were split before', async () => {
    scene.nowMs = at('08:00')
    await scene.configure(RESOURCE, 'q=1000/month@UTC,x0.01@"* 9 * * * UTC"')
    expect(await given(scene, 3)).toBe(3)
    await splitInto(scene, 8)
    scene.nowMs = at('09:00')
    expect(await scene.limiter().available(request({}))).toEqual({q: 10})
    expect(await given(scene, 40)).toBe(10)
  })

  it('S8 is divided as a whole if a schedule window allows more than the stored capacity', async () => {
    scene.nowMs = at('09:00')
    await scene.configure(RESOURCE, 'q=10/month@UTC,x4@"* 9 * * * UTC"')
    expect(await given(scene, 4)).toBe(4)
    await splitInto(scene, 4)
    expect(await given(scene, 60)).toBe(36)
  })

  const grantCount = ({state}: BucketRecord) => state.limits.get('q')?.kind?.quota?.grantCount

  async function mark(shard: number, count: number | undefined): Promise<void> {
    const Key = wireKey(keys.bucket(scene.namespace, 'user-1', 'gpt-4', shard))
    const change =
      count === undefined
        ? {UpdateExpression: 'REMOVE b_q_gc'}
        : {UpdateExpression: 'SET b_q_gc = :count', ExpressionAttributeValues: {':count': n(count)}}
    await table.transport.send('UpdateItem', {TableName: table.name, Key, ...change})
  }
})
