import type {Amounts} from '../../core/buckets/bucket.js'
import type {BucketAddress, SlotsWrite} from '../../repository/buckets/writes.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {type BucketSlots, spellAccount} from '../../schema/slot-attributes.js'
import type {Holder, Holders} from './holder.js'

/** Whole slots by in-flight limit. */
export type Slots = ReadonlyMap<string, number>

export const NO_SLOTS: Slots = new Map()

export interface SlotDemand {
  /** In millitokens, as in the request; an in-flight limit counts whole slots. */
  readonly asked: Amounts
  /** Whether it holds a slot of each in-flight limit while it runs. */
  readonly takesSlots: boolean
  /** In-flight limits of which it takes no slot. */
  readonly without: ReadonlySet<string> | undefined
}

/** The slots of a request in one bucket. */
export interface HeldSlots {
  readonly address: BucketAddress
  readonly holder: Holder
  readonly slots: Slots
}

interface Waiting {
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/**
 * The slots of this process in one bucket. Every write states the whole account: the slots of its leases, and those it
 * takes. So an account that differs for any reason, such as a write of unknown outcome, is right after the next write.
 */
export class SlotAccount {
  readonly #holders: Holders
  /** Set while something is held. */
  #holder: Holder | undefined
  #held = new Map<string, number>()
  #isUnsure = false
  #isHurried = false
  #hasReturned = false
  /** The write under way returns slots. */
  #isReturning = false
  #waiting: Waiting[] = []
  #writing: Waiting[] = []

  constructor(holders: Holders) {
    this.#holders = holders
  }

  /** The queue of a bucket must stay while this is false: it alone knows what is held. */
  get isEmpty(): boolean {
    return this.#held.size === 0 && !this.isPending
  }

  get holder(): Holder {
    this.#dropLost()
    return this.#holder ?? this.#holders.current
  }

  /** The id of the holder, while it holds slots. */
  get holdingId(): string | undefined {
    this.#dropLost()
    return this.#holder?.id
  }

  /** Slots were returned, or a write of unknown outcome may have taken some. */
  get isPending(): boolean {
    return this.#hasReturned || this.#isUnsure || this.#writing.length > 0
  }

