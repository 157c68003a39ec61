import {mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterAll, afterEach, beforeAll, beforeEach, expect, inject, it} from 'vitest'
import type {StreamEvent} from '../../../src/lib/aggregator/stream-event.js'
import type {StreamPoller} from '../../../src/lib/local/stream/poller.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {describeRecord, openStreams, testPoller, until, versions, writeVersions} from './poll-support.js'

describeOnEngine('the poller', () => {
  const table = useTable({stream: true})
  const stream = openStreams(inject('engineEndpoint') || 'http://127.0.0.1:1')
  const items = ['a', 'b', 'c']
  const all = versions(items, 0, 20)
  let folder = ''
  let checkpointFile = ''
  const started: StreamPoller[] = []

  beforeAll(() => writeVersions(table.transport, table.name, items, 0, 20))
  afterAll(() => stream.close())

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
    checkpointFile = join(folder, 'checkpoint.json')
  })

  afterEach(async () => {
    for (const poller of started.splice(0)) await poller.stop()
    await rm(folder, {recursive: true})
  })

  function start(options: Partial<Parameters<typeof testPoller>[0]> = {}) {
    const made = testPoller({tableName: table.name, transport: table.transport, stream, checkpointFile, ...options})
    started.push(made.poller)
    made.poller.start()
    return made
  }

  it('delivers every record once, in order, in the shape that Lambda gives it', async () => {
    const {poller, delivered, batches} = start({batchSize: 7})
    await until(() => poller.status().records === all.length)
    expect(delivered).toEqual(all)
    expect(batches.map(batch => batch.length)).toEqual([7, 7, 7, 7, 7, 7, 7, 7, 4])
    expect(batches[0]?.[3]).toMatchObject({
      eventID: expect.any(String),
      eventName: 'MODIFY',
      eventSourceARN: expect.stringContaining(`:table/${table.name}/stream/`),
      dynamodb: {
        ApproximateCreationDateTime: expect.any(Number),
        Keys: {PK: {S: 'a'}, SK: {S: 'x'}},
        OldImage: {version: {N: '0'}},
        NewImage: {version: {N: '1'}},
        SequenceNumber: expect.stringMatching(/^\d+$/),
        StreamViewType: 'NEW_AND_OLD_IMAGES',
      },
    })
    expect(poller.status()).toMatchObject({records: 60, batches: 9, errors: 0, lastError: undefined, lagMs: 0})
  })

  it('reports when everything was delivered', async () => {
    const seen: number[] = []
    const {poller} = start({
      idle: async () => {
        seen.push(poller.status().records)
      },
    })
    await until(() => seen.length > 1)
    expect(seen[0]).toBe(all.length)
  })

  it('waits for later records', async () => {
    const {poller, delivered} = start()
    await until(() => poller.status().records === all.length)
    await writeVersions(table.transport, table.name, ['later'], 0, 2)
    await until(() => delivered.length === all.length + 2)
    expect(delivered.slice(all.length)).toEqual(['later 0', 'later 1'])
    await table.transport.send('DeleteItem', {TableName: table.name, Key: {PK: {S: 'later'}, SK: {S: 'x'}}})
    await until(() => delivered.length === all.length + 3)
  })

  it('continues after a restart without a gap or a repetition', async () => {
    const delivered: string[] = []
    let restarts = 0
    for (; delivered.length < all.length; restarts++) {
      // Each poller is stopped during its first batch, and finishes it.
      const {poller} = start({
        batchSize: 7,
        handler: async ({Records}) => {
          delivered.push(...Records.map(describeRecord))
          stopped = poller.stop()
          return {failures: []}
        },
      })
      let stopped: Promise<void> | undefined
      await until(() => stopped !== undefined)
      await stopped
    }
    expect(restarts).toBe(Math.ceil(all.length / 7))
    expect(delivered.slice(0, all.length)).toEqual(all)
    expect(new Set(delivered).size).toBe(delivered.length)
  })

  it('finishes the batch in flight when it is stopped', async () => {
    let finish = () => {}
    const hasBegun = new Promise<void>(begun => {
      start({
        batchSize: 7,
        handler: async () => {
          begun()
          await new Promise<void>(resolve => {
            finish = resolve
          })
          return {failures: []}
        },
      })
    })
    await hasBegun
    const stopped = started[0]?.stop()
    finish()
    await stopped
    const {delivered} = start({batchSize: 7})
    await until(() => delivered.length > 0)
    expect(delivered[0]).toBe(all[7])
  })

  it('delivers again from the first failed record on', async () => {
    const batches: string[][] = []
    const failingOnce = async ({Records}: StreamEvent) => {
      batches.push(Records.map(describeRecord))
      // Out of order: the earliest counts.
      const failed = [Records[5], Records[3]].map(record => record?.dynamodb.SequenceNumber ?? '')
      return {failures: batches.length === 2 ? failed : []}
    }
    const {poller, logged} = start({batchSize: 7, handler: failingOnce})
    await until(() => poller.status().records >= all.length)
    expect(batches[0]).toEqual(all.slice(0, 7))
    expect(batches[1]).toEqual(all.slice(7, 14))
    expect(batches[2]).toEqual(all.slice(10, 17))
    const again = batches.slice(2).flat()
    expect(again.slice(0, all.length - 10)).toEqual(all.slice(10))
    expect(poller.status()).toMatchObject({errors: 1, lastError: {message: expect.stringContaining('2 of 7 records')}})
    expect(logged).toEqual([expect.stringMatching(/^error: .*2 of 7 records failed/)])
  })

  it('checkpoints the records before a failed one', async () => {
    const {poller} = start({
      batchSize: 7,
      handler: async ({Records}) => ({failures: [Records[2]?.dynamodb.SequenceNumber ?? '']}),
    })
    await until(() => poller.status().errors > 0)
    await poller.stop()
    const {delivered} = start({batchSize: 7})
    await until(() => delivered.length > 0)
    expect(all.indexOf(delivered[0] as string) % 2).toBe(0)
    expect(delivered[0]).not.toBe(all[0])
  })

  it('delivers a batch again when the handler throws, or reports an unknown record as failed', async () => {
    let calls = 0
    const seen: string[][] = []
    const {poller} = start({
      batchSize: 7,
      handler: async ({Records}) => {
        seen.push(Records.map(describeRecord))
        calls++
        if (calls === 1) throw new Error('handler failed')
        return {failures: calls === 2 ? ['999999', Records[3]?.dynamodb.SequenceNumber ?? ''] : []}
      },
    })
    await until(() => poller.status().records >= 7)
    expect(seen.slice(0, 3)).toEqual([all.slice(0, 7), all.slice(0, 7), all.slice(0, 7)])
    expect(poller.status().errors).toBe(2)
  })

  it.each([
    ['lost', undefined],
    ['empty, as after a crash', ''],
    ['cut off', '{"streamArn":"arn:aws'],
    ['not a checkpoint', '{"shards":[]}'],
    ['of another stream', '{"streamArn":"arn:x","shards":{"shardId-00000001-x":{"sequence":"7"}}}'],
  ])('starts with the oldest record when its checkpoint is %s', async (_, text) => {
    if (text !== undefined) await writeFile(checkpointFile, text)
    const {poller, delivered} = start()
    await until(() => poller.status().records >= all.length)
    await poller.stop()
    expect(delivered.slice(0, all.length)).toEqual(all)
    const kept = JSON.parse(await readFile(checkpointFile, 'utf8'))
    expect(kept).toEqual({streamArn: poller.status().streamArn, shards: expect.any(Object)})
    expect(Object.values(kept.shards)).toEqual([{sequence: expect.stringMatching(/^\d+$/)}])
  })

  it('reports how many records the engine keeps', async () => {
    // The clock stands still, so that the first discovery is the only one.
    const first = start({clock: () => 1})
    await until(() => first.poller.status().records >= all.length)
    expect(first.poller.status().streamLength).toBe(0)
    await first.poller.stop()
    const {poller} = start()
    await until(() => poller.status().streamLength !== undefined)
    expect(poller.status().streamLength).toBeGreaterThanOrEqual(all.length)
  })
})

