import type {Item} from './attribute-value.js'
import {readString} from './read.js'

/**
 * How far an usage record has been counted. All of it is text: other clients take every number in the record for a
 * counter. Names start with `_`, which no limit's name does.
 */
export interface UsageProgress {
  /** Position in the stream of the last change counted, per bucket shard. */
  readonly marks: ReadonlyMap<number, string>
  /** Millitokens (1 to 999) beyond the whole tokens in the counters, per limit. */
  readonly fractions: ReadonlyMap<string, bigint>
}

/** Spelled `tpm:250,rpm:3`. */
export const USAGE_FRACTIONS = '_milli'

export const usageMark = (shard: number): string => `_seq_${shard}`

/** `undefined` when nothing is left over: the attribute is then left out or removed. */
export function encodeFractions(fractions: ReadonlyMap<string, bigint>): string | undefined {
  const parts = [...fractions].filter(([, milli]) => milli !== 0n).map(([limit, milli]) => `${limit}:${milli}`)
  return parts.length === 0 ? undefined : parts.sort().join(',')
}

/** What a stored usage record says; nothing where there is no record yet. */
export function readProgress(item: Item = {}): UsageProgress {
  const marks = new Map<number, string>()
  for (const attribute of Object.keys(item)) {
    const shard = /^_seq_(\d+)$/.exec(attribute)?.[1]
    const mark = shard === undefined ? undefined : readString(item, attribute)
    if (mark !== undefined) marks.set(Number(shard), mark)
  }
  const fractions = new Map<string, bigint>()
  for (const part of readString(item, USAGE_FRACTIONS)?.split(',') ?? []) {
    const match = /^(.+):(\d+)$/.exec(part)
    if (match) fractions.set(match[1] as string, BigInt(match[2] as string))
  }
  return {marks, fractions}
}
