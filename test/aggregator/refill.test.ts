import {beforeEach, expect, it} from 'vitest'
import type {StreamRecord} from '../../src/lib/aggregator/stream-event.js'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {n} from '../../src/lib/schema/attribute-value.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {PythonPeer} from '../helpers/python-peer.js'
import {request, splitInto} from '../limiter/visit.js'
import {loggingAggregator, streamRecord, tableOver} from './fixtures/stream.js'

describeOnBoth('refill by the aggregator', {}, table => {
  let scene: Scene
  let peer: PythonPeer
  const newAggregator = (transport = table.transport) =>
    loggingAggregator({table: tableOver(transport, table.name, () => scene.nowMs)})

  beforeEach(async () => {
    scene = new Scene(table)
    peer = new PythonPeer(scene)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=6000/min', 'rpd=1000/day')
  })

  /** One write, and its stream record. */
  async function write(consume: Record<string, number>, shard = 0): Promise<StreamRecord> {
    const before = await peer.item(shard)
    expect(await peer.speculative(consume, shard)).toBe(true)
    return streamRecord(before, (await peer.item(shard)) as Item, {atMs: scene.nowMs})
  }

  async function balances(shard = 0): Promise<number[]> {
    return [await peer.number('b_tpm_tk', shard), await peer.number('b_rpd_tk', shard)]
  }

  async function start(): Promise<void> {
    const limiter = scene.limiter()
    await limiter.acquire(request({tpm: 1, rpd: 1}))
    await limiter.close()
  }

  it('credits every limit for the elapsed time if one would not last for two such batches', async () => {
    await start()
    scene.nowMs += 30_000
    const Records = [await write({tpm: 4000, rpd: 1})]
    expect((await newAggregator().handle({Records})).counts.refills).toBe(1)
    // 30 s of 6000 per minute; of 1000 per day 347.2 milli, whose fraction is carried.
    expect(await balances()).toEqual([1_999_000 + 3_000_000, 998_000 + 347])
    expect(await peer.number('rf')).toBe(scene.nowMs)
    expect((await scene.shards('user-1', 'gpt-4'))[0]?.state.limits.get('rpd')?.remainder).toBeGreaterThan(0n)
  })

  it('skips a bucket that has enough for two more such batches', async () => {
    await start()
    scene.nowMs += 30_000
    const Records = [await write({tpm: 1999})]
    expect((await newAggregator().handle({Records})).counts.refills).toBe(0)
    expect(await peer.number('b_tpm_tk')).toBe(4_000_000)
  })

  it('adds up the consumption of a batch', async () => {
    await start()
    scene.nowMs += 30_000
    const Records = [await write({tpm: 1000}), await write({tpm: 1000})]
    expect((await newAggregator().handle({Records: Records.slice(1)})).counts.refills).toBe(0)
    expect((await newAggregator().handle({Records})).counts.refills).toBe(1)
  })

  it('includes refunded consumption: the next requests consume as much at first', async () => {
    await start()
    scene.nowMs += 30_000
    const taken = await write({tpm: 4000})
    const before = await peer.item()
    await peer.adjust({tpm: -3500})
    const Records = [taken, streamRecord(before, await peer.item(), {atMs: scene.nowMs})]
    expect((await newAggregator().handle({Records})).counts.refills).toBe(1)
  })

  it('skips a bucket when no time has passed or nothing was consumed', async () => {
    await start()
    const {handle} = newAggregator()
    expect((await handle({Records: [await write({tpm: 4000})]})).counts.refills).toBe(0)
    scene.nowMs += 30_000
    const before = await peer.item()
    await peer.adjust({tpm: -1})
    const returned = streamRecord(before, await peer.item(), {atMs: scene.nowMs})
    expect((await handle({Records: [returned]})).counts.refills).toBe(0)
  })

  it('is not repeated when the batch is redelivered', async () => {
    await start()
    scene.nowMs += 30_000
    const Records = [await write({tpm: 4000})]
    const {handle} = newAggregator()
    await handle({Records})
    const after = await balances()
    scene.nowMs += 5000
    expect((await handle({Records})).counts.refills).toBe(0)
    expect(await balances()).toEqual(after)
  })

  it('yields to a client that has refilled meanwhile', async () => {
    await start()
    scene.nowMs += 30_000
    const Records = [await write({tpm: 4000})]
    await peer.set({rf: n(scene.nowMs - 1)})
    const {handle, lines} = newAggregator()
    expect((await handle({Records})).counts).toMatchObject({refills: 0, errors: 0})
    expect(await peer.number('b_tpm_tk')).toBe(1_999_000)
    expect(lines.map(({level}) => level)).toEqual(['info'])
  })

  it('keeps the consumption of others since, and never fills a bucket twice', async () => {
    await start()
    scene.nowMs += 30_000
    const Records = [await write({tpm: 4000})]
    await peer.speculative({tpm: 1000})
    expect((await newAggregator().handle({Records})).counts.refills).toBe(1)
    expect(await peer.number('b_tpm_tk')).toBe(1_999_000 - 1_000_000 + 3_000_000)
  })

  it('does not credit a full bucket from a stale image', async () => {
    await start()
    scene.nowMs += 59_000
    const Records = [await write({tpm: 4000})]
    await peer.speculative({tpm: 1000})
    // The credit would be capped by the balance in the image, which is not the stored one.
    expect((await newAggregator().handle({Records})).counts.refills).toBe(0)
  })

  it('gives each shard its share', async () => {
    await start()
    await splitInto(scene, 2)
    scene.nowMs += 10_000
    const Records = [await write({tpm: 2000}, 1)]
    expect((await newAggregator().handle({Records})).counts.refills).toBe(1)
    const moved = 2_999_500
    expect(await peer.number('b_tpm_tk', 1)).toBe(moved - 2_000_000 + 500_000)
    expect(await peer.number('rf', 0)).toBe(scene.nowMs - 10_000)
  })

  it('skips buckets seen more than a minute ago, and expired ones', async () => {
    await start()
    scene.nowMs += 30_000
    const record = await write({tpm: 4000})
    const {handle} = newAggregator()
    const image = {...record.dynamodb.NewImage, ttl: n(Math.floor(scene.nowMs / 1000))}
    const expired = {...record, dynamodb: {...record.dynamodb, NewImage: image}}
    expect((await handle({Records: [expired]})).counts.refills).toBe(0)
    scene.nowMs += 60_001
    expect((await handle({Records: [record]})).counts.refills).toBe(0)
  })

  it('logs and counts its own failure, and fails no record', async () => {
    await start()
    scene.nowMs += 30_000
    const Records = [await write({tpm: 4000})]
    const faults = new FaultTransport(table.transport)
    faults.start({kind: 'throttled', at: 'UpdateItem BUCKET#user-1#gpt-4#0 (1)', on: 'BUCKET#', times: 1000})
    const {handle, lines} = newAggregator(faults as never)
    expect(await handle({Records})).toMatchObject({failures: [], counts: {refills: 0, errors: 1, snapshots: 3}})
    expect(lines[0]).toMatchObject({level: 'error', message: 'refill failed', entity: 'user-1', shard: 0})
  })
})
