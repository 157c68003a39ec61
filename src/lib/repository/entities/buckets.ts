import {batchGet} from '../../dynamo/batch.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import {ConditionFailed, isRetryableWhenIdempotent} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {retrying} from '../../dynamo/retry.js'
import {bool, type Item, type Key, n, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {decodeBucket, readShardCount} from '../../schema/bucket-record.js'
import type {EntityRecord} from '../../schema/entity-record.js'
import {keys, parseItemKey, wireKey} from '../../schema/keys.js'
import {generationAttributes, isLaterGeneration} from '../../schema/parent-generation.js'
import {ranges} from '../../schema/ranges.js'
import {ConfigCache} from '../limits/cache.js'
import {ConfigResolver} from '../limits/resolver.js'
import {readAll} from '../table/query.js'
import type {NamespaceTable} from '../table/table.js'
import {readEntity} from './lineage.js'

const names = attributes.bucket

const CONCURRENT_UPDATES = 8

/**
 * The bucket items of an entity, all shards. The index is eventually consistent and lacks ghosts, which have no index
 * keys, so it only provides resources; which shards exist is read from the items themselves. `resources` are added to
 * those of the index.
 */
export async function findBuckets(
  table: NamespaceTable,
  entity: string,
  resources: Iterable<string>,
  projection: readonly string[],
): Promise<Item[]> {
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
  return read(all, projection)
}

/**
 * Writes parent and cascade of an entity into its buckets, where the fast path reads them: a bucket may be older than
 * the entity's record, or than its parent (D-25). The record is read again afterwards, so of several concurrent changes
 * the last one ends up in the buckets.
 */
export async function alignBuckets(table: NamespaceTable, record: EntityRecord): Promise<void> {
  let current: EntityRecord | undefined = record
  while (current && (await alignOnce(table, current)) > 0) {
    const now = await readEntity(table, record.entity)
    current = now && isSameFamily(now, current) ? undefined : now
  }
}

/** Updates the buckets that differ and returns how many those were. */
async function alignOnce(table: NamespaceTable, record: EntityRecord): Promise<number> {
  const {entity, parent, parentGeneration} = record
  const generation = [names.parentGeneration, names.parentIncarnation]
  const items = await findBuckets(table, entity, [], [names.refilledAt, names.cascade, names.parent, ...generation])
  const resolver = new ConfigResolver(table, new ConfigCache({clock: table.clock}))
  const stale: {resource: string; shard: number; cascade: boolean}[] = []
  for (const item of items) {
    const bucket = decodeBucket(item)
    if (bucket?.kind !== 'bucket' || isLaterGeneration(bucket.record.parentGeneration, parentGeneration)) continue
    const {resource, shard} = bucket.record
    const {cascade = record.cascade} = await resolver.resolve(entity, resource)
    if (!isSameFamily(bucket.record, {cascade, parent})) stale.push({resource, shard, cascade})
  }
  for await (const chunk of chunksOf(stale, CONCURRENT_UPDATES)) {
    await Promise.all(
      chunk.map(({resource, shard, cascade}) => {
        const e = new ExpressionBuilder()
        stampGeneration(e, parentGeneration)
        e.set(names.cascade, bool(cascade))
        e.set(names.limitsRevision, s(Buffer.from(table.randomBytes(8)).toString('base64url')))
        if (parent === undefined) e.remove(names.parent)
        else e.set(names.parent, s(parent))
        return updateBucket(table, keys.bucket(table.namespace, entity, resource, shard), e)
      }),
    )
  }
  return stale.length
}

/** A bucket that has its parent from a later move keeps it. */
function stampGeneration(e: ExpressionBuilder, generation: EntityRecord['parentGeneration']): void {
  const moves = e.name(names.parentGeneration)
  const isNotLater = `attribute_not_exists(${moves}) OR ${moves} <= ${e.value(n(generation?.moves ?? 0))}`
  const {incarnation} = generation ?? {}
  const isOther = incarnation && `${e.name(names.parentIncarnation)} <> ${e.value(s(incarnation))}`
  e.condition(isOther ? `${isNotLater} OR ${isOther}` : isNotLater)
  if (!generation) return
  for (const [name, value] of Object.entries(generationAttributes(generation))) e.set(name, value)
}

/** A bucket that was deleted in the meantime is not created again. */
async function updateBucket(table: NamespaceTable, key: Key, e: ExpressionBuilder): Promise<void> {
  e.condition(`attribute_exists(${e.name(names.refilledAt)})`)
  const request = {TableName: table.name, Key: wireKey(key), ...e.update()}
  const send = () => table.transport.send('UpdateItem', request)
  await retrying(send, {...table.backoff, retryable: isRetryableWhenIdempotent}).catch(error => {
    if (!(error instanceof ConditionFailed)) throw error
  })
}

type Family = Pick<EntityRecord, 'cascade' | 'parent'>

function isSameFamily(one: Family, other: Family): boolean {
  return one.cascade === other.cascade && one.parent === other.parent
}
