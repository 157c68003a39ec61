import type {Consumption, Level} from '../../core/limits/limit.js'
import type {LimitStates} from '../../core/limits/limit-state.js'
import type {BucketName} from '../../core/names.js'

/** A bucket that is charged together with a request, such as that of a pool of models or of a region. */
export interface SharedScope<Name extends string = string> extends BucketName {
  readonly consume: Consumption<Name>
}

/** Further parts of a request: other resources of its entity by name, or buckets of any entity. */
export type FurtherResources<Name extends string = string> =
  | Readonly<Record<string, Consumption<Name>>>
  | readonly SharedScope<Name>[]

/** The limit that refused a request; if several did, the one with the longest wait. */
export interface RefusingLimit {
  /** Who has the limit: the entity, a shared scope, or a parent. If a switch refused: who is disabled. */
  readonly entity: string
  /** The request's resource, or one of `resources`. */
  readonly resource: string
  /** `undefined` if a switch refuses all requests. */
  readonly limit: string | undefined
  /** Whether the limit is that of the request's entity or scope, or of a parent. */
  readonly level: 'entity' | 'parent'
  /** Where the limit or switch is configured; `undefined` if the refusal needed no configuration read. */
  readonly source: Level | 'default' | undefined
}

/**
 * The reason for an outcome. Admitted: `bypassed` (by a switch; counted, nothing taken) or `unavailable` (the
 * table was unavailable and the policy allows; nothing charged). Refused: `exceeded`, `in-flight` (too few free slots),
 * `contended` (it would fit, but other processes kept changing the bucket first), `too-large` or `disabled`. Failed:
 * `unavailable` (the policy blocks), `aborted` (by the signal), `closed` or `error`.
 */
export type DecisionReason =
  | 'bypassed'
  | 'unavailable'
  | 'exceeded'
  | 'in-flight'
  | 'contended'
  | 'too-large'
  | 'disabled'
  | 'aborted'
  | 'closed'
  | 'error'

/** One decision, as passed to `onDecision`. Frozen. */
export interface DecisionEvent {
  /**
   * `would-refuse`: admitted and not charged, only because of `enforce: false`; the other fields are as if refused.
   * `failed`: no limit decided. `acquire` throws `error`, and so does `tryAcquire` unless `reason` is `unavailable`.
   */
  readonly outcome: 'admitted' | 'refused' | 'would-refuse' | 'failed'
  /** `undefined` for a request that was admitted and charged as usual. */
  readonly reason: DecisionReason | undefined
  /** The limit or switch that refused the request, or would have. `undefined` if none did, as with `contended`. */
  readonly refusedBy: RefusingLimit | undefined
  /**
   * Without contention, waiting this long admits a refused request; an estimate if `in-flight`. `null`: waiting does not
   * help, or the request was not refused.
   */
  readonly retryAfterMs: number | null
  /** The error `acquire` throws, or would throw if it enforced the limits; `undefined` if admitted. */
  readonly error: unknown
  /** Balances, as in the decision; computed when read, so read them in the callback. Empty if unknown. */
  readonly limits: LimitStates
  /** Used ÷ capacity of the tightest limit, as in the decision; computed when read. `undefined` if unknown. */
  readonly share: number | undefined
  /** The limiter's namespace: its name, or its id if only that was given. */
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  /** As in the request. */
  readonly consume: Consumption
  /** As in the request. */
  readonly resources: FurtherResources | undefined
  /** Time spent waiting for admission, in ms; 0 without `waitMs`. */
  readonly waitedMs: number
  /** From the call to the decision, in ms, waits included. */
  readonly durationMs: number
  /** Table calls since the last event, refunds, splits and refusal counts included. Shared by concurrent requests. */
  readonly calls: number
  /** `open`: after five failures in a row, requests get the outage policy without asking the table, until it answers. */
  readonly circuit: 'open' | 'closed'
}

export type DecisionSummary = Pick<DecisionEvent, 'outcome' | 'reason' | 'refusedBy' | 'retryAfterMs' | 'error'>
