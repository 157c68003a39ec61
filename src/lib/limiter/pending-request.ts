import type {Amounts} from '../core/bucket.js'
import type {BucketAddress} from '../repository/buckets/writes.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import type {AppliedLimits} from './context.js'

/** What a desk answers. */
export type Verdict =
  | {
      readonly admitted: true
      readonly address: BucketAddress
      /** What was charged; less than asked for where a parent lacks a limit. */
      readonly amounts: Amounts
      readonly requests: number
      readonly record: BucketRecord
    }
  | {
      readonly admitted: false
      readonly amounts: Amounts
      /** The bucket as the refusal saw it, after others were served. */
      readonly record: BucketRecord
      readonly nowMs: number
      readonly source: AppliedLimits['source'] | undefined
    }

/** The shard that was asked is none of the bucket's any more; never shown to callers. */
export class ShardGone extends Error {}

/** One request waiting at a desk. */
export class PendingRequest {
  /** Nobody waits any more; if it is admitted all the same, it must be given back. */
  isAbandoned = false
  isSettled = false
  amounts: Amounts
  readonly answer: Promise<Verdict>
  #isDone = false
  #whenDone: (() => void)[] = []
  #resolve!: (verdict: Verdict) => void
  #reject!: (error: unknown) => void

  constructor(
    amounts: Amounts,
    /** A parent is charged only for the limits it has. */
    readonly isLenient: boolean,
    /** How many requests an admission counts as: 0 when it only takes more for one that was counted. */
    readonly requests: 0 | 1 = 1,
  ) {
    this.amounts = amounts
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  /** Asks no longer for the limits that a parent lacks. */
  keepOnly(has: (name: string) => boolean): void {
    this.amounts = new Map([...this.amounts].filter(([name]) => has(name)))
  }

  settle(verdict: Verdict): void {
    this.isSettled = true
    this.#resolve(verdict)
  }

  fail(error: unknown): void {
    this.isSettled = true
    this.#reject(error)
  }

  /** The desk has nothing more to do with it. */
  finish(): void {
    this.#isDone = true
    for (const resolve of this.#whenDone) resolve()
  }

  /** Resolves when the desk is done with it, which for a caller that gave up is later than the answer. */
  async finished(): Promise<void> {
    if (!this.#isDone) await new Promise<void>(resolve => this.#whenDone.push(resolve))
  }

  /** The caller gives up, now. */
  abandon(reason: unknown): void {
    if (this.isSettled) return
    this.isAbandoned = true
    this.#reject(reason)
  }
}
