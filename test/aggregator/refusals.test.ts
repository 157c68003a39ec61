import {beforeEach, describe, expect, it} from 'vitest'
import {readBucketChange} from '../../src/lib/aggregator/bucket-change.js'
import type {StreamRecord} from '../../src/lib/aggregator/stream-event.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {decodeUsage, type UsageRecord} from '../../src/lib/schema/usage-record.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {request} from '../limiter/visit.js'
import {usageItems} from './fixtures/stored-usage.js'
import {loggingAggregator, streamRecord, tableOver} from './fixtures/stream.js'
import {StreamTap} from './fixtures/stream-tap.js'

const FIRST_MS = Date.UTC(2023, 10, 14, 12)
const WINDOWS = ['hourly', 'daily', 'monthly']

describeOnBoth('refusals in usage records', {}, table => {
  let scene: Scene
  let tap: StreamTap
  const newAggregator = (transport = table.transport) =>
    loggingAggregator({table: tableOver(transport, table.name, () => scene.nowMs)})

  beforeEach(async () => {
    scene = new Scene(table)
    scene.nowMs = FIRST_MS
    tap = new StreamTap(table.transport, () => scene.nowMs)
    scene.transport = tap
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=1000/min', 'rpm=10/min')
  })

  /** Refuses this many requests in one process, and returns the stream records. */
  async function refuse(count: number): Promise<StreamRecord[]> {
    const limiter = scene.limiter()
    if (!(await scene.shards('user-1', 'gpt-4')).length) await limiter.acquire(request({tpm: 900, rpm: 1}))
    for (let at = 0; at < count; at++) await limiter.tryAcquire(request({tpm: 950, rpm: 1}))
    await limiter.close()
    return tap.take()
  }

  async function refused(): Promise<Record<string, unknown>> {
    const records = (await usageItems(table, scene.namespace)).map(item => decodeUsage(item) as UsageRecord)
    return Object.fromEntries(records.map(record => [record.window, record.refused]))
  }

  const each = (requests: number) =>
    Object.fromEntries(
      WINDOWS.map(window => [
        window,
        {
          requests,
          byParent: 0,
          lastAtMs: scene.nowMs,
          firstAtMs: FIRST_MS,
          before: 0,
          limits: new Map([['tpm', {requests, tokens: BigInt(requests * 950)}]]),
        },
      ]),
    )

  it('are added to every window, beside the consumption', async () => {
    const aggregator = newAggregator()
    const {counts} = await aggregator.handle({Records: await refuse(3)})
    expect(counts).toMatchObject({refused: 3, failed: 0})
    expect(await refused()).toEqual(each(3))
    scene.nowMs += 1000
    await aggregator.handle({Records: await refuse(4)})
    expect(await refused()).toEqual(each(7))
    const [hour] = await usageItems(table, scene.namespace)
    expect(decodeUsage(hour ?? {})).toMatchObject({
      tokens: new Map([
        ['rpm', 1],
        ['tpm', 900],
      ]),
      totalEvents: 1,
    })
  })

  it('keep the number of requests before the first refusal, and the instant of the first use', async () => {
    const aggregator = newAggregator()
    const limiter = scene.limiter()
    const firstAtMs = scene.nowMs
    for (let at = 0; at < 5; at++) await limiter.acquire(request({tpm: 100, rpm: 1}))
    await limiter.close()
    await aggregator.handle({Records: tap.take()})
    scene.nowMs += 1000
    await aggregator.handle({Records: await refuse(2)})
    scene.nowMs += 60_000
    await scene.limiter().acquire(request({tpm: 100, rpm: 1}))
    await aggregator.handle({Records: [...tap.take(), ...(await refuse(1))]})
    const hours = (await usageItems(table, scene.namespace)).map(item => decodeUsage(item) as UsageRecord)
    const hour = hours.find(({window}) => window === 'hourly')
    expect(hour).toMatchObject({totalEvents: 6, firstAtMs, refused: {before: 5, requests: 3}})
  })

  it('by a provider account name it, and the account names the resource of its callers', async () => {
    await scene.configure({level: 'entity', entity: 'org', resource: 'models'}, 'rpm=1/h')
    const limiter = scene.limiter()
    const asking = {entity: 'org', resource: 'models', consume: {rpm: 1}, caller: {entity: 'user-1', resource: 'gpt-4'}}
    await limiter.acquire(request({tpm: 1}))
    for (let at = 0; at < 4; at++) await limiter.tryAcquire(asking)
    await limiter.close()
    const firstAtMs = scene.nowMs
    const aggregator = newAggregator()
    await aggregator.handle({Records: tap.take()})
    scene.nowMs += 60_000
    const later = scene.limiter()
    await later.acquire(request({tpm: 1}))
    await later.tryAcquire(asking)
    await later.close()
    await aggregator.handle({Records: tap.take()})
    const refusedOf = async (entity: string) => {
      const records = (await usageItems(table, scene.namespace, entity)).map(item => decodeUsage(item) as UsageRecord)
      return records.find(({window}) => window === 'hourly')?.refused
    }
    const accounts = new Map([['org#models', 4]])
    const both = {lastAtMs: scene.nowMs, firstAtMs}
    expect(await refusedOf('user-1')).toMatchObject({requests: 0, byParent: 4, accounts, ...both})
    expect(await refusedOf('org')).toMatchObject({requests: 4, byParent: 0, callers: new Map([['gpt-4', 4]]), ...both})
  })

  it('are stored in maps, so that other clients do not mistake them for counters', async () => {
    await newAggregator().handle({Records: await refuse(3)})
    for (const item of await usageItems(table, scene.namespace)) {
      const numbers = Object.keys(item).filter(name => 'N' in (item[name] ?? {}))
      expect(numbers.toSorted()).toEqual(['rpm', 'total_events', 'tpm', 'ttl'])
    }
  })

  it('count once when a batch is redelivered, in whole, in part or with more', async () => {
    const aggregator = newAggregator()
    const first = await refuse(3)
    await aggregator.handle({Records: first})
    await aggregator.handle({Records: first})
    const more = await refuse(2)
    await aggregator.handle({Records: [...first, ...more]})
    await newAggregator().handle({Records: more})
    expect(await refused()).toEqual(each(5))
  })

  it.each(['lost after apply', 'lost before apply', 'throttled'] as const)(
    'count once when writes are %s',
    async kind => {
      const records = [...(await refuse(3)), ...(await refuse(2))]
      const faults = new FaultTransport(table.transport)
      const {at} = {at: [1, 2, 3, 4, 5, 6]}
      for (const call of at) {
        faults.start({kind, at: call, operation: 'UpdateItem'})
        await newAggregator(faults).handle({Records: records})
      }
      faults.stop()
      await newAggregator().handle({Records: records})
      expect(await refused()).toEqual(each(5))
    },
  )
})

