import {setMaxListeners} from 'node:events'
import {hostname} from 'node:os'
import {Aborted, Unavailable} from '../../dynamo/errors.js'
import {deleteHolder, sendBeat} from '../../repository/buckets/holders.js'
import {type NamespaceTable, randomId} from '../../repository/table/table.js'
import {type SteadyTimers, SYSTEM_TIMERS} from '../../repository/table/timers.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import {BEAT_MS, HOLDER_MARGIN_MS, HOLDER_PERIOD_MS} from '../../schema/holder-record.js'

/** Of an id. */
const ID_BYTES = 8

/** A copy of this process, such as a cloned machine, must not repeat its beats and accounts. */
const NONCE_BYTES = 3

/** How often the age of the last beat is compared, in ms. A failed beat is repeated after this time. */
const TICK_MS = 2000

/** Aborts the signal of leases whose slots may have been given to others. */
class HolderLost extends Error {
  constructor() {
    super('This process could not renew its slots for 30 seconds, so others may have taken them')
    this.name = 'HolderLost'
  }
}

interface SentBeat {
  readonly next: string
  /** On the monotonic clock, which stops in a suspended machine, and by the time of day; of the first attempt. */
  readonly sentAt: {readonly steadyMs: number; readonly clockMs: number}
}

/**
 * This process as a holder of slots. It beats while it holds any. Without a beat in time it is lost: others may return
 * its slots, so the signal of its leases aborts, and new requests use a new holder.
 */
export class Holder {
  readonly id: string
  readonly #table: NamespaceTable
  readonly #timeoutMs: number
  readonly #onBeat: () => void
  readonly #timers: SteadyTimers
  readonly #lost = new AbortController()
  #beat: string | undefined
  #sentAt: SentBeat['sentAt'] = {steadyMs: 0, clockMs: 0}
  #unsure: SentBeat | undefined
  #count = 0
  #accounts = 0
  #beating: Promise<void> | undefined
  #cancel: (() => void) | undefined

  constructor(table: NamespaceTable, timeoutMs: number, onBeat: () => void) {
    this.#table = table
    this.#timeoutMs = timeoutMs
    this.#onBeat = onBeat
    this.#timers = table.timers ?? SYSTEM_TIMERS
    // Every lease of the process may listen.
    setMaxListeners(0, this.#lost.signal)
    this.id = randomId(table, ID_BYTES)
  }

  /** Aborts when the holder is lost. */
  get signal(): AbortSignal {
    return this.#lost.signal
  }

  get isLost(): boolean {
    return this.#lost.signal.aborted
  }

  /** Whether work may start now: others cannot declare this holder dead before the margin has passed. */
  get isFresh(): boolean {
    return !this.isLost && this.#beat !== undefined && this.#ageMs < HOLDER_PERIOD_MS - HOLDER_MARGIN_MS
  }

  /** `undefined` if work may start now. Rejects if the beat fails. */
  ready(): Promise<void> | undefined {
    return this.isFresh ? undefined : this.#beatOnce()
  }

  /** A text that this process has never used, for its next account. */
  nextNumber(): {readonly number: number; readonly nonce: string} {
    return {number: this.#count++, nonce: Buffer.from(this.#table.randomBytes(NONCE_BYTES)).toString('base64url')}
  }

  /** One more bucket has slots of this holder. */
  hold(): void {
    if (this.#accounts++ > 0) return
    this.#schedule()
    // Otherwise a process that is stopped before the next tick would be lost after a few seconds.
    if (this.isFresh && this.#ageMs >= BEAT_MS) this.#beatOnce().catch(() => {})
  }

  release(): void {
    if (--this.#accounts === 0) this.#cancel?.()
  }

  get isIdle(): boolean {
    return this.#accounts === 0
  }

  /** Best effort: without a record, nobody has to compare beats. */
  async end(): Promise<void> {
    if (this.#beat !== undefined) await deleteHolder(this.#table, this.id, this.#beat).catch(() => {})
  }

  get #isOverdue(): boolean {
    // Planted fault: a holder that beats too late goes on
    return this.#accounts > 0 && this.#ageMs >= HOLDER_PERIOD_MS
  }

  get #ageMs(): number {
    const {steadyMs, clockMs} = this.#sentAt
    // Planted fault: a holder does not count the time for which its machine was suspended
    return Math.max(this.#timers.now() - steadyMs, this.#table.clock() - clockMs)
  }

  #lose(): void {
    this.#cancel?.()
    this.#lost.abort(new HolderLost())
  }

  #schedule(): void {
    this.#cancel = this.#timers.after(TICK_MS, () => this.#tick())
  }

  /** Not after the answer to a beat: it may never come. */
  #tick(): void {
    if (this.isLost || this.#accounts === 0) return
    if (this.#isOverdue) this.#lose()
    else {
      if (this.#ageMs >= BEAT_MS) this.#beatOnce().catch(() => {})
      this.#schedule()
    }
  }

  #nextBeat(): SentBeat {
    const {number, nonce} = this.nextNumber()
    const sentAt = {steadyMs: this.#timers.now(), clockMs: this.#table.clock()}
    return {next: `${number.toString(36)}.${nonce}`, sentAt}
  }

  #beatOnce(): Promise<void> {
    this.#beating ??= this.#send().finally(() => {
      this.#beating = undefined
    })
    return this.#beating
  }

  async #send(): Promise<void> {
    if (this.isLost) throw new Unavailable('UpdateItem', false, this.signal.reason)
    if (this.#isOverdue) {
      this.#lose()
      throw new Unavailable('UpdateItem', false, this.signal.reason)
    }
    // A beat of unknown outcome is repeated unchanged, and counts from its first sending.
    this.#unsure ??= this.#nextBeat()
    const {next, sentAt} = this.#unsure
    const {namespace} = this.#table
    const holder = {namespace, id: this.id, host: hostname(), pid: process.pid, startedAt: isoSeconds(sentAt.clockMs)}
    const timeout = AbortSignal.timeout(this.#timeoutMs)
    const isAlive = await sendBeat(this.#table, {holder, before: this.#beat, next}, timeout).catch(error => {
      throw error instanceof Aborted ? new Unavailable('UpdateItem', true, error) : error
    })
    if (!isAlive) {
      this.#lose()
      throw new Unavailable('UpdateItem', false, this.signal.reason)
    }
    this.#unsure = undefined
    this.#beat = next
    // Planted fault: a beat counts from its answer
    this.#sentAt = sentAt
    this.#onBeat()
  }
}

/** The holder of this process in a namespace: a new one after the last was lost. */
export class Holders {
  readonly #table: NamespaceTable
  readonly #timeoutMs: number
  readonly #onBeat: () => void
  #current: Holder | undefined

  constructor(table: NamespaceTable, timeoutMs: number, onBeat: () => void) {
    this.#table = table
    this.#timeoutMs = timeoutMs
    this.#onBeat = onBeat
  }

  get current(): Holder {
    if (!this.#current || this.#current.isLost) this.#current = new Holder(this.#table, this.#timeoutMs, this.#onBeat)
    return this.#current
  }

  isOwn(id: string): boolean {
    return this.#current?.id === id
  }

  /** While leases hold slots or reservations, it goes on beating. What is stored later needs a record: a new holder. */
  async end(): Promise<void> {
    const current = this.#current
    if (!current?.isIdle || current.isLost) return
    this.#current = undefined
    await current.end()
  }
}
