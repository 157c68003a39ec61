import {describe, expect, it} from 'vitest'
import type {BucketLimit} from '../../../src/lib/core/buckets/bucket.js'
import {computeCharges} from '../../../src/lib/migrate/buckets/charge.js'
import type {OldBucket, OldLimit} from '../../../src/lib/migrate/buckets/old-bucket.js'
import {bucketMarksOf} from '../../../src/lib/migrate/records/marks.js'
import {s} from '../../../src/lib/schema/attribute-value.js'
import type {BucketRecord} from '../../../src/lib/schema/bucket-record.js'
import {
  type BucketMarks,
  encodeBucketMarks,
  type LimitMark,
  MIGRATION_MARK,
} from '../../../src/lib/schema/migration-marks.js'

const NOW = 1_700_000_000_000

/** 100 tokens, one a second. */
const rate = {capacityMilli: 100_000n, refillAmountMilli: 60_000n, refillPeriodMs: 60_000}

const state = (tokensMilli: bigint, consumedMilli: bigint): BucketLimit => ({
  ...rate,
  tokensMilli,
  consumedMilli,
  remainder: 0n,
})

const LOCATION = '/bucket'

const nothing: OldBucket = {
  limits: new Map(),
  others: new Map(),
  residue: new Map(),
  ttlSeconds: undefined,
  cascade: false,
  parent: undefined,
}

function oldBucket(tokensMilli: bigint, consumedMilli: bigint, change: Partial<OldLimit> = {}): OldBucket {
  const limit: OldLimit = {
    state: state(tokensMilli, consumedMilli),
    whole: state(tokensMilli, consumedMilli),
    refilledAtMs: NOW,
    countsConsumption: true,
    location: LOCATION,
    item: {},
    isPerLimit: false,
    ...change,
  }
  return {...nothing, limits: new Map([['rpm', limit]])}
}

function newBucket(tokensMilli: bigint, consumedMilli: bigint, refilledAtMs = NOW, shard = 0): BucketRecord {
  const limits = new Map([['rpm', state(tokensMilli, consumedMilli)]])
  const rest = {cascade: false, parent: undefined, ttlSeconds: undefined}
  return {namespace: 'ns', entity: 'e', resource: 'r', shard, shardCount: 1, ...rest, state: {refilledAtMs, limits}}
}

const charged = (consumedMilli: bigint, tokensMilli = 0n, shards = 1) => ({consumedMilli, tokensMilli, shards})

const markOf = (change: Partial<LimitMark> = {}): LimitMark => ({
  oldConsumed: 5000n,
  oldTokens: 50_000n,
  oldRefilledAtMs: NOW,
  charged: charged(0n),
  ...change,
})

const mark = (change: Partial<LimitMark> = {}, location = LOCATION): BucketMarks =>
  new Map([['rpm', new Map([[location, markOf(change)]])]])

