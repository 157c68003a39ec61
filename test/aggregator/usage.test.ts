import {randomUUID} from 'node:crypto'
import {beforeEach, expect, it} from 'vitest'
import type {StreamRecord} from '../../src/lib/aggregator/stream-event.js'
import type {OperationInput, Transport} from '../../src/lib/dynamo/transport.js'
import {Usage} from '../../src/lib/repository/usage/usage.js'
import {n, s} from '../../src/lib/schema/attribute-value.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {usageItems, usageOf} from './fixtures/stored-usage.js'
import {bucketImage, loggingAggregator, NOON_MS, streamRecord, tableOver} from './fixtures/stream.js'

describeOnBoth('usage records', {}, table => {
  let namespace: string
  const clock = () => NOON_MS + 3_600_000
  const aggregator = (settings = {}) =>
    loggingAggregator({table: tableOver(table.transport, table.name, clock), settings})

  beforeEach(() => {
    namespace = `ns${randomUUID().slice(0, 8)}`
  })

  /** Records of one bucket whose counters had these values in turn. */
  function records(images: {tpm: number; rq?: number; atMs?: number}[], shard = 0): StreamRecord[] {
    const image = ({tpm, rq}: {tpm: number; rq?: number}) =>
      bucketImage({namespace, shard, tc: {tpm}, ...(rq === undefined ? {} : {rq})})
    return images.map((after, index) => {
      const before = images[index - 1]
      return streamRecord(before && image(before), image(after), {atMs: after.atMs ?? NOON_MS})
    })
  }

  it('have the layout that other clients expect', async () => {
    const Records = records([{tpm: 5250, rq: 1}])
    await aggregator().handle({Records})
    const sequence = Records[0]?.dynamodb.SequenceNumber as string
    const items = await usageItems(table, namespace)
    expect(items).toHaveLength(3)
    expect(items.find(({window}) => window && 'S' in window && window.S === 'daily')).toEqual({
      PK: s(`${namespace}/ENTITY#user-1`),
      SK: s('#USAGE#gpt-4#2023-11-14T00:00:00Z#daily'),
      entity_id: s('user-1'),
      resource: s('gpt-4'),
      window: s('daily'),
      window_start: s('2023-11-14T00:00:00Z'),
      tpm: n(5),
      total_events: n(1),
      GSI2PK: s(`${namespace}/RESOURCE#gpt-4`),
      GSI2SK: s('USAGE#2023-11-14T00:00:00Z#user-1'),
      GSI4PK: s(namespace),
      GSI4SK: s(`${namespace}/ENTITY#user-1`),
      ttl: n(clock() / 1000 + 90 * 86_400),
      _milli: s('tpm:250'),
      _seq_0: s(`2026-01-01T00:00:00.000#${sequence.padStart(40, '0')}`),
    })
  })

  it('are written once per batch, over all shards', async () => {
    const Records = [
      ...records(Array.from({length: 50}, (_, index) => ({tpm: 1000 * (index + 1), rq: index + 1}))),
      ...records([{tpm: 0}, {tpm: 3000, rq: 2}], 1),
    ]
    const faults = new FaultTransport(table.transport)
    faults.start()
    const {handle} = loggingAggregator({table: tableOver(faults, table.name, () => NOON_MS + 90_000)})
    expect((await handle({Records})).counts).toMatchObject({records: 52, snapshots: 3, failed: 0})
    // In addition, one read for expired temporary limits, and one for rollups.
    expect(faults.calls.filter(call => !call.startsWith('Query') && !call.includes(' SYSTEM#'))).toHaveLength(3)
    expect((await usageOf(table, namespace))['hourly 2023-11-14T12:00:00Z']).toEqual({tpm: 53, events: 52})
  })

  it('are created one after another for many buckets of one resource at the start of an hour', async () => {
    const Records = Array.from({length: 20}, (_, at) =>
      streamRecord(undefined, bucketImage({namespace, entity: `user-${at}`, tc: {tpm: 1000}}), {atMs: NOON_MS}),
    )
    const waits: number[] = []
    const sleep = async (ms: number) => void waits.push(ms)
    const over = tableOver(table.transport, table.name, () => NOON_MS + 1_000)
    const {handle} = loggingAggregator({
      table: {...over, backoff: {...over.backoff, sleep}},
      settings: {windows: ['hourly']},
    })
    expect((await handle({Records})).counts).toMatchObject({snapshots: 20, failed: 0})
    expect(waits).toEqual(Array.from({length: 19}, (_, at) => 4 * (at + 1)))
  })

  it('are complete with 120 shards, whose marks exceed one expression', async () => {
    const Records = Array.from({length: 120}, (_, shard) => records([{tpm: 0}, {tpm: 1000, rq: 1}], shard)).flat()
    const expressions: string[] = []
    const transport: Transport = {
      send: (operation, input, options) => {
        const {UpdateExpression = '', ConditionExpression = ''} = input as OperationInput<'UpdateItem'>
        expressions.push(UpdateExpression, ConditionExpression)
        return table.transport.send(operation, input, options)
      },
    }
    const {handle} = loggingAggregator({table: tableOver(transport, table.name, clock)})
    expect((await handle({Records})).failures).toEqual([])
    // DynamoDB's limit, which not every local engine enforces.
    expect(Math.max(...expressions.map(text => Buffer.byteLength(text)))).toBeLessThanOrEqual(4096)
    expect((await usageOf(table, namespace))['daily 2023-11-14T00:00:00Z']).toEqual({tpm: 120, events: 120})
  })

  it('lose no fraction over time, and round refunds down', async () => {
    const {handle} = aggregator()
    const steps = [333, 666, 999, 1332, 1082, 832, -168]
    const whole = []
    for (const record of records(steps.map((tpm, index) => ({tpm, rq: index + 1})))) {
      await handle({Records: [record]})
      whole.push((await usageOf(table, namespace))['hourly 2023-11-14T12:00:00Z']?.tpm)
    }
    expect(whole).toEqual([undefined, undefined, undefined, 1, 1, 0, -1])
    const [item] = await usageItems(table, namespace)
    expect(item?._milli).toEqual(s('tpm:832'))
  })

  it('have no fraction attribute when the total is whole', async () => {
    const {handle} = aggregator()
    for (const record of records([{tpm: 1500}, {tpm: 4000}])) await handle({Records: [record]})
    const [item] = await usageItems(table, namespace)
    expect(item).toMatchObject({tpm: n(4)})
    expect(item?._milli).toBeUndefined()
  })

  it('expire by the settings, counted from the first write', async () => {
    const [first, second] = records([{tpm: 1000}, {tpm: 2000}]) as [StreamRecord, StreamRecord]
    await aggregator({retentionDays: 7, windows: ['hourly']}).handle({Records: [first]})
    await aggregator({retentionDays: 30, windows: ['hourly']}).handle({Records: [second]})
    expect(await usageItems(table, namespace)).toMatchObject([{tpm: n(2), ttl: n(clock() / 1000 + 7 * 86_400)}])
  })

  it('are described only by the first write of a process, and again after deletion', async () => {
    const sent: OperationInput<'UpdateItem'>[] = []
    const transport: Transport = {
      send: (operation, input, options) => {
        if (operation === 'UpdateItem') sent.push(input as OperationInput<'UpdateItem'>)
        return table.transport.send(operation, input, options)
      },
    }
    const counted = tableOver(transport, table.name, clock)
    const {handle} = loggingAggregator({table: counted, settings: {windows: ['hourly']}})
    const [first, second, third] = records([{tpm: 1000}, {tpm: 3000}, {tpm: 7000}]) as StreamRecord[]
    const isDescribed = ({ExpressionAttributeNames = {}}: OperationInput<'UpdateItem'>) =>
      Object.values(ExpressionAttributeNames).includes('GSI2PK')
    const deliver = async (record: StreamRecord | undefined) => {
      sent.length = 0
      await handle({Records: record ? [record] : []})
      return sent.filter(({Key}) => JSON.stringify(Key).includes('#USAGE#')).map(isDescribed)
    }
    expect(await deliver(first)).toEqual([true])
    expect(await deliver(second)).toEqual([false])
    const [item] = await usageItems(table, namespace)
    expect(item).toMatchObject({tpm: n(3), total_events: n(2)})
    const Key = {PK: s(`${namespace}/ENTITY#user-1`), SK: s('#USAGE#gpt-4#2023-11-14T12:00:00Z')}
    await table.transport.send('DeleteItem', {TableName: table.name, Key})
    expect(await deliver(third)).toEqual([false, true])
    const [again] = await usageItems(table, namespace)
    expect(again).toEqual({...item, tpm: n(4), total_events: n(1), _seq_0: expect.anything()})
  })

  it('do not expire with 0 days', async () => {
    await aggregator({retentionDays: 0}).handle({Records: records([{tpm: 1000}])})
    for (const item of await usageItems(table, namespace)) expect(item.ttl).toBeUndefined()
  })

  it('are written only for the windows of the settings', async () => {
    await aggregator({windows: ['monthly']}).handle({Records: records([{tpm: 1000}])})
    expect(Object.keys(await usageOf(table, namespace))).toEqual(['monthly 2023-11-01T00:00:00Z'])
  })

  it('appear in summaries as whole tokens, without marks', async () => {
    await aggregator().handle({
      Records: records([
        {tpm: 1500, rq: 1},
        {tpm: 8000, rq: 3},
      ]),
    })
    const usage = new Usage({...tableOver(table.transport, table.name, clock), namespace})
    const summary = await usage.summary({entity: 'user-1', window: 'daily'})
    expect([...summary.limits.keys()]).toEqual(['tpm'])
    expect(summary).toMatchObject({windows: 1, totalEvents: 3})
    expect(summary.limits.get('tpm')).toMatchObject({total: 8, windows: 1})
  })

  it('are not corrupted by limits named like their attributes; other limits and requests are counted', async () => {
    const names = ['window', 'resource', 'ttl', 'total_events', 'entity_id', 'PK', 'GSI2SK', '_milli', '_seq_0']
    const tc = Object.fromEntries(names.map(name => [name, 5000]))
    const {handle, lines} = aggregator()
    const record = streamRecord(undefined, bucketImage({namespace, tc: {...tc, tpm: 1000}}))
    expect(await handle({Records: [record]})).toMatchObject({failures: [], counts: {snapshots: 3}})
    expect((await usageOf(table, namespace))['hourly 2023-11-14T12:00:00Z']).toEqual({tpm: 1, events: 1})
    expect(lines).toContainEqual(expect.objectContaining({level: 'warn', limits: names}))
  })

  it('fail only their own records if they cannot be written', async () => {
    const faults = new FaultTransport(table.transport)
    const hit = records([{tpm: 1000}, {tpm: 2000}])
    const Records = [...hit, streamRecord(undefined, bucketImage({namespace, entity: 'user-2', tc: {tpm: 1000}}))]
    faults.start({kind: 'throttled', at: 1, operation: 'UpdateItem', on: 'ENTITY#user-1', times: 1000})
    const {handle, lines} = loggingAggregator({table: tableOver(faults, table.name, clock)})
    const {failures, counts} = await handle({Records})
    expect(failures).toEqual(hit.map(({dynamodb}) => dynamodb.SequenceNumber))
    expect(counts).toMatchObject({failed: 2, snapshots: 3, errors: 3})
    expect(lines.filter(({level}) => level === 'error')).toHaveLength(3)
    expect(lines[0]).toMatchObject({message: 'usage failed', code: 'dynamo.throttled', namespace, entity: 'user-1'})
    faults.stop()
    expect((await handle({Records})).failures).toEqual([])
    expect((await usageOf(table, namespace))['hourly 2023-11-14T12:00:00Z']).toEqual({tpm: 2, events: 2})
    expect((await usageOf(table, namespace, 'user-2'))['hourly 2023-11-14T12:00:00Z']).toEqual({tpm: 1, events: 1})
  })

  it('are exact after a throttled write and after a lost response', async () => {
    const faults = new FaultTransport(table.transport)
    const {handle} = loggingAggregator({table: tableOver(faults, table.name, clock)})
    const [first, second] = records([{tpm: 1500}, {tpm: 4000}]) as [StreamRecord, StreamRecord]
    faults.start({kind: 'lost after apply', at: 1, times: 3})
    expect(await handle({Records: [first]})).toMatchObject({failures: []})
    faults.start({kind: 'throttled', at: 2, times: 4})
    expect(await handle({Records: [second]})).toMatchObject({failures: []})
    expect((await usageOf(table, namespace))['hourly 2023-11-14T12:00:00Z']).toEqual({tpm: 4, events: 2})
  })

  it('are written for the rest of a batch with unreadable records, which are logged', async () => {
    const [good] = records([{tpm: 1000}]) as [StreamRecord]
    const image = bucketImage({namespace, entity: 'user-3', tc: {tpm: 1000}})
    const broken = [
      streamRecord(undefined, {...image, b_tpm_tc: {N: 'many'}}),
      {...good, dynamodb: {...good.dynamodb, SequenceNumber: undefined}},
      {...good, dynamodb: {...good.dynamodb, ApproximateCreationDateTime: undefined}},
      {eventName: 'INSERT'},
    ] as StreamRecord[]
    const {handle, lines} = aggregator()
    const {failures, counts} = await handle({Records: [...broken, good]})
    expect(failures).toEqual([])
    expect(counts).toMatchObject({records: 5, malformed: 4, errors: 4, snapshots: 3})
    expect(lines.filter(({message}) => message === 'record failed')).toHaveLength(4)
  })

  it('are not written for buckets of older layouts, which are only counted', async () => {
    const composite = {PK: s(`${namespace}/ENTITY#user-1`), SK: s('#BUCKET#gpt-4'), b_tpm_tc: n(1000)}
    const perLimit = {PK: s('ENTITY#user-1'), SK: s('#BUCKET#gpt-4#tpm'), tokens_milli: n(1000)}
    const Records = [streamRecord(undefined, composite), streamRecord(undefined, perLimit)]
    expect((await aggregator().handle({Records})).counts).toMatchObject({legacy: 2, buckets: 0, snapshots: 0})
  })
})
