/** The slot of the write marks of one limiter. */
export interface MarkSlot {
  readonly number: number
  /** To be called with every call of the limiter. */
  readonly noteUse: () => void
  /** Whether no other limiter uses the slot. */
  readonly isOwn: () => boolean
}

/**
 * Hands out the slots of the write marks. Limiters that are in use at the same time get different ones: where they share
 * one, an outcome may be undecidable, and then a charge counts twice or a return is dropped (decisions 8 and 26).
 */
export class MarkSlots {
  /** Whether two limiters have used the same slot in turns. */
  isShared: boolean
  /** Those out of use for longest first. */
  readonly #free: number[]
  readonly #byProcess = new Map<number, number>()
  readonly #holders = new Map<number, symbol>()

  constructor(count: number, isShared: boolean) {
    this.isShared = isShared
    this.#free = isShared ? [] : Array.from({length: count}, (_, slot) => slot)
  }

  /** The slot of a limiter that a process starts; that of its last one is handed out again, as late as possible. */
  take(process: number): MarkSlot {
    const free = this.#free.shift()
    if (free === undefined) this.isShared = true
    const slot = free ?? 0
    const last = this.#byProcess.get(process)
    if (free !== undefined && last !== undefined) this.#free.push(last)
    this.#byProcess.set(process, slot)
    const holder = Symbol(process)
    this.#holders.set(slot, holder)
    // A limiter that was replaced may still have leases to return.
    const isOwn = () => !this.isShared && this.#holders.get(slot) === holder
    const noteUse = () => {
      if (!isOwn()) this.isShared = true
    }
    return {number: slot, noteUse, isOwn}
  }
}
