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

/** One shard of one bucket. */
export interface ShardId {
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  readonly shard: number
}

/** What one write did to one shard of a bucket. */
export interface BucketChange extends ShardId {
  readonly sequenceNumber: string
  /** Among all changes of this shard; compares as text. */
  readonly position: string
  readonly atMs: number
  /** Net millitokens consumed, per limit; only what changed. */
  readonly consumedMilli: ReadonlyMap<string, bigint>
  /** Net number of requests admitted; negative when one that was counted never went through. */
  readonly admitted: number
  readonly after: StoredBucket
  /** How many shards the item said there were; 1 where it did not exist. */
  readonly shardsBefore: number
}

/** `undefined` when the record is of no bucket, or tells of its end: what it consumed is already counted. */
export function readBucketChange(record: StreamRecord): BucketChange | undefined {
  const {eventName, dynamodb} = record
  const key = parseItemKey(dynamodb.Keys)
  if (key?.record !== 'bucket' || eventName === 'REMOVE') return undefined
  const {NewImage: after, OldImage} = dynamodb
  if (!after) throw new MalformedRecord('it does not show the bucket after the write')
  // Without this, everything that was ever consumed would count as consumed now.
  if (eventName === 'MODIFY' && !OldImage) throw new MalformedRecord('it does not show the bucket before the write')
  const before = (eventName === 'MODIFY' && OldImage) || {}
  const stored = decodeBucket({...after, ...dynamodb.Keys})
  if (!stored) throw new MalformedRecord('its images and its keys are of different items')
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
    // A shard beyond the first is born of a split, or of a copy with the counts of its original.
    admitted: eventName === 'INSERT' && shard > 0 ? 0 : admittedBy(before, after, consumedMilli),
    after: stored,
    shardsBefore: readShardCount(before),
  }
}

/** A limit that has gone takes nothing back: its consumption happened. */
function difference(before: Item, after: Item): Map<string, bigint> {
  const known = readConsumption(before)
  const changes = new Map<string, bigint>()
  for (const [limit, milli] of readConsumption(after)) {
    const delta = milli - (known.get(limit) ?? 0n)
    if (delta !== 0n) changes.set(limit, delta)
  }
  return changes
}

/** A client that counts its requests tells; the write of any other is one request if it consumed anything. */
function admittedBy(before: Item, after: Item, consumedMilli: ReadonlyMap<string, bigint>): number {
  const delta = (readRequestCount(after) ?? 0) - (readRequestCount(before) ?? 0)
  // Such a client marks all its writes, also those that admit nothing, such as a charge after the fact.
  if (delta !== 0 || isMarkedAnew(before, after)) return delta
  return [...consumedMilli.values()].some(milli => milli > 0n) ? 1 : 0
}

function isMarkedAnew(before: Item, after: Item): boolean {
  return Array.from({length: MARK_SLOTS}, (_, slot) => slot).some(slot => markIn(after, slot) !== markIn(before, slot))
}
