import {beforeEach, expect, it} from 'vitest'
import {readBucketChange} from '../../src/lib/aggregator/bucket-change.js'
import {n} from '../../src/lib/schema/attribute-value.js'
import {StreamTap} from '../aggregator/fixtures/stream-tap.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {PythonPeer} from '../helpers/python-peer.js'
import {admittedUntilRefused, failure, refusal, request, splitInto} from './visit.js'

describeOnBoth('shards', {}, table => {
  let scene: Scene
  let python: PythonPeer
  beforeEach(() => {
    scene = new Scene(table)
    python = new PythonPeer(scene)
  })

  const limits = (...texts: string[]) => scene.configure({level: 'resource', resource: 'gpt-4'}, ...texts)

  /** A limiter that knows the bucket's shards and draws them in the given order, repeatedly. */
  async function drawing(...draws: number[]) {
    let next = 0
    let isReady = false
    const random = () => (isReady ? (draws[next++ % draws.length] as number) : 0)
    const limiter = scene.limiter({random})
    await limiter.acquire(request({}))
    isReady = true
    return limiter
  }
  const LAST = 0.999
  const FIRST = 0

  it('D-7 charge the parent for every admission, on any shard', async () => {
    await limits('rpm=1000/day')
    await scene.entity('user-1', 'team-1')
    await scene.limiter().acquire(request({rpm: 1}))
    await splitInto(scene, 2)
    // Shard 1 is always drawn first and is empty.
    await python.adjust({rpm: (await python.number('b_rpm_tk', 1)) / 1000}, 1)
    const limiter = await drawing(LAST)
    for (let admitted = 0; admitted < 30; admitted++) await limiter.acquire(request({rpm: 1}))
    expect(await scene.totals('team-1', 'gpt-4', 'rpm')).toEqual({tokens: 969, consumed: 31})
    expect(await python.number('b_rpm_tc', 0)).toBe(31_000)
  })

  it('D-7 let a lease of a second shard be adjusted, extended and rolled back', async () => {
    await limits('rpm=1000/day')
    await scene.entity('user-1', 'team-1')
    await scene.limiter().acquire(request({rpm: 1}))
    await splitInto(scene, 2)
    await python.adjust({rpm: (await python.number('b_rpm_tk', 1)) / 1000}, 1)
    const limiter = await drawing(LAST)
    const lease = await limiter.acquire(request({rpm: 10}))
    await lease.adjust({rpm: 5})
    await lease.consume({rpm: 5})
    expect(lease.consumed).toEqual({rpm: 20})
    expect(await scene.totals('team-1', 'gpt-4', 'rpm')).toEqual({tokens: 979, consumed: 21})
    await lease.rollback()
    expect(await scene.totals('team-1', 'gpt-4', 'rpm')).toEqual({tokens: 999, consumed: 1})
    expect(await python.number('b_rpm_tc', 0)).toBe(1_000)
    await limiter.withLease(request({rpm: 10}), () => Promise.reject(new Error('no'))).catch(() => {})
    expect(await scene.totals('user-1', 'gpt-4', 'rpm', 2)).toMatchObject({consumed: 500.5})
    expect(await scene.totals('team-1', 'gpt-4', 'rpm')).toEqual({tokens: 999, consumed: 1})
  })

  it('D-8 get refunds, adjustments and rollbacks of their own charges', async () => {
    await limits('rpm=1000/day', 'tpm=1000/day')
    await scene.limiter().acquire(request({rpm: 1}))
    await splitInto(scene, 4)
    const before = await scene.shards('user-1', 'gpt-4', 4)
    const charged = async () => {
      const after = await scene.shards('user-1', 'gpt-4', 4)
      return after.map(({state}, shard) => {
        const was = before[shard]?.state.limits
        return ['rpm', 'tpm'].map(name => {
          const [now, then] = [state.limits.get(name), was?.get(name)]
          expect(now?.tokensMilli).toBe(
            (then?.tokensMilli ?? 0n) - ((now?.consumedMilli ?? 0n) - (then?.consumedMilli ?? 0n)),
          )
          return Number((now?.consumedMilli ?? 0n) - (then?.consumedMilli ?? 0n)) / 1000
        })
      })
    }
    const limiter = await drawing(LAST)
    const lease = await limiter.acquire(request({rpm: 10}))
    await lease.adjust({rpm: 5, tpm: 300})
    expect(await charged()).toEqual([
      [0, 0],
      [0, 0],
      [0, 0],
      [15, 300],
    ])
    await lease.release({rpm: 12})
    expect(await charged()).toEqual([
      [0, 0],
      [0, 0],
      [0, 0],
      [3, 300],
    ])
    await lease.rollback()
    expect(await charged()).toEqual([
      [0, 0],
      [0, 0],
      [0, 0],
      [0, 0],
    ])
  })

  it('L4 L6 count a gathered request once in usage', async () => {
    await limits('tpm=1000/day')
    const tap = new StreamTap(table.transport, () => scene.nowMs)
    scene.transport = tap
    await scene.limiter().acquire(request({tpm: 1}))
    await splitInto(scene, 2)
    const limiter = await drawing(LAST)
    tap.take()
    // More than one shard holds.
    await limiter.acquire(request({tpm: 900}))
    const changes = tap.take().map(record => readBucketChange(record))
    expect(changes.flatMap(change => change?.consumedMilli.get('tpm') ?? [])).toHaveLength(2)
    expect(changes.reduce((sum, change) => sum + (change?.admitted ?? 0), 0)).toBe(1)
  })

  it('D-8 get their parts of a gathered request back', async () => {
    await limits('rpm=1000/day')
    await scene.limiter().acquire(request({rpm: 1}))
    await splitInto(scene, 4)
    const before = await scene.shards('user-1', 'gpt-4', 4)
    const lease = await (await drawing(FIRST)).acquire(request({rpm: 900}))
    await lease.release({rpm: 400})
    expect(await scene.totals('user-1', 'gpt-4', 'rpm', 4)).toEqual({tokens: 499, consumed: 501})
    await lease.rollback()
    expect((await scene.shards('user-1', 'gpt-4', 4)).map(({state}) => state.limits.get('rpm'))).toEqual(
      before.map(({state}) => state.limits.get('rpm')),
    )
  })

  it('D-9 admit 100 per day after 3 doublings', async () => {
    await limits('rpd=100/day')
    const limiter = scene.limiter()
    expect(await admittedUntilRefused(limiter, {rpd: 1}, 10)).toBe(10)
    await splitInto(scene, 8)
    expect(await scene.totals('user-1', 'gpt-4', 'rpd', 8)).toEqual({tokens: 90, consumed: 10})
    expect(await admittedUntilRefused(scene.limiter(), {rpd: 1}, 300)).toBe(90)
    expect(await scene.totals('user-1', 'gpt-4', 'rpd', 8)).toEqual({tokens: 0, consumed: 100})
  })

  it.each([2, 8])('D-9 admit 100 a minute with %d shards of 100/min', async count => {
    await limits('rpm=100/min')
    await scene.limiter().acquire(request({rpm: 100}))
    await splitInto(scene, count)
    const limiter = scene.limiter({denyCacheMs: 0})
    let admitted = 0
    for (let second = 0; second < 60; second += 6) {
      scene.nowMs += 6000
      admitted += await admittedUntilRefused(limiter, {rpm: 1}, 300)
    }
    expect(admitted).toBe(100)
  })

  it('D-9 fill phantom shards of a Python bump with moved tokens, and create none', async () => {
    await limits('rpd=100/day')
    await scene.limiter().acquire(request({rpd: 10}))
    await python.bump(1)
    await python.bump(2)
    await python.bump(4)
    expect(await admittedUntilRefused(scene.limiter(), {rpd: 1}, 300)).toBe(90)
    // Existing items keep the aggregator from cloning full ones.
    for (let shard = 0; shard < 8; shard++) {
      expect(await python.item(shard), `shard ${shard}`).toMatchObject({
        shard_count: {N: '8'},
        b_rpd_cp: {N: '100000'},
        GSI2SK: {S: `BUCKET#user-1#${shard}`},
        GSI3SK: {S: `BUCKET#gpt-4#${shard}`},
        GSI4SK: {S: `BUCKET#user-1#gpt-4#${shard}`},
      })
    }
  })

  it('D-9 learn the new count of a Python bump, and keep the rate', async () => {
    await limits('rpm=80/min')
    await scene.limiter().acquire(request({rpm: 80}))
    await splitInto(scene, 2)
    await python.bump(2)
    const limiter = scene.limiter({denyCacheMs: 0})
    let admitted = 0
    for (let second = 0; second < 60; second += 6) {
      scene.nowMs += 6000
      admitted += await admittedUntilRefused(limiter, {rpm: 1}, 300)
    }
    expect(admitted).toBeLessThanOrEqual(80)
    expect(admitted).toBeGreaterThanOrEqual(70)
    expect((await scene.shards('user-1', 'gpt-4', 4)).map(({shardCount}) => shardCount)).toEqual([4, 4, 4, 4])
  })

  it('D-9 adopt the count of shard 0 when a request meets a shard that is behind', async () => {
    await limits('rpm=80/min')
    await scene.limiter().acquire(request({rpm: 40}))
    await splitInto(scene, 2)
    await python.bump(2)
    // Shard 0 shows a count of four; of the three others only shard 1 is asked.
    const limiter = await drawing(0.3)
    await limiter.acquire(request({rpm: 1}))
    await limiter.settled()
    expect((await scene.shards('user-1', 'gpt-4', 4)).map(({shardCount}) => shardCount)).toEqual([4, 4, 4, 4])
    expect(await scene.totals('user-1', 'gpt-4', 'rpm', 4)).toEqual({tokens: 39, consumed: 41})
  })

  it('L2 report a true wait, although a shard that is behind gains less with the new count', async () => {
    await limits('rpm=80/min')
    await scene.limiter().acquire(request({rpm: 80}))
    await splitInto(scene, 4)
    // As a doubling by Python clients leaves a shard that is neither the first nor new.
    await python.set({shard_count: n(2)}, 1)
    scene.nowMs += 15_000
    const limiter = scene.limiter()
    const error = await refusal(limiter.acquire(request({rpm: 40})))
    scene.nowMs += error.retryAfterMs
    await limiter.acquire(request({rpm: 40}))
    expect((await scene.shards('user-1', 'gpt-4', 4)).map(({shardCount}) => shardCount)).toEqual([4, 4, 4, 4])
  })

  it.each([
    [8, [LAST]],
    [8, [FIRST]],
    [4, [0.5]],
  ])('D-9 give the whole capacity at once with %d phantom shards', async (count, draws) => {
    await limits('rpd=1000/day')
    await scene.limiter().acquire(request({}))
    for (let from = 1; from < count; from *= 2) await python.bump(from)
    const limiter = await drawing(...draws)
    await limiter.acquire(request({rpd: 1000}))
    const error = await refusal(limiter.acquire(request({rpd: 500})))
    expect(error.retryAfterMs).toBeLessThanOrEqual(43_300_000)
    scene.nowMs += error.retryAfterMs
    await limiter.acquire(request({rpd: 500}))
  })

  it('D-9 start anew if the bucket vanishes under a client that knows its shards', async () => {
    await limits('rpd=100/day')
    await scene.limiter().acquire(request({rpd: 1}))
    await splitInto(scene, 4)
    const limiter = await drawing(LAST)
    await python.vanish(0, 1, 2, 3)
    expect(await admittedUntilRefused(limiter, {rpd: 1}, 300)).toBe(100)
  })

  it('D-9 go on when one shard vanishes with its tokens, and recreate it from their own', async () => {
    await limits('rpd=100/day')
    await scene.limiter().acquire(request({rpd: 20}))
    await splitInto(scene, 4)
    const limiter = await drawing(LAST)
    await python.vanish(3)
    expect(await admittedUntilRefused(limiter, {rpd: 1}, 300)).toBe(60)
  })

  it('D-9 give the whole capacity after a true wait if a missing shard was never drawn', async () => {
    await limits('rpd=100/day')
    await scene.limiter().acquire(request({}))
    await splitInto(scene, 4)
    const limiter = await drawing(FIRST)
    await python.vanish(3)
    const error = await refusal(limiter.acquire(request({rpd: 100})))
    expect(error.retryAfterMs).toBeLessThanOrEqual(86_400_001)
    scene.nowMs += error.retryAfterMs
    await limiter.acquire(request({rpd: 100}))
  })

  it('D-10 strand no fractions: capacity 4 on 8 shards admits 4', async () => {
    await limits('rpd=4/day')
    await scene.limiter().acquire(request({}))
    await splitInto(scene, 8)
    expect(await admittedUntilRefused(scene.limiter(), {rpd: 1}, 20)).toBe(4)
    expect(await scene.totals('user-1', 'gpt-4', 'rpd', 8)).toEqual({tokens: 0, consumed: 4})
  })

  it('D-10 admit two requests of 600 on 2 shards of 1000 per day', async () => {
    await limits('rpd=1000/day')
    await scene.limiter().acquire(request({rpd: 3}))
    await python.bump(1)
    await python.clone(1, 2, {rpd: 500})
    const limiter = scene.limiter()
    expect(await admittedUntilRefused(limiter, {rpd: 600}, 10)).toBe(2)
    const error = await refusal(limiter.acquire(request({rpd: 600})))
    expect(error.statuses).toMatchObject([{name: 'rpd', available: 297, requested: 600}])
    scene.nowMs += error.retryAfterMs
    await limiter.acquire(request({rpd: 600}))
  })

  it('D-10 report an endless wait only above the whole capacity, not above a share', async () => {
    await limits('rpd=1000/day')
    await scene.limiter().acquire(request({rpd: 1}))
    await splitInto(scene, 8)
    const limiter = scene.limiter()
    const error = await refusal(limiter.acquire(request({rpd: 1000})))
    expect(error.retryAfterMs).toBeLessThan(120_000)
    scene.nowMs += error.retryAfterMs
    await limiter.acquire(request({rpd: 1000}))
    expect(await failure(limiter.acquire(request({rpd: 1001})))).toMatchObject({code: 'request.too-large'})
  })

  it('D-10 heal a limit without parameters on one shard when several admit a request together', async () => {
    await limits('rpd=1000/day', 'tpd=1000/day')
    await scene.limiter().acquire(request({rpd: 1}))
    await splitInto(scene, 2)
    await python.remove(['b_tpd_cp', 'b_tpd_ra', 'b_tpd_rp'], 1)
    await python.set({b_tpd_tk: n(0)}, 1)
    await (await drawing(FIRST)).acquire(request({rpd: 900}))
    expect(await scene.totals('user-1', 'gpt-4', 'rpd', 2)).toMatchObject({consumed: 901})
  })

  it('L7 reuse the read of a gather: the first takes, one reads, 18 need no call', async () => {
    await limits('rpm=100/day')
    await scene.limiter().acquire(request({}))
    await splitInto(scene, 2)
    const limiter = await drawing(FIRST)
    scene.calls.length = 0
    const attempts = await Promise.allSettled(Array.from({length: 20}, () => limiter.acquire(request({rpm: 60}))))
    expect(attempts.filter(({status}) => status === 'fulfilled')).toHaveLength(1)
    expect(scene.calls.filter(call => call === 'TransactWriteItems')).toHaveLength(1)
    // Two of all shards, and one of the limits.
    expect(scene.calls.filter(call => call === 'BatchGetItem')).toHaveLength(3)
  })
})
