import {beforeEach, expect, it} from 'vitest'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {refusal, request} from './visit.js'

/** The bucket is not known yet: the wait must not use a predicted balance or instant. */
describeOnBoth('L2 retry-after after a first request', {}, table => {
  let scene: Scene

  beforeEach(async () => {
    scene = new Scene(table)
    // A token takes 8571.43 ms: the wait has a fraction to round.
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=7/min:20')
  })

  async function refused(asked: Promise<unknown>): Promise<number> {
    return (await refusal(asked)).retryAfterMs
  }

  it('is exact for the first request of a process', async () => {
    await scene.limiter().acquire(request({rpm: 20}))
    scene.nowMs += 4321
    const limiter = scene.limiter()
    const waitMs = await refused(limiter.acquire(request({rpm: 9})))
    scene.nowMs += waitMs - 2
    await refused(scene.limiter().acquire(request({rpm: 9})))
    scene.nowMs += 2
    await limiter.acquire(request({rpm: 9}))
  })

  it('is not too short for a request that meets the first one of a bucket', async () => {
    const limiter = scene.limiter()
    const first = limiter.acquire(request({rpm: 15}))
    const waitMs = await refused(limiter.acquire(request({rpm: 12})))
    await first
    scene.nowMs += waitMs - 2
    await refused(scene.limiter().acquire(request({rpm: 12})))
    scene.nowMs += 2
    await limiter.acquire(request({rpm: 12}))
  })

  it('is not too short for a second request after an admission', async () => {
    await scene.limiter().acquire(request({rpm: 12}))
    scene.nowMs += 9999
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 8}))
    const waitMs = await refused(limiter.acquire(request({rpm: 6})))
    scene.nowMs += waitMs - 2
    await refused(scene.limiter().acquire(request({rpm: 6})))
    scene.nowMs += 2
    await scene.limiter().acquire(request({rpm: 6}))
  })

  it("includes the parent's wait if the bucket does not exist and cannot be created yet (seed 1200867)", async () => {
    // A tenth in this minute, 22:13: three tokens fit no bucket before it ends.
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=15/min:13,x0.1@"13 22 * * *"')
    await scene.entity('team')
    await scene.entity('user-1', 'team')
    // Ten seconds before: too little to refill the tokens taken here.
    scene.nowMs += 30_000
    await scene.limiter().acquire(request({rpm: 1}, 'team'))
    const waitMs = await refused(scene.limiter().acquire(request({rpm: 3})))
    scene.nowMs += waitMs
    expect(await scene.limiter().acquire(request({rpm: 3}))).toMatchObject({parent: 'team'})
  })
})
