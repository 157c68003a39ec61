import type {Amounts} from '../../core/buckets/bucket.js'
import {onAbort} from '../../dynamo/abort.js'
import {Aborted, Unavailable} from '../../dynamo/errors.js'
import type {BucketAddress} from '../../repository/buckets/writes.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import type {RefusalStatus} from '../refusal/errors.js'
import type {AppliedLimits} from './limit-source.js'

export interface Demand {
  /** In full, also where the bucket lacks some of the limits. */
  readonly asked: Amounts
  amounts: Amounts
  readonly level: RefusalStatus['level']
  /** A limit that the entity lacks is an error. */
  readonly isStrict: boolean
}

/**
 * A bucket is charged only for the limits it has; only a strict request demands that the entity has all. Starts from what
 * was asked: a limit that was missing a moment ago may have been added.
 */
export function leaveOutMissing(demand: Demand, limits: {has(name: string): boolean}): void {
  if (demand.level === 'entity' && demand.isStrict) return
  demand.amounts = knownAmounts(demand.asked, limits)
}

/** The amounts of limits that exist; the same map when all do. */
export function knownAmounts(asked: Amounts, limits: {has(name: string): boolean}): Amounts {
  for (const name of asked.keys())
    if (!limits.has(name)) return new Map([...asked].filter(([each]) => limits.has(each)))
  return asked
}

export interface Admitted {
  readonly admitted: true
  readonly address: BucketAddress
  /** What was charged; less than asked for where the bucket lacks a limit. */
  readonly amounts: Amounts
  readonly requests: number
  readonly isBypassed: boolean
  readonly record: BucketRecord
  /** The instant of the charge, where others may have written between it and the record. */
  readonly chargedAtMs?: number | undefined
}

export interface Refused {
  readonly admitted: false
  readonly amounts: Amounts
  /** The state that refuses: after the charges of requests that were admitted in the same batch. */
  readonly record: BucketRecord
  readonly nowMs: number
  readonly source: AppliedLimits['source'] | undefined
}

export type QueueAnswer = Admitted | Refused

/** The shard that was asked no longer belongs to the bucket; never shown to callers. */
export class ShardGone extends Error {}

export class PendingRequest implements Demand {
  /** The caller has given up; a charge that is written all the same must be returned. */
  isAbandoned = false
  isSettled = false
  amounts: Amounts
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
    /** How many requests an admission counts as: 0 when it only takes more for one that was counted. */
    readonly requests: 0 | 1 = 1,
    readonly isStrict = false,
    onAbandoned?: (request: PendingRequest) => void,
  ) {
    this.#onAbandoned = onAbandoned
    this.amounts = asked
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
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

  /** Adds work that follows an abandoned request: the return of its tokens. */
  cleanUp(work: Promise<void>): void {
    this.#cleanup = work
  }

  finish(): void {
    this.#isDone = true
    if (this.#whenDone) for (const resolve of this.#whenDone) resolve()
  }

  /** Resolves when the queue and the clean-up are done; for an abandoned request that is later than the answer. */
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
  /** Made when they are needed: most callers wait for one request. */
  #requests: PendingRequest[] | undefined
  #waits: Set<(reason: Error) => void> | undefined
  readonly #timeoutMs: number
  readonly #unwatch: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #reason: Error | undefined

  /** Time counts from the first wait on: what is decided at once needs no timer. */
  constructor(timeoutMs: number, signal?: AbortSignal) {
    this.#timeoutMs = timeoutMs
    this.#unwatch = signal && onAbort(signal, () => this.#expire(new Aborted('acquire', false, signal.reason)))
  }

  /** Abandons the request when the deadline passes, which it has not. */
  watch(request: PendingRequest): void {
    if (this.#requests) this.#requests.push(request)
    else this.#requests = [request]
    this.#start()
  }

  /** Waits for work, but no longer than until the deadline; the work itself goes on. */
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
