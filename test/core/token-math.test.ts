import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {type Balance, floorDivide, type Rate, refill, retryAfterMs, toTokens} from '../../src/lib/core/token-math.js'
import {anyRate, anyTokensMilli} from './arbitraries.js'

const rate = (capacityMilli: bigint, refillAmountMilli: bigint, refillPeriodMs: number): Rate => ({
  capacityMilli,
  refillAmountMilli,
  refillPeriodMs,
})
const whole = (tokensMilli: bigint): Balance => ({tokensMilli, remainder: 0n})

describe('vectors of the wire contract', () => {
  it.each<[bigint, number, bigint, bigint, number, bigint]>([
    [0n, 1, 100_000n, 100_000n, 60_000, 1n],
    [0n, 7, 100_000n, 100_000n, 60_000, 11n],
    [0n, 600, 100_000n, 100_000n, 60_000, 1000n],
    [99_999n, 600, 100_000n, 100_000n, 60_000, 100_000n],
    [100_500n, 5, 100_000n, 100_000n, 60_000, 100_000n],
    [100_500n, 0, 100_000n, 100_000n, 60_000, 100_500n],
    [-1_500_000n, 30_000, 1_000_000n, 1_000_000n, 60_000, -1_000_000n],
    [0n, 8639, 10_000n, 10_000n, 86_400_000, 0n],
    [0n, 8640, 10_000n, 10_000n, 86_400_000, 1n],
    [0n, 12_345, 10_000n, 10_000n, 86_400_000, 1n],
    [5000n, -3, 10_000n, 10_000n, 1000, 5000n],
    [0n, 86_400_000, 10n ** 13n, 10n ** 13n, 60_000, 10n ** 13n],
  ])('refill of %s after %s ms (capacity %s, %s per %s ms) is %s', (tokens, elapsed, cp, ra, rp, expected) => {
    expect(refill(rate(cp, ra, rp), whole(tokens), elapsed).tokensMilli).toBe(expected)
  })

  it('keeps products beyond 2^53 exact', () => {
    const big = rate(10n ** 15n, 10n ** 13n + 1n, 60_000)
    expect(refill(big, whole(0n), 3_599_999).tokensMilli).toBe(((10n ** 13n + 1n) * 3_599_999n) / 60_000n)
  })

  it.each<[bigint, bigint, bigint, number, bigint, number, bigint, number, number]>([
    [500n, 100_000n, 100_000n, 60_000, 1n, 0, 500n, 0, 301],
    [500n, 100_000n, 100_000n, 60_000, 1n, 300, 1000n, 1, 0],
    [-1n, 1000n, 1000n, 1000, 0n, 0, -1n, -1, 2],
    [-2500n, 100_000n, 100_000n, 60_000, 5n, 0, -2500n, -3, 4501],
    [0n, 10_000n, 10_000n, 86_400_000, 1n, 0, 0n, 0, 8_640_001],
    [999n, 1000n, 1000n, 1000, 1n, 0, 999n, 0, 2],
  ])(
    'from %s (capacity %s, %s per %s ms), %s tokens are asked for after %s ms',
    (tokens, cp, ra, rp, asked, elapsed, ...expected) => {
      const balance = refill(rate(cp, ra, rp), whole(tokens), elapsed)
      const wait = retryAfterMs(rate(cp, ra, rp), balance, asked * 1000n)
      expect([balance.tokensMilli, toTokens(balance.tokensMilli), wait]).toEqual(expected)
    },
  )

  it('floors toward minus infinity', () => {
    expect([-1n, -1000n, -1001n, 999n, 1000n].map(milli => floorDivide(milli, 1000n))).toEqual([-1n, -1n, -2n, 0n, 1n])
  })
})

describe('remainders', () => {
  it('D-2 gain 231 milli, not 0, for a 10-per-day limit refilled every 5 s for 2000 s', () => {
    let balance = whole(0n)
    for (let step = 0; step < 400; step++) balance = refill(rate(10_000n, 10_000n, 86_400_000), balance, 5000)
    expect(balance.tokensMilli).toBe(231n)
  })

  it('D-3 credit no more than the elapsed time when refilled every millisecond', () => {
    const fast = rate(10n ** 10n, 10n ** 10n, 60_000)
    let balance = whole(0n)
    for (let step = 0; step < 1000; step++) balance = refill(fast, balance, 1)
    expect(balance).toEqual(refill(fast, whole(0n), 1000))
  })

  it('S3 credit the same for any division of an interval, to the last fraction', () => {
    fc.assert(
      fc.property(
        anyRate,
        anyTokensMilli,
        fc.array(fc.integer({min: 0, max: 10_000_000}), {maxLength: 30}),
        (r, tk, cuts) => {
          const start = whole(tk < r.capacityMilli ? tk : r.capacityMilli)
          const total = cuts.reduce((sum, piece) => sum + piece, 0)
          const pieces = cuts.reduce<Balance>((balance, piece) => refill(r, balance, piece), start)
          expect(pieces).toEqual(refill(r, start, total))
        },
      ),
    )
  })

  it('are always smaller than one milli, and dropped by a full bucket', () => {
    fc.assert(
      fc.property(anyRate, anyTokensMilli, fc.integer({min: 1, max: 2 ** 40}), (r, tk, elapsed) => {
        const after = refill(r, whole(tk), elapsed)
        expect(after.remainder >= 0n && after.remainder < BigInt(r.refillPeriodMs)).toBe(true)
        if (after.tokensMilli === r.capacityMilli) expect(after.remainder).toBe(0n)
        expect(after.tokensMilli <= r.capacityMilli).toBe(true)
      }),
    )
  })
})

describe('waiting', () => {
  it('L2 admits after retry-after, and not two milliseconds earlier', () => {
    fc.assert(
      fc.property(anyRate, anyTokensMilli, fc.bigInt({min: 0n, max: 10n ** 12n}), (r, tk, asked) => {
        const amount = asked % (r.capacityMilli + 1n)
        const start = refill(r, whole(tk), 1)
        const wait = retryAfterMs(r, start, amount)
        fc.pre(Number.isFinite(wait))
        expect(refill(r, start, wait).tokensMilli >= amount).toBe(true)
        if (wait > 2) expect(refill(r, start, wait - 2).tokensMilli >= amount).toBe(false)
      }),
    )
  })

  it('L3 never helps above capacity, without refill, or beyond the range of a clock', () => {
    expect(retryAfterMs(rate(10n ** 12n, 1n, 86_400_000), whole(0n), 10n ** 12n)).toBe(Number.POSITIVE_INFINITY)
    expect(retryAfterMs(rate(10n ** 8n, 1n, 86_400_000), whole(0n), 10n ** 8n)).toBe(Number.POSITIVE_INFINITY)
    expect(retryAfterMs(rate(1000n, 1000n, 1000), whole(0n), 1001n)).toBe(Number.POSITIVE_INFINITY)
    expect(retryAfterMs(rate(1000n, 0n, 1000), whole(0n), 1n)).toBe(Number.POSITIVE_INFINITY)
  })
})

describe('debt', () => {
  it('is repaid by refill', () => {
    const perMinute = rate(1_000_000n, 1_000_000n, 60_000)
    expect(refill(perMinute, whole(-1_500_000n), 90_000).tokensMilli).toBe(0n)
  })

  it('is shown as negative whole tokens', () => {
    expect(toTokens(-1n)).toBe(-1)
  })
})
