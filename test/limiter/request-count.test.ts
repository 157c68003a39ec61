import {beforeEach, expect, it} from 'vitest'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import {readRequestCount} from '../../src/lib/schema/bucket-record.js'
import {keys} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'

const RESOURCE = 'gpt-4'
const of = (entity: string, rpm: number) => ({entity, resource: RESOURCE, consume: {rpm}})

/** Every admitting write counts its requests, which the tokens alone do not show. */
describeOnBoth('the number of admitted requests', {}, table => {
  let scene: Scene

  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: RESOURCE}, 'rpm=100/min')
  })

  /** As counted by all shards of a bucket. */
  async function counted(entity: string, shards = 1): Promise<number> {
    let sum = 0
    for (let shard = 0; shard < shards; shard++) {
      const {PK, SK} = keys.bucket(scene.namespace, entity, RESOURCE, shard)
      const {Item} = await table.transport.send('GetItem', {
        TableName: table.name,
        Key: {PK: {S: PK}, SK: {S: SK}},
        ConsistentRead: true,
      })
      sum += (Item && readRequestCount(Item)) ?? 0
    }
    return sum
  }

  it('grows by one per request: the first, the next, one that refills, one from a full bucket', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(of('user-1', 3))
    await limiter.acquire(of('user-1', 0))
    expect(await counted('user-1')).toBe(2)
    await limiter.acquire(of('user-1', 97))
    scene.nowMs += 6_000
    await limiter.acquire(of('user-1', 10))
    scene.nowMs += 90_000
    await limiter.acquire(of('user-1', 1))
    expect(await counted('user-1')).toBe(5)
  })

  it('counts every request of a batched write, and no refused one', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(of('user-1', 1))
    const attempts = Array.from({length: 30}, () => limiter.acquire(of('user-1', 7)).catch(() => undefined))
    const admitted = (await Promise.all(attempts)).filter(lease => lease !== undefined)
    expect(admitted.length).toBe(14)
    expect(await counted('user-1')).toBe(15)
  })

  it('ignores settlements and later consumption, and uncounts a rolled-back request', async () => {
    const limiter = scene.limiter()
    const lease = await limiter.acquire(of('user-1', 5))
    await lease.adjust({rpm: 10})
    await lease.release({rpm: 3})
    await lease.consume({rpm: 4})
    expect(await counted('user-1')).toBe(1)
    await lease.rollback()
    expect(await counted('user-1')).toBe(0)
    expect((await scene.totals('user-1', RESOURCE, 'rpm')).consumed).toBe(0)
  })

  it('uncounts a rolled-back request without tokens', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(of('user-1', 1))
    const lease = await limiter.acquire(of('user-1', 0))
    expect(await counted('user-1')).toBe(2)
    await lease.rollback()
    expect(await counted('user-1')).toBe(1)
  })

  it('D-15 uncounts an attempt that the parent refuses', async () => {
    await scene.entity('user-1', 'team')
    await scene.configure({level: 'entity', entity: 'team', resource: RESOURCE}, 'rpm=2/min')
    const limiter = scene.limiter()
    for (let request = 0; request < 2; request++) await limiter.acquire(of('user-1', 1))
    // Another process does not know yet that the parent has nothing left.
    const other = scene.limiter()
    for (let request = 0; request < 3; request++) await expect(other.acquire(of('user-1', 1))).rejects.toThrow()
    await Promise.all([limiter.settled(), other.settled()])
    expect([await counted('user-1'), await counted('team')]).toEqual([2, 2])
  })

  it('counts a request over several shards once', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(of('user-1', 1))
    for (const count of [1, 2]) await splitBucket(scene.tenant, 'user-1', RESOURCE, count)
    const lease = await scene.limiter().acquire(of('user-1', 90))
    expect(await counted('user-1', 4)).toBe(2)
    await lease.rollback()
    expect(await counted('user-1', 4)).toBe(1)
  })
})
