import {beforeEach, expect, it} from 'vitest'
import {n} from '../../src/lib/schema/attribute-value.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth, longTest} from '../helpers/memory-table/use-memory-table.js'
import {PythonPeer} from '../helpers/python-peer.js'
import {admittedUntilRefused, request} from './visit.js'

describeOnBoth('write pressure', {timeout: 300_000}, (table, extent) => {
  let scene: Scene
  let python: PythonPeer
  beforeEach(async () => {
    scene = new Scene(table)
    python = new PythonPeer(scene)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1/day:1M')
  })

  longTest(extent)('D-1 keeps one shard and a wcu that Python can spend after 3000 writes at 100/s', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    let lowest = 1_000_000
    for (let written = 0; written < 3000; written++) {
      scene.nowMs += 10
      if (written % 2 === 0) await limiter.acquire(request({rpm: 1}))
      else expect(await python.speculative({rpm: 1})).toBe(true)
      if (written % 50 === 0) lowest = Math.min(lowest, await python.number('b_wcu_tk'))
    }
    await limiter.settled()
    expect(lowest).toBeGreaterThanOrEqual(200_000)
    expect(await python.number('shard_count')).toBe(1)
    expect(await python.number('b_wcu_tc')).toBe(3_000_000)
    expect(await python.number('b_rpm_tc')).toBe(3_001_000)
  })

  it('D-1 neither refuses nor splits a bucket whose wcu a Python client used up, and repairs it', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    await python.set({b_wcu_tk: n(0)})
    expect(await python.speculative({rpm: 1})).toBe(false)
    for (let second = 0; second < 3; second++) {
      await limiter.acquire(request({rpm: 1}))
      scene.nowMs += 1000
    }
    await limiter.acquire(request({rpm: 1}))
    expect(await python.number('shard_count')).toBe(1)
    expect(await python.number('b_wcu_tk')).toBe(1_000_000)
    expect(await python.speculative({rpm: 1})).toBe(true)
  })

  longTest(extent)('D-1 splits above 800 writes per second and conserves tokens', async () => {
    const limiter = scene.limiter()
    for (let written = 0; written < 700; written++) {
      scene.nowMs += written % 10 === 0 ? 9 : 1
      await limiter.acquire(request({rpm: 1}))
    }
    // 555 per second so far.
    expect(await python.number('shard_count')).toBe(1)
    const before = await scene.totals('user-1', 'gpt-4', 'rpm')
    let more = 0
    for (; (await python.number('shard_count')) === 1 && more < 3000; more += 50) {
      for (let written = 0; written < 50; written++) {
        scene.nowMs += 1
        await limiter.acquire(request({rpm: 1}))
      }
    }
    await limiter.settled()
    expect(await python.number('shard_count')).toBe(2)
    const after = await scene.totals('user-1', 'gpt-4', 'rpm', 2)
    expect(after).toEqual({tokens: before.tokens - more, consumed: before.consumed + more})
    for (const shard of [0, 1]) {
      expect(await python.item(shard)).toMatchObject({
        shard_count: {N: '2'},
        b_rpm_cp: {N: '1000000000'},
        b_wcu_cp: {N: '1000000'},
        GSI2SK: {S: `BUCKET#user-1#${shard}`},
      })
    }
  })

  it('D-1 stops at 32 shards under any pressure', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    for (let second = 0, count = 1; second < 12; second++) {
      for (let shard = 0; shard < count; shard++) await python.countWrites(2000, shard)
      scene.nowMs += 1000
      for (let asked = 0; asked < count * 2; asked++) await limiter.acquire(request({rpm: 1}))
      // A split runs beside the requests; close waits for it.
      await limiter.settled()
      count = await python.number('shard_count')
      expect(count).toBeLessThanOrEqual(32)
    }
    await limiter.settled()
    expect(await python.number('shard_count')).toBe(32)
    const {tokens, consumed} = await scene.totals('user-1', 'gpt-4', 'rpm', 32)
    expect(tokens + consumed).toBe(1_000_000)
    expect(await python.item(32)).toBeUndefined()
  })

  it('D-1 repairs a shard_count of 2048 with one real shard, and creates no tokens', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpd=100/day')
    await scene.limiter().acquire(request({rpd: 10}))
    await python.set({shard_count: n(2048)})
    const limiter = scene.limiter()
    scene.calls.length = 0
    await limiter.acquire(request({rpd: 1}))
    await limiter.acquire(request({rpd: 1}))
    expect(scene.calls.length).toBeLessThan(12)
    expect(await python.number('shard_count')).toBe(1)
    expect(await admittedUntilRefused(limiter, {rpd: 1}, 300)).toBe(88)
    expect(await limiter.available({entity: 'user-1', resource: 'gpt-4'})).toEqual({rpd: 0})
  })

  it('D-1 uses 32 of 64 real shards at a shard_count of 2048, with exactly their tokens', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpd=640/day')
    await scene.limiter().acquire(request({rpd: 1}))
    await python.clone(1, 64, {rpd: 1})
    for (let shard = 0; shard < 64; shard++) await python.set({shard_count: n(2048)}, shard)
    const limiter = scene.limiter()
    // 639 on shard 0, one on each of 31 others.
    expect(await admittedUntilRefused(limiter, {rpd: 10}, 100)).toBe(67)
    expect((await scene.shards('user-1', 'gpt-4', 32)).every(({shardCount}) => shardCount === 32)).toBe(true)
    scene.nowMs += 8_640_000
    expect(await admittedUntilRefused(limiter, {rpd: 1}, 100)).toBe(64)
  })

  it('D-24 splits a parent like any bucket, and charges it exactly', async () => {
    const children = Array.from({length: 20}, (_, index) => `child-${index}`)
    await Promise.all(children.map(child => scene.entity(child, 'team-1')))
    const parent = new PythonPeer(scene, 'team-1')
    const limiter = scene.limiter()
    let admitted = 0
    const all = async () => {
      for (const child of children) await limiter.acquire(request({rpm: 3}, child))
      admitted += children.length
    }
    await all()
    for (let second = 0; second < 4; second++) {
      for (let shard = 0; shard < (await parent.number('shard_count')); shard++) await parent.countWrites(2000, shard)
      scene.nowMs += 1000
      await all()
      await limiter.settled()
    }
    // A shard not drawn in the last second would only now be measured as hot, and be split.
    scene.nowMs += 15_000
    scene.calls.length = 0
    await all()
    // Always two updates each: the reference needs three and a read once the budget is spent. In addition, the first
    // write to a new shard may only show it, or a read does (decision 37).
    expect(scene.calls.filter(call => call !== 'UpdateItem' && call !== 'GetItem')).toEqual([])
    await limiter.settled()
    const count = await parent.number('shard_count')
    expect(scene.calls.length).toBeLessThanOrEqual(2 * children.length + count)
    await limiter.close()
    expect(count).toBeGreaterThanOrEqual(4)
    for (const child of children) {
      expect(await new PythonPeer(scene, child).number('shard_count')).toBe(1)
      expect(await scene.totals(child, 'gpt-4', 'rpm')).toMatchObject({consumed: (admitted / children.length) * 3})
    }
    expect(await scene.totals('team-1', 'gpt-4', 'rpm', count)).toMatchObject({consumed: admitted * 3})
    const shards = await scene.shards('team-1', 'gpt-4', count)
    expect(shards.filter(({state}) => (state.limits.get('rpm')?.consumedMilli ?? 0n) > 0n).length).toBeGreaterThan(1)
  })

  longTest(extent)(
    'D-24 keeps a parent of calm children at 100/s whole, with a wcu that Python can spend',
    async () => {
      const children = Array.from({length: 10}, (_, index) => `child-${index}`)
      await Promise.all(children.map(child => scene.entity(child, 'team-1')))
      const parent = new PythonPeer(scene, 'team-1')
      const limiter = scene.limiter()
      for (let written = 0; written < 700; written++) {
        scene.nowMs += 10
        if (written % 2 === 0) await limiter.acquire(request({rpm: 1}, children[written % 10] as string))
        else if (written > 100) expect(await parent.speculative({rpm: 1})).toBe(true)
      }
      expect(await parent.number('shard_count')).toBe(1)
      expect(await parent.number('b_wcu_tk')).toBeGreaterThanOrEqual(200_000)
    },
  )
})
