import type {ShardedBucket} from '../../repository/buckets/buckets.js'
import type {BucketScope} from '../../repository/buckets/pages.js'
import type {BucketView, LimitLevel} from '../../repository/buckets/view.js'
import type {AuditRecord} from '../../schema/audit-record.js'
import type {RequestCounts} from './request-counts.js'

export type WatchScope = BucketScope

/** Samples in a sparkline; one per reading of the bucket. */
export const SAMPLES = 60

/** Hours of usage in the detail of a bucket, the current one included. */
export const USAGE_HOURS = 24

/** The last read of one bucket. A new object with every read. */
export interface Reading {
  /** `entity#resource`; neither can contain a `#`. */
  readonly id: string
  readonly bucket: ShardedBucket
  /** Epoch ms, server time. */
  readonly readAtMs: number
  /** Tokens per second between the last two readings, net, by limit; empty after the first. */
  readonly ratePerSecond: ReadonlyMap<string, number>
  readonly requests: RequestCounts
  /** Whole tokens that its average request takes, at least one; in the order of the names of its limits. */
  readonly typical: readonly number[]
  /** Epoch ms until which a switch admits every request whatever is left; `undefined`: limits count. */
  readonly bypassUntilMs: number | undefined
  readonly isDisabled: boolean
  /** Base of the next rates, when this reading came too soon after it; `undefined`: this reading. */
  readonly countedFrom: Pick<Reading, 'bucket' | 'readAtMs'> | undefined
  /** Id of the parent's bucket that is charged for the same requests; `undefined`: none. */
  readonly chargedTo: string | undefined
  /** Of the busiest shard: fraction of the 1,000 write units per second that an item allows. */
  readonly writePressure: number
  /** The same per shard; without shards that were read only once. */
  readonly writePressures: ReadonlyMap<number, number>
  /** Used fraction of the tightest limit's capacity, oldest first; `null`: no sample. At most `SAMPLES`. */
  readonly used: readonly (number | null)[]
  /** The last poll found it deleted; it stays for one poll. */
  readonly isGone: boolean
}

/** The last reading of a bucket, by id; `undefined` when it is not watched. */
export type FindReading = (id: string) => Reading | undefined

/**
 * `over`: the average request does not fit now, into this bucket or into that of the parent, or requests were just refused.
 * `near`: a limit is below a fifth, or empty within a minute at this rate. `overdrawn`: the average request does not fit into
 * a limit that is soft and never refuses; a limit that may refuse soon is more important. `disabled`: a switch refuses every
 * request, whatever is left. A bucket that is bypassed is `ok`.
 */
export const ROW_STATUSES = ['ok', 'overdrawn', 'near', 'over', 'disabled', 'gone'] as const

export type RefusedBy = 'entity' | 'parent'

export type RowStatus = (typeof ROW_STATUSES)[number]

export interface Row {
  readonly id: string
  readonly entity: string
  readonly resource: string
  readonly view: BucketView
  /** The limit with the worst status, then with the least of its capacity left; `undefined`: no usable limit. */
  readonly tightest: LimitLevel | undefined
  /** Of the tightest limit: tokens per second consumed; `null` until there are two readings. */
  readonly ratePerSecond: number | null
  /** The same for every limit by name; empty until there are two readings. */
  readonly rates: ReadonlyMap<string, number>
  readonly used: readonly (number | null)[]
  readonly shardCount: number
  /** Difference of the fullest and the emptiest shard, as a fraction of a shard's capacity; 0 for one shard. */
  readonly imbalance: number
  readonly writePressure: number
  readonly status: RowStatus
  /** Whose limits refuse, where it is over: its own or those of its parent; otherwise `undefined`. */
  readonly refusedBy: RefusedBy | undefined
  readonly requests: RequestCounts
  /** Whole tokens that its average request takes, by limit. */
  readonly typical: ReadonlyMap<string, number>
  /** Ms until the tightest limit is empty at this rate; `null`: never, or unknown. */
  readonly emptyInMs: number | null
  /** Ms until the tightest limit is full at this rate; `null`: never, or unknown; 0: it is full. */
  readonly fullInMs: number | null
  readonly ageMs: number
}

export type SortKey = 'left' | 'rate' | 'refused' | 'entity' | 'resource' | 'shards' | 'pressure' | 'empty'

export const SORT_KEYS: readonly SortKey[] = [
  'left',
  'rate',
  'refused',
  'empty',
  'pressure',
  'shards',
  'entity',
  'resource',
]

export interface Selection {
  readonly sort: SortKey
  readonly reversed: boolean
  /** Part of a name, or `status:over`, or exactly `resource:gpt-4` or `entity:ada`; a leading `!` inverts. Empty: all. */
  readonly filter: string
}

