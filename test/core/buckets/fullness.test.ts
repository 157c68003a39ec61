import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {type BucketState, type LimitState, refillBucket} from '../../../src/lib/core/buckets/bucket.js'
import {
  boundsOfFullness,
  boundsOfRoom,
  boundsOfSmallGain,
  boundsOfUnseenRoom,
  type FullnessBounds,
  hasOverflowed,
  isOverfull,
} from '../../../src/lib/core/buckets/fullness.js'

const NOW = 1_700_000_000_000

const limitState: fc.Arbitrary<LimitState> = fc
  .record({
    capacityMilli: fc.bigInt(1n, 10_000_000n),
    refillAmountMilli: fc.bigInt(0n, 10_000_000n),
    refillPeriodMs: fc.integer({min: 1, max: 86_400_000}),
    missing: fc.bigInt(0n, 20_000_000n),
  })
  .map(({missing, ...rate}) => ({...rate, tokensMilli: rate.capacityMilli - missing, remainder: 0n, consumedMilli: 0n}))

const bucket: fc.Arbitrary<BucketState> = fc
  .tuple(fc.integer({min: -1000, max: 10_000_000}), fc.array(limitState, {minLength: 1, maxLength: 3}))
  .map(([agoMs, limits]) => ({
    refilledAtMs: NOW - agoMs,
    limits: new Map(limits.map((limit, index) => [`limit-${index}`, limit])),
  }))

const asked = fc.bigInt(0n, 1_000_000n).map(milli => new Map([['limit-0', milli]]))

/** The bucket as the least favourable others leave it within the bounds. */
const atTheEdge = (state: BucketState, {latestRefillMs, lowestMilli}: FullnessBounds): BucketState => ({
  refilledAtMs: latestRefillMs,
  limits: new Map(
    [...state.limits].map(([name, limit]) => [name, {...limit, tokensMilli: lowestMilli.get(name) ?? 0n}]),
  ),
})

const isFull = (state: BucketState) =>
  [...refillBucket(state, NOW).limits.values()].every(limit => limit.tokensMilli >= limit.capacityMilli)

describe('bounds of fullness', () => {
  it('S1 whatever lies within them is full', () => {
    fc.assert(
      fc.property(bucket, asked, (state, amounts) => {
        for (const bounds of boundsOfFullness(state, amounts, NOW)) expect(isFull(atTheEdge(state, bounds))).toBe(true)
      }),
    )
  })

  it('are there for a bucket that is full, and contain what was seen', () => {
    fc.assert(
      fc.property(bucket, asked, (state, amounts) => {
        const bounds = boundsOfFullness(state, amounts, NOW)
        expect(bounds.length > 0).toBe(isFull(state) && state.refilledAtMs < NOW)
        if (bounds.length === 0) return
        const contains = ({latestRefillMs, lowestMilli}: FullnessBounds) =>
          state.refilledAtMs <= latestRefillMs &&
          [...lowestMilli].every(([name, milli]) => (state.limits.get(name)?.tokensMilli ?? 0n) >= milli)
        expect(bounds.some(contains)).toBe(true)
      }),
    )
  })

  it('allow for a request a moment ago, and for several some time ago', () => {
    const rpm = {capacityMilli: 100_000n, refillAmountMilli: 100_000n, refillPeriodMs: 60_000}
    const state = {
      refilledAtMs: NOW - 60_000,
      limits: new Map([['rpm', {...rpm, tokensMilli: 99_000n, remainder: 0n, consumedMilli: 0n}]]),
    }
    const bounds = boundsOfFullness(state, new Map([['rpm', 1000n]]), NOW)
    expect(bounds.map(({latestRefillMs, lowestMilli}) => [NOW - latestRefillMs, lowestMilli.get('rpm')])).toEqual([
      [601, 98_999n],
      [1202, 97_997n],
      [2404, 95_994n],
      [4808, 91_987n],
    ])
  })
})

describe('bounds of small gain', () => {
  it('S3 within them a refill brings no limit more than a 64th of its capacity, whatever was written since', () => {
    fc.assert(
      fc.property(bucket, fc.double({min: 0, max: 1, noNaN: true}), (state, fraction) => {
        for (const {earliestRefillMs, lowestMilli} of boundsOfSmallGain(state, NOW)) {
          for (const [name, limit] of state.limits) {
            // Refilled as long ago, and charged as far, as the bounds allow, with any fraction carried over.
            const remainder = BigInt(Math.floor(fraction * (limit.refillPeriodMs - 1)))
            const tokensMilli = lowestMilli.get(name) ?? -limit.capacityMilli
            const edge = {refilledAtMs: earliestRefillMs, limits: new Map([[name, {...limit, tokensMilli, remainder}]])}
            const refilled = refillBucket(edge, NOW).limits.get(name)?.tokensMilli ?? 0n
            expect((refilled - tokensMilli) * 64n <= limit.capacityMilli).toBe(true)
          }
        }
      }),
    )
  })
})

