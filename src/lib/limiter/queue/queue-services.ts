import type {BucketAddress, WriteMark} from '../../repository/buckets/writes.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import type {RefusalTally} from '../refusal/tally.js'
import type {AppliedLimits, LimitSource} from '../request/limit-source.js'
import type {LimiterSettings} from '../request/options.js'
import type {FirstVisits} from './first-visits.js'
import type {SeenLoad} from './known-bucket.js'
import type {SupposedBucket} from './next-step.js'
import type {ShardRepair} from './shard-repair.js'

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
  readonly onSeen: (address: BucketAddress, seen: SeenLoad) => void
  /** The queue with this key was idle and has work: it must not be dropped. */
  readonly onBusy: (key: string) => void
  readonly onIdle: (key: string) => void
  /** A write has opened sessions of a bucket with several shards: their lengths in ms, and when. */
  readonly onOpened: (record: BucketRecord, opened: ReadonlyMap<string, number>, startMs: number) => void
}
