import type {Level} from './limit.js'

/** One limit of a bucket and its balance, in whole tokens. The share of one shard may be fractional. */
export interface LimitState {
  readonly name: string
  /** The owner of the limit: the entity of the request, or its parent. */
  readonly entity: string
  readonly resource: string
  readonly level: 'entity' | 'parent'
  /** Includes tokens that a top-up added to a quota. */
  readonly capacity: number
  /**
   * Negative in debt; above the capacity after the capacity was lowered. A lease estimates it from the charged shards of
   * a bucket.
   */
  readonly available: number
  readonly refillAmount: number
  readonly refillPeriodSeconds: number
  /** Until the limit is full again without further use, in ms; `null`: unknown or never. */
  readonly fullAfterMs: number | null
  /** Tokens that the request asked for; 0 without a request. */
  readonly requested: number
  /** Whether the limit refused the request. */
  readonly exceeded: boolean
  /** Until the request fits, in ms; 0 if not exceeded, `null` if waiting does not help. */
  readonly retryAfterMs: number | null
  /** Where the limit is configured. Absent if no configuration was read. */
  readonly source?: Level | 'default' | undefined
  /** Set for soft limits, which meter but never refuse. */
  readonly soft?: true | undefined
  /** Set for in-flight limits. `available` counts free slots, and `retryAfterMs` is an estimate. */
  readonly inFlight?: true | undefined
  /** How a quota resets: by the calendar, or as a session from first use. Absent for rates. */
  readonly quota?: 'calendar' | 'session' | undefined
  /** When a quota is full again, ISO 8601 in UTC. Absent for rates, and for sessions that are not open. */
  readonly resetsAt?: string | undefined
  /** Tokens added to a quota's capacity until its reset. Absent if there are none. */
  readonly toppedUp?: number | undefined
  /** Tokens used of a quota in its period. Absent for rates and closed sessions, and if the balance does not show it. */
  readonly used?: number | undefined
}

/** `null` for a wait without end, as in `LimitState`. */
export const finiteWait = (ms: number): number | null => (Number.isFinite(ms) ? ms : null)

/** The longest of several waits; `null` if one of them has no end. */
export const longestOf = (waits: readonly (number | null)[]): number | null =>
  finiteWait(Math.max(...waits.map(ms => ms ?? Number.POSITIVE_INFINITY)))

/** Used ÷ capacity of the tightest limit: 1 if nothing is left, more in debt. `undefined` without limits. */
export function shareUsed(states: Iterable<LimitState>): number | undefined {
  let share: number | undefined
  for (const {capacity, available} of states) {
    const used = capacity > 0 ? Math.max(0, (capacity - available) / capacity) : 1
    if (share === undefined || used > share) share = used
  }
  return share
}

/** States by limit; unknown limits are absent. */
export type LimitStates<Name extends string = string> = {readonly [Limit in Name]?: LimitState}
