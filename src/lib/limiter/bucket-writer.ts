import type {Amounts} from '../core/bucket.js'
import type {WriteOutcome} from '../repository/buckets/marked-write.js'
import type {BucketAddress, BucketUpdate, WriteMark} from '../repository/buckets/writes.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import type {AppliedLimits, LimiterContext} from './context.js'
import type {KnownBucket} from './known-bucket.js'
import type {PendingRequest} from './pending-request.js'

/** A charge or return after the fact, waiting at a desk. */
export interface Correction {
  readonly amounts: Amounts
  /** Change of the number of admitted requests. */
  readonly requests: number
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** What those who write for a desk see of it. */
export interface BucketWriter {
  readonly office: LimiterContext
  readonly address: BucketAddress
  readonly known: KnownBucket | undefined
  /** Sends one write and remembers what its answer shows. */
  write(update: BucketUpdate, mark: WriteMark, repetition?: BucketUpdate): Promise<WriteOutcome>
  /** The mark that the slot of this process showed when the item was last seen. */
  readonly slotMark: string | undefined
  /** Forgets the state, so that the next step looks for itself; with the mark of a write that passed the desk by. */
  forget(mark?: WriteMark): void
  /** The limits in force were compared with the configuration just now. */
  noteLimitsChecked(applied: AppliedLimits): void
  /**
   * Tokens were taken without a refill: if the bucket had overflowed by then, moves its refill instant, so that the
   * overflow does not come back.
   */
  settleOverflow(taken: Amounts): Promise<void>
  /** Settles those whose charge has been written. */
  admit(tickets: readonly PendingRequest[]): void
  /** Refuses them all, for what `record` shows. */
  refuse(tickets: readonly PendingRequest[], nowMs: number, record: BucketRecord): void
  /** Refuses those that did not fit at the instant of the decision, and leaves the others open. */
  refuseMisfits(tickets: readonly PendingRequest[], decidedAtMs: number): void
}
