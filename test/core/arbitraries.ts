import fc from 'fast-check'
import type {Rate} from '../../src/lib/core/token-math.js'

/** Rates from one token per century to trillions per second, with independent capacities. */
export const anyRate: fc.Arbitrary<Rate> = fc.record({
  capacityMilli: fc.bigInt({min: 1000n, max: 10n ** 16n}),
  refillAmountMilli: fc.bigInt({min: 1n, max: 10n ** 16n}),
  refillPeriodMs: fc.constantFrom(1000, 7000, 60_000, 900_000, 3_600_000, 86_400_000, 31_536_000_000),
})

/** Balances from deep debt to plenty. */
export const anyTokensMilli = fc.bigInt({min: -(10n ** 14n), max: 10n ** 16n})
