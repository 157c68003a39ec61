import fc from 'fast-check'
import {expect, it} from 'vitest'
import {compactRecord} from '../../../src/lib/live/poll/reading.js'
import type {ShardedBucket} from '../../../src/lib/repository/buckets/buckets.js'
import {viewBucket} from '../../../src/lib/repository/buckets/view.js'
import {anyBucket, anyInstant, bucketOf, READ_AT_MS, shardOf} from '../support.js'

const plain = ({entity, resource, shardCount, shards}: ShardedBucket) => ({entity, resource, shardCount, shards})

it('keeps a compact bucket equal to the original at every instant (L6)', () => {
  fc.assert(
    fc.property(anyBucket, anyInstant, (bucket, nowMs) => {
      expect(plain(compactRecord(bucket))).toEqual(plain(bucket))
      expect(viewBucket(compactRecord(bucket), nowMs)).toEqual(viewBucket(bucket, nowMs))
    }),
  )
})

/** A single-shard bucket with changed fields. */
function bucketWith(change: object): ShardedBucket {
  const limits = {rpm: {capacity: 10, left: -3, consumed: 41, remainder: 5, refillPeriodMs: 7}}
  const shard = shardOf('a#b', 0, {limits, writes: 9, parent: 'team'})
  if (shard.kind !== 'bucket') throw new Error('no bucket')
  const record = {...shard.record, ...change}
  return {entity: 'a', resource: 'b', shardCount: 1, shards: [{...shard, record}]}
}

const slots = {
  limits: new Map([
    ['parallel', {capacity: 20, free: -3}],
    ['jobs', {capacity: 2, free: 1}],
  ]),
  accounts: new Map(),
}

it.each([{}, {ttlSeconds: 1_900_000_000}, {parent: undefined}, {cascade: false}, {shard: 3, shardCount: 4}, {slots}])(
  'keeps every field of a usual bucket: %o',
  change => {
    const bucket = bucketWith(change)
    const compacted = compactRecord(bucket)
    expect(compacted).not.toBe(bucket)
    expect(plain(compacted)).toEqual(plain(bucket))
  },
)

it('keeps balances beyond safe integers', () => {
  const [shard] = bucketOf('a#b', {limits: {rpm: {capacity: 10}}}).shards
  const limit = shard?.kind === 'bucket' ? shard.record.state.limits.get('rpm') : undefined
  for (const large of [{tokensMilli: 2n ** 53n + 1n}, {consumedMilli: 2n ** 60n + 1n}, {remainder: 2n ** 53n + 1n}]) {
    const bucket = bucketWith({state: {refilledAtMs: READ_AT_MS, limits: new Map([['rpm', {...limit, ...large}]])}})
    expect(plain(compactRecord(bucket))).toEqual(plain(bucket))
  }
})

it('keeps an incomplete limit of another client', () => {
  const [shard] = bucketWith({}).shards
  if (shard?.kind !== 'bucket') throw new Error('no bucket')
  const incomplete = new Map([['tpm', {tokensMilli: -5n, consumedMilli: 7n}]])
  const bucket = {...bucketWith({}), shards: [{...shard, incomplete}]}
  expect(plain(compactRecord(bucket))).toEqual(plain(bucket))
})
