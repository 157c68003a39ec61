import {refill} from '../../core/token-math.js'
import type {LimitMark} from '../../schema/migration-marks.js'
import type {OldLimit} from './old-bucket-parts.js'

/** Millitokens by which fractions carried from one refill to the next can make sums differ. */
const ROUNDING = 1n

/**
 * What an old limit has consumed since the mark was set, in millitokens; negative where more was given back. A bucket may
 * have expired and been made anew meanwhile, from nothing: then its count is what it has consumed. Nothing is given back
 * on a guess.
 */
export function spentSince(mark: LimitMark, {state, refilledAtMs, counted, perLimit}: OldLimit): bigint {
  const {tokensMilli, consumedMilli, capacityMilli, refillAmountMilli, refillPeriodMs} = state
  const elapsedMs = Math.max(0, refilledAtMs - mark.oldRefilledAtMs)
  const untouched = refill(state, {tokensMilli: mark.oldTokens, remainder: 0n}, elapsedMs).tokensMilli
  const missing = untouched > tokensMilli ? untouched - tokensMilli : 0n
  if (!counted || mark.oldConsumed === undefined) return missing

  const spent = consumedMilli - mark.oldConsumed
  const earned = (BigInt(elapsedMs) * refillAmountMilli) / BigInt(refillPeriodMs) + ROUNDING
  const couldHaveLived = tokensMilli <= mark.oldTokens + earned - spent
  const couldBeNew = consumedMilli >= 0n && tokensMilli + consumedMilli <= capacityMilli + earned
  // Clients that write whole items may have undone a charge of ours, which leaves too much in a bucket that lived.
  if (spent >= 0n) return couldHaveLived || perLimit || !couldBeNew ? spent : consumedMilli
  // It expires long after it is full again; a fall after such a time is more likely a new beginning than a refund.
  const couldHaveExpired = elapsedMs > 0 && untouched >= capacityMilli
  const showsRefund = couldHaveLived && tokensMilli >= mark.oldTokens - spent
  if (showsRefund && !(couldHaveExpired && couldBeNew)) return spent
  return couldBeNew ? consumedMilli : missing
}
