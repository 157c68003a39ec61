import {type Amounts, type BucketLimit, negateAmounts, sumAmounts} from '../../core/buckets/bucket.js'
import {isSamePeriod, type QuotaPeriod} from '../../core/buckets/kind-refill.js'
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
}

export function chargesOf(settlements: readonly Settlement[]): Map<string, bigint> {
  return sumAmounts(settlements.map(({amounts}) => ({amounts: positive(amounts)})))
}

function returnsOf(settlements: readonly Settlement[]): Map<string, bigint> {
  return sumAmounts(settlements.map(({amounts}) => ({amounts: positive(negateAmounts(amounts))})))
}

const positive = (amounts: Amounts): Amounts => new Map([...amounts].filter(([, milli]) => milli > 0n))

/** How long a `soon` settlement waits for others of its bucket; bounds the loss in a crash. */
const LONGEST_WAIT_MS = 50

export class PendingSettlements {
  #due: Settlement[] = []
  #soon: Settlement[] = []
  #timer: NodeJS.Timeout | undefined
  readonly #onDue: () => void

  constructor(onDue: () => void) {
    this.#onDue = onDue
  }

  get isEmpty(): boolean {
    return this.#due.length === 0 && this.#soon.length === 0
  }

  get all(): readonly Settlement[] {
    return [...this.#due, ...this.#soon]
  }

  get isDue(): boolean {
    return this.#due.length > 0
  }

  /** Writes now, together with all `soon` settlements; resolves when written. */
  add(amounts: Amounts, requests: number, charged: ChargedItem): Promise<void> {
    const written = pushTo(this.#due, amounts, requests, charged)
    this.hurry()
    return written
  }

  /** Writes with the next due settlement, or after the longest wait; resolves when written. */
  addSoon(amounts: Amounts, charged: ChargedItem): Promise<void> {
    // Not unref'd: a process that ends normally writes the accepted settlements.
    this.#timer ??= setTimeout(() => this.hurry(), LONGEST_WAIT_MS)
    return pushTo(this.#soon, amounts, 0, charged)
  }

  hurry(): void {
    this.#moveSoon()
    if (this.isDue) this.#onDue()
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
): Promise<void> {
  return new Promise((resolve, reject) => {
    settlements.push({amounts, requests, isBypassed, incarnation, periods, resolve, reject})
  })
}
