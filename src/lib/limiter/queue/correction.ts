import {type Amounts, negateAmounts, sumAmounts} from '../../core/buckets/bucket.js'
import type {QuotaPeriod} from '../../core/buckets/kind-refill.js'

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

export interface CorrectOptions {
  /** Change of the number of admitted requests. */
  readonly requests?: number
  /** Nothing was taken: only the counters are corrected. */
  readonly isBypassed?: boolean
  /** The bucket that gave the tokens: what is returned goes to no other. */
  readonly incarnation?: string | undefined
  readonly periods?: ReadonlyMap<string, QuotaPeriod>
}

/** What is charged, apart from what others return in the same write. */
export function chargesOf(corrections: readonly Correction[]): Map<string, bigint> {
  return sumAmounts(corrections.map(({amounts}) => ({amounts: positive(amounts)})))
}

/** What is returned, as positive amounts, apart from what others are charged. */
export function returnsOf(corrections: readonly Correction[]): Map<string, bigint> {
  return sumAmounts(corrections.map(({amounts}) => ({amounts: positive(negateAmounts(amounts))})))
}

const positive = (amounts: Amounts): Amounts => new Map([...amounts].filter(([, milli]) => milli > 0n))
