import type {Consumption} from '../core/limits/consumption.js'
import type {Lease} from '../limiter/lease.js'
import type {LimitNames} from './dialects.js'
import type {TokenEstimate} from './model-call.js'
import {type ProviderLimitNames, providerConsumption} from './provider.js'

export function reservation(
  {input, output}: TokenEstimate,
  {requests = 'rpm', tokens = 'tpm'}: LimitNames,
): Consumption {
  return {[requests]: 1, [tokens]: input + output}
}

export function tokenDeltas(estimate: TokenEstimate, used: TokenEstimate, names: ProviderLimitNames): Consumption {
  const reserved = providerConsumption(estimate, names)
  const spent = providerConsumption(used, names)
  return Object.fromEntries(Object.entries(spent).map(([name, tokens]) => [name, tokens - (reserved[name] ?? 0)]))
}

/** Adds or returns what was estimated wrong, and ends the lease. Never throws: the answer is there. */
export async function settleLease(lease: Lease, deltas: Consumption): Promise<void> {
  if (lease.isEnded) return
  try {
    if (Object.values(deltas).some(delta => delta !== 0)) await lease.adjust(deltas)
    await lease.commit()
  } catch (error) {
    warnUnsettled(error)
  }
}

/** The answer of a provider is kept waiting for the table no longer than this, in ms. What is under way goes on. */
const LONGEST_WAIT_MS = 1000

/** Resolves when the work has ended, also where it has failed, or takes too long. */
export function patiently(work: Promise<unknown>): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(resolve, LONGEST_WAIT_MS)
    void work.catch(warnUnsettled).finally(() => {
      clearTimeout(timer)
      resolve()
    })
  })
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
