import {beforeEach, describe, expect, inject, it} from 'vitest'
import {Denied} from '../../../src/lib/dynamo/errors.js'
import {RecordsTrimmed, type StreamTransport} from '../../../src/lib/dynamo/transports/stream.js'
import {
  latestStreamArn,
  listShards,
  openShard,
  readRange,
  readRecords,
} from '../../../src/lib/dynamo/transports/stream-shards.js'
import {DeadLetterQueue, inStreamOrder, readLetter} from '../../../src/lib/infra/dead-letters/queue.js'
import {redrive, windowsOf} from '../../../src/lib/infra/dead-letters/redrive.js'
import {usageOf} from '../../aggregator/fixtures/stored-usage.js'
import {bucketImage, tableOver} from '../../aggregator/fixtures/stream.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {openStreams} from '../../local/stream/poll-support.js'
import {fakeAws} from '../fake-aws.js'
import {letterBody} from './letters.js'

const RANGE = {
  streamArn: 'arn:aws:dynamodb:eu-west-1:123456789012:table/prod/stream/2026-01-01T00:00:00.000',
  shardId: 'shardId-1',
  first: '100',
  last: '200',
}

describe('a dead letter', () => {
  it('names its records, when they were written and why the aggregator gave up', () => {
    expect(readLetter('m1', 'r1', letterBody(RANGE))).toEqual({
      id: 'm1',
      receipt: 'r1',
      range: RANGE,
      records: 2,
      firstAt: '2026-11-16T01:59:58.000Z',
      lastAt: '2026-11-16T02:00:04.000Z',
      reason: 'RetryAttemptsExhausted',
      attempts: 9,
      givenUpAt: '2026-11-16T08:00:06.021Z',
    })
  })

  it.each(['', '{}', 'null', '"text"', letterBody({...RANGE, first: 'x'})])('is not understood: %s', body => {
    expect(readLetter('m1', 'r1', body)).toMatchObject({id: 'm1', range: undefined})
  })

  it('concerns every window that it touches', () => {
    const letter = readLetter('m1', 'r1', letterBody(RANGE))
    expect(windowsOf(letter, ['hourly', 'monthly']).map(({window, start}) => `${window} ${start}`)).toEqual([
      'hourly 2026-11-16T01:00:00Z',
      'hourly 2026-11-16T02:00:00Z',
      'monthly 2026-11-01T00:00:00Z',
    ])
    expect(windowsOf(readLetter('m1', 'r1', ''), ['hourly'])).toEqual([])
  })

  it('comes in the order of the stream, by number and not by text', () => {
    const letter = (first: string) => readLetter(first, '', letterBody({...RANGE, first}))
    const ordered = inStreamOrder([readLetter('?', '', ''), letter('1000'), letter('200'), letter('30')])
    expect(ordered.map(({id}) => id)).toEqual(['30', '200', '1000', '?'])
  })
})

/** A queue in memory, whose messages are hidden once they are taken. */
function queueOf(bodies: Map<string, string>, variables: Record<string, string>, runtime = 'nodejs22.x') {
  const hidden = new Set<string>()
  return fakeAws({
    getQueueUrl: () => ({QueueUrl: 'https://queue'}),
    receiveMessage: () => {
      const Messages = [...bodies]
        .filter(([id]) => !hidden.has(id))
        .slice(0, 2)
        .map(([id, Body]) => ({MessageId: id, ReceiptHandle: id, Body}))
      for (const {MessageId} of Messages) hidden.add(MessageId)
      return {Messages}
    },
    changeMessageVisibility: ({ReceiptHandle}) => void hidden.delete(String(ReceiptHandle)),
    deleteMessage: ({ReceiptHandle}) => void bodies.delete(String(ReceiptHandle)),
    getFunction: () => ({Configuration: {Runtime: runtime, Environment: {Variables: variables}}}),
  })
}

