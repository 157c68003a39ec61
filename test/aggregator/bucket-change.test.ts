import {describe, expect, it} from 'vitest'
import {readBucketChange} from '../../src/lib/aggregator/bucket-change.js'
import {MalformedRecord, positionOf} from '../../src/lib/aggregator/stream-event.js'
import {n, s} from '../../src/lib/schema/attribute-value.js'
import {type BucketImage, bucketImage, streamRecord} from './fixtures/stream.js'

const change = (before: BucketImage | undefined, after: BucketImage) =>
  readBucketChange(streamRecord(before && bucketImage(before), bucketImage(after)))

/** Consumption and admitted requests of a write. */
function summary(before: BucketImage | undefined, after: BucketImage) {
  const {consumedMilli, admitted} = change(before, after) ?? {}
  return {...Object.fromEntries(consumedMilli ?? []), admitted}
}

describe('consumption of a write', () => {
  it('is the difference of the counters', () => {
    expect(summary({tc: {tpm: 1000, rpm: 5000}}, {tc: {tpm: 4250, rpm: 5000}})).toEqual({tpm: 3250n, admitted: 1})
  })

  it('is the whole counter in a new bucket and for a new limit', () => {
    expect(summary(undefined, {tc: {tpm: 7000}})).toEqual({tpm: 7000n, admitted: 1})
    expect(summary({tc: {tpm: 7000}}, {tc: {tpm: 7000, rpm: 1000}})).toEqual({rpm: 1000n, admitted: 1})
  })

  it('is negative after a refund, which counts no request', () => {
    expect(summary({tc: {tpm: 9000}}, {tc: {tpm: 4000}})).toEqual({tpm: -5000n, admitted: 0})
  })

  it('is nothing when a limit is removed', () => {
    expect(summary({tc: {tpm: 9000, rpm: 3000}}, {tc: {rpm: 3000}})).toEqual({admitted: 0})
  })

  it('does not include write pressure', () => {
    expect(summary({tc: {wcu: 1000}}, {tc: {wcu: 2000}})).toEqual({admitted: 0})
  })

  it('includes limits with underscores, dashes and dots in their names', () => {
    expect(summary(undefined, {tc: {in_tc: 1000, 'a-b.c': 2000}})).toEqual({in_tc: 1000n, 'a-b.c': 2000n, admitted: 1})
  })

  it('is exact beyond 2^53', () => {
    const before = 9_007_199_254_740_993n
    expect(summary({tc: {tpm: before}}, {tc: {tpm: before + 1n}})).toEqual({tpm: 1n, admitted: 1})
  })

  it('is not read from a removed bucket or from another kind of record', () => {
    expect(readBucketChange(streamRecord(bucketImage({tc: {tpm: 5000}}), undefined))).toBeUndefined()
    const entity = {PK: s('ns/ENTITY#user-1'), SK: s('#META')}
    expect(readBucketChange(streamRecord(undefined, entity))).toBeUndefined()
    const legacy = {PK: s('ns/ENTITY#user-1'), SK: s('#BUCKET#gpt-4'), b_tpm_tc: n(1000)}
    expect(readBucketChange(streamRecord(undefined, legacy))).toBeUndefined()
  })
})

describe('admitted requests of a write', () => {
  it.each<[string, BucketImage | undefined, BucketImage, number]>([
    ['as the client counts', {tc: {tpm: 1000}, rq: 3}, {tc: {tpm: 9000}, rq: 8}, 5],
    ['as the client counts for the first time', {tc: {tpm: 1000}}, {tc: {tpm: 9000}, rq: 2}, 2],
    ['minus one that was rolled back', {tc: {tpm: 9000}, rq: 8}, {tc: {tpm: 1000}, rq: 7}, -1],
    ['one, by a client that does not count', {tc: {tpm: 1000}, rq: 8}, {tc: {tpm: 2000}, rq: 8}, 1],
    ['as a new bucket counts', undefined, {tc: {tpm: 9000}, rq: 4}, 4],
    ['one, in a new bucket without a count', undefined, {tc: {tpm: 9000}}, 1],
    ['none, in a new bucket with no consumption', undefined, {tc: {tpm: 0}}, 0],
    ['none, in a shard created by a split', undefined, {shard: 1, tc: {tpm: 0}, rq: 4}, 0],
    [
      'none, in a later settlement by a client that counts',
      {tc: {tpm: 1000}, rq: 8, more: {wn_3: s('a')}},
      {tc: {tpm: 2000}, rq: 8, more: {wn_3: s('b')}},
      0,
    ],
    [
      'none, in a shard that serves part of a request counted by another shard',
      {shard: 1, tc: {tpm: 1000}, more: {wn_8: s('a')}},
      {shard: 1, tc: {tpm: 2000}, more: {wn_8: s('b')}},
      0,
    ],
  ])('%s', (_, before, after, admitted) => {
    expect(change(before, after)?.admitted).toBe(admitted)
  })
})

describe('a record is malformed', () => {
  const image = bucketImage({tc: {tpm: 1000}})
  const record = streamRecord(image, image)

  it('when it has only one image of a change', () => {
    const without = (side: 'OldImage' | 'NewImage') => ({...record, dynamodb: {...record.dynamodb, [side]: undefined}})
    expect(() => readBucketChange(without('OldImage'))).toThrow(MalformedRecord)
    expect(() => readBucketChange(without('NewImage'))).toThrow(MalformedRecord)
  })

  it('when a counter is not a number', () => {
    const broken = streamRecord(image, {...image, b_tpm_tc: {N: 'many'}})
    expect(() => readBucketChange(broken)).toThrow('not a number')
  })
})

describe('positions in the stream', () => {
  it('compare by number, whatever their length', () => {
    const at = (sequence: string) => positionOf(streamRecord(undefined, bucketImage({}), {sequence}))
    expect(at('99') < at('100')).toBe(true)
    expect(at('300000000012345678901') < at('12300000000012345678901')).toBe(true)
  })

  it('of a later stream sort after those of an earlier one', () => {
    const at = (label: string, sequence: string) =>
      positionOf(
        streamRecord(undefined, bucketImage({}), {arn: `arn:aws:dynamodb:::table/t/stream/${label}`, sequence}),
      )
    expect(at('2025-01-01T00:00:00.000', '900') < at('2026-01-01T00:00:00.000', '5')).toBe(true)
  })
})