describeOnEngine('the poller with many writers', () => {
  const table = useTable({stream: true})
  const stream = openStreams(inject('engineEndpoint') || 'http://127.0.0.1:1')
  const checkpointFile = join(tmpdir(), `zael-test-${table.name}.json`)
  afterAll(async () => {
    stream.close()
    await rm(checkpointFile, {force: true})
  })

  it('misses no record and keeps the changes of each item in order', async () => {
    const {poller, delivered} = testPoller({
      tableName: table.name,
      transport: table.transport,
      stream,
      checkpointFile,
      sleep: () => new Promise(setImmediate),
    })
    poller.start()
    const items = Array.from({length: 16}, (_, at) => `item-${at}`)
    await Promise.all(items.map(item => writeVersions(table.transport, table.name, [item], 0, 25)))
    await until(() => delivered.length >= 16 * 25)
    await poller.stop()
    for (const item of items) {
      expect(delivered.filter(each => each.startsWith(`${item} `))).toEqual(versions([item], 0, 25))
    }
    expect(poller.status().errors).toBe(0)
  })
})

describeOnEngine('the poller of an empty stream', () => {
  const table = useTable({stream: true})
  const stream = openStreams(inject('engineEndpoint') || 'http://127.0.0.1:1')
  const checkpointFile = join(tmpdir(), `zael-test-${table.name}.json`)
  afterAll(async () => {
    stream.close()
    await rm(checkpointFile, {force: true})
  })

  it('delivers nothing and writes no checkpoint', async () => {
    let rounds = 0
    const sleep = async () => {
      await new Promise(setImmediate)
      rounds++
    }
    const {poller, delivered} = testPoller({
      tableName: table.name,
      transport: table.transport,
      stream,
      checkpointFile,
      sleep,
    })
    poller.start()
    await until(() => rounds > 3)
    await poller.stop()
    expect(delivered).toEqual([])
    expect(poller.status()).toMatchObject({records: 0, batches: 0, errors: 0, lagMs: 0, streamLength: 0})
    await expect(readFile(checkpointFile)).rejects.toThrow('ENOENT')
  })
})
