import {randomUUID} from 'node:crypto'
import {beforeEach, describe, expect, it} from 'vitest'
import {Throttled, ValidationFailed} from '../../src/lib/dynamo/errors.js'
import type {OperationInput, Transport} from '../../src/lib/dynamo/transport.js'
import {readString} from '../../src/lib/schema/attribute-value.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {MemoryTable} from './fixtures/memory-table.js'
import {usageItems, usageOf} from './fixtures/stored-usage.js'
import {type BucketImage, bucketImage, loggingAggregator, NOON_MS, streamRecord, tableOver} from './fixtures/stream.js'

const clock = () => NOON_MS + 1000
const HOUR = 'hourly 2023-11-14T12:00:00Z'
const settings = {windows: ['hourly' as const]}

const many = (count: number, length = 0): Record<string, number> =>
  Object.fromEntries(Array.from({length: count}, (_, at) => [`x${at}`.padEnd(length, 'y'), 1000]))

describeOnBoth('usage that can never be counted', {}, table => {
  let namespace: string

  beforeEach(() => {
    namespace = `ns${randomUUID().slice(0, 8)}`
  })

  /** A batch with a hostile change between two good ones of other entities. */
  async function handle(hostile: BucketImage) {
    const {handle, lines} = loggingAggregator({table: tableOver(table.transport, table.name, clock), settings})
    const good = (entity: string) => streamRecord(undefined, bucketImage({namespace, entity, tc: {tpm: 2000}, rq: 1}))
    const Records = [
      good('user-1'),
      streamRecord(undefined, bucketImage({...hostile, namespace, entity: 'hostile'})),
      good('user-2'),
    ]
    const {failures, counts} = await handle({Records})
    const of = async (entity: string) => (await usageOf(table, namespace, entity))[HOUR]
    return {failures, counts, lines, good: [await of('user-1'), await of('user-2')], hostile: await of('hostile')}
  }

  it.each<[string, BucketImage, object]>([
    ['a consumption of 120 digits', {tc: {tpm: 10n ** 120n, rpm: 1000n}, rq: 1}, {rpm: 1, events: 1}],
    ['a consumption of -10^40', {tc: {tpm: -(10n ** 40n), rpm: 1000n}, rq: 1}, {rpm: 1, events: 1}],
    ['a count of requests beyond exact numbers', {tc: {tpm: 5000}, more: {rq: {N: '1E+60'}}}, {tpm: 5, events: 0}],
    [
      'a limit name with a comma, whose fraction would not read back',
      {tc: {'a,b': 1500, tpm: 1500}, rq: 1},
      {tpm: 1, events: 1},
    ],
    ['limit names of 30 KB', {tc: {...many(12, 30_000), tpm: 5000}, rq: 1}, {tpm: 5, events: 1}],
  ])('sets %s aside and counts the rest', async (_, image, counted) => {
    const {failures, counts, lines, good, hostile} = await handle(image)
    expect({failures, uncounted: counts.uncounted}).toEqual({failures: [], uncounted: 1})
    expect(good).toEqual([
      {tpm: 2, events: 1},
      {tpm: 2, events: 1},
    ])
    expect(hostile).toEqual(counted)
    expect(lines.filter(({level}) => level === 'error')).toMatchObject([
      {message: 'counting failed', namespace, entity: 'hostile', records: 1},
    ])
    expect(Math.max(...lines.map(line => JSON.stringify(line).length))).toBeLessThan(4000)
  })

  it.each([
    ['a refill instant of 60 digits', {rf: {N: '1E+60'}}],
    ['no shards', {shard_count: {N: '0'}}],
    ['a period of 60 digits', {b_t_tk: {N: '1'}, b_t_cp: {N: '1'}, b_t_ra: {N: '1'}, b_t_rp: {N: '1E+60'}}],
  ])('treats a bucket with %s as malformed and counts the others', async (_, more) => {
    const {failures, counts, good} = await handle({tc: {tpm: 5000}, rq: 1, more})
    expect({failures, malformed: counts.malformed, uncounted: counts.uncounted}).toEqual({
      failures: [],
      malformed: 1,
      uncounted: 1,
    })
    expect(good).toEqual([
      {tpm: 2, events: 1},
      {tpm: 2, events: 1},
    ])
  })

  it('skips an impossible shard number without blocking the others on redelivery', async () => {
    const {handle} = loggingAggregator({table: tableOver(table.transport, table.name, clock), settings})
    const image = bucketImage({namespace, tc: {tpm: 1000}, rq: 1})
    const PK = {S: `${namespace}/BUCKET#user-1#gpt-4#${'9'.repeat(400)}`}
    const Records = [streamRecord(undefined, {...image, PK}), streamRecord(undefined, image)]
    for (let delivery = 0; delivery < 2; delivery++) expect((await handle({Records})).failures).toEqual([])
    expect((await usageOf(table, namespace))[HOUR]).toEqual({tpm: 1, events: 1})
  })

  it('ignores a fraction that an earlier version stored under a strange name', async () => {
    const {handle} = loggingAggregator({table: tableOver(table.transport, table.name, clock), settings})
    const record = (before: number, after: number) =>
      streamRecord(bucketImage({namespace, tc: {tpm: before}}), bucketImage({namespace, tc: {tpm: after}, rq: 1}))
    await handle({Records: [record(0, 1500)]})
    const [item] = await usageItems(table, namespace)
    await table.transport.send('PutItem', {TableName: table.name, Item: {...item, _milli: {S: 'a,b:700,tpm:500'}}})
    expect((await handle({Records: [record(1500, 3000)]})).failures).toEqual([])
    expect((await usageOf(table, namespace))[HOUR]).toMatchObject({tpm: 3})
  })

  it('counts 500 limits in one bucket up to the bound of one write, those with parameters first', async () => {
    const parameters = Object.fromEntries(['tk', 'cp', 'ra', 'rp'].map(field => [`b_z_${field}`, {N: '1000'}]))
    const {failures, counts, good, hostile} = await handle({tc: {...many(499), z: 7000}, rq: 1, more: parameters})
    expect({failures, uncounted: counts.uncounted}).toEqual({failures: [], uncounted: 1})
    expect(good).toEqual([
      {tpm: 2, events: 1},
      {tpm: 2, events: 1},
    ])
    expect(Object.keys(hostile ?? {})).toHaveLength(101)
    expect(hostile).toMatchObject({z: 7, x0: 1, events: 1})
  })
})

