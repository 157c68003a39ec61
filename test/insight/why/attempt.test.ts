import {expect, it} from 'vitest'
import {attemptAcquire, previewAcquire} from '../../../src/lib/insight/why/attempt.js'
import type {RateLimiterOptions} from '../../../src/lib/limiter/request/options.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {request} from '../../limiter/visit.js'

describeOnBoth('a request that is tried once', {}, table => {
  /** A limit of five a minute, and a sleep that moves the clock. */
  const stage = async (limiterOptions: RateLimiterOptions = {}) => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=5/min')
    const sleep = async (ms: number) => {
      scene.nowMs += ms
    }
    const limiter = scene.limiter({sleep, ...limiterOptions})
    const tryIt = (rpm: number, waitMs = 0) => attemptAcquire(limiter, {...request({rpm}), waitMs})
    const preview = (rpm: number) => previewAcquire(limiter, request({rpm}))
    return {scene, limiter, tryIt, preview}
  }

  it('keeps its charge and returns the balance', async () => {
    const {scene, tryIt} = await stage()
    expect(await tryIt(2)).toMatchObject({
      admitted: true,
      isMetered: true,
      parents: [],
      waitedMs: 0,
      retryAfterMs: 0,
      statuses: [{name: 'rpm', requested: 2, available: 3, exceeded: false}],
    })
    // The charge exceeds the remaining balance, which is not a refusal.
    expect(await tryIt(3)).toMatchObject({admitted: true, statuses: [{available: 0, exceeded: false, retryAfterMs: 0}]})
    expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 0, consumed: 5})
  })

  it('is refused with the time to wait, and waits on request', async () => {
    const {tryIt} = await stage()
    await tryIt(5)
    const refused = await tryIt(1)
    expect(refused).toMatchObject({admitted: false, waitedMs: 0, statuses: [{exceeded: true}]})
    const {retryAfterMs} = refused
    expect(await tryIt(1, retryAfterMs ?? 0)).toMatchObject({admitted: true, waitedMs: retryAfterMs})
  })

  it('charges nothing in a dry run, and names amounts that never fit', async () => {
    const {scene, limiter, tryIt, preview} = await stage()
    expect(await preview(5)).toMatchObject({admitted: true, statuses: [{available: 5}]})
    expect(await scene.shards('user-1', 'gpt-4')).toEqual([])
    await tryIt(5)
    expect(await preview(1)).toMatchObject({admitted: false, statuses: [{exceeded: true}]})
    for (const attempt of [previewAcquire, attemptAcquire]) {
      const tooLarge = attempt(limiter, request({rpm: 6}))
      await expect(tooLarge).rejects.toMatchObject({code: 'request.too-large', kind: 'usage'})
      const unknown = attempt(scene.limiter({strict: true}), request({rpx: 1}))
      await expect(unknown).rejects.toMatchObject({code: 'limit.unknown', kind: 'usage'})
    }
  })

  it('names the parent that was also charged', async () => {
    const {scene, tryIt, preview} = await stage()
    await scene.entity('team-1')
    await scene.entity('user-1', 'team-1')
    expect(await preview(1)).toMatchObject({parents: ['team-1']})
    expect(await tryIt(5)).toMatchObject({parents: ['team-1'], statuses: [{level: 'entity'}, {level: 'parent'}]})
  })

  it('is admitted unmetered in an outage, if the policy says so', async () => {
    const {scene, tryIt} = await stage({onUnavailable: 'allow', timeoutMs: 50})
    scene.transport = {send: () => new Promise(() => {})}
    expect(await tryIt(1)).toMatchObject({admitted: true, isMetered: false, statuses: []})
  })
})
