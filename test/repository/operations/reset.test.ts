import {beforeEach, describe, expect, it} from 'vitest'
import type {Limit} from '../../../src/lib/core/limits/limit.js'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import type {OperationInput} from '../../../src/lib/dynamo/transport.js'
import {Buckets} from '../../../src/lib/repository/buckets/buckets.js'
import {admissionUpdate, takeStored} from '../../../src/lib/repository/buckets/consume-write.js'
import {newMark} from '../../../src/lib/repository/buckets/writes.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newAudit, newTenant, put, putBucket, stored, type TestTenant, totalOf} from '../namespace-table.js'

const limits = (...texts: string[]): Limit[] => texts.map(parseLimit)

const ghost = (tenant: TestTenant, entity: string, resource: string, shard: number): Promise<void> => {
  const {PK, SK} = keys.bucket(tenant.namespace, entity, resource, shard)
  return put(tenant, {PK: {S: PK}, SK: {S: SK}, b_rpm_tk: {N: '-500'}, b_rpm_tc: {N: '500'}})
}

describeOnBoth('a bucket reset', {}, table => {
  let tenant: TestTenant

  beforeEach(() => {
    tenant = newTenant(table)
  })

  const reset = (entity: string, resource: string) =>
    new NamespaceRepository(tenant, undefined).resetBucket({entity, resource})
  const find = (entity: string, resource: string) => new Buckets(tenant).find(entity, resource)

  describe.each([1, 4])('of %i shards', shardCount => {
    it.each([0, 1, 5000])('fills every limit, forgives debts, keeps the counters, %i ms later', async elapsedMs => {
      const both = limits('rpm=100/min', 'tpd=7/day')
      await putBucket(tenant, {entity: 'a', resource: 'r', limits: both, shardCount, consumed: 120, ttlSeconds: 2e9})
      tenant.nowMs += elapsedMs
      expect(await reset('a', 'r')).toMatchObject({shards: shardCount, ghosts: 0, isRepeated: false})
      const bucket = await find('a', 'r')
      expect([totalOf(bucket, 'rpm'), totalOf(bucket, 'tpd')]).toEqual([100, 7])
      expect(totalOf(bucket, 'rpm', 'consumedMilli')).toBe(120 * shardCount)
      const items = await Promise.all(
        [0, shardCount - 1].map(at => stored(tenant, keys.bucket(tenant.namespace, 'a', 'r', at))),
      )
      for (const item of items) expect(item).not.toHaveProperty('rfr')
      for (const item of items) expect(item).toMatchObject({rf: {N: String(tenant.nowMs)}})
      // The first of several shards never expires.
      expect(items.map(item => item?.ttl)).toEqual([
        shardCount === 1 ? {N: '2000000000'} : undefined,
        {N: '2000000000'},
      ])
      const {records} = await newAudit(tenant).list({entity: 'a'})
      expect(records).toMatchObject([{action: 'bucket_reset', resource: 'r', details: {shards: shardCount}}])
    })
  })

  it('removes tokens above capacity', async () => {
    await putBucket(tenant, {entity: 'a', resource: 'r', limits: limits('rpm=100/min'), consumed: -20})
    await reset('a', 'r')
    expect(totalOf(await find('a', 'r'), 'rpm')).toBe(100)
  })

  it('loses no concurrent consumption and never fills beyond capacity', async () => {
    await putBucket(tenant, {entity: 'a', resource: 'r', limits: limits('rpm=1k/day'), consumed: 900, shardCount: 2})
    tenant.nowMs += 1
    let admitted = 0
    const consumers = Array.from({length: 50}, async (_, at) => {
      const address = {entity: 'a', resource: 'r', shard: at % 2}
      const room = {bounds: [{earliestRefillMs: 0, highestMilli: new Map()}], shardCount: 2}
      const options = {requests: 1, nowMs: tenant.nowMs, repairsPressure: false}
      const write = takeStored(new Map([['rpm', 1000n]]), room, options)
      const update = admissionUpdate(tenant, address, write, newMark(tenant))
      await tenant.transport.send('UpdateItem', update).then(
        () => admitted++,
        () => {},
      )
    })
    await Promise.all([reset('a', 'r'), ...consumers])
    const after = await find('a', 'r')
    expect(totalOf(after, 'rpm', 'consumedMilli')).toBe(2 * 900 + admitted)
    // The reset forgives consumption that it saw; later consumption is charged. The result never exceeds capacity.
    expect(totalOf(after, 'rpm')).toBeGreaterThanOrEqual(1000 - admitted)
    expect(totalOf(after, 'rpm')).toBeLessThanOrEqual(1000)
  })

  it('decides again when the bucket is refilled in between', async () => {
    await putBucket(tenant, {entity: 'a', resource: 'r', limits: limits('rpm=100/min'), consumed: 60})
    tenant.nowMs += 1000
    let between = 1
    tenant.transport.before = async (operation, input) => {
      if (operation !== 'TransactWriteItems' || between-- <= 0) return
      const {TransactItems: [first] = []} = input as OperationInput<'TransactWriteItems'>
      const Key = first?.Update?.Key
      const UpdateExpression = 'SET rf = :rf ADD b_rpm_tk :ten'
      const values = {':rf': {N: String(tenant.nowMs - 1)}, ':ten': {N: '10000'}}
      const request = {TableName: tenant.name, Key, UpdateExpression, ExpressionAttributeValues: values}
      await table.transport.send('UpdateItem', request)
    }
    expect(await reset('a', 'r')).toMatchObject({shards: 1})
    expect(totalOf(await find('a', 'r'), 'rpm')).toBe(100)
  })

  it('fails when no bucket exists, or only a ghost', async () => {
    await expect(reset('a', 'r')).rejects.toMatchObject({code: 'bucket.missing', kind: 'notFound'})
    await ghost(tenant, 'a', 'r', 0)
    await expect(reset('a', 'r')).rejects.toMatchObject({code: 'bucket.missing'})
    await putBucket(tenant, {entity: 'b', resource: 'r', limits: limits('rpm=4/min'), shardCount: 2, shards: [1]})
    await ghost(tenant, 'b', 'r', 0)
    expect(await reset('b', 'r')).toMatchObject({shards: 1, ghosts: 1})
  })
})
