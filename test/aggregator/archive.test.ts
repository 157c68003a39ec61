import {mkdir, mkdtemp, readdir, readFile, rm} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {gunzipSync} from 'node:zlib'
import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import {type ArchiveSink, folderSink} from '../../src/lib/aggregator/audit-archive.js'
import {s3Sink} from '../../src/lib/aggregator/s3-archive-sink.js'
import type {StreamRecord} from '../../src/lib/aggregator/stream-event.js'
import {Denied} from '../../src/lib/dynamo/errors.js'
import {type Item, s} from '../../src/lib/schema/attribute-value.js'
import {type AuditRecord, encodeAudit} from '../../src/lib/schema/audit-record.js'
import {MemoryTable} from './fixtures/memory-table.js'
import {
  bucketImage,
  loggingAggregator,
  NOON_MS,
  type RecordOptions,
  streamRecord,
  tableOver,
} from './fixtures/stream.js'

class MemorySink implements ArchiveSink {
  readonly objects = new Map<string, Uint8Array>()
  puts = 0

  async put(key: string, body: Uint8Array): Promise<void> {
    this.puts++
    this.objects.set(key, body)
  }

  /** Lines of all objects. */
  get lines(): Record<string, unknown>[] {
    return [...this.objects.values()].flatMap(linesOf)
  }
}

function linesOf(body: Uint8Array): Record<string, unknown>[] {
  const text = gunzipSync(body).toString()
  expect(text.endsWith('\n')).toBe(true)
  return text
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
}

const event = (eventId: string, more: Partial<AuditRecord> = {}): Item =>
  encodeAudit({
    namespace: 'ns',
    entity: 'user-1',
    eventId,
    timestamp: '2023-08-16T11:12:13Z',
    action: 'limits_set',
    principal: 'arn:aws:iam::1:user/ops',
    resource: 'gpt-4',
    details: {limits: [{name: 'tpm', capacity: 1000}]},
    ttlSeconds: 1,
    ...more,
  })

const expired = (item: Item, options: RecordOptions = {}) =>
  streamRecord(item, undefined, {byService: true, ...options})

