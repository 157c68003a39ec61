import type {InFlightLevel} from '../../insight/holders/in-flight.js'
import type {ShardedBucket} from '../../repository/buckets/buckets.js'
import type {BucketScope} from '../../repository/buckets/pages.js'
import type {AuditRecord} from '../../schema/audit-record.js'
import type {RequestCounts} from './request-counts.js'

export type WatchScope = BucketScope

export const SAMPLES = 60

export const USAGE_HOURS = 24

/** A new object with every read. */
export interface Reading {
  /** `entity#resource`; neither can contain a `#`. */
  readonly id: string
  readonly bucket: ShardedBucket
  /** Epoch ms, server time. */
  readonly readAtMs: number
  /** Net tokens between the last two readings, by limit; empty after the first. */
  readonly ratePerSecond: ReadonlyMap<string, number>
  readonly requests: RequestCounts
  /** Whole tokens of the average request, at least 1, in the order of the limit names. */
  readonly typical: readonly number[]
  /** Epoch ms until which a switch admits every request; `undefined`: no bypass. */
  readonly bypassUntilMs: number | undefined
  readonly isDisabled: boolean
  /** Base of the next rates, if this reading followed it too soon; `undefined`: this reading. */
  readonly countedFrom: Pick<Reading, 'bucket' | 'readAtMs'> | undefined
  /** Id of the parent's bucket that is charged for the same requests. */
  readonly chargedTo: string | undefined
  /** Buckets that a request charges at most, with this one: by the setting of the namespace. */
  readonly mostLevels: number
  /** Fraction of the 1,000 write units per second that an item allows; of the busiest shard. */
  readonly writePressure: number
  /** By shard, without shards that were read only once. */
  readonly writePressures: ReadonlyMap<number, number>
  /** Used fraction of the tightest limit, oldest first, at most `SAMPLES`; `null`: no sample. */
  readonly used: readonly (number | null)[]
  /** The last poll found it deleted; it stays for one poll. */
  readonly isGone: boolean
}

export type Readings = Pick<ReadonlyMap<string, Reading>, 'size' | 'has' | 'get' | 'keys' | 'values'>

export type FindReading = (id: string) => Reading | undefined

/**
 * `over`: the average request does not fit, here or at the parent, or requests were just refused. `near`: a limit below
 * 20 %, or empty within a minute. `overdrawn`: a soft limit too low for that request. A bypassed bucket is `ok`.
 */
export const ROW_STATUSES = ['ok', 'overdrawn', 'near', 'over', 'disabled', 'gone'] as const

export type RefusedBy = 'entity' | 'parent' | 'provider'

export type RowStatus = (typeof ROW_STATUSES)[number]

export const SORT_KEYS = ['left', 'rate', 'refused', 'empty', 'pressure', 'shards', 'entity', 'resource'] as const

export type SortKey = (typeof SORT_KEYS)[number]

export interface Selection {
  readonly sort: SortKey
  readonly reversed: boolean
  /** Part of a name, `status:over`, or an exact `resource:gpt-4` or `entity:ada`; a leading `!` inverts. Empty: all. */
  readonly filter: string
}

export interface PollFacts {
  readonly number: number
  readonly atMs: number
  readonly durationMs: number
  readonly readUnits: number
  readonly calls: number
  readonly bucketsRead: number
  /** Buckets with usage recorded since that hour were read first. Absent if all were read, or in a series of polls. */
  readonly usedFirst?: {readonly since: string; readonly isComplete: boolean} | undefined
}

export interface PollProblem {
  readonly message: string
  readonly isThrottled: boolean
  readonly sinceMs: number
  readonly nextTryAtMs: number | undefined
}

export interface HealthLine {
  readonly name: string
  readonly state: 'ok' | 'warn' | 'bad' | 'unknown'
  readonly text: string
}

export type HealthSource = (signal: AbortSignal) => Promise<readonly HealthLine[]>

export interface Detail {
  readonly id: string
  readonly loadedAtMs: number
  /** Charged ancestors, nearest first, up to one without a bucket for the resource; a parent that is not charged too. */
  readonly parents: readonly Reading[]
  readonly limits: readonly {readonly name: string; readonly text: string; readonly source: string}[]
  readonly inFlight: readonly InFlightLevel[]
  readonly units: ReadonlyMap<string, string>
  /** Newest first. */
  readonly usage: readonly {
    readonly start: string
    readonly counters: Readonly<Record<string, number>>
    readonly requests: number | null
    readonly refused: number
  }[]
  readonly audit: readonly AuditRecord[]
  readonly problems: readonly string[]
}

export type WhySource = (
  bucket: {readonly entity: string; readonly resource: string},
  signal: AbortSignal,
) => Promise<readonly string[]>

export interface Known {
  readonly count: number
  readonly isComplete: boolean
  /** Not in `count`: buckets whose items have no state, and so no levels. */
  readonly unreadable: number
}

export interface WatchData {
  readonly scope: WatchScope
  readonly readings: Readings
  readonly known: Known
  /** By entity, for entities on the screen whose name differs from their id. */
  readonly names: ReadonlyMap<string, string>
  readonly units: ReadonlyMap<string, string>
  readonly lastPoll: PollFacts | undefined
  readonly problem: PollProblem | undefined
  readonly health: readonly HealthLine[] | undefined
  readonly detail: Detail | undefined
  readonly why: {readonly id: string; readonly loadedAtMs: number; readonly lines: readonly string[]} | undefined
  readonly intervalMs: number
  readonly isPaused: boolean
}

/** Never writes to the table. */
export interface Watch {
  /** The same object until something changes. */
  data(): WatchData
  subscribe(listener: () => void): () => void
  /** Server time, epoch ms. */
  now(): number
  /** Runs the first poll; throws if it fails. Later failures are in `data().problem`. */
  start(): Promise<void>
  /** Aborts everything in flight; waits only for the current poll. */
  stop(): Promise<void>
  pollNow(): void
  setIntervalMs(intervalMs: number): void
  setPaused(isPaused: boolean): void
  /** Buckets on the screen: read with every poll, within the budget. */
  focus(ids: readonly string[]): void
  setDetail(id: string | undefined): void
  setWhy(id: string | undefined): void
  watchHealth(isWatched: boolean): void
}
