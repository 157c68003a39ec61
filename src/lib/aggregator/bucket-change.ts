import {isLimitName} from '../core/names.js'
import {GATHER_SLOT, markIn} from '../repository/buckets/writes.js'
import type {Item} from '../schema/attribute-value.js'
import {
  type BucketRecord,
  decodeBucket,
  readConsumption,
  readRequestCount,
  readShardCount,
  type StoredBucket,
} from '../schema/bucket-record.js'
import {parseItemKey} from '../schema/keys.js'
import {hasRefusals, type LimitRefusals, type RefusalCounts, readRefusals} from '../schema/refusal-counts.js'
import {isUsageCounter} from '../schema/usage-record.js'
import {MalformedRecord, occurredAtMs, positionOf, type StreamRecord} from './stream-event.js'

/** Older records say nothing about the present state of a bucket. */
export const FRESH_MS = 60_000

/** Bounds per write: any client may write, and larger figures could overflow a usage record (38 digits, 400 KB). */
const MAX_CONSUMED_MILLI = 10n ** 18n
const MAX_ADMITTED = 1e9

export interface ShardId {
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  readonly shard: number
}

export const shardKey = ({namespace, entity, resource, shard}: ShardId): string =>
  `${namespace}/${entity}#${resource}#${shard}`

export interface BucketChange extends ShardId {
  readonly sequenceNumber: string
  /** Sorts all changes of this shard as text. */
  readonly position: string
  readonly atMs: number
  /** Net consumption per limit; only limits that changed. */
  readonly consumedMilli: ReadonlyMap<string, bigint>
  /** Soft limits that the write charged and left in debt. */
  readonly overdrawn: readonly string[]
  /** Limits, or `requests`, whose change cannot be counted. */
  readonly uncounted: readonly string[]
  /** Net requests admitted; negative if a counted request was rolled back. */
  readonly admitted: number
  /** Requests refused since the last write that counted some; `undefined` if none. */
  readonly refused: RefusalCounts | undefined
  readonly after: StoredBucket
  /** 1 if the item did not exist. */
  readonly shardsBefore: number
}

/** `undefined` unless a bucket was written. A removed bucket's consumption is already counted. */
export function readBucketChange(record: StreamRecord): BucketChange | undefined {
  const {eventName, dynamodb} = record
  const key = parseItemKey(dynamodb.Keys)
  if (key?.record !== 'bucket' || eventName === 'REMOVE') return undefined
  const {NewImage: after, OldImage} = dynamodb
  if (!after) throw new MalformedRecord('it has no image of the bucket after the write')
  // Without the old image, all past consumption would count now.
  if (eventName === 'MODIFY' && !OldImage) throw new MalformedRecord('it has no image of the bucket before the write')
  const before = (eventName === 'MODIFY' && OldImage) || {}
  const stored = decodeBucket({...after, ...dynamodb.Keys})
  if (!stored) throw new MalformedRecord('its images and its keys belong to different items')
  if (stored.kind === 'bucket' && !hasExactNumbers(stored.record))
    throw new MalformedRecord('its numbers are not valid for a bucket')
  const {namespace, entity, resource, shard} = key
  const {consumedMilli, uncounted} = difference(before, after)
  // A new shard other than the first comes from a split, or copies another shard's counters.
  const isCopy = eventName === 'INSERT' && shard > 0
  const admitted = isCopy ? 0 : admittedBy(before, after, consumedMilli)
  const areRequestsCounted = Math.abs(admitted) <= MAX_ADMITTED
  return {
    namespace,
    entity,
    resource,
    shard,
    sequenceNumber: dynamodb.SequenceNumber,
    position: positionOf(record),
    atMs: occurredAtMs(record),
    consumedMilli,
    overdrawn: overdrawnBy(consumedMilli, stored),
    uncounted: areRequestsCounted ? uncounted : [...uncounted, 'requests'],
    admitted: areRequestsCounted ? admitted : 0,
    refused: isCopy ? undefined : refusedBy(before, after),
    after: stored,
    shardsBefore: readShardCount(before),
  }
}

/** Later steps write these numbers and divide by them. */
function hasExactNumbers({state, shardCount, ttlSeconds = 0}: BucketRecord): boolean {
  const numbers = [state.refilledAtMs, ttlSeconds, ...[...state.limits.values()].map(limit => limit.refillPeriodMs)]
  return numbers.every(Number.isSafeInteger) && Number.isSafeInteger(shardCount) && shardCount >= 1
}

