import {describe, expect, it} from 'vitest'
import {
  isBeingRefused,
  nextRequestCounts,
  type RequestCounts,
  refusedPerSecond,
} from '../../../src/lib/live/model/request-counts.js'
import type {BucketCounts} from '../../../src/lib/schema/refusal-counts.js'
import {READ_AT_MS, shardOf} from '../support.js'

const NONE: BucketCounts = {requests: 0, refused: 0, refusedByParent: 0, lastRefusedAtMs: 0}

const shard = (number: number, counts: Partial<BucketCounts>) => ({
  ...shardOf('a#b', number, {limits: {}}),
  counts: {...NONE, ...counts},
})

/** The counts after readings of one shard: seconds since the first, and its refusals so far. */
function countsAfter(...readings: readonly (readonly [second: number, refused: number])[]): RequestCounts {
  const [first, ...rest] = readings.map(([second, refused]) => {
    const atMs = READ_AT_MS + second * 1000
    return {shards: [shard(0, {refused, lastRefusedAtMs: refused > 0 ? atMs : 0})], atMs}
  })
  if (!first) throw new Error('no reading')
  return rest.reduce(
    (counts, {shards, atMs}) => nextRequestCounts(counts, shards, atMs),
    nextRequestCounts(undefined, first.shards, first.atMs),
  )
}

describe('the requests of a bucket', () => {
  it('add up over all shards', () => {
    const shards = [
      shard(0, {requests: 5, refused: 2, lastRefusedAtMs: 7}),
      shard(1, {requests: 1, refusedByParent: 4, accounts: new Map([['org#models', 3]]), lastRefusedAtMs: 9}),
    ]
    expect(nextRequestCounts(undefined, shards, READ_AT_MS)).toMatchObject({
      admitted: 6,
      refused: 2,
      refusedByParent: 4,
      accounts: new Map([['org#models', 3]]),
      lastRefusedAtMs: 9,
      refusedPerSecond: undefined,
    })
  })

  it('have a rate of refusals from the second reading on, never one that is too high', () => {
    expect(refusedPerSecond(countsAfter([0, 500]))).toBeNull()
    expect(refusedPerSecond(countsAfter([0, 500], [2, 500]))).toBe(0)
    // A limiter writes its refusals every ten seconds, all at once.
    expect(refusedPerSecond(countsAfter([0, 500], [2, 600]))).toBe(10)
    expect(refusedPerSecond(countsAfter([0, 0], [60, 600]))).toBe(10)
  })

  it('keep the rate between two writes of a limiter that only refuses, and not for longer', () => {
    const readings = [2, 4, 6, 8, 10, 12].map(second => [second, 100] as const)
    const rates = readings.map((_, at) => refusedPerSecond(countsAfter([0, 0], ...readings.slice(0, at + 1))))
    expect(rates).toEqual([10, 10, 10, 10, 10, 0])
    expect(refusedPerSecond(countsAfter([0, 0], ...readings.slice(0, -1), [12, 200], [14, 200]))).toBe(10)
  })

  it('distinguish refusals of the parent from those of the bucket', () => {
    const first = nextRequestCounts(undefined, [shard(0, {refused: 1})], READ_AT_MS)
    const second = nextRequestCounts(first, [shard(0, {refused: 11, refusedByParent: 30})], READ_AT_MS + 2000)
    expect(second.refusedPerSecond).toEqual({own: 1, byParent: 3})
    expect(refusedPerSecond(second)).toBe(4)
  })

  it('do not count the initial state of a new shard, and count a re-created item from zero', () => {
    const refused = {refused: 70, lastRefusedAtMs: READ_AT_MS}
    const first = nextRequestCounts(undefined, [shard(0, refused)], READ_AT_MS)
    const split = nextRequestCounts(first, [shard(0, refused), shard(1, refused)], READ_AT_MS + 2000)
    expect(refusedPerSecond(split)).toBe(0)
    const later = {refused: 20, lastRefusedAtMs: READ_AT_MS + 1000}
    expect(refusedPerSecond(nextRequestCounts(first, [shard(0, later)], READ_AT_MS + 2000))).toBe(2)
  })

  it('ignore a stale read', () => {
    const at = (refused: number, lastRefusedAtMs: number) => [shard(0, {refused, lastRefusedAtMs})]
    const first = nextRequestCounts(undefined, at(100, READ_AT_MS), READ_AT_MS)
    const stale = nextRequestCounts(first, at(60, READ_AT_MS - 500), READ_AT_MS + 2000)
    expect(stale).toMatchObject({refused: 100, refusedPerSecond: {own: 0}})
    expect(refusedPerSecond(nextRequestCounts(stale, at(100, READ_AT_MS), READ_AT_MS + 4000))).toBe(0)
  })

  it('keep their counts when a reading has none', () => {
    const first = nextRequestCounts(undefined, [shard(0, {refused: 3})], READ_AT_MS)
    expect(nextRequestCounts(first, [shardOf('a#b', 0, {limits: {}})], READ_AT_MS + 2000)).toMatchObject({refused: 3})
  })

  it('count as refused for twelve seconds, because the next refusal may be written ten seconds later', () => {
    const counts = countsAfter([0, 1])
    expect(isBeingRefused(counts, READ_AT_MS + 11_999)).toBe(true)
    expect(isBeingRefused(counts, READ_AT_MS + 12_000)).toBe(false)
    expect(isBeingRefused(countsAfter([0, 0]), READ_AT_MS)).toBe(false)
    // The client's clock is an hour ahead, so only counts between two readings are evidence.
    expect(isBeingRefused(counts, READ_AT_MS - 3_600_000)).toBe(false)
    expect(isBeingRefused(countsAfter([0, 0], [2, 5]), READ_AT_MS - 3_600_000)).toBe(true)
  })
})
