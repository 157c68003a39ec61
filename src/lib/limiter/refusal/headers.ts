/** HTTP header fields by name. */
export type HeaderFields = Record<string, string>

/** Balance of one limit, in whole tokens. */
export interface LimitBalance {
  /** The owner of the tighter limit: the entity or its parent. */
  readonly entity: string
  readonly level: 'entity' | 'parent'
  readonly capacity: number
  /** Negative in debt. For a bucket with several shards, estimated from the charged shards. */
  readonly available: number
  /** Until the limit is full again without further use, in ms; `null`: never. */
  readonly fullAfterMs: number | null
  readonly refillAmount: number
  readonly refillPeriodSeconds: number
}

/** Balances by limit; unknown limits are absent. */
export type LimitBalances<Name extends string = string> = {readonly [Limit in Name]?: LimitBalance}

/** One limit as in the IETF draft "RateLimit header fields for HTTP" (version 09). */
interface Quota {
  readonly name: string
  readonly available: number
  readonly refillAmount: number
  readonly refillPeriodSeconds: number
  /** Until the refused request fits, or until the limit is full again; `null`: never. */
  readonly resetMs: number | null
}

export function balanceHeaders(limits: LimitBalances): HeaderFields {
  return quotaHeaders(
    Object.entries(limits).flatMap(([name, limit]) => (limit ? [{...limit, name, resetMs: limit.fullAfterMs}] : [])),
  )
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
      .map(({name, refillAmount, refillPeriodSeconds}) => `"${name}";q=${refillAmount};w=${refillPeriodSeconds}`)
      .join(', '),
  }
}