/** A removed limit refunds nothing: its consumption happened. */
function difference(before: Item, after: Item): Pick<BucketChange, 'consumedMilli' | 'uncounted'> {
  const known = readConsumption(before)
  const consumedMilli = new Map<string, bigint>()
  const uncounted: string[] = []
  for (const [limit, milli] of readConsumption(after)) {
    // Planted fault: all past consumption counts again
    const delta = milli - (known.get(limit) ?? 0n)
    if (delta === 0n) continue
    const isPlausible = delta <= MAX_CONSUMED_MILLI && delta >= -MAX_CONSUMED_MILLI
    // Names like usage attributes are skipped later, with a warning: other clients allow them.
    if (isPlausible && (isLimitName(limit) || !isUsageCounter(limit))) consumedMilli.set(limit, delta)
    else uncounted.push(limit)
  }
  return {consumedMilli, uncounted}
}

/** Like zae-limiter: a limit is soft while the bucket says so, even if it must be renewed. */
function overdrawnBy(consumedMilli: ReadonlyMap<string, bigint>, after: StoredBucket): string[] {
  if (after.kind !== 'bucket') return []
  const {limits} = after.record.state
  return [...consumedMilli].flatMap(([name, milli]) => {
    const limit = limits.get(name)
    const isOverdrawn = milli > 0n && limit?.kind?.softUntilMs !== undefined && limit.tokensMilli < 0n
    return isOverdrawn ? [name] : []
  })
}

/** From the client's request counter; without one, a consuming write is one request. */
function admittedBy(before: Item, after: Item, consumedMilli: ReadonlyMap<string, bigint>): number {
  const delta = (readRequestCount(after) ?? 0) - (readRequestCount(before) ?? 0)
  // A client that counts requests marks every write, even those that admit none, such as settlements.
  if (delta !== 0 || hasNewMark(before, after)) return delta
  return [...consumedMilli.values()].some(milli => milli > 0n) ? 1 : 0
}

function hasNewMark(before: Item, after: Item): boolean {
  return Array.from({length: GATHER_SLOT + 1}, (_, slot) => slot).some(
    slot => markIn(after, slot) !== markIn(before, slot),
  )
}

/** Bounds per write, as for consumption: any client may write to its buckets. */
const MOST_REQUESTS = 1e9
const MOST_TOKENS = 10n ** 24n

/** The refusals that one write added to a bucket; `undefined` if none. Counters only grow. */
function refusedBy(before: Item, after: Item): RefusalCounts | undefined {
  const [known, counted] = [readRefusals(before), readRefusals(after)]
  const limits = new Map<string, LimitRefusals>()
  for (const [limit, {requests, tokens}] of counted.limits) {
    const seen = known.limits.get(limit)
    // Planted fault: all past refusals count again
    const added = {requests: requests - (seen?.requests ?? 0), tokens: tokens - (seen?.tokens ?? 0n)}
    if (isLimitName(limit) && isPlausible(added.requests) && added.tokens >= 0n && added.tokens <= MOST_TOKENS)
      limits.set(limit, added)
  }
  const difference = (field: 'requests' | 'byParent' | 'blocked') => {
    const added = (counted[field] ?? 0) - (known[field] ?? 0)
    return isPlausible(added) ? added : 0
  }
  const {lastAtMs} = counted
  const blocked = difference('blocked')
  const requests = {requests: difference('requests'), byParent: difference('byParent'), ...(blocked > 0 && {blocked})}
  const links = {...linksBy('accounts', known, counted), ...linksBy('callers', known, counted)}
  const added = {...requests, ...links, lastAtMs, firstAtMs: lastAtMs, limits}
  return hasRefusals(added) && Number.isSafeInteger(lastAtMs) ? added : undefined
}

/** Bounds a usage record: any client may write. */
const LONGEST_LINK = 512

function linksBy(link: 'accounts' | 'callers', known: RefusalCounts, counted: RefusalCounts) {
  const added = Array.from(counted[link] ?? [], ([bucket, count]) => {
    return [bucket, count - (known[link]?.get(bucket) ?? 0)] as const
  })
  const valid = added.filter(([bucket, count]) => bucket.length <= LONGEST_LINK && isPlausible(count))
  return valid.length === 0 ? {} : {[link]: new Map(valid)}
}

const isPlausible = (added: number): boolean => added > 0 && added <= MOST_REQUESTS
