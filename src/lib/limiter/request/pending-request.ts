import type {Amounts} from '../../core/buckets/bucket.js'
import type {LimitState} from '../../core/limits/limit-state.js'
import {onAbort} from '../../dynamo/abort.js'
import {Aborted, Unavailable} from '../../dynamo/errors.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {NO_SLOTS, type SlotDemand, type Slots} from '../holders/slot-account.js'
import type {Grant, Holding} from './grant.js'
import type {AppliedLimits} from './limit-source.js'

const NO_AMOUNTS: Amounts = new Map()

/** `asked` is the full request, including limits that the bucket lacks. */
export interface Demand extends SlotDemand {
  amounts: Amounts
  readonly level: LimitState['level']
  /** Fails if neither the bucket nor the parent has a limit of `asked`. Never true for the request to a parent. */
  readonly isStrict: boolean
  /** If it may wait for a rate; `undefined`: it leaves no debt. */
  readonly booking: Booking | undefined
  /** Its tokens are charged; only slots are missing. Refund them if it does not get these. */
  readonly charged?: Holding | undefined
  slots: Slots
}

/** In ms. A bucket expires much later, so expiry forgives no debt. */
export const LONGEST_BOOKING_MS = 3_600_000

/** How deep a debt a waiting request may leave. */
export interface Booking {
  /** Refill must have repaid it by then, in epoch ms. */
  readonly startByMs: number
  /** Books only while the debt is below the capacity. */
  readonly isBatch: boolean
}

/** Names of limits. */
interface Names {
  has(name: string): boolean
}

/**
 * Charges only limits that the bucket has. Starts from `asked`: a missing limit may have been added. A strict request
 * keeps missing limits, and fails, unless the parent has them (`shared`).
 */
export function leaveOutMissing(demand: Demand, limits: Names, shared: Names, inFlight: Names = NO_SLOTS): void {
  const {asked, isStrict} = demand
  if (demand.charged) return
  const isKept = (name: string) => limits.has(name) || !(shared.has(name) || inFlight.has(name))
  demand.amounts = knownAmounts(asked, isStrict ? {has: isKept} : limits)
}

export function knownAmounts(asked: Amounts, limits: Names): Amounts {
  for (const name of asked.keys())
    if (!limits.has(name)) return new Map([...asked].filter(([each]) => limits.has(each)))
  return asked
}

export interface Refused {
  readonly amounts: Amounts
  /** The refusing state, after the charges admitted in the same batch. */
  readonly record: BucketRecord
  readonly nowMs: number
  readonly source: AppliedLimits['source'] | undefined
  readonly slots: Slots
}

export type QueueAnswer = Grant | Refused

/** The shard no longer belongs to the bucket; never reaches callers. */
export class ShardGone extends Error {}

export class PendingRequest implements Demand {
  /** The caller gave up; a charge written anyway must be refunded. */
  isAbandoned = false
  isSettled = false
  amounts: Amounts
  slots = NO_SLOTS
  /** Refunded when the queue is done with the request, unless an answer takes it. */
  charged: Holding | undefined
  readonly answer: Promise<QueueAnswer>
  readonly #onAbandoned: ((request: PendingRequest) => void) | undefined
  #isDone = false
  #cleanup: Promise<void> | undefined
  #whenDone: (() => void)[] | undefined
  #resolve!: (answer: QueueAnswer) => void
  #reject!: (error: unknown) => void

  constructor(
    readonly asked: Amounts,
    readonly level: Demand['level'],
    readonly requests: 0 | 1 = 1,
    readonly isStrict = false,
    onAbandoned?: (request: PendingRequest) => void,
    readonly takesSlots = requests === 1,
    readonly without: ReadonlySet<string> | undefined = undefined,
    readonly booking: Booking | undefined = undefined,
  ) {
    this.#onAbandoned = onAbandoned
    this.amounts = asked
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  charge(holding: Holding): void {
    this.charged = holding
    this.amounts = NO_AMOUNTS
  }

  settle(answer: QueueAnswer): void {
    this.isSettled = true
    this.#resolve(answer)
  }

  fail(error: unknown): void {
    this.isSettled = true
    this.#reject(error)
  }

  abandon(reason: unknown): void {
    if (this.isSettled) return
    this.isAbandoned = true
    this.#reject(reason)
    this.#onAbandoned?.(this)
  }

  cleanUp(work: Promise<void>): void {
    this.#cleanup = work
  }

  finish(): void {
    this.#isDone = true
    if (this.#whenDone) for (const resolve of this.#whenDone) resolve()
  }

  /** Resolves after the queue and the clean-up; for an abandoned request, that is after the answer. */
  async finished(): Promise<void> {
    if (!this.#isDone) {
      this.#whenDone ??= []
      const waiting = this.#whenDone
      await new Promise<void>(resolve => waiting.push(resolve))
    }
    await this.#cleanup
  }
}

export function requestCount(pending: Iterable<{readonly requests: number}>): number {
  let sum = 0
  for (const {requests} of pending) sum += requests
  return sum
}

export class Deadline {
  #requests: PendingRequest[] | undefined
  #waits: Set<(reason: Error) => void> | undefined
  readonly #timeoutMs: number
  readonly #unwatch: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #reason: Error | undefined

  /** The timer starts with the first wait: immediate decisions need none. */
  constructor(timeoutMs: number, signal?: AbortSignal) {
    this.#timeoutMs = timeoutMs
    this.#unwatch = signal && onAbort(signal, () => this.#expire(new Aborted('acquire', false, signal.reason)))
  }

  /** Abandons the request at the deadline, which must not have passed. */
  watch(request: PendingRequest): void {
    if (this.#requests) this.#requests.push(request)
    else this.#requests = [request]
    this.#start()
  }

  /** Stops waiting at the deadline; the work itself continues. */
  until<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waits ??= new Set()
      const waits = this.#waits
      if (this.#reason) reject(this.#reason)
      else waits.add(reject)
      this.#start()
      work.then(
        value => {
          waits.delete(reject)
          resolve(value)
        },
        error => {
          waits.delete(reject)
          reject(error)
        },
      )
    })
  }

  get isOver(): boolean {
    return this.#reason !== undefined
  }

  check(): void {
    if (this.#reason) throw this.#reason
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#unwatch?.()
  }

  #start(): void {
    const timeoutMs = this.#timeoutMs
    this.#timer ??= setTimeout(
      () => this.#expire(new Unavailable('acquire', true, new Error(`no decision within ${timeoutMs} ms`))),
      timeoutMs,
    )
  }

  #expire(reason: Error): void {
    this.#reason = reason
    for (const request of this.#requests ?? []) request.abandon(reason)
    for (const stop of this.#waits ?? []) stop(reason)
  }
}
