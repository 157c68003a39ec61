import {describe, expect, it} from 'vitest'
import {typicalRequest} from '../../src/lib/watch/typical.js'
import {bucketOf} from './support.js'

const bucket = (consumed: Readonly<Record<string, number>>, writes: number) => ({
  limits: Object.fromEntries(Object.entries(consumed).map(([name, each]) => [name, {capacity: 1000, consumed: each}])),
  writes,
})

describe('the typical request', () => {
  it('is what was consumed by the requests so far, rounded up, over all shards', () => {
    const both = bucketOf('a#b', bucket({tpm: 700, rpm: 4}, 4), bucket({tpm: 301, rpm: 6}, 6))
    expect(typicalRequest(both, 10)).toEqual([1, 101])
  })

  it('takes at least a token of every limit, also where nothing was admitted', () => {
    expect(typicalRequest(bucketOf('a#b', bucket({tpm: 0, rpm: -3}, 5)), 5)).toEqual([1, 1])
    expect(typicalRequest(bucketOf('a#b', bucket({tpm: 500}, 0)), 0)).toEqual([1])
    expect(typicalRequest(bucketOf('a#b', bucket({tpm: 500}, 3)), -3)).toEqual([167])
  })

  it('counts a write as a request where other clients write, who count none', () => {
    expect(typicalRequest(bucketOf('a#b', bucket({tpm: 1000}, 10)), 0)).toEqual([100])
    expect(typicalRequest(bucketOf('a#b', bucket({tpm: 1000}, 10)), 4)).toEqual([100])
    // A request and its correction.
    expect(typicalRequest(bucketOf('a#b', bucket({tpm: 1000}, 10)), 5)).toEqual([200])
  })
})
