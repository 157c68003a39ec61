import {keyId} from '../dynamo/batch.js'
import {readAll} from '../repository/query.js'
import type {Item} from '../schema/attribute-value.js'
import {keys} from '../schema/keys.js'
import {readNumber} from '../schema/read.js'
import {classify, LITERAL_DEFAULT} from './classify.js'
import {readItems} from './copied-records.js'
import {LITERAL_PREFIX, oldPrefixes, type Stage} from './finding.js'
import type {OldBucketItem} from './old-bucket.js'

/** All old bucket items of an entity, by resource; of those resources only that were asked for. */
export async function readOldItems(
  stage: Stage,
  home: string,
  entity: string,
  resources: ReadonlySet<string>,
): Promise<Map<string, OldBucketItem[]>> {
  const found = new Map<string, OldBucketItem[]>()
  const take = (item: Item) => {
    const record = classify(item, stage)
    if (record.kind !== 'old' || record.type !== 'bucket' || !resources.has(record.resource)) return
    found.set(record.resource, [...(found.get(record.resource) ?? []), {item, record}])
  }
  const prefixes = oldPrefixes(stage, 'bucket', home)
  const partitions = prefixes.map(prefix => `${prefix}ENTITY#${entity}`)
  const lists = partitions.map(async partition => {
    const items: Item[] = []
    const stretch = {partition, prefix: '#BUCKET#'}
    for await (const item of readAll(stage.table, stretch, undefined, stage.signal)) items.push(item)
    return items
  })
  for (const items of await Promise.all(lists)) items.forEach(take)
  if (stage.literalDefaultMoves && prefixes.includes(LITERAL_PREFIX)) {
    for (const item of await literalShards(stage, entity, resources)) take(item)
  }
  return found
}

/** Shards under the literal id; the first says how many there are. */
async function literalShards(stage: Stage, entity: string, resources: ReadonlySet<string>): Promise<Item[]> {
  const keyOfShard = (resource: string, shard: number) => keys.bucket(LITERAL_DEFAULT, entity, resource, shard)
  const firsts = await readItems(
    stage,
    [...resources].map(resource => keyOfShard(resource, 0)),
  )
  const further = [...resources].flatMap(resource => {
    const first = firsts.get(keyId(keyOfShard(resource, 0)))
    const count = (first && readNumber(first, 'shard_count')) ?? 1
    return Array.from({length: count - 1}, (_, at) => keyOfShard(resource, at + 1))
  })
  return [...firsts.values(), ...(await readItems(stage, further)).values()]
}
