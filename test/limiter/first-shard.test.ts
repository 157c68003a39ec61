import {beforeEach, expect, it} from 'vitest'
import {type Limit, makeLimit} from '../../src/lib/core/limits/limit.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded} from '../../src/lib/limiter/refusal/errors.js'
import {fillMissingShards, splitBucket} from '../../src/lib/repository/buckets/split.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {n} from '../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'

const SECOND_MS = 1000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const NOON = Date.parse('2026-03-11T12:00:00Z')
const USER = {entity: 'user-1', resource: 'gpt-4'}

const quota = {name: 'q', capacity: 22, refillAmount: 0, refillPeriodSeconds: 1}
const session = makeLimit({...quota, reset: {afterSeconds: 18_000}})
const daily = makeLimit({...quota, reset: {crons: ['0 0 * * *']}, timeZone: 'UTC'})
/** Its buckets are rewritten as a whole, with their expiry, every minute. */
const soft = makeLimit({name: 'soft', capacity: 2, refillAmount: 2, refillPeriodSeconds: 1, soft: true})
const rate = makeLimit({name: 'q', capacity: 22, refillAmount: 22, refillPeriodSeconds: 60})

/** Without shard 0, the next process would create a whole bucket beside the remaining shards. */
describeOnBoth('S1 shard 0 outlives the other shards of its bucket', {timeout: 60_000}, table => {
  let scene: Scene

  beforeEach(() => {
    scene = new Scene(table)
    scene.nowMs = NOON
  })

  /** Draws the last or the first of the shards it knows. */
  const limiter = (limit: Limit, takesLast = false): RateLimiter =>
    scene.limiter({defaultLimits: [limit, soft], denyCacheMs: 0, random: () => (takesLast ? 0.999 : 0)})

  async function admitted(by: RateLimiter, ...amounts: number[]): Promise<number> {
    let sum = 0
    for (const amount of amounts) {
      const outcome = await by.acquire({...USER, consume: {q: amount}}).catch(error => error)
      if (outcome instanceof RateLimitExceeded) continue
      await outcome.commit()
      sum += amount
    }
    await by.settled()
    return sum
  }

  const key = (shard: number) => wireKey(keys.bucket(scene.namespace, USER.entity, USER.resource, shard))

  /** Items that the table deletes by expiry. */
  async function expire(count = 2): Promise<void> {
    for (const {shard, ttlSeconds} of await scene.shards(USER.entity, USER.resource, count)) {
      if (ttlSeconds === undefined || ttlSeconds * 1000 > scene.nowMs) continue
      await table.transport.send('DeleteItem', {TableName: table.name, Key: key(shard)})
    }
  }

  const expiries = async (count = 2) =>
    (await scene.shards(USER.entity, USER.resource, count)).map(({ttlSeconds}) => ttlSeconds !== undefined)

  it.each([
    ['session', session, NOON + 5 * HOUR_MS],
    ['calendar', daily, NOON + 12 * HOUR_MS],
  ] as const)(
    'grants a %s quota used just before its period ended once in the next (seed 10054)',
    async (_, limit, endMs) => {
      expect(await admitted(limiter(limit), 1)).toBe(1)
      await splitBucket(scene.tenant, USER.entity, USER.resource, 1)
      const client = limiter(limit, true)
      expect(await admitted(client, 1)).toBe(1)
      scene.nowMs = endMs - SECOND_MS
      expect(await admitted(limiter(limit), 1)).toBe(1)
      scene.nowMs = endMs + SECOND_MS
      expect(await admitted(client, 11)).toBe(11)
      scene.nowMs += HOUR_MS
      await expire()
      expect(await admitted(limiter(limit), 11, 11, 11, 1)).toBe(11)
    },
  )

  it('admits exactly the capacity of a rate at once, whichever shards are long unused', async () => {
    const client = limiter(rate, true)
    expect(await admitted(client, 1)).toBe(1)
    await splitBucket(scene.tenant, USER.entity, USER.resource, 1)
    for (let minutes = 0; minutes < 20; minutes += 2) {
      scene.nowMs += 120 * SECOND_MS
      expect(await admitted(client, 1)).toBe(1)
    }
    await expire()
    expect(await admitted(client, 10)).toBe(10)
    expect(await admitted(limiter(rate), 11, 11, 11)).toBe(11)
  })

  it('has no expiry after the split, whoever writes it; the other shards keep theirs', async () => {
    const client = limiter(rate)
    await admitted(client, 1)
    expect(await expiries(1)).toEqual([true])
    await splitBucket(scene.tenant, USER.entity, USER.resource, 1)
    expect(await expiries()).toEqual([false, true])
    // Another client has set one.
    const stamp = () =>
      table.transport.send('UpdateItem', {
        TableName: table.name,
        Key: key(0),
        UpdateExpression: 'SET #ttl = :ttl',
        ExpressionAttributeNames: {'#ttl': 'ttl'},
        ExpressionAttributeValues: {':ttl': n(Math.floor((scene.nowMs + HOUR_MS) / 1000))},
      })
    await stamp()
    for (let minute = 0; minute < 2; minute++) {
      scene.nowMs += 61 * SECOND_MS
      await admitted(client, 1)
    }
    expect(await expiries()).toEqual([false, true])
    const repository = new NamespaceRepository(scene.tenant, undefined)
    for (const write of [
      () => repository.resetBucket(USER),
      () => repository.setLimits({level: 'resource', resource: USER.resource}, [{...rate, capacity: 20}]),
      () => admitted(limiter(rate), 20),
      async () => {
        await table.transport.send('DeleteItem', {TableName: table.name, Key: key(1)})
        await fillMissingShards(scene.tenant, USER.entity, USER.resource, 32)
      },
    ]) {
      await stamp()
      await write()
      scene.nowMs += DAY_MS
      expect((await expiries())[0]).toBe(false)
    }
  })
})
