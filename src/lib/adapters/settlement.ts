import type {Consumption} from '../core/consumption.js'
import type {Lease} from '../limiter/lease.js'
import type {LimitNames} from './dialects.js'
import type {TokenEstimate} from './model-call.js'

/** What a call of a model is charged at first: one request, and all tokens that it may use. */
export function reservation(
  {input, output}: TokenEstimate,
  {requests = 'rpm', tokens = 'tpm'}: LimitNames,
): Consumption {
  return {[requests]: 1, [tokens]: input + output}
}

/** Replaces the tokens that were reserved by those that were used, and ends the lease. Never throws: the answer is there. */
export async function settleTokens(
  lease: Lease,
  {input, output}: TokenEstimate,
  used: number,
  {tokens = 'tpm'}: LimitNames,
): Promise<void> {
  if (lease.isEnded) return
  try {
    const delta = used - (input + output)
    if (delta !== 0) await lease.adjust({[tokens]: delta})
    await lease.commit()
  } catch (error) {
    warnUnsettled(error)
  }
}

let hasWarned = false

/** The answer has been paid for and goes to the caller in any case; what was estimated stays charged. */
function warnUnsettled(error: unknown): void {
  if (hasWarned) return
  hasWarned = true
  const why = error instanceof Error ? error.message : String(error)
  process.emitWarning(`The tokens of a call stay charged as they were estimated (${why}). Said once per process.`, {
    type: 'ZaelWarning',
    code: 'ZAEL_UNSETTLED',
  })
}
