import {beforeEach, expect, it} from 'vitest'
import {type Limit, makeLimit} from '../../src/lib/core/limits/limit.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded, ResourceDisabled} from '../../src/lib/limiter/refusal/errors.js'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {n, s} from '../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {PythonPeer} from '../helpers/python-peer.js'

const SECOND_MS = 1000
const HOUR_MS = 3_600_000
/** A Saturday. */
const MIDNIGHT = Date.parse('2026-03-14T00:00:00Z')
const RESOURCE = 'gpt-4'
const USER = {entity: 'user-1', resource: RESOURCE}

const quota = {name: 'q', capacity: 10, refillAmount: 0, refillPeriodSeconds: 1}
const daily = makeLimit({...quota, reset: {crons: ['0 0 * * *']}, timeZone: 'UTC'})
const soft = makeLimit({name: 'soft', capacity: 2, refillAmount: 2, refillPeriodSeconds: 3600, soft: true})

/** Quota faults found by the simulator; the seeds are of its profile `quotas` at that time. */
describeOnBoth('quotas, soft limits and switches', {timeout: 60_000}, table => {
  let scene: Scene

  beforeEach(() => {
    scene = new Scene(table)
    scene.nowMs = MIDNIGHT - HOUR_MS
  })

  const limiter = (limits: readonly Limit[], more = {}): RateLimiter => scene.limiter({defaultLimits: limits, ...more})

  /** Stamps or opens everything like the command. */
  async function setAccess(access: 'disabled' | undefined): Promise<void> {
    const {name: stack, transport, clock, randomBytes} = scene.tenant
    const repository = new Repository({stack, transport, clock, randomBytes})
    await repository.namespaceById(scene.namespace).setAccess({level: 'resource', resource: RESOURCE}, access)
  }

  it('S1 never refuses by a soft limit in debt after its stored softness expired (seed 4)', async () => {
    const client = limiter([soft])
    await (await client.acquire({...USER, consume: {soft: 5}})).commit()
    // Softness is confirmed now and then, and lasts for 54 seconds; a seen state is cached for one.
    for (let request = 0; request < 120; request++) {
      scene.nowMs += 900
      const lease = await client.acquire({...USER, consume: {soft: 1}})
      expect(lease.overdrawn).toEqual(['soft'])
    }
    expect((await scene.totals(USER.entity, RESOURCE, 'soft')).consumed).toBe(125)
  })

  it('L2 names only the other limit if a soft limit expired (seed 4)', async () => {
    const client = limiter([daily, soft])
    await (await client.acquire({...USER, consume: {q: 8, soft: 1}})).commit()
    scene.nowMs += 120 * SECOND_MS
    const error = await client.acquire({...USER, consume: {q: 4, soft: 9}}).catch(refused => refused)
    expect(error).toBeInstanceOf(RateLimitExceeded)
    expect(error.statuses.map(({name, exceeded}: {name: string; exceeded: boolean}) => [name, exceeded])).toEqual([
      ['q', true],
      ['soft', false],
    ])
    expect(error.retryAfterMs).toBe(MIDNIGHT - scene.nowMs + 1)
  })

  it('S2 refunds tokens that several shards gave after a reset (seed 3)', async () => {
    const client = limiter([daily])
    await (await client.acquire({...USER, consume: {q: 1}})).commit()
    await splitBucket(scene.tenant, USER.entity, RESOURCE, 1)
    // Both shards are known as they were before the reset.
    for (let request = 0; request < 3; request++) await (await client.acquire({...USER, consume: {q: 3}})).commit()
    scene.nowMs = MIDNIGHT + SECOND_MS
    const lease = await client.acquire({...USER, consume: {q: 10}})
    await lease.rollback()
    expect(await scene.totals(USER.entity, RESOURCE, 'q', 2)).toEqual({tokens: 10, consumed: 10})
  })

  it('S4 writes nothing for a refused request without a bucket or session (seed 26)', async () => {
    // Half of it on weekends.
    const schedule = [{cron: '* * * * 6,7', scale: 0.5}]
    const session = makeLimit({...quota, reset: {afterSeconds: 30}, schedule, timeZone: 'UTC'})
    scene.nowMs = MIDNIGHT + HOUR_MS
    const client = limiter([session])
    const error = await client.acquire({...USER, consume: {q: 8}}).catch(refused => refused)
    expect(error).toBeInstanceOf(RateLimitExceeded)
    expect(await scene.shards(USER.entity, RESOURCE)).toEqual([])
    // Until Monday, however many sessions could start and end before.
    expect(error.retryAfterMs).toBe(47 * HOUR_MS + 1)
    scene.nowMs += error.retryAfterMs
    await (await client.acquire({...USER, consume: {q: 8}})).commit()
  })

  it('S9 rereads the configuration before it disables an enabled bucket again (seed 33)', async () => {
    const client = limiter([daily], {denyCacheMs: 0})
    await (await client.acquire({...USER, consume: {q: 1}})).commit()
    scene.nowMs += 61 * SECOND_MS
    await setAccess('disabled')
    await expect(client.acquire({...USER, entity: 'user-2', consume: {q: 1}})).rejects.toThrow(ResourceDisabled)
    await setAccess(undefined)
    scene.nowMs += SECOND_MS
    await (await client.acquire({...USER, consume: {q: 1}})).commit()
    await (await client.acquire({...USER, entity: 'user-2', consume: {q: 1}})).commit()
  })

  it('S9 does not stamp a bucket that was enabled after an older refusal (seed 33)', async () => {
    const client = limiter([daily], {denyCacheMs: 600_000})
    await (await client.acquire({...USER, consume: {q: 1}})).commit()
    scene.nowMs += 61 * SECOND_MS
    await setAccess('disabled')
    await expect(client.acquire({...USER, entity: 'user-2', consume: {q: 1}})).rejects.toThrow(ResourceDisabled)
    await setAccess(undefined)
    await client.acquire({...USER, consume: {q: 1}}).catch(() => {})
    const [record] = await scene.shards(USER.entity, RESOURCE)
    expect(record?.isDisabled).toBeUndefined()
  })

  it.each(['q=10/day@UTC', 'q=10/hour!'])(
    'S9 grants the raised allowance in a period that starts after the raise, %s (seed 2000185)',
    async text => {
      const resource = {level: 'resource', resource: RESOURCE} as const
      await scene.configure(resource, text)
      const client = scene.limiter({denyCacheMs: 0})
      await (await client.acquire({...USER, consume: {q: 8}})).commit()
      // By a client that leaves the buckets to the next request.
      scene.nowMs = MIDNIGHT - SECOND_MS
      await scene.configure(resource, text.replace('10', '20'))
      scene.nowMs = MIDNIGHT + 90 * SECOND_MS
      await (await client.acquire({...USER, consume: {q: 5}})).commit()
      expect((await scene.totals(USER.entity, RESOURCE, 'q')).tokens).toBe(15)
      // Within the period, use counts against the new allowance.
      await scene.configure(resource, text.replace('10', '40'))
      scene.nowMs += 90 * SECOND_MS
      await (await client.acquire({...USER, consume: {q: 1}})).commit()
      expect((await scene.totals(USER.entity, RESOURCE, 'q')).tokens).toBe(34)
    },
  )

  it('L2 waits until both limits suffice if a window leaves too little of one (seed 2000210)', async () => {
    // A tenth in the first half of every hour.
    const schedule = [{cron: '0-29 * * * *', scale: 0.1}]
    const rate = {name: 'sched', capacity: 40, refillAmount: 18, refillPeriodSeconds: 60}
    const sched = makeLimit({...rate, schedule, timeZone: 'UTC'})
    scene.nowMs = MIDNIGHT - HOUR_MS / 3
    const client = limiter([daily, sched])
    await (await client.acquire({...USER, consume: {q: 10}})).commit()
    const asked = {...USER, consume: {q: 1, sched: 12}}
    const error = await client.acquire(asked).catch(refused => refused)
    expect(error).toBeInstanceOf(RateLimitExceeded)
    expect((await client.check(asked)).retryAfterMs).toBe(error.retryAfterMs)
    // From 4 at half past, 8 more at 18 per minute.
    expect(scene.nowMs + error.retryAfterMs).toBe(MIDNIGHT + HOUR_MS / 2 + Math.ceil((8 / 18) * 60_000) + 1)
    scene.nowMs += error.retryAfterMs - 3
    await expect(client.acquire(asked)).rejects.toThrow(RateLimitExceeded)
    scene.nowMs += 3
    await (await client.acquire(asked)).commit()
  })

  it('S4 writes nothing for a refused request of a bucket that expired full (seed 30022)', async () => {
    // Twice as much in the first half of every hour.
    const schedule = [{cron: '0-29 * * * *', scale: 2}]
    const session = makeLimit({...quota, reset: {afterSeconds: 30}, schedule, timeZone: 'UTC'})
    const client = limiter([session])
    await (await client.acquire({...USER, consume: {q: 15}})).commit()
    scene.nowMs += 7 * 86_400_000 + 45 * 60_000
    const before = await scene.shards(USER.entity, RESOURCE)
    expect((before[0]?.ttlSeconds ?? 0) * 1000).toBeLessThan(scene.nowMs)
    const error = await client.acquire({...USER, consume: {q: 15}}).catch(refused => refused)
    expect(error).toBeInstanceOf(RateLimitExceeded)
    expect(await scene.shards(USER.entity, RESOURCE)).toEqual(before)
    scene.nowMs += error.retryAfterMs
    await (await client.acquire({...USER, consume: {q: 15}})).commit()
  })

  it('S3 voids charges from before another client made a monthly quota daily (seed 2000110)', async () => {
    const monthly = makeLimit({...quota, reset: {crons: ['0 0 1 * *']}, timeZone: 'UTC'})
    const lease = await limiter([monthly]).acquire({...USER, consume: {q: 2}})
    // Like zae-limiter: the kind in place, no new revision; then a reset on the next day, of which 4 are left.
    await table.transport.send('UpdateItem', {
      TableName: table.name,
      Key: wireKey(keys.bucket(scene.namespace, USER.entity, RESOURCE, 0)),
      UpdateExpression: 'SET rsched = :daily, vu = :zero, rf = :now, b_q_tk = :left',
      ExpressionAttributeValues: {
        ':daily': {S: '1m0h0'},
        ':zero': {N: '0'},
        ':now': {N: String(MIDNIGHT + SECOND_MS)},
        ':left': {N: '4000'},
      },
    })
    scene.nowMs = MIDNIGHT + 2 * SECOND_MS
    await lease.rollback()
    expect((await scene.totals(USER.entity, RESOURCE, 'q')).tokens).toBe(4)
  })

  it('S3 voids session charges of two shards after another client made it daily (seed 700520)', async () => {
    const peer = new PythonPeer(scene)
    await scene.configure({level: 'resource', resource: RESOURCE}, 'q=10/5h!')
    await (await scene.limiter().acquire({...USER, consume: {q: 1}})).commit()
    await splitBucket(scene.tenant, USER.entity, RESOURCE, 1)
    scene.nowMs += 6 * HOUR_MS
    const asked = {vu: n(0)}
    for (const shard of [0, 1]) await peer.set(asked, shard)
    const client = scene.limiter()
    const lease = await client.acquire({...USER, consume: {q: 8}})
    await client.settled()
    for (const shard of [0, 1]) {
      await peer.set({...asked, rsched: s('1m0h0')}, shard)
      await peer.remove(['b_q_rsa'], shard)
    }
    await lease.rollback()
    expect((await scene.totals(USER.entity, RESOURCE, 'q', 2)).tokens).toBe(2)
  })

  it('S2 starts a whole hour after another client made a session hourly again (seed 700762)', async () => {
    const scope = {level: 'resource', resource: RESOURCE} as const
    const client = scene.limiter({configCacheMs: 0, denyCacheMs: 0})
    scene.nowMs = MIDNIGHT + HOUR_MS / 2
    await scene.configure(scope, 'q=19/hour@UTC')
    await (await client.acquire({...USER, consume: {q: 4}})).commit()
    await scene.configure(scope, 'q=10/30s!')
    scene.nowMs += 120 * SECOND_MS
    await expect(client.acquire({...USER, consume: {q: 17}})).rejects.toThrow()
    await client.settled()
    expect(await new PythonPeer(scene).number('b_q_rsa')).toBe(30)
    await scene.configure(scope, 'q=19/hour@UTC')
    await new PythonPeer(scene).set({vu: n(0), b_q_cp: n(19_000), rsched: s('1m0'), sched_tz: s('UTC')})
    await new PythonPeer(scene).remove(['b_q_rsa'])
    scene.nowMs += HOUR_MS
    await (await client.acquire({...USER, consume: {q: 9}})).commit()
    expect((await scene.totals(USER.entity, RESOURCE, 'q')).tokens).toBe(10)
  })

  it('L2 does not wait beyond the start of a period that its first use opens (seed 80111)', async () => {
    // Half of it in the first half of every hour.
    const schedule = [{cron: '0-29 * * * *', scale: 0.5}]
    const client = limiter([{...daily, schedule}])
    scene.nowMs += HOUR_MS / 2
    await (await client.acquire({...USER, consume: {q: 3}})).commit()
    scene.nowMs = MIDNIGHT + SECOND_MS
    const error = await client.acquire({...USER, consume: {q: 10}}).catch(refused => refused)
    expect(error).toBeInstanceOf(RateLimitExceeded)
    expect(scene.nowMs + error.retryAfterMs).toBe(MIDNIGHT + HOUR_MS / 2 + 1)
    scene.nowMs += error.retryAfterMs
    await (await client.acquire({...USER, consume: {q: 10}})).commit()
  })

  it('L2 does not wait beyond it over several shards either (seed 90355)', async () => {
    const client = limiter([{...daily, schedule: [{cron: '0-29 * * * *', scale: 0.5}]}])
    scene.nowMs += HOUR_MS / 2
    await (await client.acquire({...USER, consume: {q: 3}})).commit()
    await splitBucket(scene.tenant, USER.entity, RESOURCE, 1)
    scene.nowMs = MIDNIGHT + SECOND_MS
    const error = await client.acquire({...USER, consume: {q: 10}}).catch(refused => refused)
    expect(error).toBeInstanceOf(RateLimitExceeded)
    expect(scene.nowMs + error.retryAfterMs).toBe(MIDNIGHT + HOUR_MS / 2 + 1)
    scene.nowMs += error.retryAfterMs
    await (await client.acquire({...USER, consume: {q: 10}})).commit()
  })

  it('L6 names no soft limit in debt on a shard that the lease did not charge (seed 95310)', async () => {
    const client = limiter([{...daily, capacity: 20}, soft])
    await (await client.acquire({...USER, consume: {q: 0}})).commit()
    for (const shards of [1, 2]) await splitBucket(scene.tenant, USER.entity, RESOURCE, shards)
    // 5 on each shard: both take from two, the first also from the soft limit of one of them.
    const overdrawn: (readonly string[])[] = []
    for (const consume of [{q: 8, soft: 5}, {q: 8}]) {
      const lease = await client.acquire({...USER, consume})
      overdrawn.push(lease.overdrawn)
      await lease.commit()
    }
    expect(overdrawn).toEqual([['soft'], []])
  })

  it.each(['q=10/day@UTC', 'q=10/hour!'])(
    'S3 keeps a refund in its own period while the next one starts, %s (seed 8)',
    async text => {
      await scene.configure({level: 'resource', resource: RESOURCE}, text)
      const lease = await scene.limiter().acquire({...USER, consume: {q: 1}})
      await splitBucket(scene.tenant, USER.entity, RESOURCE, 1)
      // As much as the next period starts with, by a top-up that ends with this one.
      for (const shard of [0, 1]) await new PythonPeer(scene).set({b_q_tk: n(5000)}, shard)
      const [beforeMs, afterMs] = [scene.nowMs, MIDNIGHT + HOUR_MS]
      let transactions = 0
      const transport: Transport = {
        send: async (operation, ...rest) => {
          if (operation === 'TransactWriteItems' && ++transactions === 1) {
            // By a process whose clock is behind.
            scene.nowMs = beforeMs
            await lease.release({q: 1})
            scene.nowMs = afterMs
          }
          return scene.tenant.transport.send(operation, ...rest)
        },
      }
      scene.nowMs = afterMs
      await (await scene.limiter({transport}).acquire({...USER, consume: {q: 8}})).commit()
      expect(transactions).toBe(2)
      expect((await scene.totals(USER.entity, RESOURCE, 'q', 2)).tokens).toBe(2)
    },
  )
})
