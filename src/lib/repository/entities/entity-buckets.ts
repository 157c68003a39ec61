import {batchGet} from '../../dynamo/batch.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {readShardCount} from '../../schema/bucket-record.js'
import {keyOf, keys, parseItemKey} from '../../schema/keys.js'
import {ranges} from '../../schema/ranges.js'
import {readAll} from '../table/query.js'
import type {NamespaceTable} from '../table/table.js'

const names = attributes.bucket

/**
 * The keys of the bucket items of an entity, all shards. The index is eventually consistent and lacks ghosts, which have no index
 * keys, so it only provides resources; which shards exist is read from the items themselves. `resources` are added to
 * those of the index.
 */
export async function findBucketKeys(
  table: NamespaceTable,
  entity: string,
  resources: Iterable<string>,
): Promise<Key[]> {
  const shards = new Map<string, number>()
  const atLeast = (resource: string, count: number) => shards.set(resource, Math.max(count, shards.get(resource) ?? 0))
  for (const resource of resources) atLeast(resource, 1)
  const {index, partition} = ranges.bucketsOfEntity(table.namespace, entity)
  for await (const item of readAll(table, {index, partition})) {
    const key = parseItemKey(item)
    if (key?.record === 'bucket') atLeast(key.resource, key.shard + 1)
  }

  const bucketKey = (resource: string, shard: number): Key => keys.bucket(table.namespace, entity, resource, shard)
  const read = async (wanted: Key[], attributes: readonly string[]): Promise<Item[]> => {
    const options = {backoff: table.backoff, consistent: true, projection: attributes}
    return [...(await batchGet(table.transport, table.name, wanted, options)).values()]
  }
  const first = [...shards.keys()].map(resource => bucketKey(resource, 0))
  for (const item of await read(first, [names.shardCount])) {
    const key = parseItemKey(item)
    if (key?.record === 'bucket') atLeast(key.resource, readShardCount(item))
  }
  const all = [...shards].flatMap(([resource, count]) =>
    Array.from({length: count}, (_, shard) => bucketKey(resource, shard)),
  )
  return (await read(all, [])).map(keyOf)
}
