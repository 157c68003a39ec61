import type {LimitStates} from '../../core/limits/limit-state.js'

/** HTTP header fields by name. */
export type HeaderFields = Record<string, string>

/** One limit as in the IETF draft "RateLimit header fields for HTTP" (version 09). */
interface QuotaState {
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

/**
 * `q` is the most that `r` can be. `w` is the time in which a rate gains `q`, or the time to the reset of a quota; it is
 * never less than `t`, not even in debt. A full limit has no `t`: it has nothing to reset.
 */
export function quotaHeaders(quotas: readonly QuotaState[]): HeaderFields {
  if (quotas.length === 0) return {}
  const items = quotas.map(({name, capacity, available, refillAmount, refillPeriodSeconds, resetMs}) => {
    const t = resetMs === null ? 0 : wholeNumber(Math.ceil(resetMs / 1000))
    const w = refillAmount > 0 ? wholeNumber(Math.ceil((capacity * refillPeriodSeconds) / refillAmount)) : 0
    const q = wholeNumber(capacity)
    return {name, q, w: Math.max(w, t), r: Math.min(q, wholeNumber(available)), t}
  })
  return {
    RateLimit: items.map(({name, r, t}) => `"${name}";r=${r}${t > 0 ? `;t=${t}` : ''}`).join(', '),
    'RateLimit-Policy': items.map(({name, q, w}) => `"${name}";q=${q}${w > 0 ? `;w=${w}` : ''}`).join(', '),
  }
}

/** An Integer of RFC 9651 has at most 15 digits. */
const LARGEST_INTEGER = 999_999_999_999_999

const wholeNumber = (value: number): number => Math.min(LARGEST_INTEGER, Math.max(0, Math.floor(value)))
