import type {Item} from './attribute-value.js'
import {readString} from './read.js'

/**
 * What a new item says about the old ones it stands for. Always text: in usage records every number is a counter. Other
 * clients ignore the attribute.
 */
export const MIGRATION_MARK = 'mg'

/** The mark of a new item as it is stored. */
export const readMigrationMark = (item: Item | undefined): string | undefined =>
  item && readString(item, MIGRATION_MARK)

/** One limit of a bucket that exists in the old place and in the new one. Amounts are millitokens. */
export interface LimitMark {
  /** Consumption of the old one that has been charged to the new one; `undefined` where the old one keeps no count. */
  readonly oldConsumed: bigint | undefined
  /** What the old one held then, and up to which instant (epoch ms) it had been refilled. */
  readonly oldTokens: bigint
  readonly oldRefilledAtMs: number
  /** Consumption of the new one, over all its shards, that has been charged to the old one. */
  readonly newConsumed: bigint
}

export type BucketMarks = ReadonlyMap<string, LimitMark>

export function encodeBucketMarks(marks: BucketMarks): string {
  const rows = [...marks].map(([limit, mark]) => [
    limit,
    [mark.oldConsumed?.toString() ?? null, `${mark.oldTokens}`, mark.oldRefilledAtMs, `${mark.newConsumed}`],
  ])
  return JSON.stringify(Object.fromEntries(rows.sort(([a], [b]) => ((a as string) < (b as string) ? -1 : 1))))
}

export function decodeBucketMarks(text: string | undefined): Map<string, LimitMark> {
  const stored = JSON.parse(text ?? '{}') as Record<string, [string | null, string, number, string]>
  return new Map(
    Object.entries(stored).map(([limit, [oldConsumed, oldTokens, oldRefilledAtMs, newConsumed]]) => [
      limit,
      {
        oldConsumed: oldConsumed === null ? undefined : BigInt(oldConsumed),
        oldTokens: BigInt(oldTokens),
        oldRefilledAtMs,
        newConsumed: BigInt(newConsumed),
      },
    ]),
  )
}

/** What a new usage record got from the old ones of one day. */
export interface UsageShare {
  /** Whole tokens per limit, and `total_events`. */
  readonly counters: Readonly<Record<string, number>>
  /** How many other hours of the day were there when midnight was untangled; they expire one by one. */
  readonly hours: number
}

/** By the namespace id in the old keys, empty where they had none. */
export type UsageMarks = Readonly<Record<string, UsageShare>>

export const encodeUsageMarks = (marks: UsageMarks): string => JSON.stringify(marks)

export const decodeUsageMarks = (text: string | undefined): UsageMarks => JSON.parse(text ?? '{}') as UsageMarks

/** Digests of a record that was copied as a whole: of the old items, and of the new one as it was written. */
export interface CopyMark {
  readonly source: string
  readonly copy: string
}

export const encodeCopyMark = ({source, copy}: CopyMark): string => `${source}.${copy}`

export function decodeCopyMark(text: string | undefined): CopyMark | undefined {
  const [source, copy] = text?.split('.') ?? []
  return source === undefined || copy === undefined ? undefined : {source, copy}
}
