import type {Consumption} from '../../core/limits/limit.js'
import type {Level} from '../../core/limits/resolve.js'

/** The limit that refused a request; where several did, the one that makes it wait longest. */
export interface RefusingLimit {
  /** The resource whose limit it is: the first of the request, or one of `also`. */
  readonly resource: string
  /** `undefined` when a switch refuses all requests. */
  readonly limit: string | undefined
  /** Whose bucket it is: the entity's own or its parent's. */
  readonly level: 'entity' | 'parent'
  /** Where the limit is configured or the switch is set; `undefined` when the refusal needed no read of the configuration. */
  readonly source: Level | 'default' | undefined
}

/**
 * Why, where the outcome alone does not tell. Of an admission: `bypassed` (by a switch; counted, and nothing taken) or `unavailable`
 * (the table was out of reach and the policy let it through; nothing charged). Of a refusal: `exceeded`, `too-large` or
 * `disabled`. Of a failure: `unavailable` (the policy blocks), `aborted` (by the signal), `closed`, or `error`.
 */
export type DecisionReason =
  | 'bypassed'
  | 'unavailable'
  | 'exceeded'
  | 'too-large'
  | 'disabled'
  | 'aborted'
  | 'closed'
  | 'error'

/** What became of one request, as `onDecision` is told. Frozen. */
export interface DecisionEvent {
  /** `failed`: there was no decision, and `acquire` and `tryAcquire` throw `error`. */
  readonly outcome: 'admitted' | 'refused' | 'failed'
  /** `undefined` for what was admitted and charged as usual. */
  readonly reason: DecisionReason | undefined
  /** `undefined` unless refused. */
  readonly refusedBy: RefusingLimit | undefined
  /** Waiting this long with no competitors admits a refused request; `null`: waiting never helps, or it was not refused. */
  readonly retryAfterMs: number | null
  /** What `acquire` throws. */
  readonly error: unknown
  /** The limiter's: its name, or its id where the limiter was given that. */
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  /** As in the request. */
  readonly consume: Consumption
  /** As in the request. */
  readonly also: Readonly<Record<string, Consumption>> | undefined
  /** Time spent waiting for admission, in ms; 0 without `waitMs`. */
  readonly waitedMs: number
  /** From the call to the answer, in ms, waits included. */
  readonly durationMs: number
  /**
   * Calls that the limiter has sent to the table since it told of the decision before. Requests share calls, so that of
   * requests at the same time only the sum is exact; it includes returned tokens, splits and counted refusals.
   */
  readonly calls: number
}

export type DecisionSummary = Pick<DecisionEvent, 'outcome' | 'reason' | 'refusedBy' | 'retryAfterMs' | 'error'>
