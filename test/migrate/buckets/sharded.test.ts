import {expect, it} from 'vitest'
import {type Item, n, readNumber, readString} from '../../../src/lib/schema/attribute-value.js'
import {type BucketRecord, decodeBucket, encodeBucket} from '../../../src/lib/schema/bucket-record.js'
import {MIGRATION_MARK} from '../../../src/lib/schema/migration-marks.js'
import {describeOnEngine} from '../../helpers/table.js'
import {itemsOf} from '../fixtures/old-table.js'
import {useOldTable} from '../old-table-scene.js'

/** A shard that has consumed so much of every limit. */
function shardOf(record: BucketRecord, shard: number, consumedMilli: bigint): BucketRecord {
  const limits = [...record.state.limits].map(([name, limit]) => [name, {...limit, consumedMilli}] as const)
  return {...record, shard, shardCount: 3, state: {...record.state, limits: new Map(limits)}}
}

describeOnEngine('a bucket that was split after it had been copied', () => {
  const scene = useOldTable(4, population => itemsOf(4, population))
  const put = (item: Item) => scene.own.send('PutItem', {TableName: scene.name, Item: item})

  it('charges the consumption of all its shards to the old one', async () => {
    await scene.migrate()
    const items = await scene.items()
    const [copy = {}] = items.filter(item => MIGRATION_MARK in item && decodeBucket(item)?.kind === 'bucket')
    const stored = decodeBucket(copy)
    if (stored?.kind !== 'bucket') throw new Error('no bucket was copied')
    const {record} = stored
    const oldBalance = async () => {
      const isIt = (item: Item) =>
        readString(item, 'PK') === `ENTITY#${record.entity}` && readString(item, 'SK') === `#BUCKET#${record.resource}`
      const [old = {}] = (await scene.items()).filter(isIt)
      return readNumber(old, 'b_rpm_tk') ?? Number.NaN
    }
    const before = await oldBalance()
    await put({...encodeBucket(shardOf(record, 0, 1000n)), [MIGRATION_MARK]: copy[MIGRATION_MARK] ?? n(0)})
    await put(encodeBucket(shardOf(record, 1, 2000n)))
    await put(encodeBucket(shardOf(record, 2, 4000n)))
    expect(await scene.migrate()).toMatchObject({finished: true, settled: true})
    expect(await oldBalance()).toBe(before - 7000)
    await scene.migrate()
    expect(await oldBalance()).toBe(before - 7000)
  })
})
