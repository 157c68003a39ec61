import type {ShardDescription} from '../../dynamo/transports/stream.js'
import type {Checkpoint} from './checkpoint.js'

type Progress = Checkpoint['shards']

/**
 * The shards to read now: those not read to their end whose parent is, or is gone. The changes of one item move from a
 * closed shard to its children, so this keeps them in order.
 */
export function shardsToRead(shards: readonly ShardDescription[], progress: Progress): string[] {
  const listed = new Set(shards.map(shard => shard.ShardId))
  const isDone = (id: string) => 'done' in (progress[id] ?? {})
  return shards
    .filter(({ShardId: id, ParentShardId: parent}) => {
      const isParentOpen = parent !== undefined && listed.has(parent) && !isDone(parent)
      return !isDone(id) && !isParentOpen
    })
    .map(shard => shard.ShardId)
}

/** Progress without the shards that the stream has forgotten. */
export function progressOfListed(shards: readonly ShardDescription[], progress: Progress): Progress {
  const listed = new Set(shards.map(shard => shard.ShardId))
  return Object.fromEntries(Object.entries(progress).filter(([id]) => listed.has(id)))
}
