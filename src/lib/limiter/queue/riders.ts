import {type Amounts, negateAmounts, sumAmounts} from '../../core/buckets/bucket.js'
import {isSamePeriod, type QuotaPeriod} from '../../core/buckets/kind-refill.js'
import type {Returns} from '../../repository/buckets/consume-write.js'
import type {BucketRecord} from '../../schema/bucket-record.js'

/** Limits that may be corrected in the write of requests: an expression has at most 300 operators. */
const MOST_LIMITS = 8

/** Corrections that share the write of requests, added up. */
export interface Riders {
  /** In millitokens. Charges into debt do not ride: what is charged must be there. */
  readonly charges: Amounts
  readonly returns: Returns | undefined
  /** Change of the number of admitted requests. */
  readonly requests: number
}

/** `undefined` where one of the corrections may not go to the bucket as it was seen, or would not be written whole. */
export function ridersOf(corrections: readonly Correction[], record: BucketRecord): Riders | undefined {
  const {state, incarnation, validUntilMs} = record
  const charges = chargesOf(corrections)
  const amounts = returnsOf(corrections)
  const isKnown = [...charges.keys(), ...amounts.keys()].every(name => state.limits.has(name))
  if (!isKnown || charges.size + amounts.size > MOST_LIMITS) return undefined
  const periods = new Map<string, QuotaPeriod>()
  for (const correction of corrections) {
    if (correction.isBypassed) return undefined
    const returned = [...correction.amounts].filter(([, milli]) => milli < 0n)
    if (returned.length === 0 && correction.requests === 0) continue
    // Planted fault: tokens are returned with a request to a bucket that was created since
    if (correction.incarnation !== incarnation) return undefined
    for (const [name] of returned) {
      const period = correction.periods.get(name)
      const limit = state.limits.get(name)
      if (period ? !isSamePeriod(period, limit, state.refilledAtMs) : limit?.kind?.quota !== undefined) return undefined
      if (period) periods.set(name, period)
    }
  }
  const requests = corrections.reduce((sum, correction) => sum + correction.requests, 0)
  const isReturn = amounts.size > 0 || requests !== 0
  const returns = isReturn ? {amounts, target: {incarnation, periods, validUntilMs}} : undefined
  return {charges, returns, requests}
}

/** What is owed of corrections that may have been written: a return is not repeated, a charge is. */
export function owedInDoubt(corrections: readonly Correction[]): Correction[] {
  return corrections.map(correction => ({...correction, amounts: chargesOf([correction]), requests: 0}))
}

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
function returnsOf(corrections: readonly Correction[]): Map<string, bigint> {
  return sumAmounts(corrections.map(({amounts}) => ({amounts: positive(negateAmounts(amounts))})))
}

const positive = (amounts: Amounts): Amounts => new Map([...amounts].filter(([, milli]) => milli > 0n))

/** How long a correction that may be written soon waits for others of its bucket, in ms; what a crash loses is no older. */
const LONGEST_WAIT_MS = 50

export class WaitingCorrections {
  #due: Correction[] = []
  #soon: Correction[] = []
  #timer: NodeJS.Timeout | undefined
  readonly #onDue: () => void

  constructor(onDue: () => void) {
    this.#onDue = onDue
  }

  get isEmpty(): boolean {
    return this.#due.length === 0 && this.#soon.length === 0
  }

  get all(): readonly Correction[] {
    return [...this.#due, ...this.#soon]
  }

  get isDue(): boolean {
    return this.#due.length > 0
  }

  get hasSoon(): boolean {
    return this.#soon.length > 0
  }

  /** To be written now, together with all that waits for company; resolves when it is written. */
  add(amounts: Amounts, options: CorrectOptions): Promise<void> {
    const written = pushTo(this.#due, amounts, options)
    this.hurry()
    return written
  }

  /** To be written with the next correction that is, and within the longest wait; resolves when it is written. */
  addSoon(amounts: Amounts, options: CorrectOptions): Promise<void> {
    // Not unreferenced: a process that ends by itself writes what it has accepted.
    this.#timer ??= setTimeout(() => this.hurry(), LONGEST_WAIT_MS)
    return pushTo(this.#soon, amounts, options)
  }

  hurry(): void {
    this.#moveSoon()
    if (this.isDue) this.#onDue()
  }

  take({all}: {readonly all: boolean}): readonly Correction[] {
    if (all) this.#moveSoon()
    const due = this.#due
    this.#due = []
    return due
  }

  #moveSoon(): void {
    if (this.#soon.length === 0) return
    clearTimeout(this.#timer)
    this.#timer = undefined
    // Planted fault: what is settled soon is forgotten when others are written
    this.#due.push(...this.#soon)
    // Planted fault: what is settled soon is written with every further write
    this.#soon = []
  }
}

function pushTo(
  corrections: Correction[],
  amounts: Amounts,
  {requests = 0, isBypassed = false, incarnation, periods = new Map()}: CorrectOptions,
): Promise<void> {
  return new Promise((resolve, reject) => {
    corrections.push({amounts, requests, isBypassed, incarnation, periods, resolve, reject})
  })
}