describe('refusals in the stream', () => {
  const bucket = (shard: number, counters: Record<string, number>) => ({
    ...wireKey(keys.bucket('ns00000001', 'user-1', 'gpt-4', shard)),
    entity_id: {S: 'user-1'},
    resource: {S: 'gpt-4'},
    rf: {N: '1700000000000'},
    ...Object.fromEntries(Object.entries(counters).map(([name, count]) => [name, {N: String(count)}])),
  })
  const change = (before: object | undefined, after: object) =>
    readBucketChange(streamRecord(before as never, after as never, {atMs: 1_700_000_000_000, sequence: 1}))?.refused

  it('are the difference of a write', () => {
    const limits = new Map([['rpm', {requests: 2, tokens: 12n}]])
    const before = bucket(0, {x: 5, x_rpm: 3, xb: 2, xl: 7})
    expect(change(before, bucket(0, {x: 9, x_rpm: 5, xt_rpm: 10, xb: 4, xp: 1, xl: 9}))).toEqual({
      requests: 4,
      byParent: 1,
      blocked: 2,
      lastAtMs: 9,
      firstAtMs: 9,
      limits,
    })
    expect(change(before, before)).toBeUndefined()
  })

  it('of a new bucket count, but those of a copied shard do not', () => {
    const copied = {x: 5, x_rpm: 3, xl: 7}
    expect(change(undefined, bucket(0, copied))).toMatchObject({requests: 5})
    expect(change(undefined, bucket(1, copied))).toBeUndefined()
    expect(change(bucket(1, copied), bucket(1, {...copied, x: 6}))).toMatchObject({requests: 1, limits: new Map()})
  })

  it.each([
    ['fewer than before', {x: 4, x_rpm: 1}],
    ['more than one write can have counted', {x: 5e9, x_rpm: 5e9}],
  ])('are none if a client wrote %s', (_, counters) => {
    expect(change(bucket(0, {x: 5, x_rpm: 3}), bucket(0, counters))).toBeUndefined()
  })
})
