/** The mark slot of one limiter. */
export interface MarkSlot {
  readonly number: number
  /** Call this with every call of the limiter. */
  readonly noteUse: () => void
  /** Whether no other limiter uses the slot. */
  readonly isOwn: () => boolean
}

/**
 * Assigns mark slots. Limiters in use at the same time get different ones: in a shared slot an outcome may be
 * undecidable, and then a charge counts twice or a refund is dropped (decisions 8 and 26).
 */
export class MarkSlots {
  /** Whether two limiters have alternately used the same slot. */
  isShared: boolean
  /** Longest unused first. */
  readonly #free: number[]
  readonly #byProcess = new Map<number, number>()
  readonly #holders = new Map<number, symbol>()

  constructor(count: number, isShared: boolean) {
    this.isShared = isShared
    this.#free = isShared ? [] : Array.from({length: count}, (_, slot) => slot)
  }

  /** The slot of a new limiter of a process. The slot of its previous limiter is reused as late as possible. */
  take(process: number): MarkSlot {
    const free = this.#free.shift()
    if (free === undefined) this.isShared = true
    const slot = free ?? 0
    const last = this.#byProcess.get(process)
    if (free !== undefined && last !== undefined) this.#free.push(last)
    this.#byProcess.set(process, slot)
    const holder = Symbol(process)
    this.#holders.set(slot, holder)
    // A replaced limiter may still have leases to refund.
    const isOwn = () => !this.isShared && this.#holders.get(slot) === holder
    const noteUse = () => {
      if (!isOwn()) this.isShared = true
    }
    return {number: slot, noteUse, isOwn}
  }
}