export interface PollFacts {
  /** 1 for the first. */
  readonly number: number
  readonly atMs: number
  readonly durationMs: number
  readonly readUnits: number
  readonly calls: number
  /** Buckets read in this poll; fewer than known when it sampled. */
  readonly bucketsRead: number
}

export interface PollProblem {
  readonly message: string
  readonly isThrottled: boolean
  readonly sinceMs: number
  /** `undefined`: polls are paused, none is scheduled. */
  readonly nextTryAtMs: number | undefined
}

export interface Totals {
  readonly buckets: number
  readonly over: number
  readonly near: number
  readonly overdrawn: number
  readonly disabled: number
  readonly inDebt: number
  /** Tokens per second by limit name, over all buckets with a known rate; a request charged to a parent too counts once. */
  readonly ratePerSecond: ReadonlyMap<string, number>
  /** Requests, over all buckets that were read twice; one that a parent refused counts once. */
  readonly refusedPerSecond: number
  readonly shards: number
}

export interface ResourceRow {
  readonly resource: string
  readonly entities: number
  /** Sums over all its buckets, including those of parents. */
  readonly limits: readonly LimitLevel[]
  /** A request charged to a parent too counts once. */
  readonly ratePerSecond: ReadonlyMap<string, number>
  readonly over: number
  readonly near: number
  readonly refusedPerSecond: number
  /** The largest consumers of the limit with the highest rate. */
  readonly top: readonly {readonly entity: string; readonly ratePerSecond: number; readonly limit: string}[]
}

/** One line of the health panel. For `unknown`, `text` has the reason. */
export interface HealthLine {
  readonly name: string
  readonly state: 'ok' | 'warn' | 'bad' | 'unknown'
  readonly text: string
}

/** Loads the health of a stack, from the local supervisor or from AWS. Called rarely, and never delays a poll. */
export type HealthSource = (signal: AbortSignal) => Promise<readonly HealthLine[]>

/** What the drill-in shows besides the row. Loaded when it is opened, with `r`, and every 20 s while it is open. */
export interface Detail {
  readonly id: string
  readonly loadedAtMs: number
  /** `undefined`: no parent, or the parent has no bucket for the resource. */
  readonly parent: Reading | undefined
  readonly limits: readonly {readonly name: string; readonly text: string; readonly source: string}[]
  /** The currency of limits that are counted in money, by name. */
  readonly units: ReadonlyMap<string, string>
  /** Newest first. */
  readonly usage: readonly {
    readonly start: string
    readonly counters: Readonly<Record<string, number>>
    readonly requests: number | null
    /** Requests, by its own limits or by those of its parent. */
    readonly refused: number
  }[]
  /** Newest first. */
  readonly audit: readonly AuditRecord[]
  readonly problems: readonly string[]
}

export type WhySource = (
  bucket: {readonly entity: string; readonly resource: string},
  signal: AbortSignal,
) => Promise<readonly string[]>

/** Why the average request of a bucket would be admitted or refused. Loaded when it is opened, and every 5 s while it is. */
export interface WhyText {
  readonly id: string
  readonly loadedAtMs: number
  readonly lines: readonly string[]
}

export interface Known {
  readonly count: number
  readonly isComplete: boolean
  /** In addition to `count`: buckets whose items have no state, and therefore no levels. */
  readonly unreadable: number
}

/** Everything that polls have read so far. A new object with every change. */
export interface WatchData {
  readonly scope: WatchScope
  readonly readings: ReadonlyMap<string, Reading>
  readonly known: Known
  /** Of entities on the screen, by id; only those that have a name besides. */
  readonly names: ReadonlyMap<string, string>
  /** The currency of limits that are counted in money, by name. */
  readonly units: ReadonlyMap<string, string>
  readonly lastPoll: PollFacts | undefined
  readonly problem: PollProblem | undefined
  readonly health: readonly HealthLine[] | undefined
  readonly detail: Detail | undefined
  readonly why: WhyText | undefined
  readonly intervalMs: number
  readonly isPaused: boolean
}

/** A running watch: everything the live view needs. It never writes to the table. */
export interface Watch {
  /** The same object until something changes. */
  data(): WatchData
  subscribe(listener: () => void): () => void
  /** Server time, epoch ms. */
  now(): number
  /** The first poll; throws when it fails. Later failures are in `data().problem`. */
  start(): Promise<void>
  /** Aborts everything in flight; waits only for a poll to abort its request. */
  stop(): Promise<void>
  pollNow(): void
  setIntervalMs(intervalMs: number): void
  setPaused(isPaused: boolean): void
  /** Ids on the screen: read with every poll, as far as the budget allows. */
  focus(ids: readonly string[]): void
  /** Loads the detail of a bucket and keeps it fresh; `undefined` closes it. */
  setDetail(id: string | undefined): void
  /** Loads the explanation of a bucket and keeps it fresh; `undefined` closes it. */
  setWhy(id: string | undefined): void
  watchHealth(isWatched: boolean): void
}
