import {hostname} from 'node:os'
import {Aborted, Unavailable} from '../../dynamo/errors.js'
import {deleteHolder, sendBeat} from '../../repository/buckets/holders.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import {BEAT_MS, HOLDER_MARGIN_MS, HOLDER_PERIOD_MS} from '../../schema/holder-record.js'

/** Bytes of an id: ids are never reused. */
const ID_BYTES = 8

/** A copy of this process, such as a cloned machine, must not repeat its beats and accounts. */
const NONCE_BYTES = 3

/** A failed beat is repeated after this time, in ms. */
const RETRY_MS = 2000

/** Aborts the signal of leases whose slots may have been given to others. */
export class HolderLost extends Error {
  constructor() {
    super('This process could not renew its slots for 30 seconds, so others may have taken them')
    this.name = 'HolderLost'
  }
}

/**
 * This process as a holder of slots. It beats while it holds any. Without a beat in time it is lost: others may return
 * its slots, so its leases are told to stop, and new requests use a new holder.
 */
export class Holder {
  readonly id: string
  readonly #table: NamespaceTable
  readonly #timeoutMs: number
  readonly #lost = new AbortController()
  #beat: string | undefined
  /** When the last successful beat was first sent: on the monotonic clock, which stops in a suspended machine, and by time. */
  #sentAt = {steadyMs: 0, clockMs: 0}
  #count = 0
  #accounts = 0
  #beating: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(table: NamespaceTable, timeoutMs: number) {
    this.#table = table
    this.#timeoutMs = timeoutMs
    this.id = Buffer.from(table.randomBytes(ID_BYTES)).toString('base64url')
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
    if (this.#accounts++ === 0) this.#schedule(BEAT_MS)
  }

  release(): void {
    if (--this.#accounts === 0) clearTimeout(this.#timer)
  }

  /** Best effort: without a record, nobody has to compare beats. */
  async end(): Promise<void> {
    clearTimeout(this.#timer)
    if (this.isLost || this.#accounts > 0 || this.#beat === undefined) return
    await deleteHolder(this.#table, this.id, this.#beat).catch(() => {})
  }

  get #ageMs(): number {
    const {steadyMs, clockMs} = this.#sentAt
    return Math.max(performance.now() - steadyMs, this.#table.clock() - clockMs)
  }

  #lose(): void {
    clearTimeout(this.#timer)
    this.#lost.abort(new HolderLost())
  }

  #schedule(ms: number): void {
    clearTimeout(this.#timer)
    // A process may end with slots: others return them.
    this.#timer = setTimeout(() => void this.#beatLater(), ms)
    this.#timer.unref?.()
  }

  async #beatLater(): Promise<void> {
    let isSent = true
    await this.#beatOnce().catch(() => {
      isSent = false
    })
    if (this.isLost || this.#accounts === 0) return
    // Planted fault: a holder that beats too late goes on
    if (this.#beat !== undefined && this.#ageMs >= HOLDER_PERIOD_MS) this.#lose()
    else this.#schedule(isSent ? BEAT_MS : RETRY_MS)
  }

  #beatOnce(): Promise<void> {
    this.#beating ??= this.#send().finally(() => {
      this.#beating = undefined
    })
    return this.#beating
  }

  async #send(): Promise<void> {
    if (this.isLost) throw new Unavailable('UpdateItem', false, this.signal.reason)
    // Planted fault: a holder that beats too late goes on
    if (this.#accounts > 0 && this.#beat !== undefined && this.#ageMs >= HOLDER_PERIOD_MS) {
      this.#lose()
      throw new Unavailable('UpdateItem', false, this.signal.reason)
    }
    const {number, nonce} = this.nextNumber()
    const next = `${number.toString(36)}.${nonce}`
    const sentAt = {steadyMs: performance.now(), clockMs: this.#table.clock()}
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
    this.#beat = next
    // Planted fault: a beat counts from its answer
    this.#sentAt = sentAt
  }
}

/** The holder of this process in a namespace: a new one after the last was lost. */
export class Holders {
  readonly #table: NamespaceTable
  readonly #timeoutMs: number
  #current: Holder | undefined

  constructor(table: NamespaceTable, timeoutMs: number) {
    this.#table = table
    this.#timeoutMs = timeoutMs
  }

  get current(): Holder {
    if (!this.#current || this.#current.isLost) this.#current = new Holder(this.#table, this.#timeoutMs)
    return this.#current
  }

  isOwn(id: string): boolean {
    return this.#current?.id === id
  }

  async end(): Promise<void> {
    await this.#current?.end()
  }
}
