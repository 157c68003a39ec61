import {createServer, type RequestListener, type Server} from 'node:http'
import type {AddressInfo} from 'node:net'
import {gunzipSync} from 'node:zlib'
import {S3Client} from '@aws-sdk/client-s3'
import {afterEach, beforeEach, expect, it} from 'vitest'
import {EXPIRES_AGAIN_SECONDS} from '../../src/lib/aggregator/archiver.js'
import {s3Sink} from '../../src/lib/aggregator/s3-archive-sink.js'
import type {StreamRecord} from '../../src/lib/aggregator/stream-event.js'
import {Denied, Unavailable} from '../../src/lib/dynamo/errors.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {type Item, readNumber, readString, s} from '../../src/lib/schema/attribute-value.js'
import {encodeAudit} from '../../src/lib/schema/audit-record.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {usageOf} from './fixtures/stored-usage.js'
import {bucketImage, loggingAggregator, NOON_MS, streamRecord, tableOver} from './fixtures/stream.js'

const SIX_HOURS_MS = EXPIRES_AGAIN_SECONDS * 1000

/** A local S3 that can fail or not respond. */
class LoopbackS3 {
  state: 'works' | 'fails' | 'is silent' = 'works'
  puts = 0
  readonly objects = new Map<string, Buffer>()
  #server: Server | undefined

  async start(): Promise<S3Client> {
    const listener: RequestListener = (request, response) => {
      const chunks: Buffer[] = []
      request.on('data', chunk => chunks.push(chunk))
      request.on('end', () => {
        this.puts++
        if (this.state === 'is silent') return
        response.statusCode = this.state === 'works' ? 200 : 503
        if (this.state === 'works') this.objects.set(request.url ?? '', Buffer.concat(chunks))
        response.end()
      })
    }
    const server = createServer(listener)
    this.#server = server
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    const {port} = server.address() as AddressInfo
    return new S3Client({
      endpoint: `http://127.0.0.1:${port}`,
      region: 'us-east-1',
      credentials: {accessKeyId: 'local', secretAccessKey: 'local'},
      forcePathStyle: true,
      maxAttempts: 1,
      // So that the body is the object itself, not signed chunks.
      requestChecksumCalculation: 'WHEN_REQUIRED',
    })
  }

  async stop(): Promise<void> {
    this.#server?.closeAllConnections()
    await new Promise(resolve => this.#server?.close(resolve))
  }

  /** Ids of the archived events. */
  get events(): string[] {
    const lines = [...this.objects.values()].flatMap(body => gunzipSync(body).toString().trimEnd().split('\n'))
    return lines.map(line => JSON.parse(line).event_id).sort()
  }
}

describeOnBoth('an archive outage', {}, table => {
  let nowMs = NOON_MS
  let s3: LoopbackS3
  let client: S3Client
  let namespace: string
  let spaces = 0

  beforeEach(async () => {
    nowMs = NOON_MS + 90_000
    namespace = `ns${spaces++}`
    s3 = new LoopbackS3()
    client = await s3.start()
  })
  afterEach(async () => {
    client.destroy()
    await s3.stop()
  })

  const newAggregator = (transport: Transport = table.transport, longestPutMs?: number) =>
    loggingAggregator({
      table: tableOver(transport, table.name, () => nowMs),
      sink: s3Sink('archive', client, longestPutMs),
    })

  const event = (eventId: string): Item =>
    encodeAudit({
      ...{namespace, entity: 'user-1', eventId, timestamp: '2023-08-16T11:12:13Z', action: 'limits_set'},
      ...{principal: 'arn:aws:iam::1:user/ops', resource: 'gpt-4', details: {limits: [{name: 'tpm'}]}, ttlSeconds: 1},
    })
  const expired = (item: Item): StreamRecord => streamRecord(item, undefined, {byService: true})

  async function stored({PK, SK}: Item): Promise<Item | undefined> {
    const Key = {PK, SK} as Item
    return (await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})).Item
  }

  /** Removes expired items like DynamoDB, and returns their records. */
  async function expire(item: Item): Promise<StreamRecord> {
    const found = (await stored(item)) as Item
    expect((readNumber(found, 'ttl') ?? 0) * 1000).toBeLessThanOrEqual(nowMs)
    const {PK, SK} = found
    await table.transport.send('DeleteItem', {TableName: table.name, Key: {PK, SK} as Item})
    return expired(found)
  }

  it('counts usage, delays no record, and keeps the events in the table unchanged', async () => {
    s3.state = 'fails'
    const Records = [
      expired(event('A')),
      streamRecord(undefined, bucketImage({namespace, tc: {tpm: 7000}, rq: 1})),
      expired(event('B')),
    ]
    const {handle, lines} = newAggregator()
    const {failures, counts} = await handle({Records})
    expect(failures).toEqual([])
    expect(counts).toMatchObject({archived: 0, unarchived: 2, failed: 0, snapshots: 3, errors: 1})
    expect(lines[0]).toMatchObject({level: 'error', message: 'archive failed', events: 2})
    expect((await usageOf(table, namespace))['hourly 2023-11-14T12:00:00Z']).toEqual({tpm: 7, events: 1})
    const ttl = {N: String(Math.floor(nowMs / 1000) + EXPIRES_AGAIN_SECONDS)}
    for (const id of ['A', 'B']) expect(await stored(event(id))).toEqual({...event(id), ttl})
  })

