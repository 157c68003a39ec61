import type {Amounts} from '../../core/bucket.js'
import type {QuotaPeriod} from '../../core/kind-refill.js'

/** A charge or return after the fact, waiting in a queue. */
export interface Correction {
  readonly amounts: Amounts
  /** Change of the number of admitted requests. */
  readonly requests: number
  /** Nothing was taken: only the counters are corrected, in whatever bucket is there. */
  readonly isBypassed: boolean
  /** The bucket that gave the tokens: what is returned goes to no other. */
  readonly incarnation: string | undefined
  /** The periods of quotas that the tokens were taken in: nor do they go to a later one. */
  readonly periods: ReadonlyMap<string, QuotaPeriod>
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** What a correction is besides its amounts. */
export interface CorrectOptions {
  /** Change of the number of admitted requests. */
  readonly requests?: number
  /** Nothing was taken: only the counters are corrected. */
  readonly isBypassed?: boolean
  /** The bucket that gave the tokens: what is returned goes to no other. */
  readonly incarnation?: string | undefined
  /** And the periods of its quotas: nor to a later one. */
  readonly periods?: ReadonlyMap<string, QuotaPeriod>
}
