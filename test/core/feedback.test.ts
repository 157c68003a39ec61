import fc from 'fast-check'
import {expect, it} from 'vitest'
import {earnedBetween} from '../../src/lib/core/buckets/kind-refill.js'
import {balanceClearingWith, loweredTogether, type Rate, refill} from '../../src/lib/core/token-math.js'

/** The balance of a plain limit that clears after a wait. */
function clearing(rate: Rate, amountMilli: bigint, waitMs: number) {
  const limit = {...rate, tokensMilli: 0n, remainder: 0n, consumedMilli: 0n}
  return balanceClearingWith(earnedBetween(limit, 5000, 5000 + waitMs), rate.refillPeriodMs, amountMilli)
}

const rates = fc.record({
  capacityMilli: fc.bigInt({min: 1n, max: 10n ** 12n}),
  refillAmountMilli: fc.bigInt({min: 1n, max: 10n ** 12n}),
  refillPeriodMs: fc.integer({min: 1, max: 86_400_000}),
})

it('clears a balance at the reported millisecond, and not before', () => {
  fc.assert(
    fc.property(
      rates,
      fc.integer({min: 1, max: 3_600_000}),
      fc.double({min: 0.01, max: 1, noNaN: true}),
      (rate, waitMs, part) => {
        const amount = BigInt(Math.max(1, Math.floor(Number(rate.capacityMilli) * part)))
        const balance = clearing(rate, amount, waitMs)
        expect(balance.remainder >= 0n && balance.remainder < BigInt(rate.refillPeriodMs)).toBe(true)
        expect(refill(rate, balance, waitMs).tokensMilli).toBe(amount)
        expect(refill(rate, balance, waitMs - 1).tokensMilli).toBeLessThan(amount)
      },
    ),
  )
})

it('clears the amount itself without a wait', () => {
  const rate = {capacityMilli: 600_000n, refillAmountMilli: 600_000n, refillPeriodMs: 60_000}
  expect(clearing(rate, 1000n, 0)).toEqual({tokensMilli: 1000n, remainder: 0n})
  expect(clearing(rate, 1000n, 2000)).toEqual({tokensMilli: -19_000n, remainder: 0n})
})

it('lowers balances above the rest together, keeps debts, and raises nothing', () => {
  const balances = fc.array(fc.bigInt({min: -(10n ** 9n), max: 10n ** 9n}), {minLength: 1, maxLength: 32})
  fc.assert(
    fc.property(balances, fc.bigInt({min: 0n, max: 10n ** 10n}), (before, left) => {
      const after = loweredTogether(before, left)
      const held = (each: readonly bigint[]) => each.reduce((sum, milli) => (milli > 0n ? sum + milli : sum), 0n)
      expect(after === undefined).toBe(held(before) < left + 1000n)
      if (!after) return
      expect(held(after) <= left && held(after) > left - BigInt(before.length)).toBe(true)
      for (const [at, milli] of after.entries()) expect(milli <= (before[at] as bigint)).toBe(true)
      for (const [at, milli] of after.entries()) if ((before[at] as bigint) <= 0n) expect(milli).toBe(before[at])
    }),
  )
})
