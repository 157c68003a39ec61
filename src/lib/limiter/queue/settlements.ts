import {type Amounts, type BucketLimit, negateAmounts, sumAmounts} from '../../core/buckets/bucket.js'
import {isSamePeriod, type QuotaPeriod} from '../../core/buckets/kind-refill.js'
import {isOutage, isRetryable} from '../../dynamo/errors.js'
import {type Backoff, LONGEST_PAUSE_MS, LONGEST_RETRY_MS, pause} from '../../dynamo/retry.js'
import type {Returns} from '../../repository/buckets/consume-write.js'
import {ceilingOf} from '../../repository/buckets/plan.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import type {ChargedItem} from '../request/grant.js'

/** Limits settled in a request write: an expression has at most 300 operators. */
const MOST_LIMITS = 8

/** Settlements batched into a request write, added up. */
export interface BatchedSettlements {
  /** In millitokens. Excludes charges into debt: the balance must cover these. */
  readonly charges: Amounts
  readonly returns: Returns | undefined
  readonly requests: number
}

/** `undefined` if a settlement belongs to another incarnation or period, or does not fit whole. */
export function batchSettlements(
  settlements: readonly Settlement[],
  record: BucketRecord,
  slotMark: string | undefined,
  nowMs: number,
): BatchedSettlements | undefined {
  const {state, incarnation, shardCount, validUntilMs} = record
  const charges = chargesOf(settlements)
  const amounts = returnsOf(settlements)
  const isKnown = [...charges.keys(), ...amounts.keys()].every(name => state.limits.has(name))
  if (!isKnown || charges.size + amounts.size > MOST_LIMITS) return undefined
  const periods = new Map<string, QuotaPeriod>()
  const highestMilli = new Map<string, bigint>()
  for (const settlement of settlements) {
    if (settlement.isBypassed) return undefined
    const returned = [...settlement.amounts].filter(([, milli]) => milli < 0n)
    if (returned.length === 0 && settlement.requests === 0) continue
    // Planted fault: a batched refund goes to a newer incarnation of the bucket
    if (settlement.incarnation !== incarnation) return undefined
    for (const [name] of returned) {
      const period = settlement.periods.get(name)
      const limit = state.limits.get(name)
      if (period ? !isSamePeriod(period, limit, state.refilledAtMs) : limit?.kind?.quota !== undefined) return undefined
      if (!period) continue
      periods.set(name, period)
      if (shardCount === 1) continue
      const fitsIn = ceilingOf(name, limit as BucketLimit, record, nowMs) - (amounts.get(name) ?? 0n)
      // Other shards must take a part.
      if (limit && limit.tokensMilli > fitsIn) return undefined
      highestMilli.set(name, fitsIn)
    }
  }
  const requests = settlements.reduce((sum, settlement) => sum + settlement.requests, 0)
  const isReturn = amounts.size > 0 || requests !== 0
  const returns = isReturn ? {amounts, target: {slotMark, incarnation, periods, validUntilMs, highestMilli}} : undefined
  return {charges, returns, requests}
}

/** Settlements due after an uncertain write: charges are repeated, refunds are not. */
export function dueInDoubt(settlements: readonly Settlement[]): Settlement[] {
  return settlements.map(settlement => ({...settlement, amounts: chargesOf([settlement]), requests: 0}))
}

/** A settlement: a charge or refund after the decision, pending in a queue. */
export interface Settlement extends ChargedItem {
  readonly amounts: Amounts
  /** Change of the admitted request count. */
  readonly requests: number
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
  /** Called after each failed attempt that will be repeated. */
  readonly onRetry?: (() => void) | undefined
  failures?: number
  /** No attempt begins later, by the monotonic clock. Set with the first failure. */
  retryUntilMs?: number
}

/** A failed write of settlements. */
export interface FailedWrite {
  readonly settlements: readonly Settlement[]
  readonly error: unknown
  /** Set if the write may have been applied: completes it once that turns out to be so. */
  readonly onApplied?: () => void
}

export function chargesOf(settlements: readonly Settlement[]): Map<string, bigint> {
  return sumAmounts(settlements.map(({amounts}) => ({amounts: positive(amounts)})))
}

function returnsOf(settlements: readonly Settlement[]): Map<string, bigint> {
  return sumAmounts(settlements.map(({amounts}) => ({amounts: positive(negateAmounts(amounts))})))
}