  get isDue(): boolean {
    return (this.#isHurried && this.#hasReturned) || this.#isUnsure
  }

  get isUnsure(): boolean {
    return this.#isUnsure
  }

  /** Writes returned slots with the next write at the latest, until all are written. */
  hurry(): void {
    this.#isHurried = this.#hasReturned
  }

  /** Free slots for the next write, which also returns the slots that this process no longer holds. */
  freeIn(slots: BucketSlots, name: string): number {
    this.#dropLost()
    const stored = slots.accounts.get(this.holder.id)?.held.get(name) ?? 0
    return (slots.limits.get(name)?.free ?? 0) + stored - (this.#held.get(name) ?? 0)
  }

  /** The part of a write; `undefined` if it changes nothing. */
  change({slots}: Pick<BucketRecord, 'slots'>, taken: Slots): SlotsWrite | undefined {
    if (!slots) return undefined
    const {holder} = this
    const stored = slots.accounts.get(holder.id)
    const after = new Map(this.#held)
    for (const [name, count] of taken) after.set(name, (after.get(name) ?? 0) + count)
    const changed: [string, {count: number; capacity: number | undefined}][] = []
    for (const name of new Set([...after.keys(), ...(stored?.held.keys() ?? [])])) {
      const count = (after.get(name) ?? 0) - (stored?.held.get(name) ?? 0)
      if (count !== 0) changed.push([name, {count, capacity: slots.limits.get(name)?.capacity}])
    }
    this.#isReturning = this.#hasReturned || changed.some(([, {count}]) => count < 0)
    this.#hasReturned = false
    // Slots that pass from one lease to another change no number, but the account must still be there.
    if (changed.length === 0 && taken.size === 0) {
      this.noteReturned()
      return undefined
    }
    this.#writing = this.#waiting.splice(0)
    const {number, nonce} = holder.nextNumber()
    const text = after.size > 0 ? spellAccount(number, nonce, after) : undefined
    return {holder: holder.id, before: stored?.text, after: text, taken: new Map(changed)}
  }

  noteApplied(holder: Holder, taken: Slots): void {
    this.#dropLost()
    // Slots of a holder that was lost meanwhile are returned by others.
    if (!holder.isLost && taken.size > 0) {
      if (!this.#holder) holder.hold()
      this.#holder = holder
      for (const [name, count] of taken) this.#held.set(name, (this.#held.get(name) ?? 0) + count)
    }
    this.#isUnsure = false
    if (!this.#hasReturned) this.#isHurried = false
    for (const {resolve} of this.#writing.splice(0)) resolve()
  }

  /** Nothing was written, so everything is still due. */
  noteRefused(): void {
    // Planted fault: slots whose return was refused are not due any more
    this.#hasReturned ||= this.#isReturning
    this.#waiting.unshift(...this.#writing.splice(0))
  }

  /** The bucket is gone, and with it the slots. */
  noteGone(): void {
    this.#end()
    this.#held.clear()
    this.noteCertain()
    this.noteReturned()
  }

  /** The bucket has no account that differs. */
  noteReturned(): void {
    this.#hasReturned = false
    for (const {resolve} of this.#waiting.splice(0)) resolve()
  }

  noteCertain(): void {
    this.#isUnsure = false
  }

  noteUnknown(): void {
    this.noteRefused()
    this.#isUnsure = true
  }

  /** Resolves when written. Slots of a lost holder need no write. */
  giveBack({holder, slots}: HeldSlots): Promise<void> {
    this.#dropLost()
    // Planted fault: the slots of a lost holder are returned from its successor
    if (holder !== this.#holder) return Promise.resolve()
    // Planted fault: returned slots stay in the account
    for (const [name, count] of slots) {
      const left = (this.#held.get(name) ?? 0) - count
      if (left > 0) this.#held.set(name, left)
      else this.#held.delete(name)
    }
    if (this.#held.size === 0) this.#end()
    this.#hasReturned = true
    return new Promise((resolve, reject) => {
      this.#waiting.push({resolve, reject})
    })
  }

  /** Callers need not wait longer. The account stays due. */
  giveUp(error: unknown): void {
    for (const {reject} of this.#waiting.splice(0)) reject(error)
  }

  #dropLost(): void {
    if (!this.#holder?.isLost) return
    this.#end()
    this.#held.clear()
    this.#hasReturned = false
    this.#isUnsure = false
    for (const {resolve} of [...this.#waiting.splice(0), ...this.#writing.splice(0)]) resolve()
  }

  #end(): void {
    this.#holder?.release()
    this.#holder = undefined
  }
}

/** One slot of each in-flight limit, or as many as the request names. None if it is bypassed. */
export function slotsWanted(
  {asked, takesSlots, without}: SlotDemand,
  {slots, bypassUntilMs}: Pick<BucketRecord, 'slots' | 'bypassUntilMs'>,
): Slots {
  if (!slots || !takesSlots || bypassUntilMs !== undefined) return NO_SLOTS
  const wanted = new Map<string, number>()
  for (const name of slots.limits.keys()) {
    if (without?.has(name)) continue
    const milli = asked.get(name)
    wanted.set(name, milli === undefined ? 1 : Number(milli / 1000n))
  }
  return wanted
}

/** Whether a request could never have its slots; then the configuration decides. */
export function exceedsCapacity(wanted: Slots, slots: BucketSlots | undefined): boolean {
  for (const [name, count] of wanted) if (count > (slots?.limits.get(name)?.capacity ?? count)) return true
  return false
}

export function sumSlots(requests: Iterable<{readonly slots: Slots}>): Slots {
  let sum: Map<string, number> | undefined
  for (const {slots} of requests) {
    for (const [name, count] of slots) {
      sum ??= new Map()
      sum.set(name, (sum.get(name) ?? 0) + count)
    }
  }
  return sum ?? NO_SLOTS
}