describeOnEngine('a redrive', () => {
  const table = useTable({stream: true})
  const stream = openStreams(inject('engineEndpoint'))
  let spaces = 0
  let namespace: string
  let bodies: Map<string, string>
  beforeEach(() => {
    namespace = `redrive${spaces++}`
    bodies = new Map()
  })

  async function write(milli: number): Promise<void> {
    const Item = bucketImage({namespace, tc: {tpm: milli}, rq: milli / 1000})
    await table.transport.send('PutItem', {TableName: table.name, Item})
  }

  /** Where the records of this test are. */
  async function rangeOf(): Promise<{streamArn: string; shardId: string; numbers: string[]}> {
    const streamArn = (await latestStreamArn(table.transport, table.name)) as string
    for (const {ShardId: shardId} of await listShards(stream, streamArn)) {
      const iterator = (await openShard(stream, {streamArn, shardId, after: undefined})) as string
      const {records} = await readRecords(stream, iterator, 1000)
      const own = records.filter(({dynamodb}) => JSON.stringify(dynamodb.Keys).includes(`${namespace}/`))
      if (own.length > 0) return {streamArn, shardId, numbers: own.map(({dynamodb}) => dynamodb.SequenceNumber)}
    }
    throw new Error('the stream does not have the records')
  }

  async function run(options: {discard?: boolean; stream?: StreamTransport; fails?: boolean; runtime?: string} = {}) {
    const {aws} = queueOf(bodies, {TABLE_NAME: table.name, SNAPSHOT_WINDOWS: 'hourly'}, options.runtime)
    const queue = await DeadLetterQueue.open(aws, 'prod')
    const transport = options.fails
      ? {send: () => Promise.reject(new Denied('UpdateItem', undefined))}
      : table.transport
    return redrive({
      table: tableOver(transport, table.name, Date.now),
      ...{aws, stack: 'prod', queue, stream: options.stream ?? stream, discard: options.discard ?? false},
    })
  }

  const counted = async () => Object.values(await usageOf(table, namespace)).reduce((sum, {tpm = 0}) => sum + tpm, 0)

  it('reads the range from the stream again, counts it once and deletes the message', async () => {
    for (const milli of [1000, 3000, 6000]) await write(milli)
    const {numbers, ...place} = await rangeOf()
    const [first = '', second = '', third = ''] = numbers
    // The later one first, as an unsorted queue may have them.
    bodies.set('late', letterBody({...place, first: second, last: third}))
    bodies.set('early', letterBody({...place, first, last: first}))
    const letters = await run()
    expect(letters.map(({letter, state, records, isDeleted}) => [letter.id, state, records, isDeleted])).toEqual([
      ['early', 'counted', 1, true],
      ['late', 'counted', 2, true],
    ])
    expect([await counted(), bodies.size]).toEqual([6, 0])
    bodies.set('again', letterBody({...place, first, last: third}))
    expect(await run()).toMatchObject([{state: 'counted', counted: 0}])
    expect(await counted()).toBe(6)
  })

  it('keeps lost and unknown messages, unless they are to be discarded', async () => {
    const gone: StreamTransport = {send: () => Promise.reject(new RecordsTrimmed()), close: () => {}}
    const fill = () => {
      bodies.set(
        'lost',
        letterBody({...RANGE, streamArn: RANGE.streamArn.replace('table/prod', `table/${table.name}`)}),
      )
      bodies.set('of another table', letterBody({...RANGE, first: '300'}))
      bodies.set('odd', 'hello')
    }
    fill()
    const letters = await run({stream: gone})
    expect(letters.map(({letter, state, isDeleted}) => [letter.id, state, isDeleted])).toEqual([
      ['of another table', 'unreadable', false],
      ['lost', 'lost', false],
      ['odd', 'unreadable', false],
    ])
    expect(letters[1]?.lostWindows.map(({start}) => start)).toEqual(['2026-11-16T01:00:00Z', '2026-11-16T02:00:00Z'])
    expect([...bodies.keys()]).toEqual(['lost', 'of another table', 'odd'])
    expect((await run({stream: gone, discard: true})).every(({isDeleted}) => isDeleted)).toBe(true)
    expect(bodies.size).toBe(0)
  })

  it('stops at the first failure and shows the messages again, also when it is to discard', async () => {
    for (const milli of [1000, 3000]) await write(milli)
    const {numbers, ...place} = await rangeOf()
    const [first = '', second = ''] = numbers
    bodies.set('early', letterBody({...place, first, last: first}))
    bodies.set('late', letterBody({...place, first: second, last: second}))
    expect(await run({fails: true, discard: true})).toMatchObject([{state: 'failed', isDeleted: false}])
    expect(await run()).toMatchObject([{state: 'counted'}, {state: 'counted'}])
    expect(await counted()).toBe(3)
  })

  it('counts nothing of a range whose first record has expired', async () => {
    for (const milli of [1000, 3000]) await write(milli)
    const {numbers, ...place} = await rangeOf()
    const [first = '', second = ''] = numbers
    const trimmed: StreamTransport = {
      close: () => {},
      send: async (operation, input, options) => {
        const output = await stream.send(operation, input, options)
        if (operation !== 'GetRecords') return output
        const {Records = []} = output as {Records?: {dynamodb: {SequenceNumber: string}}[]}
        return {...output, Records: Records.filter(({dynamodb}) => dynamodb.SequenceNumber !== first)} as never
      },
    }
    expect(await readRange(trimmed, {...place, first, last: second})).toBeUndefined()
    bodies.set('partly', letterBody({...place, first, last: second}))
    expect(await run({stream: trimmed})).toMatchObject([{state: 'lost'}])
    expect(await counted()).toBe(0)
  })

  it('refuses the aggregator of the Python system, which leaves no marks', async () => {
    bodies.set('a', letterBody(RANGE))
    await expect(run({runtime: 'python3.12'})).rejects.toMatchObject({code: 'deadletters.python', kind: 'conflict'})
    expect(bodies.size).toBe(1)
  })
})
