import {expect, it} from 'vitest'
import {type Item, n} from '../../src/lib/schema/attribute-value.js'
import {type BucketRecord, encodeBucket} from '../../src/lib/schema/bucket-record.js'
import {itemBytes, writeUnitsOf} from '../../src/lib/schema/item-size.js'
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

  // Around the borders of 1, 2 and 3 kilobytes, by a number of limits that is well on one side.
  it.each([1, 4, 12, 16, 24, 30])('is what the engine charges for, with %i limits', async limits => {
    const item: Item = {...encodeBucket(bucketOf(limits)), rq: n(1)}
    const before = table.capacity.snapshot()
    await table.transport.send('PutItem', {TableName: table.name, Item: item})
    await table.transport.send('DeleteItem', {TableName: table.name, Key: {PK: item.PK, SK: item.SK} as Item})
    const {write} = table.capacity.since(before)
    // Written and deleted, in the table and in three indexes that hold keys only.
    expect(write).toBe(2 * (Math.ceil(itemBytes(item) / 1024) + 3))
  })

  it('makes a bucket with many limits cost more per write, so that it grows earlier', () => {
    expect([1, 4, 16, 28].map(limits => writeUnitsOf(bucketOf(limits)))).toEqual([1, 1, 2, 3])
  })
})
