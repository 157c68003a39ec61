import {isOutage, isRetryable} from '../../dynamo/errors.js'
import {LONGEST_PAUSE_MS, LONGEST_RETRY_MS, pause} from '../../dynamo/retry.js'
import {endReservation, storeReservation} from '../../repository/buckets/reservations.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import {type SteadyTimers, SYSTEM_TIMERS} from '../../repository/table/timers.js'
import type {ReservedTokens} from '../../schema/reservation-record.js'
import type {Holder, Holders} from './holder.js'

/** A lease that ends sooner stores nothing and costs nothing, in ms. */
const STORED_AFTER_MS = 1000

const TICK_MS = 250

/** Pause between the attempts to end a reservation after the lease has given up, in ms. */
const END_AGAIN_MS = 5000

const isPassing = (error: unknown): boolean => isRetryable(error) || isOutage(error)

interface ReservationsOptions {
  readonly table: NamespaceTable
  readonly holders: Holders
  /** This process stores its first reservation: a former one may have died. */
  readonly onFirst: () => void
}

/** The quota tokens of open leases that come back if this process dies. Stored once a lease has been open for a second. */
export class Reservations {
  readonly #options: ReservationsOptions
  /** Not stored yet, oldest first. */
  readonly #waiting = new Map<OpenReservation, number>()
  readonly #timers: SteadyTimers
  #isTicking = false
  #hasStored = false

  constructor(options: ReservationsOptions) {
    this.#options = options
    this.#timers = options.table.timers ?? SYSTEM_TIMERS
  }

  /** `tokens` is called when they are stored. */
  open(tokens: () => readonly ReservedTokens[]): OpenReservation {
    const {table, holders} = this.#options
    const reservation = new OpenReservation(table, holders, tokens, () => this.#waiting.delete(reservation))
    this.#add(reservation)
    return reservation
  }

  #add(reservation: OpenReservation): void {
    this.#waiting.set(reservation, this.#timers.now() + STORED_AFTER_MS)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isTicking || this.#waiting.size === 0) return
    this.#isTicking = true
    this.#timers.after(TICK_MS, () => this.#tick())
  }

  #tick(): void {
    this.#isTicking = false
    for (const [reservation, dueMs] of this.#waiting) {
      if (dueMs > this.#timers.now()) break
      this.#waiting.delete(reservation)
      void this.#store(reservation)
      if (!this.#hasStored) this.#options.onFirst()
      this.#hasStored = true
    }
    this.#schedule()
  }

  /** Delays nobody. Fails in an outage, and if others declared the holder dead while it held nothing: then again later. */
  async #store(reservation: OpenReservation): Promise<void> {
    try {
      await reservation.store()
    } catch (error) {
      if (!reservation.isOver && isPassing(error)) this.#add(reservation)
    }
  }
}

interface StoredAs {
  readonly holder: Holder
  readonly id: string
  readonly tokens: readonly ReservedTokens[]
}

/** Of one lease and resource. */
export class OpenReservation {
  readonly #table: NamespaceTable
  readonly #holders: Holders
  readonly #tokens: () => readonly ReservedTokens[]
  readonly #forget: () => void
  #stored: StoredAs | undefined
  #ending: Promise<readonly ReservedTokens[]> | undefined
  #isOver = false

  constructor(table: NamespaceTable, holders: Holders, tokens: () => readonly ReservedTokens[], forget: () => void) {
    this.#table = table
    this.#holders = holders
    this.#tokens = tokens
    this.#forget = forget
  }

  /** Repeatable if it fails. */
  async store(): Promise<void> {
    if (!this.#stored) {
      let holder: Holder
      // Others must have a beat to compare.
      do {
        holder = this.#holders.current
        await holder.ready()
      } while (holder !== this.#holders.current)
      const tokens = this.#isOver ? [] : this.#tokens()
      if (tokens.length === 0) return
      const {number, nonce} = holder.nextNumber()
      // No pause since the question whether the lease is over: `end` must know what is stored.
      this.#stored = {holder, id: `${number.toString(36)}.${nonce}`, tokens}
      holder.hold()
    }
    const {holder, id, tokens} = this.#stored
    await storeReservation(this.#table, {holder: holder.id, id}, tokens)
  }

  get isOver(): boolean {
    return this.#isOver
  }

  get isStored(): boolean {
    return this.#stored !== undefined
  }

  /**
   * Before tokens are refunded or kept for good. Resolves to the tokens that others have returned. `undefined`: nothing
   * was stored. Retries in an outage, and calls `onRetry` each time.
   */
  end(onRetry: () => void): Promise<readonly ReservedTokens[]> | undefined {
    this.#isOver = true
    this.#forget()
    this.#ending ??= this.#stored && this.#end(this.#stored, onRetry)
    return this.#ending
  }

  /** After `end` has failed: goes on while the process runs, because nothing else ends the reservation of a lease. */
  async endLater(): Promise<readonly ReservedTokens[]> {
    const {timers = SYSTEM_TIMERS} = this.#table
    for (;;) {
      await new Promise<void>(resolve => timers.after(END_AGAIN_MS, resolve))
      try {
        return this.#stored ? await this.#endOnce(this.#stored) : []
      } catch (error) {
        if (!isPassing(error)) throw error
      }
    }
  }

  async #endOnce({holder, id}: Pick<StoredAs, 'holder' | 'id'>): Promise<readonly ReservedTokens[]> {
    const returned = await endReservation(this.#table, {holder: holder.id, id})
    holder.release()
    return returned
  }

  async #end({holder, id}: StoredAs, onRetry: () => void): Promise<readonly ReservedTokens[]> {
    const endMs = performance.now() + LONGEST_RETRY_MS
    for (let failures = 0; ; failures++) {
      try {
        return await this.#endOnce({holder, id})
      } catch (error) {
        if (!isPassing(error) || performance.now() >= endMs) {
          // Nobody returns them while this process beats, and the next settlement tries again.
          this.#ending = undefined
          throw error
        }
        onRetry()
        await pause(failures, {...this.#table.backoff, maxMs: LONGEST_PAUSE_MS})
      }
    }
  }
}
