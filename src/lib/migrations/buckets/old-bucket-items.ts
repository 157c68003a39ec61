import {groupBy} from '../../core/group-by.js'
import {keyId} from '../../dynamo/batch.js'
import {readAll} from '../../repository/table/query.js'
import type {Item} from '../../schema/attribute-value.js'
import {keys} from '../../schema/keys.js'
import {readNumber} from '../../schema/read.js'
import {classifyItem, LITERAL_DEFAULT} from '../records/classify.js'
import {readItems} from '../records/copied-records.js'
import {LITERAL_PREFIX, type MigrationContext, oldPrefixes} from '../records/finding.js'
import type {OldBucketItem} from './old-bucket-parts.js'

/** All old bucket items of an entity, by resource; of those resources only that were asked for. */
export async function readOldItems(
  stage: MigrationContext,
  home: string,
  entity: string,
  resources: ReadonlySet<string>,
): Promise<Map<string, OldBucketItem[]>> {
  const wanted = (item: Item): OldBucketItem[] => {
    const record = classifyItem(item, stage)
    const isWanted = record.kind === 'old' && record.type === 'bucket' && resources.has(record.resource)
    return isWanted ? [{item, record}] : []
  }
  const prefixes = oldPrefixes(stage, 'bucket', home)
  const between = stretchOf(resources)
  const lists = prefixes.map(async prefix => {
    const items: OldBucketItem[] = []
    const stretch = {partition: `${prefix}ENTITY#${entity}`, between}
    for await (const item of readAll(stage.table, stretch, undefined, stage.signal)) items.push(...wanted(item))
    return items
  })
  const found = (await Promise.all(lists)).flat()
  if (stage.literalDefaultMoves && prefixes.includes(LITERAL_PREFIX)) {
    found.push(...(await literalShards(stage, entity, resources)).flatMap(wanted))
  }
  return groupBy(found, ({record}) => record.resource)
}

/** Sort keys from the first to the last of some resources, with those of single limits: an entity may have many more. */
export function stretchOf(resources: ReadonlySet<string>): [string, string] {
  // As DynamoDB sorts. `$` comes right after the `#` that separates a resource from a limit; of two names of which one
  // begins with the other, the end may be that of either.
  const sorted = (keys: readonly string[]) => keys.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  const names = [...resources].map(resource => `#BUCKET#${resource}`)
  return [sorted(names)[0] as string, sorted(names.map(name => `${name}$`)).at(-1) as string]
}

/** Shards under the literal id; the first says how many there are. */
async function literalShards(stage: MigrationContext, entity: string, resources: ReadonlySet<string>): Promise<Item[]> {
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