describe('overflow', () => {
  /** 10 a second, up to 100; so many tokens as of a second ago. */
  const limit = (tokens: number): LimitState => ({
    capacityMilli: 100_000n,
    refillAmountMilli: 10_000n,
    refillPeriodMs: 1000,
    tokensMilli: BigInt(tokens) * 1000n,
    remainder: 0n,
    consumedMilli: 0n,
  })
  const share = (limits: Record<string, LimitState>): BucketState => ({
    refilledAtMs: NOW - 1000,
    limits: new Map(Object.entries(limits)),
  })

  it('a bucket has room while no limit asked for can have reached its capacity since the last refill', () => {
    const hasRoom = (limits: Record<string, LimitState>, names: string[], nowMs = NOW) =>
      boundsOfRoom(share(limits), names, nowMs).length > 0
    expect(hasRoom({rpm: limit(90)}, ['rpm'])).toBe(false)
    expect(hasRoom({rpm: limit(89)}, ['rpm'])).toBe(true)
    expect(hasRoom({rpm: limit(89), tpm: limit(100)}, ['rpm'])).toBe(true)
    expect(hasRoom({rpm: limit(89), tpm: limit(100)}, ['rpm', 'tpm'])).toBe(false)
    expect(hasRoom({rpm: limit(100)}, ['rpm'], NOW - 1000)).toBe(true)
    expect(hasRoom({rpm: limit(50)}, ['missing'])).toBe(false)
  })

  it('S1 a state within the bounds of room has not overflowed, whatever its refill instant and remainder', () => {
    fc.assert(
      fc.property(
        fc.record({
          capacityMilli: fc.bigInt(1n, 10_000_000n),
          refillAmountMilli: fc.bigInt(1n, 10_000_000n),
          refillPeriodMs: fc.integer({min: 1, max: 100_000}),
        }),
        fc.integer({min: 0, max: 200_000}),
        fc.double({min: 0, max: 1, noNaN: true}),
        fc.double({min: 0, max: 1, noNaN: true}),
        (rate, elapsedMs, fraction, part) => {
          const remainder = BigInt(Math.floor(fraction * rate.refillPeriodMs * 0.999))
          const tokensMilli = BigInt(Math.floor(part * Number(rate.capacityMilli)))
          const state = {...rate, tokensMilli, remainder, consumedMilli: 0n}
          const bucket = {refilledAtMs: NOW - elapsedMs, limits: new Map([['rpm', state]])}
          const all = [...boundsOfRoom(bucket, ['rpm'], NOW), ...boundsOfUnseenRoom(bucket.limits, ['rpm'], NOW)]
          const isWithin = all.some(
            ({earliestRefillMs, highestMilli}) =>
              bucket.refilledAtMs >= earliestRefillMs && tokensMilli <= (highestMilli.get('rpm') as bigint),
          )
          // Exactly, with fractions: (tokens · period + elapsed · amount + remainder) / period.
          const period = BigInt(rate.refillPeriodMs)
          const earned = elapsedMs > 0 ? BigInt(elapsedMs) * rate.refillAmountMilli + remainder : 0n
          if (isWithin) expect(tokensMilli * period + earned <= rate.capacityMilli * period).toBe(true)
        },
      ),
    )
  })

  it('a bucket had overflowed when what was taken just now and the credit since exceed the capacity', () => {
    const taken = new Map([['rpm', 5000n]])
    expect(hasOverflowed(share({rpm: limit(86)}), taken, NOW)).toBe(true)
    expect(hasOverflowed(share({rpm: limit(85)}), taken, NOW)).toBe(false)
    expect(hasOverflowed(share({rpm: limit(86)}), taken, NOW - 1000)).toBe(false)
    expect(hasOverflowed(share({rpm: limit(86)}), new Map([['rpm', -5000n]]), NOW)).toBe(false)
  })

  it('a bucket is overfull above the capacity of any limit but write pressure', () => {
    const above = {...limit(100), tokensMilli: 100_001n}
    expect(isOverfull(share({rpm: limit(100)}), NOW)).toBe(false)
    expect(isOverfull(share({rpm: limit(100), tpm: above}), NOW)).toBe(true)
    expect(isOverfull(share({rpm: limit(100), wcu: above}), NOW)).toBe(false)
  })
})
