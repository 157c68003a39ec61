import {mkdir, mkdtemp, readFile, rm, writeFile} from 'node:fs/promises'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import type {StreamEvent} from '../../../src/lib/aggregator/stream-event.js'
import {IteratorExpired} from '../../../src/lib/dynamo/transports/stream.js'
import type {StreamPoller} from '../../../src/lib/local/stream/poller.js'
import {FakeStream} from './fake-stream.js'
import {testPoller, until} from './poll-support.js'

describe('the poller and shards', () => {
  let folder = ''
  let checkpointFile = ''
  let stream = new FakeStream()
  const started: StreamPoller[] = []

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'zael-test-'))
    checkpointFile = join(folder, 'checkpoint.json')
    stream = new FakeStream()
  })

  afterEach(async () => {
    for (const poller of started.splice(0)) await poller.stop()
    await rm(folder, {recursive: true})
  })

  function start(options: Partial<Parameters<typeof testPoller>[0]> = {}) {
    const made = testPoller({tableName: 'fake', transport: stream.transport, stream, checkpointFile, ...options})
    started.push(made.poller)
    made.poller.start()
    return made
  }

  const savedShards = async () => JSON.parse(await readFile(checkpointFile, 'utf8')).shards

  it('reads a parent to its end before its children, wherever they are listed', async () => {
    // Listed on two pages, the children first.
    stream.addShard('left', 'root')
    stream.addShard('right', 'root')
    stream.addShard('root')
    stream.write('left', 10)
    stream.write('right', 20)
    for (let version = 0; version < 5; version++) stream.write('root', version)
    let idleRounds = 0
    const sleep = async () => {
      await new Promise(setImmediate)
      idleRounds++
    }
    const {delivered} = start({batchSize: 2, sleep})
    await until(() => delivered.length === 5)
    idleRounds = 0
    await until(() => idleRounds > 3)
    expect(delivered).toEqual(['root 0', 'root 1', 'root 2', 'root 3', 'root 4'])
    const root = stream.shards[2]
    if (root) root.isClosed = true
    await until(() => delivered.length === 7)
    expect(delivered.slice(5).sort()).toEqual(['left 10', 'right 20'])
    await started[0]?.stop()
    expect(await savedShards()).toEqual({root: {done: true}, left: {sequence: '1'}, right: {sequence: '2'}})
  })

  it('does not wait for a parent that no longer exists, and drops it from the checkpoint', async () => {
    await writeFile(checkpointFile, JSON.stringify({streamArn: stream.arn, shards: {root: {done: true}}}))
    stream.addShard('child', 'root')
    stream.write('child', 1)
    const {poller, delivered} = start()
    await until(() => delivered.length === 1)
    await poller.stop()
    expect(await savedShards()).toEqual({child: {sequence: '1'}})
  })

  it('finds the children of a shard as soon as it ends', async () => {
    const root = stream.addShard('root')
    stream.write('root', 1)
    // The clock stands still: no discovery is due by itself.
    const {delivered} = start({clock: () => 1})
    await until(() => delivered.length === 1)
    stream.addShard('child', 'root')
    stream.write('child', 2)
    root.isClosed = true
    await until(() => delivered.length === 2)
    expect(delivered).toEqual(['root 1', 'child 2'])
  })

  it('does not read a finished shard again after a restart', async () => {
    stream.addShard('root').isClosed = true
    stream.write('root', 1)
    const first = start()
    await until(() => first.delivered.length === 1)
    await first.poller.stop()
    stream.addShard('child', 'root')
    stream.write('child', 2)
    const {delivered} = start()
    await until(() => delivered.length > 0)
    expect(delivered).toEqual(['child 2'])
  })

  it('opens a new iterator when its own has expired', async () => {
    stream.addShard('root')
    for (let version = 0; version < 6; version++) stream.write('root', version)
    stream.failures.push(undefined, new IteratorExpired())
    const {poller, delivered} = start({
      batchSize: 2,
      sleep: async () => {
        if (delivered.length === 6) {
          stream.write('root', 6)
          stream.failures.push(new IteratorExpired())
        }
        await new Promise(setImmediate)
      },
    })
    await until(() => delivered.length >= 7)
    expect(delivered).toEqual([0, 1, 2, 3, 4, 5, 6].map(version => `root ${version}`))
    expect(poller.status().errors).toBe(0)
  })

  it('logs an error when records were lost, and continues with the oldest that is left', async () => {
    stream.addShard('root')
    for (let version = 0; version < 6; version++) stream.write('root', version)
    await writeFile(checkpointFile, JSON.stringify({streamArn: stream.arn, shards: {root: {sequence: '1'}}}))
    stream.trim('root', 4)
    const {poller, delivered, logged} = start()
    await until(() => delivered.length === 2)
    expect(delivered).toEqual(['root 4', 'root 5'])
    expect(logged).toEqual([expect.stringContaining('error: records were lost')])
    expect(poller.status().errors).toBe(0)
  })

  it.each([{root: {sequence: 'x'}}, {root: {sequence: '9'.repeat(41)}}, {root: {}}, {root: null}, null])(
    'starts over when the checkpoint has shards %j',
    async shards => {
      await writeFile(checkpointFile, JSON.stringify({streamArn: stream.arn, shards}))
      stream.addShard('root')
      stream.write('root', 1)
      const {delivered, logged} = start()
      await until(() => delivered.length === 1)
      expect(logged).toEqual([expect.stringContaining('warn: the checkpoint is unreadable')])
    },
  )

  it('reports a checkpoint that is a folder, and delivers nothing', async () => {
    await mkdir(checkpointFile)
    stream.addShard('root')
    stream.write('root', 1)
    const {poller, delivered} = start()
    await until(() => poller.status().errors > 0)
    expect(poller.status().lastError?.message).toBe(`the checkpoint ${checkpointFile} is a folder, not a file`)
    expect(delivered).toEqual([])
  })

  it('switches to a new stream of the table', async () => {
    stream.addShard('root')
    stream.write('root', 1)
    const times = [0, 0]
    const clock = () => times[0] as number
    const {poller, delivered, logged} = start({clock})
    await until(() => delivered.length === 1)
    stream.arn = stream.arn.replace(/1$/, '2')
    // The shard may have the same name, and its numbers may start over.
    stream.shards = []
    stream.sequence = 0
    stream.addShard('root')
    stream.write('root', 2)
    times[0] = 10_000
    await until(() => delivered.length === 2)
    expect(delivered[1]).toBe('root 2')
    expect(logged).toContainEqual('warn: the table has a new stream')
    expect(poller.status().streamArn).toBe(stream.arn)
    await poller.stop()
    expect(await savedShards()).toEqual({root: {sequence: '1'}})
  })

  it('delivers several pages at once when it is behind, and those it has when the next page fails', async () => {
    stream.addShard('root')
    for (let version = 0; version < 3_500; version++) stream.write('root', version)
    const sizes: number[] = []
    const handler = async ({Records}: StreamEvent) => {
      sizes.push(Records.length)
      return {failures: []}
    }
    // The length of the stream, the first page, then an error on the second.
    stream.failures.push(undefined, undefined, new Error('busy'))
    const {poller, logged} = start({batchSize: 2_500, handler})
    await until(() => poller.status().records === 3_500)
    expect(sizes).toEqual([1_000, 2_000, 500])
    expect(logged).toEqual(['warn: the next page of the stream cannot be read yet: busy'])
    expect(poller.status().errors).toBe(0)
  })

  it('reports its lag while there is more to read', async () => {
    stream.addShard('root')
    for (let version = 0; version < 6; version++) stream.write('root', version)
    const lags: number[] = []
    const lengths: (number | undefined)[] = []
    const {poller} = start({
      batchSize: 2,
      // Five seconds after the records were written.
      clock: () => 1_700_000_005_000,
      handler: async () => {
        lags.push(poller.status().lagMs)
        lengths.push(poller.status().streamLength)
        return {failures: []}
      },
    })
    await until(() => poller.status().records === 6 && poller.status().lagMs === 0)
    expect(lags).toEqual([0, 5_000, 5_000])
    // The backlog is not known: a number would count only the records already delivered.
    expect(lengths).toEqual([0, undefined, undefined])
    // One for the stream's length and one for all the records.
    expect(stream.iterators).toBe(2)
  })

  it('releases records after the checkpoint, and continues when that fails', async () => {
    stream.addShard('root')
    for (let version = 0; version < 6; version++) stream.write('root', version)
    const released: string[] = []
    const {poller, logged} = start({
      batchSize: 3,
      release: async (streamArn, sequence) => {
        released.push(`${streamArn === stream.arn} ${sequence} ${(await savedShards()).root.sequence}`)
        if (released.length === 1) throw new Error('busy')
      },
      handler: async ({Records}) => ({
        failures: Records[0]?.dynamodb.SequenceNumber === '6' && !poller.status().errors ? ['6'] : [],
      }),
    })
    await until(() => poller.status().records === 6)
    await poller.stop()
    expect(released).toEqual(['true 3 3', 'true 6 6'])
    expect(logged[0]).toBe('warn: the stream cannot be trimmed: busy')
  })

  it('continues after any error, with backoff', async () => {
    stream.addShard('root')
    stream.write('root', 1)
    stream.failures.push(undefined, new Error('once'), undefined, new Error('twice'))
    const waits: number[] = []
    const {poller, delivered} = start({
      sleep: async ms => {
        waits.push(ms)
        await new Promise(setImmediate)
      },
    })
    await until(() => delivered.length === 1)
    expect(poller.status()).toMatchObject({errors: 2, lastError: {message: 'twice'}})
    expect(waits.slice(0, 2)).toEqual([200, 400])
  })
})
