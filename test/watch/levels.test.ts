import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {type LimitLevel, viewBucket} from '../../src/lib/repository/buckets/view.js'
import {levelsAt} from '../../src/lib/watch/levels.js'
import {anyBucket, anyInstant, bucketOf, READ_AT_MS} from './support.js'

/** In thousandths, the stored unit; sums of fractions may differ beyond that. */
const inMilli = (limits: readonly LimitLevel[]) =>
  limits.map(({name, level, capacity, debt}) => [name, ...[level, capacity, debt].map(each => Math.round(each * 1000))])

describe('levels', () => {
  it('L6 equal those of the repository, for any bucket and instant', () => {
    fc.assert(
      fc.property(anyBucket, anyInstant, anyInstant, (bucket, one, other) => {
        for (const nowMs of [one, other, READ_AT_MS]) {
          const levels = levelsAt(bucket, nowMs)
          const {limits} = viewBucket(bucket, nowMs)
          expect(inMilli(levels)).toEqual(inMilli(limits))
          for (const [at, {refillPerSecond}] of limits.entries()) {
            expect(levels[at]?.refillPerSecond).toBeCloseTo(refillPerSecond, 5)
          }
        }
      }),
      {numRuns: 200},
    )
  })

  it('are exact to the millisecond in which a bucket fills up', () => {
    const bucket = bucketOf('a#b', {limits: {rpm: {capacity: 10, refillPerSecond: 3, left: 1}}})
    for (let elapsed = -2; elapsed < 3100; elapsed++) {
      const nowMs = READ_AT_MS + elapsed
      expect(levelsAt(bucket, nowMs)[0]?.level).toBe(viewBucket(bucket, nowMs).limits[0]?.level)
    }
  })

  it('are exact beyond safe integers', () => {
    const rpm = {capacity: 9_000_000_000_000, refillPerSecond: 9_000_000_000.001, refillPeriodMs: 7, left: 0}
    const bucket = bucketOf('a#b', {limits: {rpm}})
    for (let elapsed = 2900; elapsed < 3100; elapsed++) {
      const nowMs = READ_AT_MS + elapsed
      expect(levelsAt(bucket, nowMs)[0]?.level).toBe(viewBucket(bucket, nowMs).shards[0]?.limits[0]?.level)
    }
  })

  it('keep a balance above a lowered capacity until time passes', () => {
    const bucket = bucketOf('a#b', {limits: {rpm: {capacity: 10, left: 15}}})
    expect(levelsAt(bucket, READ_AT_MS)[0]?.level).toBe(15)
    expect(levelsAt(bucket, READ_AT_MS + 1)[0]?.level).toBe(10)
  })
})
