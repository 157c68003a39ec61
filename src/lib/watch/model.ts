import type {ShardedBucket} from '../repository/buckets/buckets.js'
import type {BucketScope} from '../repository/buckets/pages.js'
import type {BucketView, LimitLevel} from '../repository/buckets/view.js'
import type {AuditRecord} from '../schema/audit-record.js'

/** Which buckets are watched. */
export type WatchScope = BucketScope

/** Samples a sparkline has; one per reading of the bucket. */
export const SAMPLES = 60

/** What has been read of one bucket. A new object with every reading. */
export interface Reading {
  /** `entity#resource`; neither can contain a `#`. */
  readonly id: string
  readonly bucket: ShardedBucket
  /** Epoch ms, server time. */
  readonly readAtMs: number
  /** Tokens per second between the two last readings, net, by limit; empty after the first. */
  readonly ratePerSecond: ReadonlyMap<string, number>
  /** What the next rates are counted from when this reading came too soon after it; `undefined`: this reading. */
  readonly countedFrom: Pick<Reading, 'bucket' | 'readAtMs'> | undefined
  /** Id of the parent's bucket that is charged for the same requests; `undefined`: none is. */
  readonly chargedTo: string | undefined
  /** The shard that is written hardest: part of the 1,000 write units per second that an item takes. */
  readonly writePressure: number
  /** The same of every shard; those are missing that were not read twice. */
  readonly writePressures: ReadonlyMap<number, number>
  /** The part of the tightest limit's capacity that was in use, oldest first; `null`: no sample. At most `SAMPLES`. */
  readonly used: readonly (number | null)[]
  /** It was not there any more when it was last looked for; it stays for one poll. */
  readonly isGone: boolean
}

/** Of the tightest limit. `over`: one token is refused now. `near`: below a fifth, or empty within a minute at this rate. */
export type RowStatus = 'ok' | 'near' | 'over' | 'gone'

/** One line of the overview: a bucket as it is at one instant, by arithmetic from its last reading. */
export interface Row {
  readonly id: string
  readonly entity: string
  readonly resource: string
  readonly view: BucketView
  /**
   * The limit that is worst off: one that refuses before one that is near, then the smallest part of its capacity left;
   * `undefined` when the bucket has no usable limit.
   */
  readonly tightest: LimitLevel | undefined
  /** Of the tightest limit: tokens per second consumed; `null` until there are two readings. */
  readonly ratePerSecond: number | null
  /** The same of every limit by name; empty until there are two readings. */
  readonly rates: ReadonlyMap<string, number>
  readonly used: readonly (number | null)[]
  readonly shardCount: number
  /** Difference of the fullest and the emptiest shard, as part of a shard's share of the capacity; 0 for one shard. */
  readonly imbalance: number
  /** As of the last reading. */
  readonly writePressure: number
  readonly status: RowStatus
  /** Ms until the tightest limit is empty at this rate; `null`: never, or not known. */
  readonly emptyInMs: number | null
  /** Ms until the tightest limit is full at this rate; `null`: never, or not known; 0: it is. */
  readonly fullInMs: number | null
  /** Ms since it was read. */
  readonly ageMs: number
}

export type SortKey = 'left' | 'rate' | 'entity' | 'resource' | 'shards' | 'pressure' | 'empty'

export const SORT_KEYS: readonly SortKey[] = ['left', 'rate', 'empty', 'pressure', 'shards', 'entity', 'resource']

/** How rows are chosen and ordered. */
export interface Selection {
  readonly sort: SortKey
  readonly reversed: boolean
  /** Part of a name, `status:over`, `resource:gpt-4` or `entity:ada` for that one alone; `!` in front inverts. Empty: all. */
  readonly filter: string
}

/** What one poll came to. */
export interface PollFacts {
  /** 1 for the first. */
  readonly number: number
  readonly atMs: number
  readonly durationMs: number
  readonly readUnits: number
  readonly calls: number
  /** Buckets read in this poll; fewer than known means that it sampled. */
  readonly bucketsRead: number
}

