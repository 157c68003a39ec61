import {expect, it} from 'vitest'
import {type Item, n, readString, s} from '../../src/lib/schema/attribute-value.js'
import {type BucketRecord, decodeBucket, encodeBucket} from '../../src/lib/schema/bucket-record.js'
import {encodeNamespaceById, encodeNamespaceByName} from '../../src/lib/schema/namespace-record.js'
import {describeOnEngine} from '../helpers/table.js'
import {type OldTableScene, useOldTable} from './old-table-scene.js'

const NOW = Date.UTC(2026, 5, 15, 12, 34, 56, 789)
const NAMES = [...Array(40).keys()].map(at => `limit-${at}`)

const numbered = (count: number, entry: (at: number) => [string, Item[string]][]): Item =>
  Object.fromEntries([...Array(count).keys()].flatMap(entry))

/** A registry of many resources, and a bucket and a configuration of many limits. */
const wide: Item[] = [
  {PK: s('SYSTEM#'), SK: s('#ENTITY_CONFIG_RESOURCES'), ...numbered(400, at => [[`resource-${at}`, n(at + 1)]])},
  {
    PK: s('ENTITY#wide'),
    SK: s('#BUCKET#gpt-4'),
    entity_id: s('wide'),
    resource: s('gpt-4'),
    rf: n(NOW),
    ...Object.fromEntries(
      NAMES.flatMap((name, at) => [
        [`b_${name}_tk`, n(60_000 + at)],
        [`b_${name}_cp`, n(100_000)],
        [`b_${name}_bx`, n(100_000)],
        [`b_${name}_ra`, n(100_000)],
        [`b_${name}_rp`, n(60_000)],
        [`b_${name}_tc`, n(40_000 + at)],
      ]),
    ),
  },
  {
    PK: s('RESOURCE#gpt-4'),
    SK: s('#CONFIG'),
    resource: s('gpt-4'),
    config_version: n(1),
    ...Object.fromEntries(
      NAMES.flatMap((name, at) => [
        [`l_${name}_cp`, n(100 + at)],
        [`l_${name}_bx`, n(200 + at)],
        [`l_${name}_ra`, n(300 + at)],
        [`l_${name}_rp`, n(60 + at)],
      ]),
    ),
  },
]

const get = async (scene: OldTableScene, {PK = s(''), SK = s('')}: Item): Promise<Item> =>
  (await scene.own.send('GetItem', {TableName: scene.name, Key: {PK, SK}, ConsistentRead: true})).Item ?? {}

describeOnEngine('a clean-up of items with more attributes than a condition allows', () => {
  const scene = useOldTable(4, () => wide)

  it.each([
    ['a counter of the last limit', 1, 'b_limit-39_tc'],
    ['the refill instant', 1, 'rf'],
    ['the rate of the last limit', 2, 'l_limit-39_ra'],
    ['its burst, which is the capacity now', 2, 'l_limit-39_bx'],
  ])('keeps an item that changes before it is deleted: %s', async (_, at, attribute) => {
    await scene.migrate()
    const item = wide[at] as Item
    const before = await get(scene, item)
    scene.transport = {
      send: async (operation, input, options) => {
        const isDeletion =
          JSON.stringify(input).includes(`"${readString(item, 'PK')}"`) && /Delete|Transact/.test(operation)
        if (isDeletion) {
          const UpdateExpression = 'SET #changed = #changed + :one'
          const names = {ExpressionAttributeNames: {'#changed': attribute}, ExpressionAttributeValues: {':one': n(1)}}
          const {PK = s(''), SK = s('')} = item
          await scene.own.send('UpdateItem', {TableName: scene.name, Key: {PK, SK}, UpdateExpression, ...names})
        }
        return scene.own.send(operation, input, options)
      },
    }
    const {left} = await scene.cleanUp()
    scene.transport = scene.own
    expect(left).toMatchObject({count: 1, shown: [{reason: 'changed during the cleanup'}]})
    expect(await get(scene, item)).toHaveProperty(attribute)
    for (const old of wide) await scene.own.send('PutItem', {TableName: scene.name, Item: old === item ? before : old})
  })

  it('deletes them', async () => {
    await scene.migrate()
    expect(await scene.cleanUp()).toMatchObject({
      deleted: {registry: 1, bucket: 1, limits: 1},
      left: {count: 0},
    })
    expect((await scene.census()).old).toEqual({})
  })
})

const SHARDS = 128

function shard(number: number): BucketRecord {
  const rate = {capacityMilli: 1_280_000n, refillAmountMilli: 1_280_000n, refillPeriodMs: 60_000}
  const limit = {...rate, tokensMilli: 5000n, consumedMilli: 3000n + BigInt(number), remainder: 0n}
  const rest = {entity: 'user-1', resource: 'gpt-4', cascade: false, parent: undefined, ttlSeconds: undefined}
  const state = {refilledAtMs: NOW, limits: new Map([['rpm', limit]])}
  return {namespace: 'default', ...rest, shard: number, shardCount: SHARDS, state}
}

describeOnEngine('a clean-up of a bucket with more shards than a transaction allows', () => {
  const registered = {
    id: 'aB3x_9QwErT',
    name: 'default',
    status: 'active',
    createdAt: '',
    deletedAt: undefined,
  } as const
  const scene = useOldTable(6, () => [
    ...[...Array(SHARDS).keys()].map(number => encodeBucket(shard(number))),
    encodeNamespaceById(registered),
    encodeNamespaceByName(registered),
  ])

  const current = async () => {
    const items = (await scene.items()).filter(item => readString(item, 'PK')?.startsWith('aB3x_9QwErT/BUCKET#'))
    const stored = items.map(decodeBucket)
    return stored.map(each => (each?.kind === 'bucket' ? each.record.state.limits.get('rpm') : undefined))
  }

  it('charges nothing twice when it is interrupted, and finishes the next time', async () => {
    await scene.migrate()
    const before = await current()
    let transactions = 0
    scene.transport = {
      send: (operation, input, options) => {
        if (operation === 'TransactWriteItems' && transactions++ > 0) throw new Error('connection lost')
        return scene.own.send(operation, input, options)
      },
    }
    await expect(scene.cleanUp()).rejects.toThrow('connection lost')
    scene.transport = scene.own
    const left = (await scene.census()).old.bucket ?? 0
    expect(left).toBeGreaterThan(0)
    expect(left).toBeLessThan(SHARDS)
    expect((await scene.verify()).differences.shown).toEqual([])
    await scene.migrate()
    expect(await current()).toEqual(before)
    expect(await scene.cleanUp()).toMatchObject({deleted: {bucket: left}, left: {count: 0}})
    expect((await scene.census()).old).toEqual({})
    expect(await current()).toEqual(before)
  })
})
