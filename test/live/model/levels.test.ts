import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {kindedRateOf} from '../../../src/lib/core/calendar/kind-definition.js'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {levelsAt} from '../../../src/lib/live/model/levels.js'
import {compactRecord} from '../../../src/lib/live/poll/reading.js'
import {type LimitLevel, viewBucket} from '../../../src/lib/repository/buckets/view.js'
import {anyBucket, anyInstant, bucketOf, READ_AT_MS} from '../support.js'

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

  it('follow the calendar of quotas and schedules: a reset that is due, and the rate in force', () => {
    const plain = bucketOf('a#b', {limits: {q: {capacity: 10, left: 1}, r: {capacity: 10, left: 2}}})
    const [stored] = plain.shards
    if (stored?.kind !== 'bucket') throw new Error('no bucket')
    const {state} = stored.record
    const kinds = {
      q: parseLimit('q=10/day@UTC'),
      r: parseLimit('r=10/sec,x0.5@"* * * * *"'),
    }
    const limits = new Map(
      [...state.limits].map(([name, limit]) => {
        const kinded = kinds[name as keyof typeof kinds]
        return [name, kinded ? {...limit, ...kindedRateOf(kinded, READ_AT_MS)} : limit]
      }),
    )
    const record = {...stored.record, state: {...state, limits}}
    const bucket = compactRecord({...plain, shards: [{...stored, record}]})
    const levels = (nowMs: number) => levelsAt(bucket, nowMs).map(({level, capacity}) => [level, capacity])
    expect(levels(READ_AT_MS)).toEqual([
      [1, 10],
      [2, 5],
    ])
    expect(levels(READ_AT_MS + 86_400_000)).toEqual([
      [10, 10],
      [5, 5],
    ])
  })
})