describe('a usage write', () => {
  const Records = ['user-1', 'user-2'].map(entity => streamRecord(undefined, bucketImage({entity, tc: {tpm: 2000}})))

  /** Fails all writes of one entity. */
  function failing(error: Error): Transport {
    const inner = new MemoryTable()
    return {
      send: (operation, input) => {
        const {Key} = input as OperationInput<'UpdateItem'>
        const isHit = readString(Key ?? {}, 'PK')?.endsWith('ENTITY#user-1')
        return isHit ? Promise.reject(error) : inner.send(operation, input)
      },
    }
  }

  const outcome = async (error: Error) => {
    const {handle} = loggingAggregator({table: tableOver(failing(error), 'memory', clock), settings})
    const {failures, counts} = await handle({Records})
    return {failures: failures.length, uncounted: counts.uncounted, snapshots: counts.snapshots}
  }

  it('is not repeated if DynamoDB rejects it: it would block all other records', async () => {
    const tooLarge = new ValidationFailed('UpdateItem', new Error('Item size has exceeded the maximum allowed size'))
    expect(await outcome(tooLarge)).toEqual({failures: 0, uncounted: 1, snapshots: 1})
    expect(await outcome(new RangeError('not an exact integer'))).toEqual({failures: 0, uncounted: 1, snapshots: 1})
  })

  it('is repeated if it may succeed later', async () => {
    expect(await outcome(new Throttled('UpdateItem'))).toEqual({failures: 1, uncounted: 0, snapshots: 1})
  })

  it('stays within the 4 KB of an expression with as many shards and limits as fit', async () => {
    const inner = new MemoryTable()
    const sizes: number[] = []
    const transport: Transport = {
      send: (operation, input) => {
        const {UpdateExpression = '', ConditionExpression = ''} = input as OperationInput<'UpdateItem'>
        sizes.push(UpdateExpression.length, ConditionExpression.length)
        return inner.send(operation, input)
      },
    }
    const {handle} = loggingAggregator({table: tableOver(transport, 'memory', clock), settings})
    const shards = Array.from({length: 32}, (_, shard) =>
      streamRecord(bucketImage({shard}), bucketImage({shard, tc: many(200)})),
    )
    expect((await handle({Records: shards})).failures).toEqual([])
    expect(Math.max(...sizes)).toBeLessThanOrEqual(4096)
  })
})
