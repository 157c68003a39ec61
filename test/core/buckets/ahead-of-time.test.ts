import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {type BucketState, isAheadOfTime, refillBucket, tryConsumeBucket} from '../../../src/lib/core/buckets/bucket.js'

const NOON = Date.UTC(2026, 5, 1, 12)
const MINUTE = 60_000
const DAY = 86_400_000
const YEAR = 365 * 86_400_000

/** 60 tokens per minute; capacity 100. */
function bucket(refilledAtMs: number, tokensMilli: bigint): BucketState {
  const rate = {capacityMilli: 100_000n, refillAmountMilli: 60_000n, refillPeriodMs: MINUTE}
  return {refilledAtMs, limits: new Map([['rpm', {...rate, tokensMilli, remainder: 0n, consumedMilli: 0n}]])}
}

const tokensOf = (state: BucketState) => state.limits.get('rpm')?.tokensMilli

describe('S7 a refill instant ahead of time', () => {
  it('stays if it is up to a day ahead: the reading clock may be the wrong one', () => {
    const ahead = bucket(NOON + DAY, 3_000n)
    expect(isAheadOfTime(ahead, NOON)).toBe(false)
    expect(refillBucket(ahead, NOON)).toBe(ahead)
  })

  it('is set back if it is more, and the credit of that time is removed without creating a debt', () => {
    const state = refillBucket(bucket(NOON + DAY + 1, 86_500_000n), NOON)
    // 86,400,001 ms at one token per second.
    expect([state.refilledAtMs, tokensOf(state)]).toEqual([NOON, 99_999n])
    expect(tokensOf(refillBucket(bucket(NOON + YEAR, 40_000n), NOON))).toBe(0n)
    expect(tokensOf(refillBucket(bucket(NOON + YEAR, -7_000n), NOON))).toBe(-7_000n)
  })

  it('never adds tokens', () => {
    const instant = fc.integer({min: 1, max: 100 * YEAR})
    fc.assert(
      fc.property(instant, fc.bigInt({min: -500_000n, max: 500_000n}), (aheadMs, tokensMilli) => {
        const state = refillBucket(bucket(NOON + aheadMs, tokensMilli), NOON)
        expect(tokensOf(state)).toBeLessThanOrEqual(tokensMilli)
        expect(tokensOf(state)).toBeGreaterThanOrEqual(tokensMilli < 0n ? tokensMilli : 0n)
      }),
    )
  })

  it('does not freeze a bucket: after the repair it refills at its rate, and its stated wait is true', () => {
    const asked = new Map([['rpm', 10_000n]])
    const refused = tryConsumeBucket(bucket(NOON + YEAR, 50_000n), asked, NOON)
    expect(refused).toMatchObject({admitted: false, retryAfterMs: 10_001})
    expect(tryConsumeBucket(refused.bucket, asked, NOON + refused.retryAfterMs).admitted).toBe(true)
  })
})
