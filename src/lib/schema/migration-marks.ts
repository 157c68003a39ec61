import {attributes} from './attributes.js'

/**
 * On a migrated item: which old items it replaces. Always text: in usage records every number is a counter. Other clients
 * ignore the attribute.
 */
export const MIGRATION_MARK = attributes.migration.mark

/** One limit of a bucket that exists under an old key and under the new one. Amounts are millitokens. */
export interface LimitMark {
  /** Consumption of the old one that was charged to the new one; `undefined` where the old one does not count it. */
  readonly oldConsumed: bigint | undefined
  /** Balance of the old one at that time. */
  readonly oldTokens: bigint
  /** Its refill instant (epoch ms) at that time; 0 for a ghost, which adjustments left of a deleted bucket. */
  readonly oldRefilledAtMs: number
  /** State of the new one when it was charged to the old one; `undefined` where it never was. */
  readonly charged: ChargedBucket | undefined
}

/** One limit of a new bucket, over all its shards. */
export interface ChargedBucket {
  readonly consumedMilli: bigint
  readonly tokensMilli: bigint
  /** How many shards there were: counters of expired shards are lost. */
  readonly shards: number
}

/** By limit, and then by the old key: the counters under different keys are independent. */
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

/** What a new usage record took from the old ones of one day. */
export interface UsageShare {
  /** Whole tokens per limit, and `total_events`. */
  readonly counters: Readonly<Record<string, number>>
  /** How many other hours of the day existed when the record of midnight was split; they expire one by one. */
  readonly hours: number
}

/** By the namespace id in the old keys, empty where they had none. */
export type UsageMarks = Readonly<Record<string, UsageShare>>

export const encodeUsageMarks = (marks: UsageMarks): string => JSON.stringify(marks)

/** Digests of a record that was copied as a whole: of the old items, and of the new one as it was written. */
export interface CopyMark {
  readonly source: string
  readonly copy: string
}

export const encodeCopyMark = ({source, copy}: CopyMark): string => `${source}.${copy}`