  it('archives every event once when the archive works again after days', async () => {
    s3.state = 'fails'
    let Records = ['A', 'B', 'C'].map(id => expired(event(id)))
    for (let round = 0; round < 8; round++) {
      expect(await newAggregator().handle({Records})).toMatchObject({failures: [], counts: {unarchived: 3}})
      nowMs += SIX_HOURS_MS
      Records = await Promise.all(['A', 'B', 'C'].map(id => expire(event(id))))
    }
    s3.state = 'works'
    expect((await newAggregator().handle({Records})).counts).toMatchObject({archived: 3, unarchived: 0})
    expect(s3.events).toEqual(['A', 'B', 'C'])
    for (const id of ['A', 'B', 'C']) expect(await stored(event(id))).toBeUndefined()
  })

  it('retries once a minute, not with every batch', async () => {
    s3.state = 'fails'
    const {handle} = newAggregator()
    for (const id of ['A', 'B', 'C']) await handle({Records: [expired(event(id))]})
    expect(s3.puts).toBe(1)
    s3.state = 'works'
    nowMs += 60_000
    expect((await handle({Records: [expired(event('D'))]})).counts).toMatchObject({archived: 1, unarchived: 0})
    expect(s3.events).toEqual(['D'])
  })

  it('gives up on an S3 that does not respond, so that the function does not time out', async () => {
    s3.state = 'is silent'
    const {handle, lines} = newAggregator(table.transport, 50)
    expect(await handle({Records: [expired(event('A'))]})).toMatchObject({failures: [], counts: {unarchived: 1}})
    expect(lines[0]).toMatchObject({message: 'archive failed'})
  })

  it('keeps events from before namespaces too', async () => {
    s3.state = 'fails'
    const old: Item = {...event('A'), PK: s(`AUDIT#user-${namespace}`)}
    await newAggregator().handle({Records: [expired(old)]})
    expect(await stored(old)).toMatchObject({event_id: s('A')})
  })

  it('redelivers an event that cannot be restored either, and loses nothing', async () => {
    s3.state = 'fails'
    const [first, second] = [event('A'), event('B')]
    const broken = failing(
      table.transport,
      key => readString(key, 'SK') === readString(second, 'SK'),
      new Denied('UpdateItem', undefined),
    )
    const Records = [expired(first), expired(second)]
    const {failures, counts} = await newAggregator(broken).handle({Records})
    expect(failures).toEqual([Records[1]?.dynamodb.SequenceNumber])
    expect(counts).toMatchObject({unarchived: 1, failed: 1})
    expect(await newAggregator().handle({Records: Records.slice(1)})).toMatchObject({failures: []})
    expect([await stored(first), await stored(second)]).toMatchObject([{event_id: s('A')}, {event_id: s('B')}])
  })

  it('loses nothing if a process ends after any of its writes', async () => {
    for (const isDelivered of [true, false]) {
      s3.objects.clear()
      s3.state = 'fails'
      const item = event(`crash-${isDelivered}`)
      const Records = [expired(item)]
      if (isDelivered) await newAggregator().handle({Records})
      // The result was lost with the process: a new one gets the same batch, even when the archive works.
      await newAggregator().handle({Records})
      nowMs += SIX_HOURS_MS
      s3.state = 'works'
      await newAggregator().handle({Records: [await expire(item)]})
      expect(new Set(s3.events)).toEqual(new Set([readString(item, 'event_id')]))
    }
  })

  it('writes the same object again after a lost response of the archive', async () => {
    const Records = [expired(event('A')), expired(event('B'))]
    await newAggregator().handle({Records})
    await newAggregator().handle({Records})
    expect([s3.puts, s3.objects.size, s3.events]).toEqual([2, 1, ['A', 'B']])
  })

  it('retries after a lost response of the table', async () => {
    s3.state = 'fails'
    let isFirst = true
    const lossy: Transport = {
      send: async (...args) => {
        const output = await table.transport.send(...args)
        if (!isFirst) return output
        isFirst = false
        throw new Unavailable('UpdateItem', true, undefined)
      },
    }
    expect(await newAggregator(lossy).handle({Records: [expired(event('A'))]})).toMatchObject({
      failures: [],
      counts: {unarchived: 1},
    })
  })
})

/** Fails the writes to some keys. */
function failing(inner: Transport, isConcerned: (key: Item) => boolean, error: Error): Transport {
  return {
    send: (operation, input, options) => {
      if (isConcerned((input as {Key?: Item}).Key ?? {})) throw error
      return inner.send(operation, input, options)
    },
  }
}
