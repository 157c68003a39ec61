import {WRITE_PRESSURE_LIMIT} from '../names.js'
import {MILLI, type Rate} from '../token-math.js'

/** Enough for any bucket: 32 items take 32,000 writes per second. */
export const DEFAULT_MAX_SHARDS = 32

/** A DynamoDB partition takes 1,000 write units per second; growth starts early enough to finish before that. */
export const GROWTH_UNITS_PER_SECOND = 800

/** Two readings closer together than this do not give a rate. */
const SHORTEST_OBSERVATION_MS = 1000

/** A reading of an item's write counter (one write counts 1,000 milli). */
export interface WriteCount {
  readonly atMs: number
  readonly countMilli: bigint
}

/** Writes per second between two readings of one item; `undefined` when they are too close or out of order. */
export function writesPerSecond(earlier: WriteCount, later: WriteCount): number | undefined {
  const elapsedMs = later.atMs - earlier.atMs
  const written = later.countMilli - earlier.countMilli
  if (elapsedMs < SHORTEST_OBSERVATION_MS || written < 0n) return undefined
  return Number(written) / elapsedMs
}

interface GrowthQuestion {
  /** Write units, measured on one item, not a lifetime total: an old bucket is not a busy one. */
  readonly unitsPerSecond: number
  readonly shardCount: number
  readonly limits: ReadonlyMap<string, Rate>
  /** Largest amount recently asked per limit, in millitokens. */
  readonly largestRequestMilli?: ReadonlyMap<string, bigint>
  readonly maxShards?: number
  /** Clients use it that may not divide its limits among shards. */
  readonly isShared?: boolean
}

type GrowthAnswer =
  | {readonly grow: true; readonly shardCount: number}
  | {readonly grow: false; readonly because: 'calm' | 'shared' | 'at-maximum' | 'share-too-small'}

/** Whether a bucket should double. Never below a share that covers the usual request, and at least one whole token. */
export function shouldGrow(question: GrowthQuestion): GrowthAnswer {
  if (question.unitsPerSecond < GROWTH_UNITS_PER_SECOND) return {grow: false, because: 'calm'}
  if (question.isShared) return {grow: false, because: 'shared'}
  const shardCount = question.shardCount * 2
  if (shardCount > (question.maxShards ?? DEFAULT_MAX_SHARDS)) return {grow: false, because: 'at-maximum'}
  for (const [name, rate] of question.limits) {
    if (name === WRITE_PRESSURE_LIMIT) continue
    const asked = question.largestRequestMilli?.get(name) ?? 0n
    const useful = asked > MILLI ? asked : MILLI
    if (
      smallestShare(rate.capacityMilli, shardCount) < useful ||
      (rate.refillAmountMilli > 0n && smallestShare(rate.refillAmountMilli, shardCount) === 0n)
    ) {
      return {grow: false, because: 'share-too-small'}
    }
  }
  return {grow: true, shardCount}
}

/** Shares differ by at most one milli, so the smallest is the rounded-down quotient. */
function smallestShare(value: bigint, count: number): bigint {
  return value / BigInt(count)
}
