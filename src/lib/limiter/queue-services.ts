import type {BucketAddress, WriteMark} from '../repository/buckets/writes.js'
import {Lru} from '../repository/table/lru.js'
import type {NamespaceTable} from '../repository/table/table.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import type {SeenLoad} from './known-bucket.js'
import type {AppliedLimits, LimitSource} from './limit-source.js'
import type {SupposedBucket} from './next-step.js'
import type {LimiterSettings} from './options.js'
import type {RefusalTally} from './refusals/tally.js'
import type {ShardRepair} from './shard-repair.js'

/** Resources of which first visits are counted. */
const MOST_RESOURCES = 1000

/** First visits in vain, less the others, from which on buckets are read first; and the most that count. */
const [ENOUGH_IN_VAIN, MOST_IN_VAIN] = [4, 8]

/**
 * Whether a bucket that this process has never seen is read before it is written. A write that only shows that the bucket
 * is missing, or has to be refilled, costs as much as ten eventually consistent reads (decision 37).
 */
export class FirstVisits {
  readonly #inVain: Lru<number>

  constructor(clock: () => number) {
    this.#inVain = new Lru({clock, ttlMs: Number.POSITIVE_INFINITY, maxEntries: MOST_RESOURCES})
  }

  /** Whether the first writes of most buckets of the resource were in vain of late. */
  readFirst(resource: string): boolean {
    return (this.#inVain.get(resource) ?? 0) >= ENOUGH_IN_VAIN
  }

  /** Whether a first write was in vain, or would have been. */
  note(resource: string, isInVain: boolean): void {
    const count = (this.#inVain.get(resource) ?? 0) + (isInVain ? 1 : -1)
    this.#inVain.set(resource, Math.min(Math.max(0, count), MOST_IN_VAIN))
  }
}

/** What all queues of a namespace share. */
export interface QueueServices {
  readonly table: NamespaceTable
  readonly settings: LimiterSettings
  readonly limits: LimitSource
  readonly shards: ShardRepair
  readonly refusals: RefusalTally
  readonly firstVisits: FirstVisits
  readonly nextMark: () => WriteMark
  /** What a bucket is supposed to be like; `last` is what it was like when it was last seen, `applied` what must be in it. */
  readonly supposed: (
    address: BucketAddress,
    last: BucketRecord | undefined,
    applied: AppliedLimits | undefined,
  ) => SupposedBucket
  /** The answer to a write has shown a state of the bucket. */
  readonly onSeen: (address: BucketAddress, seen: SeenLoad) => void
  /** The queue with this key was idle and has work: it must not be dropped. */
  readonly onBusy: (key: string) => void
  /** It has no more work. */
  readonly onIdle: (key: string) => void
  /** A write has opened sessions of a bucket with several shards: their lengths in ms, and when. */
  readonly onOpened: (record: BucketRecord, opened: ReadonlyMap<string, number>, startMs: number) => void
}
