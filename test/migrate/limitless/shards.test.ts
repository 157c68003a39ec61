import {expect, it} from 'vitest'
import {readOldBucket} from '../../../src/lib/migrate/buckets/old-bucket.js'
import {limitsInBucket} from '../../../src/lib/migrate/limitless/tally.js'
import {encodeBucket} from '../../../src/lib/schema/bucket-record.js'

it('computes the limits of an old bucket over all shards, also when some have expired', () => {
  const rate = {capacityMilli: 1_001_000n, refillAmountMilli: 1_001_000n, refillPeriodMs: 60_000}
  const limits = new Map([['rpm', {...rate, tokensMilli: 0n, consumedMilli: 0n, remainder: 0n}]])
  const identity = {namespace: 'default', entity: 'wide', resource: 'gpt-4', shard: 1}
  const rest = {shardCount: 4, cascade: false, parent: undefined, ttlSeconds: undefined}
  const item = encodeBucket({...identity, ...rest, state: {refilledAtMs: 1_000, limits}})
  const record = {kind: 'old', generation: 5, type: 'bucket', limit: undefined, ...identity} as const
  const bucket = readOldBucket([{item, record}], 2_000)
  if (typeof bucket === 'string') throw new Error(bucket)
  expect(bucket.limits.get('rpm')?.state.capacityMilli).toBeLessThan(rate.capacityMilli)
  const whole = [...bucket.limits].map(([name, limit]) => [name, limit.whole] as const)
  expect(limitsInBucket(identity, whole)).toEqual([
    {name: 'rpm', capacity: 1_001, refillAmount: 1_001, refillPeriodSeconds: 60},
  ])
})
