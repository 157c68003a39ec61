import {MARK_SLOTS, markIn} from '../repository/buckets/writes.js'
import type {Item} from '../schema/attribute-value.js'
import {
  decodeBucket,
  readConsumption,
  readRequestCount,
  readShardCount,
  type StoredBucket,
} from '../schema/bucket-record.js'
import {parseItemKey} from '../schema/keys.js'
import {MalformedRecord, occurredAtMs, positionOf, type StreamRecord} from './stream-event.js'

/** A record older than this is not used to judge the present state of a bucket. */
export const FRESH_MS = 60_000

/** One shard of one bucket. */
export interface ShardId {
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  readonly shard: number
}

export const shardKey = ({namespace, entity, resource, shard}: ShardId): string =>
  `${namespace}/${entity}#${resource}#${shard}`

/** What one write did to one shard of a bucket. */
export interface BucketChange extends ShardId {
  readonly sequenceNumber: string
  /** Among all changes of this shard; compares as text. */
  readonly position: string
  readonly atMs: number
  /** Net millitokens consumed, per limit; only limits that changed. */
  readonly consumedMilli: ReadonlyMap<string, bigint>
  /** Net number of requests admitted; negative when a counted request was rolled back. */
  readonly admitted: number
  readonly after: StoredBucket
  /** The item's shard count before the write; 1 where the item did not exist. */
  readonly shardsBefore: number
}

/** `undefined` unless a bucket was written. A removed bucket adds nothing: its consumption is already counted. */
export function readBucketChange(record: StreamRecord): BucketChange | undefined {
  const {eventName, dynamodb} = record
  const key = parseItemKey(dynamodb.Keys)
  if (key?.record !== 'bucket' || eventName === 'REMOVE') return undefined
  const {NewImage: after, OldImage} = dynamodb
  if (!after) throw new MalformedRecord('it has no image of the bucket after the write')
  // Without the old image, all past consumption would count as consumed now.
  if (eventName === 'MODIFY' && !OldImage) throw new MalformedRecord('it has no image of the bucket before the write')
  const before = (eventName === 'MODIFY' && OldImage) || {}
  const stored = decodeBucket({...after, ...dynamodb.Keys})
  if (!stored) throw new MalformedRecord('its images and its keys belong to different items')
  const {namespace, entity, resource, shard} = key
  const consumedMilli = difference(before, after)
  return {
    namespace,
    entity,
    resource,
    shard,
    sequenceNumber: dynamodb.SequenceNumber,
    position: positionOf(record),
    atMs: occurredAtMs(record),
    consumedMilli,
    // A new shard other than the first comes from a split, or copies the counters of another shard.
    admitted: eventName === 'INSERT' && shard > 0 ? 0 : admittedBy(before, after, consumedMilli),
    after: stored,
    shardsBefore: readShardCount(before),
  }
}

/** A limit that was removed gives nothing back: its consumption happened. */
function difference(before: Item, after: Item): Map<string, bigint> {
  const known = readConsumption(before)
  const changes = new Map<string, bigint>()
  for (const [limit, milli] of readConsumption(after)) {
    const delta = milli - (known.get(limit) ?? 0n)
    if (delta !== 0n) changes.set(limit, delta)
  }
  return changes
}

/** From the client's request counter; for a client without one, a write that consumed anything is one request. */
function admittedBy(before: Item, after: Item, consumedMilli: ReadonlyMap<string, bigint>): number {
  const delta = (readRequestCount(after) ?? 0) - (readRequestCount(before) ?? 0)
  // A client that counts requests marks every write, also those that admit none, such as a later correction.
  if (delta !== 0 || hasNewMark(before, after)) return delta
  return [...consumedMilli.values()].some(milli => milli > 0n) ? 1 : 0
}

function hasNewMark(before: Item, after: Item): boolean {
  return Array.from({length: MARK_SLOTS}, (_, slot) => slot).some(slot => markIn(after, slot) !== markIn(before, slot))
}
