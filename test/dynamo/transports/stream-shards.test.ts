import {once} from 'node:events'
import {type AddressInfo, createServer} from 'node:net'
import {afterAll, beforeAll, describe, expect, inject, it} from 'vitest'
import {latestStreamArn, listShards, openShard, readRecords} from '../../../src/lib/dynamo/transports/stream-shards.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {openStreams} from '../../local/stream/poll-support.js'

describeOnEngine('a stream', () => {
  const table = useTable({stream: true})
  const plain = useTable()
  const stream = openStreams(inject('engineEndpoint') || 'http://127.0.0.1:1')
  let streamArn = ''
  let shardId = ''
  afterAll(() => stream.close())

  beforeAll(async () => {
    streamArn = (await latestStreamArn(table.transport, table.name)) ?? ''
    shardId = (await listShards(stream, streamArn))[0]?.ShardId ?? ''
  })

  const put = (version: number, more = {}) => {
    const Item = {PK: {S: 'ä'}, SK: {S: 'x'}, version: {N: String(version)}, ...more}
    return table.transport.send('PutItem', {TableName: table.name, Item})
  }

  async function readAll(after?: string) {
    const iterator = await openShard(stream, {streamArn, shardId, after})
    return (await readRecords(stream, iterator ?? '', 1_000)).records
  }

  it('is found by its table; a table without one has none', async () => {
    expect(streamArn).toContain(`table/${table.name}/stream/`)
    expect(await latestStreamArn(plain.transport, plain.name)).toBeUndefined()
  })

  it('has one open shard, which may be empty', async () => {
    expect(await listShards(stream, streamArn)).toHaveLength(1)
    const page = await readRecords(stream, (await openShard(stream, {streamArn, shardId, after: undefined})) ?? '', 10)
    expect(page).toEqual({records: [], next: expect.any(String)})
  })

  it('returns every change with both images, in order, and continues after a record', async () => {
    await put(0, {bytes: {B: new Uint8Array([0, 255])}})
    await put(1)
    await table.transport.send('DeleteItem', {TableName: table.name, Key: {PK: {S: 'ä'}, SK: {S: 'x'}}})
    const records = await readAll()
    expect(
      records.map(({eventName, dynamodb}) => [eventName, dynamodb.OldImage?.version, dynamodb.NewImage?.version]),
    ).toEqual([
      ['INSERT', undefined, {N: '0'}],
      ['MODIFY', {N: '0'}, {N: '1'}],
      ['REMOVE', {N: '1'}, undefined],
    ])
    expect(records[0]?.dynamodb.NewImage?.bytes).toEqual({B: new Uint8Array([0, 255])})
    expect(records[2]?.dynamodb).toMatchObject({Keys: {PK: {S: 'ä'}, SK: {S: 'x'}}, SequenceNumber: expect.any(String)})
    expect(records[2]?.userIdentity).toBeUndefined()
    // Whole seconds, or truncated to the minute.
    const ageSeconds = Date.now() / 1000 - (records[0]?.dynamodb.ApproximateCreationDateTime ?? 0)
    expect(Math.abs(ageSeconds)).toBeLessThan(3_600)
    expect(await readAll(records[1]?.dynamodb.SequenceNumber)).toEqual(records.slice(2))
  })

  it('continues page by page', async () => {
    const all = await readAll()
    const first = await readRecords(stream, (await openShard(stream, {streamArn, shardId, after: undefined})) ?? '', 2)
    const second = await readRecords(stream, first.next ?? '', 2)
    expect([...first.records, ...second.records]).toEqual(all)
  })

  it('fails with the typed error', async () => {
    await expect(readRecords(stream, 'nonsense', 1)).rejects.toMatchObject({code: 'dynamo.validation'})
    await expect(listShards(stream, 'arn:aws:dynamodb:x:000000000000:table/none/stream/1')).rejects.toMatchObject({
      code: 'table.missing',
    })
    await expect(openStreams('http://127.0.0.1:1').send('GetRecords', {ShardIterator: 'x'})).rejects.toMatchObject({
      code: 'dynamo.unavailable',
      maybeApplied: false,
    })
    const signal = AbortSignal.abort()
    await expect(listShards(stream, streamArn, {signal})).rejects.toMatchObject({code: 'dynamo.aborted'})
  })

  it('is not found after it was turned off', async () => {
    const StreamSpecification = {StreamEnabled: false}
    await table.transport.send('UpdateTable', {TableName: table.name, StreamSpecification})
    expect(await latestStreamArn(table.transport, table.name)).toBeUndefined()
  })
})

describe('reading', () => {
  it('leaves nothing half done if the connection breaks', async () => {
    const server = createServer(socket => socket.on('data', () => socket.destroy()).on('error', () => {}))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const {port} = server.address() as AddressInfo
    const stream = openStreams(`http://127.0.0.1:${port}`)
    await expect(readRecords(stream, 'any', 1)).rejects.toMatchObject({
      code: 'dynamo.unavailable',
      maybeApplied: false,
    })
    stream.close()
    server.close()
  })
})

describe('records of an expiry', () => {
  it('are removals by the service, even in the form of DynamoDB Local', async () => {
    const key = {PK: {S: 'a'}, SK: {S: 'x'}}
    // As in version 3, shortened.
    const answer = {
      Records: [
        {
          eventName: 'UNKNOWN_TO_SDK_VERSION',
          dynamodb: {ApproximateCreationDateTime: 1_794_721_740, Keys: key, OldImage: key, SequenceNumber: '2'},
        },
      ],
    }
    const stream = {send: async () => answer as never, close: () => {}}
    expect((await readRecords(stream, 'any', 1)).records).toEqual([
      {
        ...answer.Records[0],
        eventName: 'REMOVE',
        userIdentity: {type: 'Service', principalId: 'dynamodb.amazonaws.com'},
      },
    ])
  })
})
