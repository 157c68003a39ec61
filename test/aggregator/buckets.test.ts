import {beforeEach, expect, it} from 'vitest'
import type {StreamRecord} from '../../src/lib/aggregator/stream-event.js'
import {type Item, n} from '../../src/lib/schema/attribute-value.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth, longTest} from '../helpers/memory-table/use-memory-table.js'
import type {PythonPeer} from '../helpers/python-peer.js'
import {admittedUntilRefused, request} from '../limiter/visit.js'
import {loggingAggregator, streamRecord, tableOver} from './fixtures/stream.js'
import {StreamTap, tappedPeer} from './fixtures/stream-tap.js'

describeOnBoth('buckets with an aggregator', {timeout: 300_000}, (table, extent) => {
  let scene: Scene
  let tap: StreamTap
  let peer: PythonPeer
  const newAggregator = () => loggingAggregator({table: tableOver(tap, table.name, () => scene.nowMs)})

  beforeEach(() => {
    scene = new Scene(table)
    tap = new StreamTap(table.transport, () => scene.nowMs)
    scene.transport = tap
    peer = tappedPeer(scene, tap)
  })

  async function acquire(consume: Record<string, number>, entity = 'user-1'): Promise<void> {
    const limiter = scene.limiter()
    await limiter.acquire(request(consume, entity))
    await limiter.close()
  }

  it('D-6 keeps 30 s of a 1000-a-day limit (347 milli) when another limit is refilled (the reference lost it)', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=6000/min', 'rpd=1000/day')
    await acquire({tpm: 1, rpd: 10})
    tap.take()
    scene.nowMs += 30_000
    await peer.speculative({tpm: 5000})
    expect((await newAggregator().handle({Records: tap.take()})).counts.refills).toBe(1)
    expect(await peer.number('b_rpd_tk')).toBe(990_000 + 347)
    // Fractions of a millitoken are carried: nine refills of 30 s are worth as much as one of 270 s.
    for (let refill = 0; refill < 8; refill++) {
      scene.nowMs += 30_000
      await peer.speculative({tpm: 2900})
      expect((await newAggregator().handle({Records: tap.take()})).counts.refills).toBe(1)
    }
    expect(await peer.number('b_rpd_tk')).toBe(990_000 + 3125)
  })

  longTest(extent)(
    'D-1 keeps one shard and a usable wcu at 100 writes a second (the reference had 2048 shards after 14 s)',
    {
      timeout: 300_000,
    },
    async () => {
      await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1/day:1M')
      await acquire({rpm: 1})
      const {handle} = newAggregator()
      for (let second = 0; second < 20; second++) {
        for (let write = 0; write < 100; write++) {
          scene.nowMs += 10
          expect(await peer.speculative({rpm: 1})).toBe(true)
        }
        expect((await handle({Records: tap.take()})).counts.splits).toBe(0)
      }
      expect(await peer.number('shard_count')).toBe(1)
      expect(await peer.number('b_wcu_tk')).toBeGreaterThanOrEqual(400_000)
    },
  )

  it('D-9 creates the shards of a bump by splitting the tokens there are (the reference created none, or full clones)', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/day')
    await acquire({rpm: 1})
    tap.take()
    const {handle} = newAggregator()
    for (const count of [1, 2, 4]) {
      await peer.bump(count)
      await handle({Records: tap.take()})
    }
    expect((await scene.shards('user-1', 'gpt-4', 8)).map(({shardCount}) => shardCount)).toEqual(Array(8).fill(8))
    expect(await scene.totals('user-1', 'gpt-4', 'rpm', 8)).toEqual({tokens: 99, consumed: 1})
    const limiter = scene.limiter()
    // The reference admitted 248.
    expect(await admittedUntilRefused(limiter, {rpm: 1}, 300)).toBe(99)
    await limiter.close()
  })

  it('D-24 splits the buckets of parents like any other (the reference never did)', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1/day:1M')
    await scene.entity('team')
    await scene.entity('user-1', 'team')
    await acquire({rpm: 1})
    const team = tappedPeer(scene, tap, 'team')
    const image = (await team.item()) as Item
    let written = 1
    const Records: StreamRecord[] = []
    for (let second = 0; second < 3; second++) {
      scene.nowMs += 1000
      const before = {...image, b_wcu_tc: n(written * 1000)}
      written += 950
      Records.push(streamRecord(before, {...image, b_wcu_tc: n(written * 1000)}, {atMs: scene.nowMs}))
    }
    expect((await newAggregator().handle({Records})).counts.splits).toBe(1)
    expect(await scene.totals('team', 'gpt-4', 'rpm', 2)).toEqual({tokens: 999_999, consumed: 1})
    expect(await peer.number('shard_count')).toBe(1)
  })
})
