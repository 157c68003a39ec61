import {expect, it} from 'vitest'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {isAdmitted, request} from './visit.js'

describeOnBoth('a bucket that is full only with a carried remainder', {timeout: 60_000}, table => {
  it('S3 L7 admits with little more than one write per decision, with a slow beside a fast limit', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpd=7/day', 'rps=70/sec')
    const limiter = scene.limiter()
    await limiter.acquire(request({rpd: 1, rps: 1}))
    await limiter.acquire(request({rps: 1}))
    scene.calls.length = 0
    let decisions = 0
    // Around the instant at which the slow limit is full again: every step leaves another remainder.
    scene.nowMs += Math.floor(86_400_000 / 7) - 40_000
    for (; decisions < 80; decisions++) {
      scene.nowMs += 1001
      // More than is stored after the previous request: only a refill makes room.
      expect(await isAdmitted(limiter.acquire(request({rps: 60}))), `decision ${decisions}`).toBe(true)
    }
    const writes = scene.calls.filter(call => call === 'UpdateItem').length
    expect(writes).toBeLessThanOrEqual(1.1 * decisions)
  })
})
