import type {Amounts} from '../../core/buckets/bucket.js'
import {isSamePeriod, type QuotaPeriod} from '../../core/buckets/kind-refill.js'
import type {Returns} from '../../repository/buckets/consume-write.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {type Correction, chargesOf, returnsOf} from './correction.js'

/** Limits that may be corrected in the write of requests: an expression has at most 300 operators. */
const MOST_LIMITS = 8

/** Corrections that share the write of requests, added up. */
export interface Riders {
  /** In millitokens. Charges into debt do not ride: what is charged must be there. */
  readonly charges: Amounts
  readonly returns: Returns | undefined
  /** Change of the number of admitted requests. */
  readonly requests: number
}

/** `undefined` where one of the corrections may not go to the bucket as it was seen, or would not be written whole. */
export function ridersOf(corrections: readonly Correction[], record: BucketRecord): Riders | undefined {
  const {state, incarnation, validUntilMs} = record
  const charges = chargesOf(corrections)
  const amounts = returnsOf(corrections)
  const isKnown = [...charges.keys(), ...amounts.keys()].every(name => state.limits.has(name))
  if (!isKnown || charges.size + amounts.size > MOST_LIMITS) return undefined
  const periods = new Map<string, QuotaPeriod>()
  for (const correction of corrections) {
    if (correction.isBypassed) return undefined
    const returned = [...correction.amounts].filter(([, milli]) => milli < 0n)
    if (returned.length === 0 && correction.requests === 0) continue
    // Planted fault: tokens are returned with a request to a bucket that was created since
    if (correction.incarnation !== incarnation) return undefined
    for (const [name] of returned) {
      const period = correction.periods.get(name)
      const limit = state.limits.get(name)
      if (period ? !isSamePeriod(period, limit, state.refilledAtMs) : limit?.kind?.quota !== undefined) return undefined
      if (period) periods.set(name, period)
    }
  }
  const requests = corrections.reduce((sum, correction) => sum + correction.requests, 0)
  const isReturn = amounts.size > 0 || requests !== 0
  const returns = isReturn ? {amounts, target: {incarnation, periods, validUntilMs}} : undefined
  return {charges, returns, requests}
}

/** What is owed of corrections that may have been written: a return is not repeated, a charge is. */
export function owedInDoubt(corrections: readonly Correction[]): Correction[] {
  return corrections.map(correction => ({...correction, amounts: chargesOf([correction]), requests: 0}))
}
