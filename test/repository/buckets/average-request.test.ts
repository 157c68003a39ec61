import {describe, expect, it} from 'vitest'
import type {ShardedBucket} from '../../../src/lib/repository/buckets/buckets.js'
import {averageRequest} from '../../../src/lib/repository/buckets/view.js'
import {bucketOf} from '../../live/support.js'

const average = (sharded: ShardedBucket, admitted: number) =>
  Object.fromEntries(averageRequest(sharded, admitted) ?? [['none', 0]])

const bucket = (consumed: Readonly<Record<string, number>>, writes: number) => ({
  limits: Object.fromEntries(Object.entries(consumed).map(([name, each]) => [name, {capacity: 1000, consumed: each}])),
  writes,
})

describe('the average request of a bucket', () => {
  it('is the consumption per request so far, rounded up, over all shards', () => {
    const both = bucketOf('a#b', bucket({tpm: 700, rpm: 4}, 4), bucket({tpm: 301, rpm: 6}, 6))
    expect(average(both, 10)).toEqual({rpm: 1, tpm: 101})
  })

  it('takes at least one token of every limit, and is empty where nothing was admitted', () => {
    expect(average(bucketOf('a#b', bucket({tpm: 0, rpm: -3}, 5)), 5)).toEqual({rpm: 1, tpm: 1})
    expect(average(bucketOf('a#b', bucket({tpm: 500}, 0)), 0)).toEqual({none: 0})
    expect(average(bucketOf('a#b', bucket({tpm: 500}, 3)), -3)).toEqual({tpm: 167})
  })

  it('counts a write as a request of clients that count no requests', () => {
    expect(average(bucketOf('a#b', bucket({tpm: 1000}, 10)), 0)).toEqual({tpm: 100})
  })

  it('counts requests, not the writes that settle them', () => {
    // A request and its settlement.
    expect(average(bucketOf('a#b', bucket({tpm: 1000}, 10)), 5)).toEqual({tpm: 200})
    // Also writes that count refusals: a limit that counts requests shows that no other client has written.
    expect(average(bucketOf('a#b', bucket({rpm: 4, tpm: 600}, 10)), 4)).toEqual({rpm: 1, tpm: 150})
  })

  it('is unknown if other clients may have written', () => {
    expect(average(bucketOf('a#b', bucket({tpm: 1000}, 10)), 4)).toEqual({none: 0})
    expect(average(bucketOf('a#b', bucket({rpm: 10, tpm: 1000}, 10)), 4)).toEqual({none: 0})
  })

  it('is sorted by name, as levels are', () => {
    const keys = averageRequest(bucketOf('a#b', bucket({tpm: 5, rpm: 5, b: 5, aa: 5}, 5)), 5)?.keys()
    expect([...(keys ?? [])]).toEqual(['aa', 'b', 'rpm', 'tpm'])
  })
})
