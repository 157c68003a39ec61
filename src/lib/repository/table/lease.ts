import type {ZaelError} from '../../core/errors.js'
import {Aborted, ConditionFailed} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {wireKey} from '../../schema/keys.js'
import {sendRepeatable, type Table} from './table.js'

/** After this, the lease of an interrupted run is left to expire. */
const RELEASE_TIMEOUT_MS = 2_000

export interface LeaseRecord {
  readonly runId: string
  /** Shown to others. */
  readonly owner: string
  /** Epoch ms; afterwards another run may take it. 0 when nobody holds it. */
  readonly leaseUntilMs: number
}

/** A kind of lease: where it is stored, and how it fails. */
export interface LeaseKind<R extends LeaseRecord> {
  readonly key: Key
  readonly leaseMs: number
  /** Whether the record stays after a release. */
  readonly isKept: boolean
  encode(record: R): Item
  read(signal?: AbortSignal): Promise<R | undefined>
  held(record: R, nowMs: number): ZaelError
  lost(now: R | undefined): ZaelError
}

interface TakeOptions<R> {
  /** Aborts requests. The lease is held until it is released. */
  readonly signal?: AbortSignal | undefined
  /** The record to store, given the stored one. */
  readonly next: (before: R | undefined, lease: {runId: string; leaseUntilMs: number}, nowMs: number) => R
}

/** Renewed by a heartbeat. `lost` aborts on a takeover. Its owner's writes must be conditional all the same. */
export class RecordLease<R extends LeaseRecord> {
  readonly #table: Table
  readonly #kind: LeaseKind<R>
  readonly #signal: AbortSignal | undefined
  readonly #lost = new AbortController()
  #record: R
  /** The expired record of a run that never released it. */
  readonly takenFrom: R | undefined
  /** As stored, unlike the record's, which may not be written yet. */
  #heldUntilMs = 0
  #heartbeat: NodeJS.Timeout | undefined
  #saving: Promise<void> = Promise.resolve()

  private constructor(
    table: Table,
    kind: LeaseKind<R>,
    record: R,
    before: R | undefined,
    signal: AbortSignal | undefined,
  ) {
    this.#table = table
    this.#kind = kind
    this.#signal = signal
    this.#record = record
    this.takenFrom = before?.leaseUntilMs === 0 ? undefined : before
  }

  static async take<R extends LeaseRecord>(
    table: Table,
    kind: LeaseKind<R>,
    {signal, next}: TakeOptions<R>,
  ): Promise<RecordLease<R>> {
    const before = await kind.read(signal)
    const nowMs = table.clock()
    if (before && before.leaseUntilMs > nowMs) throw kind.held(before, nowMs)
    const runId = Buffer.from(table.randomBytes(9)).toString('base64url')
    const record = next(before, {runId, leaseUntilMs: nowMs + kind.leaseMs}, nowMs)
    const e = new ExpressionBuilder()
    if (!before) e.absent()
    else e.require(attributes.lease.runId, before.runId).require(attributes.lease.leaseUntil, before.leaseUntilMs)
    const lease = new RecordLease(table, kind, record, before, signal)
    try {
      await lease.#write(record, e, signal)
    } catch (error) {
      if (error instanceof Aborted) {
        await lease.abandon()
        throw error
      }
      // If only the response was lost, the record is already this run's.
      const now = await kind.read(signal)
      if (!(error instanceof ConditionFailed) || !now) throw error
      if (now.runId !== runId) throw kind.held(now, nowMs)
      lease.#heldUntilMs = now.leaseUntilMs
    }
    lease.#heartbeat = setInterval(() => lease.#renew(), kind.leaseMs / 3)
    return lease
  }

  get record(): R {
    return this.#record
  }

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /** Aborts with the run, or when the lease is lost. */
  get signal(): AbortSignal {
    return this.#signal ? AbortSignal.any([this.#signal, this.lost]) : this.lost
  }

  /** Before a write. Renews a lease that ends soon, as after a pause of the process. Throws if it is lost. */
  async hold(): Promise<void> {
    if (this.lost.aborted) throw this.lost.reason
    // Another run, whose clock may differ, takes it only after the end.
    if (this.#table.clock() >= this.#heldUntilMs - this.#kind.leaseMs / 3) await this.save({})
  }

  async abandonAfter(error: unknown, change: (cause: unknown) => Partial<R>): Promise<unknown> {
    const cause = this.lost.aborted ? (this.lost.reason as unknown) : error
    await this.abandon(cause instanceof Aborted ? {} : change(cause))
    return cause
  }

  /** Also renews the lease. */
  async save(change: Partial<R>): Promise<void> {
    this.#record = {...this.#record, ...change, leaseUntilMs: this.#table.clock() + this.#kind.leaseMs}
    await this.#store(this.#signal)
  }

  async release(change: Partial<R> = {}): Promise<void> {
    await this.#end(change, this.#signal)
  }

  /** For a run that failed or was interrupted. Gives up after a short time. */
  async abandon(change: Partial<R> = {}): Promise<void> {
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(), RELEASE_TIMEOUT_MS)
    try {
      await this.#end(change, deadline.signal)
    } catch {
      // The caller throws the original error. The lease expires.
    } finally {
      clearTimeout(timer)
    }
  }

  async #end(change: Partial<R>, signal: AbortSignal | undefined): Promise<void> {
    clearInterval(this.#heartbeat)
    if (this.#lost.signal.aborted) return
    this.#record = {...this.#record, ...change, leaseUntilMs: 0}
    await this.#store(signal)
  }

  async #renew(): Promise<void> {
    // A failed renewal does not end the run: the lease is valid until it expires.
    await this.save({}).catch(() => {})
  }

  /** One write at a time: an earlier state must not overwrite a later one. */
  #store(signal: AbortSignal | undefined): Promise<void> {
    this.#saving = this.#saving
      .catch(() => {})
      .then(async () => {
        const e = new ExpressionBuilder().require(attributes.lease.runId, this.#record.runId)
        try {
          await this.#write(this.#record, e, signal)
        } catch (error) {
          if (!(error instanceof ConditionFailed)) throw error
          const lost = this.#kind.lost(await this.#kind.read(signal))
          this.#lost.abort(lost)
          throw lost
        }
      })
    return this.#saving
  }

  async #write(record: R, e: ExpressionBuilder, signal: AbortSignal | undefined): Promise<void> {
    const {key, isKept, encode} = this.#kind
    const TableName = this.#table.name
    if (record.leaseUntilMs === 0 && !isKept) {
      await sendRepeatable(this.#table, 'DeleteItem', {TableName, Key: wireKey(key), ...e.write()}, {signal})
      return
    }
    await sendRepeatable(this.#table, 'PutItem', {TableName, Item: encode(record), ...e.write()}, {signal})
    this.#heldUntilMs = record.leaseUntilMs
  }
}