const positive = (amounts: Amounts): Amounts => new Map([...amounts].filter(([, milli]) => milli > 0n))

/** How long a `soon` settlement waits for others of its bucket; bounds the loss in a crash. */
export const BATCH_MS = 50

const MOST_ATTEMPTS = 40

export class PendingSettlements {
  #due: Settlement[] = []
  #soon: Settlement[] = []
  #unsure: FailedWrite | undefined
  #isUnsureDue = false
  #timer: NodeJS.Timeout | undefined
  readonly #onDue: () => void
  readonly #backoff: Backoff

  constructor(onDue: () => void, backoff: Backoff) {
    this.#onDue = onDue
    this.#backoff = backoff
  }

  get isEmpty(): boolean {
    return this.#due.length === 0 && this.#soon.length === 0 && !this.#unsure
  }

  /** Settlements of the last write, if it may have been applied. Find out before the next write replaces its mark. */
  get unsure(): FailedWrite | undefined {
    return this.#unsure
  }

  get all(): readonly Settlement[] {
    return [...this.#due, ...this.#soon]
  }

  get isDue(): boolean {
    return this.#due.length > 0 || this.#isUnsureDue
  }

  /** Writes now, together with all `soon` settlements; resolves when written. */
  add(amounts: Amounts, requests: number, charged: ChargedItem, onRetry?: () => void): Promise<void> {
    const written = pushTo(this.#due, amounts, requests, charged, onRetry)
    this.hurry()
    return written
  }

  /** Writes with the next due settlement, or after the longest wait; resolves when written. */
  addSoon(amounts: Amounts, charged: ChargedItem, onRetry?: () => void): Promise<void> {
    // Not unref'd: a process that ends normally writes the accepted settlements.
    this.#timer ??= setTimeout(() => this.hurry(), BATCH_MS)
    return pushTo(this.#soon, amounts, 0, charged, onRetry)
  }

  hurry(): void {
    this.#moveSoon()
    this.#isUnsureDue = this.#unsure !== undefined
    if (this.isDue) this.#onDue()
  }

  /** Repeats a failed write later, unless that is pointless or has been tried for too long. */
  retry({settlements, error, onApplied}: FailedWrite): void {
    const isPassing = isRetryable(error) || isOutage(error)
    const nowMs = performance.now()
    const kept: Settlement[] = []
    let mostFailures = 0
    for (const settlement of settlements) {
      const {failures = 0, retryUntilMs = nowMs + LONGEST_RETRY_MS, onRetry} = settlement
      Object.assign(settlement, {failures: failures + 1, retryUntilMs})
      if (!isPassing || failures + 1 >= MOST_ATTEMPTS || nowMs >= retryUntilMs) settlement.reject(error)
      else {
        kept.push(settlement)
        onRetry?.()
        mostFailures = Math.max(mostFailures, failures + 1)
      }
    }
    if (kept.length === 0) return
    if (onApplied) this.#unsure = {settlements: kept, error, onApplied}
    else this.#soon = [...this.#soon, ...kept]
    void pause(mostFailures, {...this.#backoff, maxMs: LONGEST_PAUSE_MS}).then(() => this.hurry())
  }

  /** The outcome of the `unsure` write is known: these of its settlements are still due. */
  resolveUnsure(due: readonly Settlement[]): void {
    this.#unsure = undefined
    this.#isUnsureDue = false
    this.#due.push(...due)
  }

  take({all}: {readonly all: boolean}): readonly Settlement[] {
    if (all) this.#moveSoon()
    const due = this.#due
    this.#due = []
    return due
  }

  #moveSoon(): void {
    if (this.#soon.length === 0) return
    clearTimeout(this.#timer)
    this.#timer = undefined
    // Planted fault: delayed settlements are lost when others are written
    this.#due.push(...this.#soon)
    // Planted fault: delayed settlements are repeated with every write
    this.#soon = []
  }
}

function pushTo(
  settlements: Settlement[],
  amounts: Amounts,
  requests: number,
  {isBypassed, incarnation, periods}: ChargedItem,
  onRetry: (() => void) | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    settlements.push({amounts, requests, isBypassed, incarnation, periods, resolve, reject, onRetry})
  })
}
