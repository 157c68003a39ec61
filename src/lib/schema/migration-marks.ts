import {attributes} from './attributes.js'

/** The old items that a migrated item replaces. Always text: in usage records every number is a counter. */
export const MIGRATION_MARK = attributes.migration.mark

/** One limit of a bucket that exists under an old and the new key. Amounts in millitokens. */
export interface LimitMark {
  /** Old consumption charged to the new bucket; `undefined` if the old one does not count it. */
  readonly oldConsumed: bigint | undefined
  readonly oldTokens: bigint
  /** Old refill instant (epoch ms) at that time; 0 for a ghost. */
  readonly oldRefilledAtMs: number
  /** The new bucket when it was charged to the old one; `undefined` if it never was. */
  readonly charged: ChargedBucket | undefined
}

export interface ChargedBucket {
  readonly consumedMilli: bigint
  readonly tokensMilli: bigint
  /** Counters of expired shards are lost. */
  readonly shards: number
}

/** By limit, then by old key: counters under different keys are independent. */
export type BucketMarks = ReadonlyMap<string, ReadonlyMap<string, LimitMark>>

/** Amounts are text, because numbers in JSON are not exact. */
type StoredMark = [oldConsumed: string | null, oldTokens: string, oldRefilledAtMs: number, ...charged: StoredCharge]

type StoredCharge = [] | [consumed: string, tokens: string, shards: number]

export function encodeBucketMarks(marks: BucketMarks): string {
  const sorted = <T>(entries: Iterable<[string, T]>) => [...entries].sort(([a], [b]) => (a < b ? -1 : 1))
  const stored = sorted(marks).map(([limit, places]) => [
    limit,
    Object.fromEntries(sorted(places).map(([place, mark]) => [place, storedMark(mark)])),
  ])
  return JSON.stringify(Object.fromEntries(stored))
}

function storedMark({oldConsumed, oldTokens, oldRefilledAtMs, charged}: LimitMark): StoredMark {
  const charge: StoredCharge = charged ? [`${charged.consumedMilli}`, `${charged.tokensMilli}`, charged.shards] : []
  return [oldConsumed?.toString() ?? null, `${oldTokens}`, oldRefilledAtMs, ...charge]
}

/** The part of a new usage record that came from the old ones of one day. */
export interface UsageShare {
  /** Whole tokens per limit, and `total_events`. */
  readonly counters: Readonly<Record<string, number>>
  /** How many other hours of the day existed when the midnight record was split; they expire one by one. */
  readonly hours: number
}

/** By the namespace id in the old keys; empty if they had none. */
export type UsageMarks = Readonly<Record<string, UsageShare>>

export const encodeUsageMarks = (marks: UsageMarks): string => JSON.stringify(marks)

/** Digests of the old items, and of the new one as written. */
export interface CopyMark {
  readonly source: string
  readonly copy: string
}

export const encodeCopyMark = ({source, copy}: CopyMark): string => `${source}.${copy}`
