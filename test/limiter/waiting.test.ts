import {getEventListeners} from 'node:events'
import {beforeEach, describe, expect, it} from 'vitest'
import {onAbort} from '../../src/lib/dynamo/abort.js'
import type {AcquireRequest} from '../../src/lib/limiter/request/options.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, request, warningsOf} from './visit.js'

describe('one signal shared by many', () => {
  it('has one listener, and none when all are done', () => {
    const {signal} = new AbortController()
    const watched = Array.from({length: 1000}, () => onAbort(signal, () => {}))
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    for (const unwatch of watched) unwatch()
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  it('notifies all of them, including a later one, but none that has gone', () => {
    const controller = new AbortController()
    const notified: string[] = []
    onAbort(controller.signal, () => notified.push('first'))
    onAbort(controller.signal, () => notified.push('gone'))()
    onAbort(controller.signal, () => notified.push('second'))
    controller.abort()
    onAbort(controller.signal, () => notified.push('late'))
    expect(notified).toEqual(['first', 'second', 'late'])
  })
})

describeOnBoth('waiting for admission', {}, table => {
  let scene: Scene
  let waits: number[]
  beforeEach(async () => {
    scene = new Scene(table)
    waits = []
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=5/min')
  })

  /** A sleep that moves the clock. */
  const sleep = async (ms: number) => {
    scene.nowMs += ms
  }
  const waiting = (rpm: number, waitMs: number): AcquireRequest => ({
    ...request({rpm}),
    waitMs,
    onWait: ms => waits.push(ms),
  })

  it('waits exactly as long as a refusal reports, and no longer than allowed', async () => {
    const limiter = scene.limiter({sleep})
    await limiter.acquire(request({rpm: 5}))
    const refused = await limiter.tryAcquire(request({rpm: 1}))
    const retryAfterMs = Number(refused.admitted || refused.retryAfterMs)
    expect(await limiter.tryAcquire(waiting(1, retryAfterMs - 1))).toMatchObject({admitted: false, waitedMs: 0})
    expect(waits).toEqual([])
    expect(await limiter.tryAcquire(waiting(1, retryAfterMs))).toMatchObject({admitted: true, waitedMs: retryAfterMs})
    expect(waits).toEqual([retryAfterMs])
    await limiter.acquire(waiting(1, 60_000))
    await expect(limiter.acquire(waiting(5, 1))).rejects.toMatchObject({code: 'limit.exceeded'})
  })

  it('waits again if other requests were faster, but not beyond its maximum', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'parallel=1/inflight')
    const rival = scene.limiter()
    const limiter = scene.limiter({sleep})
    const held = await rival.acquire(request({}))
    const decision = await limiter.tryAcquire({...waiting(0, 4500), consume: {}})
    expect(decision).toMatchObject({admitted: false, reason: 'in-flight'})
    expect(waits).toEqual([1000, 1000, 1000, 1000])
    expect(decision.waitedMs).toBeLessThanOrEqual(4500)
    await held.commit()
  })

  it('sleeps an hour at most, then tries again', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1/day')
    const naps: number[] = []
    const limiter = scene.limiter({
      sleep: async ms => {
        naps.push(ms)
        scene.nowMs += ms
      },
    })
    await limiter.acquire(request({rpm: 1}))
    expect(await limiter.tryAcquire(waiting(1, 2 * 86_400_000))).toMatchObject({admitted: true})
    expect(Math.max(...naps)).toBe(3_600_000)
    expect(naps).toHaveLength(24)
  })

  it('does not wait for requests that can never be admitted', async () => {
    const limiter = scene.limiter({sleep})
    const decision = await limiter.tryAcquire(waiting(6, 60_000))
    expect(decision).toMatchObject({admitted: false, reason: 'too-large', retryAfterMs: null, waitedMs: 0})
    expect(waits).toEqual([])
  })

  it('ends when it is aborted, without a charge', async () => {
    const stop = new AbortController()
    const limiter = scene.limiter({
      sleep: async (_, signal) => {
        stop.abort(new Error('gone'))
        expect(signal?.aborted).toBe(true)
      },
    })
    await limiter.acquire(request({rpm: 5}))
    const aborted = await failure(limiter.acquire({...waiting(1, 60_000), signal: stop.signal}))
    expect(aborted).toMatchObject({name: 'Aborted', code: 'dynamo.aborted', cause: {message: 'gone'}})
    await limiter.settled()
    expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 0, consumed: 5})
  })

  it('ends when the limiter is closed; a closed limiter decides nothing', async () => {
    const limiter = scene.limiter({
      sleep: async (_, signal) => new Promise(done => onAbort(signal as AbortSignal, done)),
    })
    await limiter.acquire(request({rpm: 5}))
    let hasWaited = () => {}
    const isWaiting = new Promise<void>(resolve => {
      hasWaited = resolve
    })
    const open = failure(limiter.acquire({...waiting(1, 60_000), onWait: hasWaited}))
    await isWaiting
    await limiter.close()
    expect(await open).toMatchObject({name: 'LimiterClosed', code: 'limiter.closed'})
    for (const call of [
      limiter.acquire(request({rpm: 1})),
      limiter.available(request({})),
      limiter.check(request({})),
    ]) {
      expect(await failure(call)).toMatchObject({code: 'limiter.closed'})
    }
    await limiter.close()
  })

  it('shares one signal among a thousand requests without a warning, and leaves no listener behind', async () => {
    const limiter = scene.limiter({sleep})
    const {signal} = new AbortController()
    const warnings = await warningsOf(() =>
      Promise.all(
        Array.from({length: 1000}, (_, at) =>
          limiter.tryAcquire({...request({rpm: 1}), signal, waitMs: at < 20 ? 60_000 : 0}),
        ),
      ),
    )
    expect(warnings).toEqual([])
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })
})