describe('the audit archive', () => {
  let sink: MemorySink
  let table: MemoryTable
  const newAggregator = (to: ArchiveSink | undefined = sink) =>
    loggingAggregator({table: tableOver(table, 'memory', () => NOON_MS + 90_000), sink: to})

  beforeEach(() => {
    sink = new MemorySink()
    table = new MemoryTable()
  })

  it('stores the events of a batch in one object of JSON lines, in the folder of the earliest day', async () => {
    const Records = [
      expired(event('A', {timestamp: '2023-08-17T00:00:01Z'}), {sequence: 71}),
      expired(event('B', {namespace: 'other', principal: undefined, resource: undefined}), {sequence: 72}),
    ]
    const {counts, failures} = await newAggregator().handle({Records})
    expect({archived: counts.archived, failures}).toEqual({archived: 2, failures: []})
    const [key] = sink.objects.keys()
    expect(key).toMatch(
      /^audit\/year=2023\/month=08\/day=16\/audit-2026-01-01T00-00-00\.000-71-[0-9a-f]{16}\.jsonl\.gz$/,
    )
    expect(sink.lines).toEqual([
      {
        event_id: 'A',
        entity_id: 'user-1',
        action: 'limits_set',
        timestamp: '2023-08-17T00:00:01Z',
        principal: 'arn:aws:iam::1:user/ops',
        resource: 'gpt-4',
        details: {limits: [{name: 'tpm', capacity: 1000}]},
        namespace: 'ns',
      },
      expect.objectContaining({event_id: 'B', principal: null, resource: null, namespace: 'other'}),
    ])
  })

  it('stores only expired audit events', async () => {
    const Records = [
      streamRecord(event('deleted by a user'), undefined),
      streamRecord(undefined, event('new')),
      expired(bucketImage({tc: {tpm: 1000}})),
      {...expired(event('C')), userIdentity: {type: 'Service', principalId: 'replication.dynamodb.amazonaws.com'}},
    ]
    expect((await newAggregator().handle({Records})).counts).toMatchObject({archived: 0, errors: 0})
    expect(sink.puts).toBe(0)
  })

  it('stores events from before namespaces', async () => {
    const old: Item = {...event('A'), PK: s('AUDIT#user-1')}
    await newAggregator().handle({Records: [expired(old)]})
    expect(sink.lines).toMatchObject([{event_id: 'A', entity_id: 'user-1', namespace: null}])
  })

  it('writes the same object when a batch is redelivered', async () => {
    const Records = [expired(event('A')), expired(event('B'))]
    await newAggregator().handle({Records})
    const first = new Map(sink.objects)
    await newAggregator().handle({Records})
    expect(sink.puts).toBe(2)
    expect(sink.objects).toEqual(first)
  })

  it('writes another object for other content', async () => {
    await newAggregator().handle({Records: [expired(event('A'), {sequence: 5})]})
    await newAggregator().handle({Records: [expired(event('B'), {sequence: 5})]})
    expect(sink.objects.size).toBe(2)
  })

  it('stores every event once when another record of the batch fails and is redelivered', async () => {
    const failing = new (class extends MemoryTable {
      isBroken = true
      override async send(operation: string, input: unknown): Promise<never> {
        if (this.isBroken) throw new Denied('UpdateItem', undefined)
        return super.send(operation, input)
      }
    })()
    table = failing
    const Records = [expired(event('A')), streamRecord(undefined, bucketImage({tc: {tpm: 1000}})), expired(event('B'))]
    const {handle} = newAggregator()
    const {failures} = await handle({Records})
    expect(failures).toEqual(Records.slice(1).map(({dynamodb}) => dynamodb.SequenceNumber))
    failing.isBroken = false
    expect((await handle({Records: Records.slice(1) as StreamRecord[]})).failures).toEqual([])
    expect(sink.lines.map(line => line.event_id)).toEqual(['A', 'B'])
  })

  it('is not written without a sink', async () => {
    const {handle} = loggingAggregator({table: tableOver(table, 'memory', () => NOON_MS)})
    expect(await handle({Records: [expired(event('A'))]})).toMatchObject({failures: [], counts: {archived: 0}})
  })
})

describe('an archive folder', () => {
  let folder: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-archive-'))
  })
  afterEach(() => rm(folder, {recursive: true}))
  const options = {contentType: 'application/x-ndjson', contentEncoding: 'gzip'}

  it('has complete files under their keys, and replaces them', async () => {
    const sink = folderSink(folder)
    await sink.put('audit/year=2023/a.gz', Buffer.from('one'), options)
    await sink.put('audit/year=2023/a.gz', Buffer.from('two'), options)
    expect(await readFile(join(folder, 'audit/year=2023/a.gz'), 'utf8')).toBe('two')
    expect(await readdir(join(folder, 'audit/year=2023'))).toEqual(['a.gz'])
  })

  it('has no partial file after a failed write', async () => {
    await mkdir(join(folder, 'audit/a.gz/in the way'), {recursive: true})
    await expect(folderSink(folder).put('audit/a.gz', Buffer.from('one'), options)).rejects.toThrow()
    expect(await readdir(join(folder, 'audit'))).toEqual(['a.gz'])
  })
})

describe('the S3 archive', () => {
  it('puts the object with its type and encoding', async () => {
    const sent: unknown[] = []
    const client = {
      send: async (command: {input: unknown}) => {
        sent.push(command.input)
      },
    }
    await s3Sink('bucket', client as never).put('audit/a.gz', Buffer.from('one'), {
      contentType: 'application/x-ndjson',
      contentEncoding: 'gzip',
    })
    expect(sent).toEqual([
      {
        Bucket: 'bucket',
        Key: 'audit/a.gz',
        Body: Buffer.from('one'),
        ContentType: 'application/x-ndjson',
        ContentEncoding: 'gzip',
      },
    ])
  })
})
