import {expect, it} from 'vitest'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import {MARK_SLOTS} from '../../src/lib/repository/buckets/writes.js'
import {type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {type BucketRecord, encodeBucket} from '../../src/lib/schema/bucket-record.js'
import {itemBytes, writeUnitsOf} from '../../src/lib/schema/item-size.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, useTable} from '../helpers/table.js'

function bucketOf(limits: number): BucketRecord {
  const limit = {
    capacityMilli: 100_000_000n,
    refillAmountMilli: 100_000_000n,
    refillPeriodMs: 60_000,
    tokensMilli: 55_123_456n,
    consumedMilli: 123_456_789n,
    remainder: 0n,
  }
  return {
    namespace: 'AbCdEfGhIjK',
    entity: 'customer-12345678',
    resource: 'gpt-4-turbo',
    shard: 0,
    shardCount: 1,
    cascade: false,
    parent: undefined,
    ttlSeconds: 1_700_000_000,
    state: {
      refilledAtMs: 1_700_000_000_000,
      limits: new Map(Array.from({length: limits}, (_, at) => [`limit-${at}`, limit])),
    },
  }
}

describeOnEngine('the size of items', () => {
  const table = useTable()

  // Around the borders of 1, 2 and 3 kilobytes, clearly on one side.
  it.each([1, 4, 12, 16, 24, 30])("matches the engine's charge with %i limits", async limits => {
    const item: Item = {...encodeBucket(bucketOf(limits)), rq: n(1)}
    const before = table.capacity.snapshot()
    await table.transport.send('PutItem', {TableName: table.name, Item: item})
    await table.transport.send('DeleteItem', {TableName: table.name, Key: {PK: item.PK, SK: item.SK} as Item})
    const {write} = table.capacity.since(before)
    // Written and deleted, in the table and in three keys-only indexes.
    expect(write).toBe(2 * (Math.ceil(itemBytes(item) / 1024) + 3))
  })

  it('is below 1 KB for three limits, with a quota, a session, a parent and all write marks', async () => {
    const scene = new Scene(table)
    // Names of usual length; amounts of a busy customer.
    const [entity, resource] = ['customer-12345678', 'gpt-4-turbo-2026-04-09']
    const texts = ['tpm=200k/min', 'usd=$5000/month@America/Los_Angeles', 'session=500k/5h!']
    await scene.configure({level: 'resource', resource}, ...texts)
    await scene.entity('organization-1234')
    await scene.entity(entity, 'organization-1234')
    const consume = {tpm: 17_123, usd: 2_345_678, session: 12_345}
    await using limiter = scene.limiter()
    for (let request = 0; request < 5; request++) {
      await limiter.acquire({entity, resource, consume})
      scene.nowMs += 7_001
    }
    const Key = wireKey(keys.bucket(scene.namespace, entity, resource, 0))
    const {Item = {}} = await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})
    const attributes = Object.keys(Item)
    expect(attributes).toEqual(expect.arrayContaining(['parent_id', 'rsched', 'b_session_ws', 'b_usd_gc', 'vu', 'ttl']))
    // As after many processes, and after a move of the entity.
    const mark = Object.entries(Item).find(([name]) => name.startsWith('wn_'))?.[1]
    const marks = Array.from({length: MARK_SLOTS}, (_, slot) => [`wn_${slot}`, mark])
    const item = {...Item, ...Object.fromEntries(marks), pgen: n(12), pinc: s('0123456789abcdef')}
    expect(itemBytes(item)).toBeLessThan(1024)
  })

  it('L7 is below 1 KB for five limits after every kind of write, so that none costs a second unit', async () => {
    const scene = new Scene(table)
    const [entity, resource, parent] = ['customer-12345678', 'gpt-4-turbo', 'organization-1234']
    const texts = ['rpm=500/min', 'rpd=10007/day', 'tpm=200k/min', 'tpd=20000003/day', 'images=50/hour']
    await scene.configure({level: 'system'}, ...texts)
    await scene.entity(parent)
    await scene.entity(entity, parent)
    const consume = {rpm: 1, rpd: 1, tpm: 17_123, tpd: 17_123, images: 3}
    const sizes: Record<string, number> = {}
    /** As after many processes with a million writes each, and after a move of the entity. */
    const measure = async (what: string) => {
      for (const shard of [0, 7]) {
        const Key = wireKey(keys.bucket(scene.namespace, entity, resource, shard))
        const {Item} = await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})
        if (!Item) continue
        const marks = ['lr', 'bi', ...Array.from({length: MARK_SLOTS}, (_, slot) => `wn_${slot}`)]
        const marked = Object.fromEntries(marks.map(name => [name, s('0123456789ab')]))
        sizes[`${what}, shard ${shard}`] = itemBytes({...Item, ...marked, pgen: n(12), pinc: s('0123456789abcdef')})
      }
    }
    await using limiter = scene.limiter({denyCacheMs: 0})
    const lease = await limiter.acquire({entity, resource, consume})
    await measure('created')
    scene.nowMs += 7_001
    for (let request = 0; request < 11; request++) await limiter.acquire({entity, resource, consume}).catch(() => {})
    await measure('consumed, and refused')
    scene.nowMs += 31_003
    await limiter.acquire({entity, resource, consume})
    await measure('refilled')
    await lease.adjust({tpm: 199_999, tpd: 15_123_457})
    await measure('in debt')
    await limiter.settled()
    for (let shards = 1; shards < 8; shards *= 2) await splitBucket(scene.tenant, entity, resource, shards)
    scene.nowMs += 3_600_007
    for (let request = 0; request < 30; request++) await limiter.acquire({entity, resource, consume}).catch(() => {})
    await limiter.settled()
    await measure('split')
    expect(Object.keys(sizes)).toHaveLength(6)
    expect(Object.entries(sizes).filter(([, bytes]) => bytes >= 1024)).toEqual([])
  })

  it('raises the cost per write of a bucket with many limits, so that it grows earlier', () => {
    expect([1, 4, 16, 28].map(limits => writeUnitsOf(bucketOf(limits)))).toEqual([1, 1, 2, 3])
  })
})
