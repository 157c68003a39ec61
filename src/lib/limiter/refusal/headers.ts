import type {LimitStates} from '../../core/limits/limit-state.js'

/** HTTP header fields by name. */
export type HeaderFields = Record<string, string>

/** One limit as in the IETF draft "RateLimit header fields for HTTP" (version 09). */
interface Quota {
  readonly name: string
  readonly capacity: number
  readonly available: number
  /** 0 for a quota, which has no window of fixed length. */
  readonly refillAmount: number
  readonly refillPeriodSeconds: number
  /** Until the refused request fits, or until the limit is full again; `null`: never. */
  readonly resetMs: number | null
}

export function balanceHeaders(limits: LimitStates): HeaderFields {
  return quotaHeaders(Object.values(limits).flatMap(limit => (limit ? [{...limit, resetMs: limit.fullAfterMs}] : [])))
}

/** All numbers are whole, as the draft requires; seconds are rounded up. */
export function quotaHeaders(quotas: readonly Quota[]): HeaderFields {
  if (quotas.length === 0) return {}
  const reset = (ms: number | null) => (ms === null || !Number.isFinite(ms) ? '' : `;t=${Math.ceil(ms / 1000)}`)
  return {
    RateLimit: quotas
      .map(({name, available, resetMs}) => `"${name}";r=${Math.max(0, available)}${reset(resetMs)}`)
      .join(', '),
    'RateLimit-Policy': quotas
      .map(({name, capacity, refillAmount, refillPeriodSeconds}) =>
        refillAmount > 0 ? `"${name}";q=${refillAmount};w=${refillPeriodSeconds}` : `"${name}";q=${capacity}`,
      )
      .join(', '),
  }
}
