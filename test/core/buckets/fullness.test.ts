import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {type BucketLimit, type BucketState, refillBucket} from '../../../src/lib/core/buckets/bucket.js'
import {
  boundsOfFullness,
  boundsOfRoom,
  boundsOfUnseenRoom,
  type FullnessBounds,
  hasOverflowed,
  isOverfull,
  sharedTake,
} from '../../../src/lib/core/buckets/fullness.js'
import {runs} from '../../helpers/runs.js'

const NOW = 1_700_000_000_000

const limitState: fc.Arbitrary<BucketLimit> = fc
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

/** The bucket as left by the least favourable writes within the bounds. */
const atTheEdge = (state: BucketState, {latestRefillMs, lowestMilli}: FullnessBounds): BucketState => ({
  refilledAtMs: latestRefillMs,
  limits: new Map(
    [...state.limits].map(([name, limit]) => [name, {...limit, tokensMilli: lowestMilli.get(name) ?? 0n}]),
  ),
})

const isFull = (state: BucketState) =>
  [...refillBucket(state, NOW).limits.values()].every(limit => limit.tokensMilli >= limit.capacityMilli)

describe('bounds of fullness', () => {
  it('S1 contain only full states', () => {
    fc.assert(
      fc.property(bucket, asked, (state, amounts) => {
        for (const bounds of boundsOfFullness(state, amounts, NOW)) expect(isFull(atTheEdge(state, bounds))).toBe(true)
      }),
    )
  })

  it('exist for a full bucket, and contain the seen state', () => {
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

describe('a shared take', () => {
  /** Empty or full, or nearly so, like contended buckets. */
  const scarce: fc.Arbitrary<BucketLimit> = fc
    .record({
      capacityMilli: fc.constantFrom(100_000n, 1_000_000n, 100_000_000n),
      refillAmountMilli: fc.constantFrom(0n, 60_000n, 1_000_000n, 100_000_000n),
      refillPeriodMs: fc.constantFrom(1000, 60_000),
      isFull: fc.boolean(),
      apartMilli: fc.bigInt(0n, 20_000n),
    })
    .map(({isFull, apartMilli, ...rate}) => {
      const tokensMilli = isFull ? rate.capacityMilli - apartMilli : apartMilli
      return {...rate, tokensMilli, remainder: 0n, consumedMilli: 0n}
    })
  const states = fc.record({
    seen: fc
      .tuple(fc.integer({min: 0, max: 400}), fc.array(scarce, {minLength: 1, maxLength: 3}))
      .map(([agoMs, limits]) => ({
        refilledAtMs: NOW - agoMs,
        limits: new Map(limits.map((limit, index) => [`limit-${index}`, limit])),
      })),
    asked: fc.array(fc.integer({min: 0, max: 20_000}), {minLength: 3, maxLength: 3}),
    movedMs: fc.integer({min: 0, max: 400}),
    takenMilli: fc.integer({min: 0, max: 5000}),
    laterMs: fc.integer({min: 0, max: 2000}),
    roundTripMs: fc.integer({min: 4, max: 250}),
  })

  it('S1 S3 leaves no limit more than a whole refill would, and at most half less, whatever others wrote', () => {
    let judged = 0
    fc.assert(
      fc.property(states, ({seen, asked, movedMs, takenMilli, laterMs, roundTripMs}) => {
        const amounts = new Map([...seen.limits.keys()].map((name, index) => [name, BigInt(asked[index] ?? 0)]))
        const take = sharedTake(seen, amounts, NOW, roundTripMs)
        if (!take) return
        // Others have refilled part of the time since, and taken some.
        const moved = refillBucket(seen, Math.min(NOW, seen.refilledAtMs + movedMs))
        const left = [...moved.limits].map(
          ([name, limit]) =>
            [name, {...limit, tokensMilli: limit.tokensMilli - BigInt(takenMilli), remainder: 0n}] as const,
        )
        const before: BucketState = {...moved, limits: new Map(left)}
        const holds =
          before.refilledAtMs >= take.earliestRefillMs &&
          before.refilledAtMs <= (take.latestRefillMs ?? NOW) &&
          [...take.limits].every(([name, {lowestMilli, highestMilli}]) => {
            const tokens = before.limits.get(name)?.tokensMilli ?? 0n
            return tokens >= (lowestMilli ?? tokens) && tokens <= (highestMilli ?? tokens)
          })
        if (!holds) return
        judged++
        const limits = new Map(
          [...before.limits].map(([name, limit]) => {
            const {addMilli = 0n, setMilli} = take.limits.get(name) ?? {}
            return [name, {...limit, tokensMilli: setMilli ?? limit.tokensMilli + addMilli}]
          }),
        )
        const after = refillBucket({refilledAtMs: before.refilledAtMs + take.stepMs, limits}, NOW + laterMs)
        const whole = refillBucket(before, NOW)
        const charged = [...whole.limits].map(
          ([name, limit]) => [name, {...limit, tokensMilli: limit.tokensMilli - (amounts.get(name) ?? 0n)}] as const,
        )
        const truth = refillBucket({...whole, limits: new Map(charged)}, NOW + laterMs)
        for (const [name, {tokensMilli, capacityMilli, refillAmountMilli, refillPeriodMs}] of truth.limits) {
          const got = after.limits.get(name)?.tokensMilli ?? 0n
          expect(got <= tokensMilli).toBe(true)
          const lost = tokensMilli - got - 64n
          expect(lost * 2n <= capacityMilli).toBe(true)
          const earned = (refillAmountMilli * BigInt(14 * roundTripMs)) / BigInt(refillPeriodMs)
          expect(lost <= earned + capacityMilli / 16n).toBe(true)
        }
      }),
      {numRuns: runs(3000)},
    )
    expect(judged).toBeGreaterThan(runs(100))
  })
})

describe('overflow', () => {
  /** 10 per second, up to 100; this many tokens a second ago. */
  const limit = (tokens: number): BucketLimit => ({
    capacityMilli: 100_000n,
    refillAmountMilli: 10_000n,
    refillPeriodMs: 1000,
    tokensMilli: BigInt(tokens) * 1000n,
    remainder: 0n,
    consumedMilli: 0n,
  })
  const share = (limits: Record<string, BucketLimit>): BucketState => ({
    refilledAtMs: NOW - 1000,
    limits: new Map(Object.entries(limits)),
  })

  it('is excluded while no requested limit can have reached its capacity since the last refill', () => {
    const hasRoom = (limits: Record<string, BucketLimit>, names: string[], nowMs = NOW) =>
      boundsOfRoom(share(limits), names, nowMs).length > 0
    expect(hasRoom({rpm: limit(90)}, ['rpm'])).toBe(false)
    expect(hasRoom({rpm: limit(89)}, ['rpm'])).toBe(true)
    expect(hasRoom({rpm: limit(89), tpm: limit(100)}, ['rpm'])).toBe(true)
    expect(hasRoom({rpm: limit(89), tpm: limit(100)}, ['rpm', 'tpm'])).toBe(false)
    expect(hasRoom({rpm: limit(100)}, ['rpm'], NOW - 1000)).toBe(true)
    expect(hasRoom({rpm: limit(50)}, ['missing'])).toBe(false)
  })

  it('S1 excludes every state within the bounds of room, whatever its refill instant and remainder', () => {
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

  it('is detected if the tokens just taken and the credit since exceed the capacity', () => {
    const taken = new Map([['rpm', 5000n]])
    expect(hasOverflowed(share({rpm: limit(86)}), taken, NOW)).toBe(true)
    expect(hasOverflowed(share({rpm: limit(85)}), taken, NOW)).toBe(false)
    expect(hasOverflowed(share({rpm: limit(86)}), taken, NOW - 1000)).toBe(false)
    expect(hasOverflowed(share({rpm: limit(86)}), new Map([['rpm', -5000n]]), NOW)).toBe(false)
  })

  it('includes a balance above the capacity of any limit but write pressure', () => {
    const above = {...limit(100), tokensMilli: 100_001n}
    expect(isOverfull(share({rpm: limit(100)}), NOW)).toBe(false)
    expect(isOverfull(share({rpm: limit(100), tpm: above}), NOW)).toBe(true)
    expect(isOverfull(share({rpm: limit(100), wcu: above}), NOW)).toBe(false)
  })
})
