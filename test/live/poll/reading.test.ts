import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {SAMPLES} from '../../../src/lib/live/model/model.js'
import {nextReading} from '../../../src/lib/live/poll/reading.js'
import {anyBucket, bucketOf, READ_AT_MS, type ShardSketch, shardOf} from '../support.js'

const rpm = (consumed: number, rest: Partial<ShardSketch> = {}): ShardSketch => ({
  limits: {rpm: {capacity: 1000, consumed}},
  ...rest,
})

/** The reading of a bucket after two reads, two seconds apart. */
function rateOf(before: readonly ShardSketch[], after: readonly ShardSketch[], elapsedMs = 2000) {
  const first = nextReading(undefined, bucketOf('a#b', ...before), READ_AT_MS)
  return nextReading(first, bucketOf('a#b', ...after), READ_AT_MS + elapsedMs)
}

describe('a reading', () => {
  it('has no rate at first; then the consumption since the previous one', () => {
    const first = nextReading(undefined, bucketOf('a#b', rpm(500)), READ_AT_MS)
    expect(first).toMatchObject({id: 'a#b', writePressure: 0, isGone: false, readAtMs: READ_AT_MS})
    expect([...first.ratePerSecond]).toEqual([])
    expect([...rateOf([rpm(500)], [rpm(540)]).ratePerSecond]).toEqual([['rpm', 20]])
    expect([...rateOf([rpm(500)], [rpm(500)]).ratePerSecond]).toEqual([['rpm', 0]])
  })

  it('shares equal parts with other readings: lists of figures, the parent, counts of one read', () => {
    const of = (id: string, sketch: ShardSketch, atMs = READ_AT_MS) =>
      nextReading(undefined, bucketOf(id, sketch), atMs)
    const [a, b] = [of('a#b', rpm(500)), of('c#b', rpm(500))]
    expect([b.used, b.typical, b.requests]).toEqual([a.used, a.typical, a.requests])
    expect(b.used).toBe(a.used)
    expect(b.requests).toBe(a.requests)
    expect(of('c#b', rpm(500), READ_AT_MS + 1).requests.samples).toEqual([
      {sinceMs: READ_AT_MS + 1, untilMs: READ_AT_MS + 1, own: 0, byParent: 0},
    ])
    // Without a usable limit there is one sample without a value, and no list of typical amounts.
    const without = of('d#b', {limits: {}})
    expect([without.used, without.typical]).toEqual([[null], []])
    expect([of('e#b', {limits: {}}).used, of('e#b', {limits: {}}).typical]).toEqual([[null], []])
  })

  it('has a negative rate after a refund', () => {
    expect(rateOf([rpm(500, {writes: 5})], [rpm(480, {writes: 6})]).ratePerSecond.get('rpm')).toBe(-10)
  })

  it('adds up shards, and counts those of a split from zero', () => {
    expect(rateOf([rpm(100), rpm(200)], [rpm(110), rpm(230)]).ratePerSecond.get('rpm')).toBe(20)
    expect(rateOf([rpm(100)], [rpm(110), rpm(30)]).ratePerSecond.get('rpm')).toBe(20)
  })

  it('does not count a shard that the previous reading missed', () => {
    const first = nextReading(
      undefined,
      {...bucketOf('a#b', rpm(100)), shardCount: 2, shards: [shardOf('a#b', 0, rpm(100, {shardCount: 2}))]},
      READ_AT_MS,
    )
    const second = nextReading(first, bucketOf('a#b', rpm(110), rpm(9000)), READ_AT_MS + 2000)
    expect(second.ratePerSecond.get('rpm')).toBe(5)
  })

  it('counts a re-created item from zero', () => {
    const later = {refilledAtMs: READ_AT_MS + 1000}
    expect(rateOf([rpm(500, {writes: 50})], [rpm(10, {writes: 1, ...later})]).ratePerSecond.get('rpm')).toBe(5)
  })

  it('ignores a stale read', () => {
    const first = nextReading(undefined, bucketOf('a#b', rpm(500, {writes: 50})), READ_AT_MS)
    const stale = bucketOf('a#b', rpm(490, {writes: 49, refilledAtMs: READ_AT_MS - 10}))
    const second = nextReading(first, stale, READ_AT_MS + 2000)
    expect(second.bucket.shards).toEqual(first.bucket.shards)
    expect(second.ratePerSecond.get('rpm')).toBe(0)
  })

  it('keeps the known rate when it follows too soon', () => {
    const second = rateOf([rpm(500)], [rpm(540)])
    const third = nextReading(second, bucketOf('a#b', rpm(541)), second.readAtMs + 100)
    expect([...third.ratePerSecond]).toEqual([['rpm', 20]])
    expect(third).toMatchObject({id: 'a#b', readAtMs: second.readAtMs + 100, isGone: false})
  })

  it('has the rate over several readings in quick succession, once they span enough time', () => {
    let reading = nextReading(undefined, bucketOf('a#b', rpm(500)), READ_AT_MS)
    for (const at of [1, 2, 3, 4]) {
      reading = nextReading(reading, bucketOf('a#b', rpm(500 + at * 2)), READ_AT_MS + at * 100)
      expect([...reading.ratePerSecond]).toEqual([])
    }
    reading = nextReading(reading, bucketOf('a#b', rpm(510)), READ_AT_MS + 500)
    expect([...reading.ratePerSecond]).toEqual([['rpm', 20]])
    // From here on, it counts from the previous reading again.
    reading = nextReading(reading, bucketOf('a#b', rpm(511)), READ_AT_MS + 1000)
    expect([...reading.ratePerSecond]).toEqual([['rpm', 2]])
  })

  it('detects a stale read by the previous reading, not by the base of the rates', () => {
    const first = nextReading(undefined, bucketOf('a#b', rpm(500, {writes: 50})), READ_AT_MS)
    const second = nextReading(first, bucketOf('a#b', rpm(520, {writes: 52})), READ_AT_MS + 100)
    const third = nextReading(second, bucketOf('a#b', rpm(510, {writes: 51})), READ_AT_MS + 1000)
    expect([...third.ratePerSecond]).toEqual([['rpm', 20]])
  })

  it('names the bucket that is charged for the same requests, if they cascade', () => {
    const [child] = bucketOf('a#b', rpm(0, {parent: 'team'})).shards
    if (child?.kind !== 'bucket') throw new Error('no bucket')
    const chargedTo = (change: object) => {
      const shards = [{...child, record: {...child.record, ...change}}]
      return nextReading(undefined, {entity: 'a', resource: 'b', shardCount: 1, shards}, READ_AT_MS).chargedTo
    }
    expect(chargedTo({})).toBe('team#b')
    expect(chargedTo({cascade: false})).toBeUndefined()
    expect(chargedTo({parent: undefined})).toBeUndefined()
  })

  it('has the write pressure of the busiest shard, in units', () => {
    const calm = rpm(0, {writes: 10})
    const {writePressure, writePressures} = rateOf([calm, calm], [rpm(0, {writes: 110}), rpm(0, {writes: 1010})])
    expect([writePressure, ...writePressures]).toEqual([0.5, [0, 0.05], [1, 0.5]])
    const names = Array.from({length: 30}, (_, at) => `limit-${at}`)
    const large = (writes: number) => ({
      writes,
      limits: Object.fromEntries(names.map(name => [name, {capacity: 1_234_567, left: 1_234_567}])),
    })
    expect(rateOf([large(0)], [large(1000)]).writePressure).toBeGreaterThan(1)
  })

  it('keeps the latest samples of the used fraction', () => {
    let reading = nextReading(undefined, bucketOf('a#b', {limits: {}}), READ_AT_MS)
    expect(reading.used).toEqual([null])
    for (let at = 1; at <= 70; at++) {
      const left = 100 - at
      const bucket = bucketOf('a#b', {limits: {rpm: {capacity: 100, left}}, refilledAtMs: READ_AT_MS + at * 1000})
      reading = nextReading(reading, bucket, READ_AT_MS + at * 1000)
    }
    expect(reading.used).toHaveLength(SAMPLES)
    expect(reading.used.at(-1)).toBeCloseTo(0.7)
    expect(reading.used[0]).toBeCloseTo(0.11)
  })

  it('has finite rates for any two buckets', () => {
    fc.assert(
      fc.property(anyBucket, anyBucket, (one, other) => {
        const first = nextReading(undefined, one, READ_AT_MS)
        const second = nextReading(first, {...other, entity: one.entity, resource: one.resource}, READ_AT_MS + 2000)
        for (const rate of second.ratePerSecond.values()) expect(Number.isFinite(rate)).toBe(true)
        expect(second.writePressure).toBeGreaterThanOrEqual(0)
      }),
    )
  })
})
