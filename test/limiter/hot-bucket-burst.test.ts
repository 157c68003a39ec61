import {expect, it} from 'vitest'
import {RateLimitExceeded} from '../../src/lib/limiter/errors.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, useTable} from '../helpers/table.js'

describeOnEngine('a burst after a rest', () => {
  const table = useTable()

  /** Tokens admitted at one instant, asked for one at a time by limiters in turn, after a rest at full balance. */
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

  // What is stored is used up first and the time since the last refill is credited afterwards, up to the capacity once
  // more: the overflow of the rest comes back. Bounding it costs refill writes on buckets that rest; not decided yet.
  it.fails.each([1, 3])('S1 admits no more than the capacity at once (%i limiters)', async limiters => {
    expect(await burst(limiters)).toBe(100)
  })

  it.each([1, 3])('S1 admits at most twice the capacity at once (%i limiters)', async limiters => {
    expect(await burst(limiters)).toBeLessThanOrEqual(200)
  })
})
