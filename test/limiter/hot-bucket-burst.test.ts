import {expect, it} from 'vitest'
import {RateLimitExceeded} from '../../src/lib/limiter/refusal/errors.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'

describeOnBoth('a burst after a pause', {}, table => {
  /** Tokens admitted at one instant, one at a time by limiters in turn, after a pause at full balance. */
  async function burst(limiters: number): Promise<number> {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=100/20sec')
    const processes = Array.from({length: limiters}, () => scene.limiter())
    const acquire = (index: number) =>
      processes[index % limiters]?.acquire({entity: 'user-1', resource: 'gpt-4', consume: {tpm: 1}})
    // Twice, so that every process has compared the limits with the configuration.
    for (let index = 0; index < 2 * limiters; index++) await acquire(index)
    scene.nowMs += 20_000
    let admitted = 0
    for (let index = 0; index < 400; index++) {
      try {
        await acquire(index)
        admitted++
      } catch (error) {
        if (!(error instanceof RateLimitExceeded)) throw error
        break
      }
    }
    return admitted
  }

  it.each([1, 3])('S1 admits no more than the capacity at once (%i limiters)', async limiters => {
    expect(await burst(limiters)).toBe(100)
  })

  it('S1 gives no more to a process that meets the full bucket for the first time', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=100/20sec')
    const request = {entity: 'user-1', resource: 'gpt-4', consume: {tpm: 60}}
    await scene.limiter().acquire(request)
    scene.nowMs += 20_000
    const newcomer = scene.limiter()
    await newcomer.acquire({...request, consume: {tpm: 40}})
    // The answer does not wait for the write that removes the overflow; close does.
    await newcomer.settled()
    await scene.limiter().acquire(request)
    await expect(scene.limiter().acquire({...request, consume: {tpm: 1}})).rejects.toThrow(RateLimitExceeded)
  })

  it('S1 keeps a late charge on a bucket that has filled up', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=100/20sec')
    const limiter = scene.limiter()
    const lease = await limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {tpm: 1}})
    scene.nowMs += 60_000
    await lease.adjust({tpm: 70})
    expect(await limiter.available({entity: 'user-1', resource: 'gpt-4'})).toEqual({tpm: 30})
  })
})
