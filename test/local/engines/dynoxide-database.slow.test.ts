import {mkdir, mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {setTimeout as sleep} from 'node:timers/promises'
import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import {createTable, loadTableDefinition} from '../../../src/lib/dynamo/table-definition.js'
import {latestStreamArn, listShards, openShard, readRecords} from '../../../src/lib/dynamo/transports/stream-shards.js'
import {releaseRecords} from '../../../src/lib/local/engines/dynoxide.js'
import {type Engine, startEngine} from '../../../src/lib/local/engines/engine.js'
import {emptyDatabase} from '../../../src/lib/local/engines/sqlite-file.js'
import {localTransport} from '../../../src/lib/local/engines/transport.js'
import {readNumber} from '../../../src/lib/schema/attribute-value.js'
import {openStreams, testPoller, until, versions, writeVersions} from '../stream/poll-support.js'
import {enginesUnderTest} from '../support.js'

const isSkipped = (await enginesUnderTest()).some(engine => engine.name === 'dynoxide' && engine.isSkipped)
const TABLE = 'followed'

describe.skipIf(isSkipped)("dynoxide's database", () => {
  let folder = ''
  const cleanups: Array<() => unknown> = []

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
  })
  afterEach(async () => {
    for (const step of cleanups.splice(0).reverse()) await step()
    await rm(folder, {recursive: true})
  })

  async function start(port?: number) {
    const engine = await startEngine({engine: 'dynoxide', dataDir: join(folder, 'data'), port})
    cleanups.push(() => engine.stop())
    const transport = localTransport(engine.endpoint)
    cleanups.push(() => transport.close())
    const stream = openStreams(engine.endpoint)
    cleanups.push(() => stream.close())
    return {engine, transport, stream}
  }

  const newTable = async ({transport}: Awaited<ReturnType<typeof start>>, tableName = TABLE) =>
    createTable(transport, await loadTableDefinition({tableName}))

  /** Sequence numbers of all records in the stream. */
  async function keptRecords({transport, stream}: Awaited<ReturnType<typeof start>>, tableName = TABLE) {
    const streamArn = (await latestStreamArn(transport, tableName)) ?? ''
    const [shard] = await listShards(stream, streamArn)
    const iterator = await openShard(stream, {streamArn, shardId: shard?.ShardId ?? '', after: undefined})
    const {records} = await readRecords(stream, iterator ?? '', 1_000)
    return {streamArn, numbers: records.map(record => Number(record.dynamodb.SequenceNumber))}
  }

  const stop = (engine: Engine) => engine.stop()
  const schemaText = async () => (await readFile(join(folder, 'data', 'dynoxide.db'))).toString('latin1')

  it('is prepared with the same tables that dynoxide creates', async () => {
    const {engine} = await start()
    await stop(engine)
    const prepared = await schemaText()
    await rm(join(folder, 'data'), {recursive: true})
    await mkdir(join(folder, 'data'))
    // SQLite takes an empty file for a new database, and zael does not prepare a file that exists.
    await writeFile(join(folder, 'data', 'dynoxide.db'), '')
    await stop((await start()).engine)
    const own = await schemaText()
    for (const table of ['_stream_records', '_tables']) {
      const statement = new RegExp(`CREATE TABLE ${table} \\([^)]*\\)`).exec(own)?.[0]
      expect(statement).toContain('table_name TEXT')
      expect(prepared).toContain(statement)
    }
    expect(prepared).toContain('CREATE INDEX zael_stream_order')
    expect(own).not.toContain('zael_')
  })

  it('deletes the records before the given one, and continues the numbers after a restart', async () => {
    const first = await start()
    await newTable(first)
    await newTable(first, 'other')
    await writeVersions(first.transport, TABLE, ['a'], 0, 12)
    await writeVersions(first.transport, 'other', ['a'], 0, 12)
    const {streamArn, numbers} = await keptRecords(first)
    expect(numbers).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
    await releaseRecords(first.transport, streamArn, '10')
    expect((await keptRecords(first)).numbers).toEqual([10, 11, 12])
    expect((await keptRecords(first, 'other')).numbers).toHaveLength(12)
    await releaseRecords(first.transport, streamArn, '12')
    await stop(first.engine)

    const second = await start()
    await writeVersions(second.transport, TABLE, ['a'], 12, 13)
    expect(await keptRecords(second)).toEqual({streamArn, numbers: [12, 13]})
    // The last record is kept: without it the next number would be 1 again.
    await releaseRecords(second.transport, streamArn, '999')
    expect((await keptRecords(second)).numbers).toEqual([13])
  })

  it('deletes the records of a deleted table: a new one of its name starts empty', async () => {
    const started = await start()
    await newTable(started)
    await writeVersions(started.transport, TABLE, ['old'], 0, 3)
    await started.transport.send('DeleteTable', {TableName: TABLE})
    await newTable(started)
    expect((await keptRecords(started)).numbers).toEqual([])
  })

  it('stays small behind a poller, and loses and repeats nothing', async () => {
    const started = await start()
    await newTable(started)
    const {transport, stream} = started
    const {poller, delivered} = testPoller({
      tableName: TABLE,
      transport,
      stream,
      checkpointFile: join(folder, 'checkpoint.json'),
      release: (streamArn, sequence) => releaseRecords(transport, streamArn, sequence),
    })
    cleanups.push(() => poller.stop())
    poller.start()
    await writeVersions(transport, TABLE, ['a', 'b'], 0, 60)
    await until(() => delivered.length >= 120)
    await poller.stop()
    expect(delivered).toEqual(versions(['a', 'b'], 0, 60))
    expect((await keptRecords(started)).numbers).toEqual([120])
    expect(poller.status().errors).toBe(0)
  })

  it('survives kills of the engine: every change is delivered once', {timeout: 300_000}, async () => {
    const first = await start()
    await newTable(first)
    const {transport, stream} = first
    const {poller, delivered} = testPoller({
      tableName: TABLE,
      transport,
      stream,
      checkpointFile: join(folder, 'checkpoint.json'),
      release: (streamArn, sequence) => releaseRecords(transport, streamArn, sequence),
    })
    cleanups.push(() => poller.stop())
    poller.start()
    const items = ['a', 'b', 'c', 'd']
    let isOver = false
    const Update = {
      TableName: TABLE,
      UpdateExpression: 'ADD version :one',
      ExpressionAttributeValues: {':one': {N: '1'}},
    }
    const writers = items.map(async item => {
      while (!isOver) {
        const Key = {PK: {S: item}, SK: {S: 'x'}}
        // A lost response does not mean that the change was not made.
        await transport.send('UpdateItem', {...Update, Key}).catch(() => sleep(5))
      }
    })
    let {engine} = first
    for (const target of [60, 120, 180]) {
      await until(() => delivered.length >= target)
      process.kill(engine.pid, 'SIGKILL')
      await engine.exited
      engine = (await start(first.engine.port)).engine
    }
    await until(() => delivered.length >= 240)
    isOver = true
    await Promise.all(writers)
    const reads = items.map(item =>
      transport.send('GetItem', {TableName: TABLE, Key: {PK: {S: item}, SK: {S: 'x'}}, ConsistentRead: true}),
    )
    const counts = (await Promise.all(reads)).map(({Item = {}}) => readNumber(Item, 'version') ?? 0)
    const total = counts.reduce((sum, count) => sum + count, 0)
    await until(() => delivered.length >= total)
    await poller.stop()
    items.forEach((item, at) => {
      expect(delivered.filter(each => each.startsWith(item))).toEqual(versions([item], 1, (counts[at] ?? 0) + 1))
    })
  })

  it('cannot be written with more than one page of schema', () => {
    const sql = `CREATE TABLE t (${'a'.repeat(4_000)})`
    expect(() => emptyDatabase([{type: 'table', name: 't', table: 't', sql}])).toThrow('does not fit')
  })
})
