import {describe, expect, it} from 'vitest'
import {checkRecord, MalformedRecord, readEvent, type StreamRecord} from '../../src/lib/aggregator/stream-event.js'
import {MemoryTable} from './fixtures/memory-table.js'
import {bucketImage, loggingAggregator, NOON_MS, streamRecord, tableOver} from './fixtures/stream.js'

const record = streamRecord(undefined, bucketImage({tc: {tpm: 7000}}))
const changed = (change: object) => ({...record, dynamodb: {...record.dynamodb, ...change}}) as StreamRecord

describe('a record of the stream', () => {
  it('keeps fields that this version does not know', () => {
    checkRecord({...record, awsRegion: 'eu-west-1'} as StreamRecord)
    expect(readEvent({Records: [{...record, awsRegion: 'eu-west-1'}], more: 1}).Records[0]).toEqual({
      ...record,
      awsRegion: 'eu-west-1',
    })
  })

  it.each([
    [changed({SequenceNumber: 'x'}), 'it has no sequence number'],
    [changed({SequenceNumber: 17}), 'it has no sequence number'],
    [changed({SequenceNumber: '9'.repeat(41)}), 'it has no sequence number'],
    [changed({ApproximateCreationDateTime: '2026'}), 'it has no time'],
    [changed({ApproximateCreationDateTime: Number.POSITIVE_INFINITY}), 'it has no time'],
    [changed({Keys: {PK: {S: 'a'}}}), 'it has no keys'],
    [{...record, eventSourceARN: ''}, 'it does not name its stream'],
    [{...record, dynamodb: undefined}, 'it describes no change'],
    [{}, 'it does not name its stream; it describes no change'],
  ])('is rejected with all its problems: %#', (broken, problem) => {
    expect(() => checkRecord(broken as StreamRecord)).toThrow(new MalformedRecord(problem))
  })
})

describe('an event', () => {
  it.each([undefined, null, 'x', {}, [], {Records: null}, {Records: {}}])('is rejected if it is %j', event => {
    expect(() => readEvent(event)).toThrow('the event is not from a DynamoDB stream: it has no list of Records')
  })

  it('skips the reservations of processes', async () => {
    const table = new MemoryTable()
    const {handle} = loggingAggregator({table: tableOver(table, 'memory', () => NOON_MS)})
    const Item = {PK: {S: 'tenant/HOLDER#gw'}, SK: {S: '#RESERVED#0.aaaa'}, tokens: {S: '[]'}, ttl: {N: '1'}}
    const ended = {...Item, ended: {BOOL: true}}
    const {failures, counts} = await handle({Records: [streamRecord(undefined, Item), streamRecord(Item, ended)]})
    expect({failures, counts}).toMatchObject({failures: [], counts: {malformed: 0, snapshots: 0}})
  })

  it('counts entries that are not records as malformed and processes the others', async () => {
    const {handle} = loggingAggregator({table: tableOver(new MemoryTable(), 'memory', () => NOON_MS)})
    const {failures, counts} = await handle(readEvent({Records: [null, 'x', 1, [], {}, record]}))
    expect({failures, counts}).toMatchObject({failures: [], counts: {records: 6, malformed: 5, snapshots: 3}})
  })
})
