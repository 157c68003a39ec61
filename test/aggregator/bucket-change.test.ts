import {describe, expect, it} from 'vitest'
import {readBucketChange} from '../../src/lib/aggregator/bucket-change.js'
import {MalformedRecord, positionOf} from '../../src/lib/aggregator/stream-event.js'
import {n, s} from '../../src/lib/schema/attribute-value.js'
import {type BucketImage, bucketImage, streamRecord} from './fixtures/stream.js'

const change = (before: BucketImage | undefined, after: BucketImage) =>
  readBucketChange(streamRecord(before && bucketImage(before), bucketImage(after)))

/** What a write consumed and how many requests it admitted. */
function summary(before: BucketImage | undefined, after: BucketImage) {
  const {consumedMilli, admitted} = change(before, after) ?? {}
  return {...Object.fromEntries(consumedMilli ?? []), admitted}
}

describe('what a write consumed', () => {
  it('is the change of the counters', () => {
    expect(summary({tc: {tpm: 1000, rpm: 5000}}, {tc: {tpm: 4250, rpm: 5000}})).toEqual({tpm: 3250n, admitted: 1})
  })

  it('is everything in a new bucket, and in a limit that was not there before', () => {
    expect(summary(undefined, {tc: {tpm: 7000}})).toEqual({tpm: 7000n, admitted: 1})
    expect(summary({tc: {tpm: 7000}}, {tc: {tpm: 7000, rpm: 1000}})).toEqual({rpm: 1000n, admitted: 1})
  })

  it('is negative for what is given back, and counts no request', () => {
    expect(summary({tc: {tpm: 9000}}, {tc: {tpm: 4000}})).toEqual({tpm: -5000n, admitted: 0})
  })

  it('is nothing when a limit goes away', () => {
    expect(summary({tc: {tpm: 9000, rpm: 3000}}, {tc: {rpm: 3000}})).toEqual({admitted: 0})
  })

  it('leaves write pressure out', () => {
    expect(summary({tc: {wcu: 1000}}, {tc: {wcu: 2000}})).toEqual({admitted: 0})
  })

  it('reads limits with underscores, dashes and dots in their names', () => {
    expect(summary(undefined, {tc: {in_tc: 1000, 'a-b.c': 2000}})).toEqual({in_tc: 1000n, 'a-b.c': 2000n, admitted: 1})
  })

  it('is exact beyond 2^53', () => {
    const before = 9_007_199_254_740_993n
    expect(summary({tc: {tpm: before}}, {tc: {tpm: before + 1n}})).toEqual({tpm: 1n, admitted: 1})
  })

  it('is told neither of a bucket that goes nor of another record', () => {
    expect(readBucketChange(streamRecord(bucketImage({tc: {tpm: 5000}}), undefined))).toBeUndefined()
    const entity = {PK: s('ns/ENTITY#user-1'), SK: s('#META')}
    expect(readBucketChange(streamRecord(undefined, entity))).toBeUndefined()
    const legacy = {PK: s('ns/ENTITY#user-1'), SK: s('#BUCKET#gpt-4'), b_tpm_tc: n(1000)}
    expect(readBucketChange(streamRecord(undefined, legacy))).toBeUndefined()
  })
})

describe('how many requests a write admitted', () => {
  it.each<[string, BucketImage | undefined, BucketImage, number]>([
    ['as its client says', {tc: {tpm: 1000}, rq: 3}, {tc: {tpm: 9000}, rq: 8}, 5],
    ['as its client says for the first time', {tc: {tpm: 1000}}, {tc: {tpm: 9000}, rq: 2}, 2],
    ['less one that never went through', {tc: {tpm: 9000}, rq: 8}, {tc: {tpm: 1000}, rq: 7}, -1],
    ['one, by a client that does not say', {tc: {tpm: 1000}, rq: 8}, {tc: {tpm: 2000}, rq: 8}, 1],
    ['as a new bucket says', undefined, {tc: {tpm: 9000}, rq: 4}, 4],
    ['one, in a new bucket that does not say', undefined, {tc: {tpm: 9000}}, 1],
    ['none, in a new bucket of which nothing was taken', undefined, {tc: {tpm: 0}}, 0],
    ['none, in a shard that was born of others', undefined, {shard: 1, tc: {tpm: 0}, rq: 4}, 0],
    [
      'none, in a charge after the fact by a client that says',
      {tc: {tpm: 1000}, rq: 8, more: {wn_3: s('a')}},
      {tc: {tpm: 2000}, rq: 8, more: {wn_3: s('b')}},
      0,
    ],
    [
      'none, in a shard that serves a part of a request which another shard counts',
      {shard: 1, tc: {tpm: 1000}, more: {wn_3: s('a')}},
      {shard: 1, tc: {tpm: 2000}, more: {wn_3: s('b')}},
      0,
    ],
  ])('%s', (_, before, after, admitted) => {
    expect(change(before, after)?.admitted).toBe(admitted)
  })
})

describe('a record that cannot be read', () => {
  const image = bucketImage({tc: {tpm: 1000}})
  const record = streamRecord(image, image)

  it('shows only one side of a change', () => {
    const without = (side: 'OldImage' | 'NewImage') => ({...record, dynamodb: {...record.dynamodb, [side]: undefined}})
    expect(() => readBucketChange(without('OldImage'))).toThrow(MalformedRecord)
    expect(() => readBucketChange(without('NewImage'))).toThrow(MalformedRecord)
  })

  it('has a counter that is no number', () => {
    const broken = streamRecord(image, {...image, b_tpm_tc: {N: 'many'}})
    expect(() => readBucketChange(broken)).toThrow('not a number')
  })
})

describe('positions in the stream', () => {
  it('compare by number, not by length', () => {
    const at = (sequence: string) => positionOf(streamRecord(undefined, bucketImage({}), {sequence}))
    expect(at('99') < at('100')).toBe(true)
    expect(at('300000000012345678901') < at('12300000000012345678901')).toBe(true)
  })

  it('of a later stream come after those of an earlier one', () => {
    const at = (label: string, sequence: string) =>
      positionOf(
        streamRecord(undefined, bucketImage({}), {arn: `arn:aws:dynamodb:::table/t/stream/${label}`, sequence}),
      )
    expect(at('2025-01-01T00:00:00.000', '900') < at('2026-01-01T00:00:00.000', '5')).toBe(true)
  })
})