describe('the charges between two replicas', () => {
  it("equal the other replica's consumption since the mark, and update the mark", () => {
    const {toNew, toOld, marks} = computeCharges(oldBucket(47_000n, 8000n), [newBucket(90_000n, 2000n)], mark())
    expect(toNew).toEqual(new Map([['rpm', 3000n]]))
    expect(toOld).toEqual(new Map([['rpm', 2000n]]))
    expect(marks.get('rpm')).toEqual(
      new Map([
        [LOCATION, {oldConsumed: 8000n, oldTokens: 45_000n, oldRefilledAtMs: NOW, charged: charged(2000n, 87_000n)}],
      ]),
    )
    const again = computeCharges(oldBucket(45_000n, 8000n), [newBucket(87_000n, 2000n)], marks)
    expect([again.toNew.size, again.toOld.size]).toEqual([0, 0])
  })

  it('include the consumption of all shards', () => {
    const shards = [newBucket(0n, 2000n), newBucket(0n, 500n, NOW, 1)]
    expect(computeCharges(oldBucket(50_000n, 5000n), shards, mark()).toOld.get('rpm')).toBe(2500n)
  })

  it('include refunds, when the balance shows them', () => {
    const refund = computeCharges(oldBucket(51_000n, 4000n), [newBucket(0n, 0n)], mark())
    expect(refund.toNew.get('rpm')).toBe(-1000n)
  })

  it('mint nothing when the old bucket expired and was created again: its whole count is charged', () => {
    const before = mark({oldConsumed: 900_000n, oldTokens: 50_000n})
    expect(computeCharges(oldBucket(93_000n, 7000n), [newBucket(10_000n, 0n)], before).toNew.get('rpm')).toBe(7000n)
  })

  it('are the whole count of an old bucket that holds more than the marked one could', () => {
    // 50 and one second of refill minus the 2 consumed make 49; it holds 93.
    const recreated = oldBucket(93_000n, 7000n, {refilledAtMs: NOW + 1000})
    expect(computeCharges(recreated, [newBucket(10_000n, 0n)], mark()).toNew.get('rpm')).toBe(7000n)
    // It has consumed more than a new one could have, so it is the same bucket, whatever undid our charge.
    const longLived = oldBucket(93_000n, 902_000n, {refilledAtMs: NOW + 1000})
    const before = mark({oldConsumed: 900_000n})
    expect(computeCharges(longLived, [newBucket(10_000n, 0n)], before).toNew.get('rpm')).toBe(2000n)
  })

  it('refund nothing for a lower count after the old bucket had time to expire', () => {
    const before = mark({oldConsumed: 20_000n})
    const recreated = oldBucket(93_000n, 7000n, {refilledAtMs: NOW + 600_000})
    expect(computeCharges(recreated, [newBucket(10_000n, 0n)], before).toNew.get('rpm')).toBe(7000n)
  })

  it('refund tokens of the new bucket to the old one, up to its capacity', () => {
    const marked = (oldTokens: bigint) => mark({oldTokens, charged: charged(80_000n, 10_000n)})
    const refunded = [newBucket(15_000n, 75_000n)]
    expect(computeCharges(oldBucket(50_000n, 5000n), refunded, marked(50_000n)).toOld.get('rpm')).toBe(-5000n)
    expect(computeCharges(oldBucket(99_000n, 5000n), refunded, marked(99_000n)).toOld.get('rpm')).toBe(-1000n)
  })

  it('mint nothing for the old bucket when a counter of the new one was reset, or a shard expired', () => {
    const recreated = computeCharges(
      oldBucket(50_000n, 5000n),
      [newBucket(30_000n, 0n)],
      mark({charged: charged(80_000n, 10_000n)}),
    )
    expect(recreated.toOld.get('rpm')).toBe(70_000n)
    const before = mark({charged: charged(80_000n, 50_000n, 2)})
    const left = {...newBucket(20_000n, 30_000n), shardCount: 2}
    // Half of the bucket is left, and 30 of its 50 are missing.
    expect(computeCharges(oldBucket(50_000n, 5000n), [left], before).toOld.get('rpm')).toBe(30_000n)
    // Its own count rose by 60; compared with the sum that includes the expired shard it seems to be 10.
    const busy = {...newBucket(20_000n, 90_000n), shardCount: 2}
    expect(computeCharges(oldBucket(50_000n, 5000n), [busy], before).toOld.get('rpm')).toBe(30_000n)
  })

  it('are the missing tokens of the new bucket for an unknown old one, not its total consumption', () => {
    // Created full just now, one token consumed; the new one has 60 of its 100 after an idle minute.
    const old = oldBucket(99_000n, 1000n, {refilledAtMs: NOW + 60_000})
    const long = newBucket(0n, 5_000_000n)
    expect(computeCharges(old, [long], new Map()).toOld.get('rpm')).toBe(40_000n)
    expect(computeCharges(old, [newBucket(90_000n, 5_000_000n)], new Map()).toOld.size).toBe(0)
  })

  it('compare each location with its own mark, and a location that appears later with none', () => {
    const last = oldBucket(47_000n, 8000n).limits.get('rpm') as OldLimit
    const other: OldLimit = {...last, location: '/limits', state: state(90_000n, 600n), refilledAtMs: NOW - 5000}
    const old: OldBucket = {...nothing, limits: new Map([['rpm', last]]), others: new Map([['rpm', [other]]])}
    const both = new Map([
      [
        'rpm',
        new Map([
          [LOCATION, markOf()],
          ['/limits', markOf({oldConsumed: 100n, oldTokens: 90_500n, oldRefilledAtMs: NOW - 5000})],
        ]),
      ],
    ])
    expect(computeCharges(old, [newBucket(0n, 0n)], both).toNew.get('rpm')).toBe(3000n + 500n)
    // It was created since, and at the refill instant of the new one it lacks five.
    expect(computeCharges(old, [newBucket(0n, 0n)], mark()).toNew.get('rpm')).toBe(3000n + 5000n)
    // In a first comparison the one used last determines the balance.
    expect(computeCharges(old, [newBucket(100_000n, 0n)], new Map()).toNew.get('rpm')).toBe(53_000n)
    const {marks} = computeCharges(old, [newBucket(100_000n, 0n)], new Map())
    expect([...(marks.get('rpm')?.keys() ?? [])]).toEqual([LOCATION, '/limits'])
  })

  it('include the remains of an adjusted bucket once, and then only additions', () => {
    const rest = (tokensMilli: bigint): OldBucket => ({
      ...nothing,
      residue: new Map([['rpm', [{location: '/bucket/rest', tokensMilli}]]]),
    })
    const first = computeCharges(rest(-4000n), [newBucket(0n, 0n)], new Map())
    expect([first.toNew.get('rpm'), first.toOld.size]).toEqual([4000n, 0])
    expect(computeCharges(rest(-4000n), [newBucket(0n, 0n)], first.marks).toNew.size).toBe(0)
    expect(computeCharges(rest(-3000n), [newBucket(0n, 0n)], first.marks).toNew.get('rpm')).toBe(-1000n)
    // The mark of a bucket in the same location does not apply to the remains of another.
    expect(computeCharges(rest(-4000n), [newBucket(0n, 0n)], mark()).toNew.get('rpm')).toBe(4000n)
  })

  it('are computed from balance and time if the old item does not count, and it is not charged', () => {
    const uncounted = oldBucket(52_000n, 0n, {countsConsumption: false, refilledAtMs: NOW + 5000})
    const {toNew, toOld} = computeCharges(uncounted, [newBucket(0n, 9000n)], mark({oldConsumed: undefined}))
    // 50 and 5 seconds of refill make 55; it holds 52.
    expect(toNew.get('rpm')).toBe(3000n)
    expect(toOld.size).toBe(0)
    const grown = oldBucket(60_000n, 0n, {countsConsumption: false})
    expect(computeCharges(grown, [newBucket(0n, 0n)], mark({oldConsumed: undefined})).toNew.size).toBe(0)
  })

  it('are the missing tokens of the old bucket at the moment when a client created the new one, full', () => {
    // Created 20 s after the last refill of the old one, which held 30: 50 by then, so 50 are missing.
    const old = oldBucket(30_000n, 0n)
    const justMade = newBucket(95_000n, 5000n, NOW + 20_000)
    expect(computeCharges(old, [justMade], new Map())).toMatchObject({
      toNew: new Map([['rpm', 50_000n]]),
      dependsOnRefill: true,
    })
    // Ten seconds later it has earned 10 of what it consumed; the moment of its creation is the same.
    const later = newBucket(85_000n, 25_000n, NOW + 30_000)
    expect(computeCharges(old, [later], new Map()).toNew.get('rpm')).toBe(50_000n)
    // An old bucket that was full by then lacked nothing, however much the new one has earned since.
    const idle = oldBucket(30_000n, 0n, {refilledAtMs: NOW - 1_000_000})
    expect(computeCharges(idle, [newBucket(90_000n, 400_000n, NOW)], new Map()).toNew.size).toBe(0)
  })

  it('leave out limits that the new bucket does not have', () => {
    const {toNew, toOld, marks} = computeCharges(oldBucket(1n, 5n), [], new Map())
    expect([toNew.size, toOld.size, marks.size]).toEqual([0, 0, 0])
  })

  it('are marked in text that decodes to the same value', () => {
    const marks: BucketMarks = new Map([
      ...mark({charged: charged(10n ** 17n, -(10n ** 18n), 8)}),
      [
        'in_tokens.per-min',
        new Map([
          ['/bucket', markOf({oldConsumed: undefined, oldTokens: -(10n ** 18n), charged: undefined})],
          ['/limits', markOf()],
        ]),
      ],
    ])
    expect(bucketMarksOf({[MIGRATION_MARK]: s(encodeBucketMarks(marks))})).toEqual(marks)
    expect(bucketMarksOf({}).size).toBe(0)
  })
})
