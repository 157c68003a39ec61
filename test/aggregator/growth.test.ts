import {beforeEach, describe, expect, it} from 'vitest'
import type {StreamRecord} from '../../src/lib/aggregator/stream-event.js'
import {STACK_OPTIONS} from '../../src/lib/infra/stack/options.js'
import {type Item, n} from '../../src/lib/schema/attribute-value.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {PythonPeer} from '../helpers/python-peer.js'
import {request, splitInto} from '../limiter/visit.js'
import {loggingAggregator, streamRecord, tableOver} from './fixtures/stream.js'

describeOnBoth('shard growth by the aggregator', {}, table => {
  let scene: Scene
  let peer: PythonPeer
  let image: Item
  const newAggregator = (transport = table.transport) =>
    loggingAggregator({table: tableOver(transport, table.name, () => scene.nowMs)})

  beforeEach(async () => {
    scene = new Scene(table)
    peer = new PythonPeer(scene)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1/day:1M')
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    await limiter.close()
    image = (await peer.item()) as Item
  })

  /** Records in which an item's write counter rises by this many per second, four records per second. */
  function seconds(perSecond: readonly number[], shard = 0, more: Item = {}): StreamRecord[] {
    const {PK: _, ...rest} = image
    const PK = {S: `${scene.namespace}/BUCKET#user-1#gpt-4#${shard}`}
    let count = 5_000_000_000
    const show = (): Item => ({PK, ...rest, ...more, b_wcu_tc: n(count)})
    return perSecond.flatMap(writes => {
      scene.nowMs += 1000
      return [0, 1, 2, 3].map(() => {
        const before = show()
        count += writes * 250
        return streamRecord(before, show(), {atMs: Math.floor(scene.nowMs / 1000) * 1000})
      })
    })
  }

  it('doubles the shards of a bucket written more than 800 times a second, and moves its tokens', async () => {
    const before = await scene.totals('user-1', 'gpt-4', 'rpm')
    expect((await newAggregator().handle({Records: seconds([1000, 1000, 1000])})).counts.splits).toBe(1)
    expect(await scene.totals('user-1', 'gpt-4', 'rpm', 2)).toEqual(before)
    expect((await scene.shards('user-1', 'gpt-4', 2)).map(({shardCount}) => shardCount)).toEqual([2, 2])
  })

  it('doubles the shards of a bucket whose writes fill a batch of half a minute within seconds', async () => {
    // Fills 2,600 records in 3 s; they are delivered at once, not at the end of the window.
    const Records = seconds([870, 870, 870])
    expect((await newAggregator().handle({Records})).counts.splits).toBe(1)
    // The same rate at the end of a whole window: its records are still young enough to count.
    const {handle} = newAggregator()
    const late = seconds([900, 900, 900], 0, {shard_count: n(2)})
    scene.nowMs += Number(STACK_OPTIONS.find(({name}) => name === 'batchWindow')?.default) * 1000
    expect((await handle({Records: late})).counts.splits).toBe(1)
  })

  it('measures across batches, down to one record each', async () => {
    const {handle} = newAggregator()
    let splits = 0
    for (const record of seconds([900, 900, 900])) splits += (await handle({Records: [record]})).counts.splits
    expect(splits).toBe(1)
  })

  it('does not mistake a high count for a high rate', async () => {
    expect((await newAggregator().handle({Records: seconds([1, 0, 2, 1])})).counts.splits).toBe(0)
    const {handle} = newAggregator()
    await handle({Records: seconds([1])})
    scene.nowMs += 3_600_000
    // An hour at 500 per second in between: a high total, a low rate.
    const late = seconds([1], 0, {b_wcu_tc: n(0)})
    const [record] = late as [StreamRecord]
    const jumped = {...record.dynamodb.NewImage, b_wcu_tc: n(5_000_000_000 + 3600 * 500_000)}
    const Records = [{...record, dynamodb: {...record.dynamodb, NewImage: jumped}}]
    expect((await handle({Records})).counts.splits).toBe(0)
    expect(await peer.number('shard_count')).toBe(1)
  })

  it('measures correctly although timestamps are in whole seconds', async () => {
    const startMs = Math.floor(scene.nowMs / 1000) * 1000
    const at = (ms: number, writes: number) => {
      const show = (count: number): Item => ({...image, b_wcu_tc: n(count * 1000)})
      return streamRecord(show(writes - 1), show(writes), {atMs: startMs + Math.floor(ms / 1000) * 1000})
    }
    // 700 per second throughout; 990 to 2,010 ms is about one second, reported as two.
    const Records = [at(0, 1), at(990, 693), at(1000, 700), at(1990, 1393), at(2000, 1400), at(3000, 2100)]
    scene.nowMs = startMs + 3000
    expect((await newAggregator().handle({Records})).counts.splits).toBe(0)
  })

  it('does not double again for records from before the split', async () => {
    const {handle} = newAggregator()
    const Records = seconds([1000, 1000, 1000])
    expect((await handle({Records})).counts.splits).toBe(1)
    expect((await handle({Records})).counts.splits).toBe(0)
    expect((await handle({Records: seconds([1000, 1000])})).counts.splits).toBe(0)
    expect(await peer.number('shard_count')).toBe(2)
  })

  it('starts a new measurement after a split', async () => {
    await splitInto(scene, 2)
    const startMs = Math.floor(scene.nowMs / 1000) * 1000
    const at = (ms: number, writes: number, shards: number) => {
      const show = (count: number): Item => ({...image, b_wcu_tc: n(count * 1000), shard_count: n(shards)})
      return streamRecord(show(writes - 1), show(writes), {atMs: startMs + ms})
    }
    // 1,500 writes in the part of a second before the split, 699 in the second after it.
    const Records = [at(0, 1000, 1), at(400, 2500, 1), at(500, 2501, 2), at(1500, 3200, 2)]
    scene.nowMs = startMs + 2000
    expect((await newAggregator().handle({Records})).counts.splits).toBe(0)
    expect(await peer.number('shard_count')).toBe(2)
  })

  it('ignores a rate from more than a minute ago', async () => {
    const Records = seconds([1000, 1000, 1000])
    scene.nowMs += 61_000
    expect((await newAggregator().handle({Records})).counts.splits).toBe(0)
  })

  it('doubles when a shard other than the first is hot', async () => {
    await splitInto(scene, 2)
    const Records = seconds([1000, 1000, 1000], 1, {shard_count: n(2)})
    expect((await newAggregator().handle({Records})).counts.splits).toBe(1)
    expect(await peer.number('shard_count')).toBe(4)
  })

  it('does not double if a share would be too small for the usual request', async () => {
    const {handle} = newAggregator()
    const Records = seconds([1000, 1000, 1000])
    const [first] = Records as [StreamRecord]
    const taken = {...first.dynamodb.NewImage, b_rpm_tc: n(600_001_000)}
    const large = {...first, dynamodb: {...first.dynamodb, NewImage: taken}}
    expect((await handle({Records: [large, ...Records.slice(1)]})).counts.splits).toBe(0)
    expect(await peer.number('shard_count')).toBe(1)
  })

  it('stops at the maximum number of shards', async () => {
    await splitInto(scene, 2)
    const {handle} = loggingAggregator({
      table: tableOver(table.transport, table.name, () => scene.nowMs),
      settings: {maxShards: 2},
    })
    expect((await handle({Records: seconds([5000, 5000, 5000], 0, {shard_count: n(2)})})).counts.splits).toBe(0)
    expect(await peer.number('shard_count')).toBe(2)
  })

  it('logs and counts its own failure, and fails no record', async () => {
    const faults = new FaultTransport(table.transport)
    faults.start({kind: 'throttled', at: 1, operation: 'TransactWriteItems', times: 1000})
    const {handle, lines} = newAggregator(faults as never)
    const result = await handle({Records: seconds([1000, 1000, 1000])})
    expect(result).toMatchObject({failures: [], counts: {splits: 0, errors: 1}})
    expect(lines[0]).toMatchObject({level: 'error', message: 'growth failed', entity: 'user-1'})
  })

  describe('after another client has raised the count', () => {
    /** The record of a bump, with no consumption in it. */
    async function bump(from: number): Promise<StreamRecord> {
      const before = await peer.item()
      await peer.bump(from)
      return streamRecord(before, await peer.item(), {atMs: scene.nowMs})
    }

    it('creates the missing shards out of the existing tokens', async () => {
      const before = await scene.totals('user-1', 'gpt-4', 'rpm')
      expect((await newAggregator().handle({Records: [await bump(1)]})).failures).toEqual([])
      expect(await scene.totals('user-1', 'gpt-4', 'rpm', 2)).toEqual(before)
      expect(await peer.number('b_rpm_tk', 1)).toBe(499_999_500)
    })

    it('writes the count to the existing shards', async () => {
      await splitInto(scene, 2)
      await newAggregator().handle({Records: [await bump(2)]})
      expect((await scene.shards('user-1', 'gpt-4', 4)).map(({shardCount}) => shardCount)).toEqual([4, 4, 4, 4])
    })

    it('resets an absurd count to the number of existing shards', async () => {
      await newAggregator().handle({Records: [await bump(1024)]})
      expect(await peer.number('shard_count')).toBe(1)
    })
  })
})
