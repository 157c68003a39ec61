/** HTTP header fields by name. */
export type HeaderFields = Record<string, string>

/** What is left of one limit, in whole tokens. */
export interface LimitBalance {
  /** Whose limit it is: that of the entity or of its parent, whichever is tighter. */
  readonly entity: string
  readonly level: 'entity' | 'parent'
  readonly capacity: number
  /** Negative in debt. In a bucket that is split into shards: estimated from the shards that were charged. */
  readonly available: number
  /** Until the limit is full again if nothing is taken meanwhile, in ms; `null` when it never will be. */
  readonly fullAfterMs: number | null
  readonly refillAmount: number
  readonly refillPeriodSeconds: number
}

/** What is left per limit; a limit that nothing is known of is absent. */
export type LimitBalances<Name extends string = string> = {readonly [Limit in Name]?: LimitBalance}

/** One limit in the terms of the IETF draft "RateLimit header fields for HTTP" (version 09). */
interface Quota {
  readonly name: string
  readonly available: number
  readonly refillAmount: number
  readonly refillPeriodSeconds: number
  /** Until the request can be admitted (refused), or until the limit is full again; `null`: never. */
  readonly resetMs: number | null
}

export function balanceHeaders(limits: LimitBalances): HeaderFields {
  return quotaHeaders(
    Object.entries(limits).flatMap(([name, limit]) => (limit ? [{...limit, name, resetMs: limit.fullAfterMs}] : [])),
  )
}

/** `RateLimit` and `RateLimit-Policy`. All numbers are whole, as the draft asks; seconds are rounded up. */
export function quotaHeaders(quotas: readonly Quota[]): HeaderFields {
  if (quotas.length === 0) return {}
  const reset = (ms: number | null) => (ms === null || !Number.isFinite(ms) ? '' : `;t=${Math.ceil(ms / 1000)}`)
  return {
    RateLimit: quotas
      .map(({name, available, resetMs}) => `"${name}";r=${Math.max(0, available)}${reset(resetMs)}`)
      .join(', '),
    'RateLimit-Policy': quotas
      .map(({name, refillAmount, refillPeriodSeconds}) => `"${name}";q=${refillAmount};w=${refillPeriodSeconds}`)
      .join(', '),
  }
}
