import {describe, expect, it} from 'vitest'
import type {LimitState} from '../../src/lib/core/bucket.js'
import {chargesOf} from '../../src/lib/migrations/bucket-charge.js'
import type {OldBucket, OldLimit} from '../../src/lib/migrations/old-bucket.js'
import type {BucketRecord} from '../../src/lib/schema/bucket-record.js'
import {decodeBucketMarks, encodeBucketMarks, type LimitMark} from '../../src/lib/schema/migration-marks.js'

const NOW = 1_700_000_000_000

/** 100 tokens, one a second. */
const rate = {capacityMilli: 100_000n, refillAmountMilli: 60_000n, refillPeriodMs: 60_000}

const state = (tokensMilli: bigint, consumedMilli: bigint): LimitState => ({
  ...rate,
  tokensMilli,
  consumedMilli,
  remainder: 0n,
})

function oldBucket(tokensMilli: bigint, consumedMilli: bigint, change: Partial<OldLimit> = {}): OldBucket {
  const limit: OldLimit = {
    state: state(tokensMilli, consumedMilli),
    refilledAtMs: NOW,
    counted: true,
    place: {},
    perLimit: false,
    ...change,
  }
  return {limits: new Map([['rpm', limit]]), ttlSeconds: undefined, cascade: false, parent: undefined, superseded: []}
}

function newBucket(tokensMilli: bigint, consumedMilli: bigint, refilledAtMs = NOW, shard = 0): BucketRecord {
  const limits = new Map([['rpm', state(tokensMilli, consumedMilli)]])
  const rest = {cascade: false, parent: undefined, ttlSeconds: undefined}
  return {namespace: 'ns', entity: 'e', resource: 'r', shard, shardCount: 1, ...rest, state: {refilledAtMs, limits}}
}

const mark = (change: Partial<LimitMark> = {}): Map<string, LimitMark> =>
  new Map([['rpm', {oldConsumed: 5000n, oldTokens: 50_000n, oldRefilledAtMs: NOW, newConsumed: 0n, ...change}]])

describe('what either replica owes the other', () => {
  it('is what the other has consumed since the mark, and the mark moves along', () => {
    const {toNew, toOld, marks} = chargesOf(oldBucket(47_000n, 8000n), [newBucket(90_000n, 2000n)], mark())
    expect(toNew).toEqual(new Map([['rpm', 3000n]]))
    expect(toOld).toEqual(new Map([['rpm', 2000n]]))
    expect(marks.get('rpm')).toEqual({oldConsumed: 8000n, oldTokens: 45_000n, oldRefilledAtMs: NOW, newConsumed: 2000n})
    const again = chargesOf(oldBucket(45_000n, 8000n), [newBucket(87_000n, 2000n)], marks)
    expect([again.toNew.size, again.toOld.size]).toEqual([0, 0])
  })

  it('counts the consumption of all shards', () => {
    const shards = [newBucket(0n, 2000n), newBucket(0n, 500n, NOW, 1)]
    expect(chargesOf(oldBucket(50_000n, 5000n), shards, mark()).toOld.get('rpm')).toBe(2500n)
  })

  it('gives back what a refund gave back, when the balance shows it', () => {
    const refund = chargesOf(oldBucket(51_000n, 4000n), [newBucket(0n, 0n)], mark())
    expect(refund.toNew.get('rpm')).toBe(-1000n)
  })

  it('mints nothing when the old bucket expired and was made anew: its whole count is owed', () => {
    const before = mark({oldConsumed: 900_000n, oldTokens: 50_000n})
    expect(chargesOf(oldBucket(93_000n, 7000n), [newBucket(10_000n, 0n)], before).toNew.get('rpm')).toBe(7000n)
  })

  it('gives the old bucket no more than fits when a counter of the new one started anew', () => {
    const {toOld} = chargesOf(
      oldBucket(99_000n, 5000n),
      [newBucket(0n, 0n)],
      mark({oldTokens: 99_000n, newConsumed: 80_000n}),
    )
    expect(toOld.get('rpm')).toBe(-1000n)
  })

  it('works from balance and time where the old item keeps no count, and does not charge it', () => {
    const uncounted = oldBucket(52_000n, 0n, {counted: false, refilledAtMs: NOW + 5000})
    const {toNew, toOld} = chargesOf(uncounted, [newBucket(0n, 9000n)], mark({oldConsumed: undefined}))
    // 50 and 5 seconds of refill make 55; 52 are there.
    expect(toNew.get('rpm')).toBe(3000n)
    expect(toOld.size).toBe(0)
    const grown = oldBucket(60_000n, 0n, {counted: false})
    expect(chargesOf(grown, [newBucket(0n, 0n)], mark({oldConsumed: undefined})).toNew.size).toBe(0)
  })

  it('charges a bucket that a client made full with what the old one lacked at that moment', () => {
    // Made 20 s after the last refill of the old one, which held 30 then: 50 by that time, so 50 are missing.
    const old = oldBucket(30_000n, 0n)
    const justMade = newBucket(95_000n, 5000n, NOW + 20_000)
    expect(chargesOf(old, [justMade], new Map())).toMatchObject({
      toNew: new Map([['rpm', 50_000n]]),
      dependsOnRefill: true,
    })
    // Ten seconds later it has earned 10 of what it spent; the moment it was made is still the same.
    const later = newBucket(85_000n, 25_000n, NOW + 30_000)
    expect(chargesOf(old, [later], new Map()).toNew.get('rpm')).toBe(50_000n)
    // An old bucket that was full by then lacked nothing, however much the new one has earned since.
    const idle = oldBucket(30_000n, 0n, {refilledAtMs: NOW - 1_000_000})
    expect(chargesOf(idle, [newBucket(90_000n, 400_000n, NOW)], new Map()).toNew.size).toBe(0)
  })

  it('leaves limits alone that today no longer has', () => {
    const {toNew, toOld, marks} = chargesOf(oldBucket(1n, 5n), [], new Map())
    expect([toNew.size, toOld.size, marks.size]).toEqual([0, 0, 0])
  })

  it('marks read back as they were written', () => {
    const marks = new Map([
      ...mark(),
      [
        'in_tokens.per-min',
        {oldConsumed: undefined, oldTokens: -(10n ** 18n), oldRefilledAtMs: NOW, newConsumed: 10n ** 17n},
      ] as const,
    ])
    expect(decodeBucketMarks(encodeBucketMarks(marks))).toEqual(marks)
    expect(decodeBucketMarks(undefined).size).toBe(0)
  })
})
