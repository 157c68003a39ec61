import {beforeEach, expect, it} from 'vitest'
import type {StreamRecord} from '../../src/lib/aggregator/stream-event.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import type {PythonPeer} from '../helpers/python-peer.js'
import {request} from '../limiter/visit.js'
import {usageOf} from './fixtures/stored-usage.js'
import {loggingAggregator, tableOver} from './fixtures/stream.js'
import {StreamTap, tappedPeer} from './fixtures/stream-tap.js'

const HOUR_MS = 3_600_000

describeOnBoth('usage counting', {}, table => {
  let scene: Scene
  let tap: StreamTap
  let peer: PythonPeer
  const newAggregator = (transport = table.transport) =>
    loggingAggregator({table: tableOver(transport, table.name, () => scene.nowMs)})
  const stored = () => usageOf(table, scene.namespace)

  beforeEach(async () => {
    scene = new Scene(table)
    scene.nowMs = Date.UTC(2023, 10, 14, 12)
    tap = new StreamTap(table.transport, () => scene.nowMs)
    scene.transport = tap
    peer = tappedPeer(scene, tap)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=1000000/min', 'rpm=10000/min')
  })

  /** Acquires with the library, and returns its stream records. */
  async function acquire(...consumptions: Record<string, number>[]): Promise<StreamRecord[]> {
    const limiter = scene.limiter()
    for (const consume of consumptions) await limiter.acquire(request(consume))
    await limiter.close()
    return tap.take()
  }

  it('D-11 C-16 keeps the daily record apart from that of the hour at 00:00 (the reference had one item, and counted midnight twice)', async () => {
    scene.nowMs = Date.UTC(2023, 11, 1)
    const atMidnight = await acquire({tpm: 100})
    scene.nowMs += HOUR_MS
    const anHourLater = await acquire({tpm: 10})
    await newAggregator().handle({Records: [...atMidnight, ...anHourLater]})
    expect(await stored()).toEqual({
      'hourly 2023-12-01T00:00:00Z': expect.objectContaining({tpm: 100}),
      'hourly 2023-12-01T01:00:00Z': expect.objectContaining({tpm: 10}),
      'daily 2023-12-01T00:00:00Z': expect.objectContaining({tpm: 110}),
      'monthly 2023-12-01T00:00:00Z': expect.objectContaining({tpm: 110}),
    })
  })

  it('D-12 counts usage in the hour of the write (in the reference three days appeared in the hour of the last refill)', async () => {
    // Created, and its record dropped.
    await acquire({tpm: 30})
    await peer.remove(['ttl'])
    for (let day = 0; day < 3; day++) {
      expect(await peer.speculative({tpm: 40 + day})).toBe(true)
      // The fast path does not change rf; the record's own time counts.
      await newAggregator().handle({Records: tap.take()})
      scene.nowMs += 24 * HOUR_MS
    }
    const hours = Object.entries(await stored()).filter(([key]) => key.startsWith('hourly'))
    expect(hours.map(([key, {tpm}]) => [key, tpm])).toEqual([
      ['hourly 2023-11-14T12:00:00Z', 40],
      ['hourly 2023-11-15T12:00:00Z', 41],
      ['hourly 2023-11-16T12:00:00Z', 42],
    ])
  })

  it('D-13 C-17 counts the first acquire of a bucket, also after an expiry (the reference never did)', async () => {
    const Records = await acquire({tpm: 30})
    expect(Records.map(({eventName}) => eventName)).toEqual(['INSERT'])
    const {handle} = newAggregator()
    await handle({Records})
    expect(await stored()).toMatchObject({'hourly 2023-11-14T12:00:00Z': {tpm: 30, events: 1}})
    await tap.send('DeleteItem', {
      TableName: table.name,
      Key: {PK: {S: `${scene.namespace}/BUCKET#user-1#gpt-4#0`}, SK: {S: '#STATE'}},
    })
    const again = [...tap.take(), ...(await acquire({tpm: 7}))]
    expect(again.map(({eventName}) => eventName)).toEqual(['REMOVE', 'INSERT'])
    await handle({Records: again})
    expect(await stored()).toMatchObject({'hourly 2023-11-14T12:00:00Z': {tpm: 37, events: 2}})
  })

  it('D-13 counts the first consumption of a limit that was added later (the reference never did)', async () => {
    const {handle} = newAggregator()
    await handle({Records: await acquire({tpm: 30})})
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=1000000/min', 'rpm=10000/min', 'images=50/min')
    await handle({Records: await acquire({tpm: 5, images: 2})})
    expect(await stored()).toMatchObject({'hourly 2023-11-14T12:00:00Z': {tpm: 35, images: 2}})
  })

  it('D-14 counts a batch once if it is delivered twice', async () => {
    const Records = await acquire({tpm: 30}, {tpm: 12}, {tpm: 8})
    const {handle} = newAggregator()
    await handle({Records})
    await handle({Records})
    await newAggregator().handle({Records: Records.slice(1)})
    expect(await stored()).toMatchObject({
      'hourly 2023-11-14T12:00:00Z': {tpm: 50, events: 3},
      'daily 2023-11-14T00:00:00Z': {tpm: 50, events: 3},
      'monthly 2023-11-01T00:00:00Z': {tpm: 50, events: 3},
    })
  })

  it('D-14 C-24 reports the records of a throttled write as failed (the reference dropped them)', async () => {
    const Records = await acquire({tpm: 30}, {tpm: 12})
    const faults = new FaultTransport(table.transport)
    // All attempts on the daily record.
    faults.start({kind: 'throttled', at: 2, times: 100, operation: 'UpdateItem'})
    const {handle} = newAggregator(faults as never)
    const {failures} = await handle({Records})
    expect(failures).toEqual(Records.map(({dynamodb}) => dynamodb.SequenceNumber))
    faults.stop()
    expect((await handle({Records})).failures).toEqual([])
    expect(await stored()).toMatchObject({
      'hourly 2023-11-14T12:00:00Z': {tpm: 42},
      'daily 2023-11-14T00:00:00Z': {tpm: 42},
      'monthly 2023-11-01T00:00:00Z': {tpm: 42},
    })
  })

  it('D-15 C-17 counts a request with two limits as one event, and a refund as none', async () => {
    await acquire({tpm: 30, rpm: 1})
    expect(await peer.speculative({tpm: 30, rpm: 1})).toBe(true)
    await peer.adjust({tpm: -10})
    const Records = tap.take()
    const {counts} = await newAggregator().handle({Records})
    expect(await stored()).toMatchObject({'hourly 2023-11-14T12:00:00Z': {tpm: 20, rpm: 1, events: 1}})
    // One write per record and window, not one per limit and change.
    expect(counts.snapshots).toBe(3)
  })
})
