import {groupBy} from '../../core/group-by.js'
import {readShardCount} from '../../schema/bucket-record.js'
import {keyId, keys, partitionOf} from '../../schema/keys.js'
import {LITERAL_DEFAULT, legacyKeys, legacySortKeys} from '../../schema/legacy-key.js'
import {LITERAL_PREFIX, type MigrationContext, type OldItem, oldPrefixes} from '../records/finding.js'
import {isOfType, oldItemOf, queryOldItems, readItems} from '../records/reads.js'

export async function readOldBucketItems(
  context: MigrationContext,
  namespace: string,
  entity: string,
  resources: ReadonlySet<string>,
): Promise<Map<string, OldItem<'bucket'>[]>> {
  const prefixes = oldPrefixes(context, 'bucket', namespace)
  const between = legacySortKeys.buckets(resources)
  const lists = prefixes.map(async prefix => {
    const items: OldItem[] = []
    const stretch = {partition: partitionOf(legacyKeys.entity(prefix, entity)), between}
    for await (const old of queryOldItems(context, stretch)) items.push(old)
    return items
  })
  const found = (await Promise.all(lists)).flat()
  if (context.literalDefaultMoves && prefixes.includes(LITERAL_PREFIX)) {
    found.push(...(await readLiteralShards(context, entity, resources)))
  }
  const buckets = found.filter(isOfType('bucket')).filter(({record}) => resources.has(record.resource))
  return groupBy(buckets, ({record}) => record.resource)
}

/** Shards under the literal id `default`; the first one tells how many there are. */
async function readLiteralShards(
  context: MigrationContext,
  entity: string,
  resources: ReadonlySet<string>,
): Promise<OldItem[]> {
  const shardKey = (resource: string, shard: number) => keys.bucket(LITERAL_DEFAULT, entity, resource, shard)
  const firstShards = await readItems(
    context,
    [...resources].map(resource => shardKey(resource, 0)),
  )
  const further = [...resources].flatMap(resource => {
    const first = firstShards.get(keyId(shardKey(resource, 0)))
    const count = first ? readShardCount(first) : 1
    return Array.from({length: count - 1}, (_, at) => shardKey(resource, at + 1))
  })
  const shards = [...firstShards.values(), ...(await readItems(context, further)).values()]
  return shards.flatMap(item => oldItemOf(context, item) ?? [])
}
