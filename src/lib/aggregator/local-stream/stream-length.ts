import type {SendOptions} from '../../dynamo/transport.js'
import type {ShardDescription, StreamTransport} from '../../dynamo/transports/stream.js'
import {openShard, readRecords} from '../../dynamo/transports/stream-shards.js'
import type {Checkpoint} from './checkpoint.js'

/**
 * Records from the oldest that the engine keeps to the last one taken; 0 before the first. Local engines number them
 * one by one, so the difference is the number, except that DynamoDB Local counts the changes of all its tables together.
 */
export async function streamLength(
  stream: StreamTransport,
  {streamArn, shards: progress}: Checkpoint,
  shards: readonly ShardDescription[],
  options: SendOptions,
): Promise<number> {
  const taken = Object.values(progress).flatMap(each => ('sequence' in each ? [BigInt(each.sequence)] : []))
  const newest = taken.reduce((a, b) => (a > b ? a : b), 0n)
  for (const {ShardId: shardId} of shards) {
    const iterator = await openShard(stream, {streamArn, shardId, after: undefined}, options)
    const oldest = iterator === undefined ? undefined : (await readRecords(stream, iterator, 1, options)).records[0]
    if (oldest) return Math.max(0, Number(newest - BigInt(oldest.dynamodb.SequenceNumber)) + 1)
  }
  return 0
}
