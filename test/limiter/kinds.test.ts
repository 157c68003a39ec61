import {beforeEach, expect, it} from 'vitest'
import {type Limit, makeLimit} from '../../src/lib/core/limits/limit.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded} from '../../src/lib/limiter/refusal/errors.js'
import {readShards, splitBucket} from '../../src/lib/repository/buckets/split.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'

const DAY_MS = 86_400_000
const MIDNIGHT = Date.parse('2026-03-10T00:00:00Z')

const daily = (capacity: number, more: Partial<Limit> = {}): Limit =>
  makeLimit({
    name: 'q',
    capacity,
    refillAmount: 0,
    refillPeriodSeconds: 1,
    reset: {crons: ['0 0 * * *']},
    timeZone: 'UTC',
    ...more,
  })
const session = (capacity: number, afterSeconds: number): Limit =>
  makeLimit({name: 'q', capacity, refillAmount: 0, refillPeriodSeconds: 1, reset: {afterSeconds}})
const rpm = (more: Partial<Limit> = {}): Limit =>
  makeLimit({name: 'rpm', capacity: 100, refillAmount: 100, refillPeriodSeconds: 60, ...more})

const USER = {entity: 'user-1', resource: 'gpt-4'}

describeOnBoth('limits other than plain rates', {timeout: 120_000}, table => {
  let scene: Scene

  beforeEach(() => {
    scene = new Scene(table)
    scene.nowMs = MIDNIGHT + 9 * 3_600_000
  })

  /** Processes with separate caches, which take turns. */
  function processes(count: number, limits: readonly Limit[]): () => RateLimiter {
    const all = Array.from({length: count}, () => scene.limiter({defaultLimits: limits, denyCacheMs: 0}))
    let next = 0
    return () => all[next++ % count] as RateLimiter
  }

  /** How many of several requests are admitted. */
  async function admitted(pick: () => RateLimiter, requests: number, consume: Record<string, number>): Promise<number> {
    let count = 0
    for (let request = 0; request < requests; request++) {
      try {
        const lease = await pick().acquire({...USER, consume})
        await lease.commit()
        count++
      } catch (error) {
        if (!(error instanceof RateLimitExceeded)) throw error
      }
    }
    return count
  }

  const shards = (count: number) => readShards(scene.tenant, USER.entity, USER.resource, count)
  const split = (count: number) => splitBucket(scene.tenant, USER.entity, USER.resource, count)

  it('S2 loses no tokens that are refunded while its bucket is split', async () => {
    const limiter = processes(1, [daily(123)])()
    const lease = await limiter.acquire({...USER, consume: {q: 25}})
    let isRefunded = false
    const send: typeof table.transport.send = async (operation, input, options) => {
      if (operation === 'TransactWriteItems' && !isRefunded) {
        isRefunded = true
        await lease.rollback()
      }
      return table.transport.send(operation, input, options)
    }
    await splitBucket({...scene.tenant, transport: {send}}, USER.entity, USER.resource, 1)
    // Each shard is rewritten by its next request.
    scene.nowMs += 60_000
    for (let count = 0; count < 4; count++) await (await limiter.acquire({...USER, consume: {q: 1}})).rollback()
    const held = [...(await shards(2)).values()].map(({state}) => Number(state.limits.get('q')?.tokensMilli))
    expect([isRefunded, held]).toEqual([true, [61_500, 61_500]])
  })

  it('admits a calendar quota in every window over several processes, and reports the wait for the next', async () => {
    const pick = processes(3, [daily(10)])
    for (let day = 0; day < 3; day++) {
      expect(await admitted(pick, 14, {q: 1})).toBe(10)
      const waitMs = await pick()
        .acquire({...USER, consume: {q: 1}})
        .then(() => 0)
        .catch((error: RateLimitExceeded) => error.retryAfterMs)
      expect(waitMs).toBe(15 * 3_600_000 + 1)
      scene.nowMs += DAY_MS
    }
  })

  it('makes one write per admitted request of a calendar quota', async () => {
    const pick = processes(1, [daily(1000)])
    await admitted(pick, 2, {q: 1})
    scene.calls.length = 0
    expect(await admitted(pick, 10, {q: 1})).toBe(10)
    expect(scene.calls).toEqual(Array(10).fill('UpdateItem'))
  })

  it('shares a calendar quota among all shards, before and after a split and in the next window', async () => {
    const pick = processes(3, [daily(100)])
    expect(await admitted(pick, 20, {q: 1})).toBe(20)
    expect(await split(1)).toBe(2)
    expect(await admitted(pick, 30, {q: 1})).toBe(30)
    expect(await split(2)).toBe(4)
    expect(await admitted(pick, 90, {q: 1})).toBe(50)
    scene.nowMs += DAY_MS
    expect(await admitted(pick, 140, {q: 1})).toBe(100)
    for (const record of (await shards(4)).values()) {
      expect(record.state.limits.get('q')?.kind?.quota?.grantCount).toBe(4)
      expect(record.validUntilMs).toBe(MIDNIGHT + 2 * DAY_MS)
    }
  })

  it('grants one allowance for a 23-hour day in Berlin, and another for the night before', async () => {
    // The clocks go forward on 29 March 2026 at 2:00.
    const pick = processes(2, [daily(5, {timeZone: 'Europe/Berlin'})])
    scene.nowMs = Date.parse('2026-03-28T22:59:59.999Z')
    expect(await admitted(pick, 8, {q: 1})).toBe(5)
    scene.nowMs = Date.parse('2026-03-28T23:00:00.000Z')
    expect(await admitted(pick, 8, {q: 1})).toBe(5)
    scene.nowMs = Date.parse('2026-03-29T21:59:59.999Z')
    expect(await admitted(pick, 8, {q: 1})).toBe(0)
    scene.nowMs = Date.parse('2026-03-29T22:00:00.000Z')
    expect(await admitted(pick, 8, {q: 1})).toBe(5)
  })

  it('grants a window once if clocks differ', async () => {
    const ahead = scene.limiter({defaultLimits: [daily(10)], denyCacheMs: 0, clock: () => scene.nowMs + 5000})
    const behind = scene.limiter({defaultLimits: [daily(10)], denyCacheMs: 0})
    scene.nowMs = MIDNIGHT + DAY_MS - 60_000
    expect(await admitted(() => behind, 12, {q: 1})).toBe(10)
    scene.nowMs = MIDNIGHT + DAY_MS - 2000
    expect(await admitted(() => ahead, 6, {q: 1})).toBe(6)
    expect(await admitted(() => behind, 6, {q: 1})).toBe(4)
    scene.nowMs = MIDNIGHT + DAY_MS + 3000
    expect(await admitted(() => behind, 6, {q: 1})).toBe(0)
    expect(await admitted(() => ahead, 6, {q: 1})).toBe(0)
  })

  it('does not refund tokens of an ended window to the next', async () => {
    const limiter = processes(1, [daily(10), rpm()])()
    const lease = await limiter.acquire({...USER, consume: {q: 6, rpm: 5}})
    scene.nowMs += DAY_MS
    expect(await admitted(() => limiter, 1, {q: 1})).toBe(1)
    await lease.release({q: 6, rpm: 5})
    expect(await admitted(() => limiter, 12, {q: 1})).toBe(9)
    const within = await limiter.tryAcquire({...USER, consume: {rpm: 1}})
    expect(within.admitted).toBe(true)
  })

  it('refunds tokens of the same window', async () => {
    const limiter = processes(1, [daily(10)])()
    const lease = await limiter.acquire({...USER, consume: {q: 6}})
    await lease.release({q: 4})
    expect(await admitted(() => limiter, 12, {q: 1})).toBe(8)
  })

  it('shares the quota of a parent among its children', async () => {
    await scene.entity('team')
    for (const child of ['a', 'b', 'c']) await scene.entity(child, 'team')
    const limiter = processes(1, [daily(10)])()
    let count = 0
    for (let request = 0; request < 18; request++) {
      const entity = ['a', 'b', 'c'][request % 3] as string
      const decision = await limiter.tryAcquire({entity, resource: 'gpt-4', consume: {q: 1}})
      if (decision.admitted) count++
    }
    expect(count).toBe(10)
  })

  it('opens a session at its first use, and again at the first use after its end', async () => {
    const pick = processes(3, [session(10, 3600)])
    const startMs = scene.nowMs
    expect(await admitted(pick, 6, {q: 1})).toBe(6)
    scene.nowMs += 1_000_000
    expect(await admitted(pick, 6, {q: 1})).toBe(4)
    scene.nowMs = startMs + 3_600_000 - 1
    expect(await admitted(pick, 3, {q: 1})).toBe(0)
    scene.nowMs += 1
    expect(await admitted(pick, 13, {q: 1})).toBe(10)
    scene.nowMs += 10 * 3_600_000
    expect(await admitted(pick, 13, {q: 1})).toBe(10)
    const record = (await shards(1)).get(0)
    expect(record?.state.limits.get('q')?.kind?.quota?.session).toMatchObject({
      startMs: scene.nowMs,
      appliedMs: scene.nowMs,
    })
    expect(record?.validUntilMs).toBe(scene.nowMs + 3_600_000)
  })

  it('uses one session window for all shards', async () => {
    const pick = processes(2, [session(100, 3600)])
    expect(await admitted(pick, 10, {q: 1})).toBe(10)
    await split(1)
    await split(2)
    expect(await admitted(pick, 120, {q: 1})).toBe(90)
    scene.nowMs += 3_600_000
    expect(await admitted(pick, 1, {q: 1})).toBe(1)
    await Promise.all([pick(), pick()].map(limiter => limiter.settled()))
    const startMs = scene.nowMs
    const starts = [...(await shards(4)).values()].map(
      ({state}) => state.limits.get('q')?.kind?.quota?.session?.startMs,
    )
    expect(starts).toEqual([startMs, startMs, startMs, startMs])
    scene.nowMs += 1_800_000
    expect(await admitted(pick, 130, {q: 1})).toBe(99)
    scene.nowMs = startMs + 3_600_000
    expect(await admitted(pick, 130, {q: 1})).toBe(100)
  })

  it('scales a limit in its schedule windows, and trims the balance when one begins', async () => {
    const scaled = rpm({schedule: [{cron: '* 22-23 * * *', scale: 0.1}], timeZone: 'UTC'})
    const pick = processes(2, [scaled])
    scene.nowMs = MIDNIGHT + 22 * 3_600_000 - 1000
    expect(await admitted(pick, 5, {rpm: 1})).toBe(5)
    scene.nowMs += 1000
    expect(await admitted(pick, 20, {rpm: 1})).toBe(10)
    scene.nowMs += 6000
    expect(await admitted(pick, 20, {rpm: 1})).toBe(1)
    scene.nowMs = MIDNIGHT + DAY_MS + 60_000
    expect(await admitted(pick, 110, {rpm: 1})).toBe(100)
  })

  it('charges a soft limit into debt, reports it as overdrawn, and refuses nothing', async () => {
    const limiter = processes(1, [daily(3, {soft: true}), rpm()])()
    expect(await admitted(() => limiter, 5, {q: 1, rpm: 1})).toBe(5)
    const lease = await limiter.acquire({...USER, consume: {q: 100}})
    expect(lease.overdrawn).toEqual(['q'])
    expect(lease.limits.q?.available).toBe(-102)
    await lease.commit()
    // The stored softness has expired, and is renewed.
    scene.nowMs += 120_000
    expect(await admitted(() => limiter, 5, {q: 1, rpm: 1})).toBe(5)
    // A hard limit beside it still refuses.
    expect(await admitted(() => limiter, 120, {q: 1, rpm: 1})).toBe(95)
    scene.nowMs += DAY_MS
    expect((await limiter.acquire({...USER, consume: {q: 1}})).limits.q?.available).toBe(2)
  })

  it('applies a change of kind to the bucket: from a rate to a quota and back', async () => {
    const rate = makeLimit({name: 'q', capacity: 10, refillAmount: 10, refillPeriodSeconds: 60})
    expect(await admitted(processes(1, [rate]), 12, {q: 1})).toBe(10)
    scene.nowMs += 30_000
    const quota = processes(1, [daily(10)])
    // The first decision of a process uses the stored limits.
    expect(await admitted(quota, 12, {q: 1})).toBeLessThanOrEqual(5)
    scene.nowMs += DAY_MS
    expect(await admitted(quota, 12, {q: 1})).toBe(10)
    scene.nowMs += 3_600_000
    const back = processes(1, [rate])
    // The second decision changes it; a quota has gained nothing until then.
    expect(await admitted(back, 2, {q: 1})).toBe(0)
    expect((await shards(1)).get(0)?.state.limits.get('q')?.kind).toBeUndefined()
    scene.nowMs += 60_000
    expect(await admitted(back, 12, {q: 1})).toBe(10)
    expect((await shards(1)).get(0)?.validUntilMs).toBeUndefined()
  })

  it('S3 does not refund tokens of a rate to the quota that another client made of it', async () => {
    const rate = makeLimit({name: 'q', capacity: 10, refillAmount: 10, refillPeriodSeconds: 60})
    const limiter = processes(1, [rate, rpm()])()
    const lease = await limiter.acquire({...USER, consume: {q: 6, rpm: 5}})
    await scene.tenant.transport.send('UpdateItem', {
      TableName: scene.tenant.name,
      Key: {PK: {S: `${scene.namespace}/BUCKET#user-1#gpt-4#0`}, SK: {S: '#STATE'}},
      UpdateExpression: 'SET b_q_ra = :zero, b_q_rsched = :daily, sched_tz = :zone, vu = :zero',
      ExpressionAttributeValues: {':zero': {N: '0'}, ':daily': {S: '1m0h0'}, ':zone': {S: 'UTC'}},
    })
    await lease.release({q: 6, rpm: 5})
    const limits = (await shards(1)).get(0)?.state.limits
    expect(limits?.get('q')).toMatchObject({tokensMilli: 4000n, consumedMilli: 6000n, refillAmountMilli: 0n})
    expect(limits?.get('rpm')).toMatchObject({tokensMilli: 100_000n, consumedMilli: 0n})
  })

  it('starts a new period with a manual reset', async () => {
    const pick = processes(1, [daily(10)])
    const lease = await pick().acquire({...USER, consume: {q: 5}})
    await new NamespaceRepository(scene.tenant, undefined).resetBucket(USER)
    expect((await shards(1)).get(0)?.state.limits.get('q')?.kind?.quota?.resetNumber).toBe(1)
    await lease.release({q: 5})
    expect(await admitted(pick, 14, {q: 1})).toBe(10)
  })

  it('updates the bucket with the next write if another client sets its mark to 0', async () => {
    const pick = processes(2, [daily(10)])
    await admitted(pick, 4, {q: 1})
    const record = (await shards(1)).get(0)
    const {transport, name} = scene.tenant
    const key = {PK: {S: `${scene.namespace}/BUCKET#user-1#gpt-4#0`}, SK: {S: '#STATE'}}
    await transport.send('UpdateItem', {
      TableName: name,
      Key: key,
      UpdateExpression: 'SET vu = :zero',
      ExpressionAttributeValues: {':zero': {N: '0'}},
    })
    expect(record?.validUntilMs).toBe(MIDNIGHT + DAY_MS)
    expect(await admitted(pick, 12, {q: 1})).toBe(6)
    expect((await shards(1)).get(0)?.validUntilMs).toBe(MIDNIGHT + DAY_MS)
  })
})
