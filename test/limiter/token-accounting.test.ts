import {beforeEach, expect, it} from 'vitest'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {n} from '../../src/lib/schema/attribute-value.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth, longTest} from '../helpers/memory-table/use-memory-table.js'
import {PythonPeer} from '../helpers/python-peer.js'
import {admittedUntilRefused, isAdmitted, refusal, request} from './visit.js'

describeOnBoth('refill', {timeout: 300_000}, (table, extent) => {
  let scene: Scene
  let python: PythonPeer
  beforeEach(() => {
    scene = new Scene(table)
    python = new PythonPeer(scene)
  })

  const limits = (...texts: string[]) => scene.configure({level: 'resource', resource: 'gpt-4'}, ...texts)

  longTest(extent)(
    'D-2 earns 231 milli and keeps the fraction of a 10-per-day limit written every 5 s for 2000 s',
    async () => {
      await limits('rpd=10/day', 'rps=1/sec')
      const limiter = scene.limiter({configCacheMs: 600_000})
      await limiter.acquire(request({rpd: 10, rps: 1}))
      for (let written = 0; written < 400; written++) {
        scene.nowMs += 5000
        await limiter.acquire(request({rps: 1}))
      }
      expect(await python.number('b_rpd_tk')).toBe(231)
      // 2000 s are 231 milli and 4,160 of the 8,640 ms that the next one takes.
      scene.nowMs += 4_479
      await limiter.acquire(request({rps: 1}))
      expect(await python.number('b_rpd_tk')).toBe(231)
      scene.nowMs += 1_000
      await limiter.acquire(request({rps: 1}))
      expect(await python.number('b_rpd_tk')).toBe(232)
    },
  )

  it('D-2 voids the fraction if a peer moves rf: nothing is credited twice', async () => {
    await limits('rpd=10/day', 'rps=1/sec')
    const limiter = scene.limiter()
    await limiter.acquire(request({rpd: 10, rps: 1}))
    scene.nowMs += 8_639
    await limiter.acquire(request({rps: 1}))
    expect(await python.item()).toMatchObject({b_rpd_tk: {N: '0'}, rfr: {S: expect.stringContaining('rpd:')}})
    scene.nowMs += 1
    await python.set({rf: n(scene.nowMs)})
    scene.nowMs += 1_000
    await scene.limiter().acquire(request({rps: 1}))
    expect(await python.number('b_rpd_tk')).toBe(0)
  })

  longTest(extent)('D-3 credits 600 ms for 600 refills 1 ms apart', async () => {
    await limits('rpm=100/min', 'tpm=10M/min', 'tick=1000/sec:1')
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 100, tpm: 10_000_000, tick: 1}))
    for (let ms = 0; ms < 600; ms++) {
      scene.nowMs += 1
      await limiter.acquire(request({tick: 1}))
    }
    expect(await python.number('b_rpm_tk')).toBe(1_000)
    expect(await python.number('b_tpm_tk')).toBe(100_000_000)
    expect(await python.number('rf')).toBe(scene.nowMs)
  })

  /** Every response takes 20 ms: the clock differs between read and write. */
  const slow = (inner: Transport): Transport => ({
    send: async (operation, input, options) => {
      const answer = inner.send(operation, input, options)
      await answer.catch(() => {})
      scene.nowMs += 20
      return answer
    },
  })

  longTest(extent)('D-4 gives a client all 1000 of 100/s with 20 ms between read and write', async () => {
    await limits('rps=100/sec:100')
    await scene.limiter().acquire(request({rps: 100}))
    const {transport} = scene
    scene.transport = {
      send: async (operation, input, options) => {
        const answer = await transport.send(operation, input, options)
        if (operation === 'BatchGetItem') scene.nowMs += 20
        return answer
      },
    }
    const startMs = scene.nowMs
    let admitted = 0
    for (let asked = 1; asked <= 1000; asked++) {
      scene.nowMs = Math.max(scene.nowMs, startMs + asked * 20)
      // A process that does not know the bucket must read it, and its limits, before it can refill.
      if (await isAdmitted(scene.limiter().acquire(request({rps: 2})))) admitted++
    }
    expect(admitted).toBe(1000)
  })

  it('D-4 stores the instant of the refill in rf', async () => {
    await limits('rps=100/sec:100k')
    await scene.limiter().acquire(request({rps: 100_000}))
    const startMs = scene.nowMs
    scene.transport = slow(scene.transport)
    for (let asked = 0; asked < 50; asked++) {
      scene.nowMs += 100
      await scene.limiter().acquire(request({rps: 5}))
    }
    const elapsedMs = (await python.number('rf')) - startMs
    const credited = (await python.number('b_rps_tk')) + 50 * 5000
    expect(credited).toBe(elapsedMs * 100)
  })

  longTest(extent)(
    'D-5 credits at most the 10 s by which a fast clock is ahead (1/s, capacity 100, 60 s)',
    async () => {
      await limits('rps=1/sec:100')
      const options = {denyCacheMs: 0}
      const behind = scene.limiter({...options, clock: () => scene.nowMs - 5000})
      const ahead = scene.limiter({...options, clock: () => scene.nowMs + 5000})
      let admitted = 0
      let rf = 0
      for (let second = 0; second <= 60; second++) {
        for (const limiter of [ahead, behind, behind, ahead]) {
          admitted += await admittedUntilRefused(limiter, {rps: 1}, second === 0 ? 60 : 3)
          const stored = await python.number('rf')
          expect(stored).toBeGreaterThanOrEqual(rf)
          rf = stored
        }
        scene.nowMs += 1000
      }
      expect(admitted).toBeGreaterThanOrEqual(160)
      expect(admitted).toBeLessThanOrEqual(170)
    },
  )

  it('D-5 credits an hour once when a clock jumps back by an hour and returns', async () => {
    await limits('rps=1/sec:100')
    const limiter = scene.limiter({denyCacheMs: 0})
    await limiter.acquire(request({rps: 100}))
    const startMs = scene.nowMs
    scene.nowMs = startMs + 10_000
    expect(await admittedUntilRefused(limiter, {rps: 1}, 100)).toBe(10)
    for (const jumpMs of [-3_600_000, -20_000, 0, -1]) {
      scene.nowMs = startMs + 10_000 + jumpMs
      expect(await admittedUntilRefused(scene.limiter(), {rps: 1}, 100)).toBe(0)
    }
    scene.nowMs = startMs + 15_000
    expect(await admittedUntilRefused(limiter, {rps: 1}, 100)).toBe(5)
  })

  // Setting it back would credit the same time twice (S7), so the bucket waits and reports how long.
  it('D-5 keeps an rf ahead of the clock, and includes it in the wait', async () => {
    await limits('rps=1/sec:100')
    await scene.limiter().acquire(request({rps: 100}))
    await python.set({rf: n(scene.nowMs + 10_000)})
    const limiter = scene.limiter()
    const error = await refusal(limiter.acquire(request({rps: 1})))
    expect(error.retryAfterMs).toBe(11_001)
    expect(await python.number('rf')).toBe(scene.nowMs + 10_000)
    scene.nowMs += error.retryAfterMs
    await limiter.acquire(request({rps: 1}))
  })

  it('D-6 credits every limit when a write moves rf', async () => {
    await limits('tpm=1000/min', 'rpd=1000/day')
    await scene.limiter().acquire(request({tpm: 1000, rpd: 1000}))
    await python.set({b_wcu_tk: n(400_000)})
    scene.nowMs += 30_000
    await scene.limiter().acquire(request({tpm: 500}))
    expect(await python.item()).toMatchObject({
      rf: {N: String(scene.nowMs)},
      b_tpm_tk: {N: '0'},
      b_rpd_tk: {N: '347'},
      b_wcu_tk: {N: '1000000'},
    })
    expect(await python.number('b_tpm_tc')).toBe(1_500_000)
    expect(await python.number('b_rpd_tc')).toBe(1_000_000)
  })

  it('D-6 credits consumption since by others when a process last saw the bucket full', async () => {
    await limits('tpm=1000/min', 'rpm=1/min')
    const idle = scene.limiter({configCacheMs: 600_000})
    await idle.acquire(request({tpm: 1, rpm: 1}))
    scene.nowMs += 1000
    expect(await python.speculative({tpm: 900})).toBe(true)
    scene.nowMs += 59_000
    await idle.acquire(request({rpm: 1}))
    expect(await python.number('b_tpm_tk')).toBe(1_000_000)
    expect(await python.number('b_rpm_tk')).toBe(0)
  })

  it('D-6 credits it too within the half second for which a state counts as fresh', async () => {
    await limits('tpm=1000/sec', 'rpm=2/sec:1')
    const other = scene.limiter()
    await other.acquire(request({tpm: 1, rpm: 1}))
    scene.nowMs += 100
    expect(await python.speculative({tpm: 900})).toBe(true)
    scene.nowMs += 400
    await other.acquire(request({rpm: 1}))
    expect(await python.number('b_tpm_tk')).toBe(599_000)
  })

  it("D-6 loses nothing of others' consumption when a refill is cut at the capacity", async () => {
    await limits('rps=100/sec', 'rpd=1000/day')
    const first = scene.limiter()
    await first.acquire(request({rpd: 500}))
    await first.acquire(request({rps: 40}))
    scene.nowMs += 100
    expect(await python.speculative({rps: 30})).toBe(true)
    scene.nowMs += 350
    await first.acquire(request({rps: 1}))
    // 60 less 30 and 1, and 45 earned since.
    expect(await first.available({entity: 'user-1', resource: 'gpt-4'})).toMatchObject({rps: 74})
  })
})