/** Why the last poll failed. What was read before stays. */
export interface PollProblem {
  readonly message: string
  readonly isThrottled: boolean
  readonly sinceMs: number
  /** `undefined`: while polls are paused none comes by itself. */
  readonly nextTryAtMs: number | undefined
}

/** All rows together, at one instant. */
export interface Totals {
  readonly buckets: number
  readonly over: number
  readonly near: number
  readonly inDebt: number
  /** Tokens per second by limit name, of all buckets whose rate is known; what a parent is charged too counts once. */
  readonly ratePerSecond: ReadonlyMap<string, number>
  readonly shards: number
}

/** One resource, all its buckets together. */
export interface ResourceRow {
  readonly resource: string
  readonly entities: number
  /** Of all its buckets added up, those of parents too. */
  readonly limits: readonly LimitLevel[]
  /** What a parent is charged too counts once. */
  readonly ratePerSecond: ReadonlyMap<string, number>
  readonly over: number
  readonly near: number
  /** Who consumes most now, of the limit with the greatest rate. */
  readonly top: readonly {readonly entity: string; readonly ratePerSecond: number; readonly limit: string}[]
}

/** One line of the health panel. `unknown` says why in `text`. */
export interface HealthLine {
  readonly name: string
  readonly state: 'ok' | 'warn' | 'bad' | 'unknown'
  readonly text: string
}

/** Where health comes from: the local supervisor, or AWS. Asked seldom; never in the way of polls. */
export type HealthSource = (signal: AbortSignal) => Promise<readonly HealthLine[]>

/** What the drill-in shows besides the row itself. Loaded when it is opened, with `r`, and every 20 s while it is open. */
export interface Detail {
  readonly id: string
  readonly loadedAtMs: number
  /** `undefined` when it has none, or the parent has no bucket for the resource. */
  readonly parent: Reading | undefined
  readonly limits: readonly {readonly name: string; readonly text: string; readonly source: string}[]
  /** Newest first. */
  readonly usage: readonly {
    readonly start: string
    readonly counters: Readonly<Record<string, number>>
    readonly requests: number | null
  }[]
  /** Newest first. */
  readonly audit: readonly AuditRecord[]
  /** What could not be loaded, and why. */
  readonly problems: readonly string[]
}

/** What the index told of so far. */
export interface Known {
  readonly count: number
  /** It has been walked to its end. */
  readonly isComplete: boolean
  /** Buckets besides, of which only items without a state are there: no level can be told. */
  readonly unreadable: number
}

/** Everything that polls have told. A new object with every change. */
export interface Knowledge {
  readonly scope: WatchScope
  readonly readings: ReadonlyMap<string, Reading>
  readonly known: Known
  readonly lastPoll: PollFacts | undefined
  readonly problem: PollProblem | undefined
  readonly health: readonly HealthLine[] | undefined
  readonly detail: Detail | undefined
  readonly intervalMs: number
  readonly isPaused: boolean
}

/** A running watch. The view subscribes; everything it may ask for is here, and none of it writes. */
export interface Watch {
  /** The same object until something changes. */
  knowledge(): Knowledge
  subscribe(listener: () => void): () => void
  /** Server time, epoch ms. */
  now(): number
  /** The first poll; throws when it fails, afterwards failures are in `knowledge().problem`. */
  start(): Promise<void>
  /** Gives up what is in flight; waits for a poll to let go of its request, and for nothing else. */
  stop(): Promise<void>
  pollNow(): void
  setIntervalMs(intervalMs: number): void
  setPaused(isPaused: boolean): void
  /** Ids on the screen: read with every poll, as far as the budget goes. */
  focus(ids: readonly string[]): void
  /** Loads the detail of a bucket and keeps it fresh; `undefined` closes it. */
  look(id: string | undefined): void
  /** Loads health now and keeps it fresh until `false`. */
  watchHealth(isWatched: boolean): void
}
