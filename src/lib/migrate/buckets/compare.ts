import {groupBy} from '../../core/group-by.js'
import {MAX_SHARDS} from '../../repository/buckets/buckets.js'
import {type Item, type Key, s} from '../../schema/attribute-value.js'
import {type BucketRecord, decodeBucket, encodeBucket} from '../../schema/bucket-record.js'
import {decodeEntity} from '../../schema/entity-record.js'
import {keyId, keys} from '../../schema/keys.js'
import {moderniseInto} from '../../schema/legacy-item.js'
import {legacyKeys, partitionPrefix} from '../../schema/legacy-key.js'
import {type BucketMarks, encodeBucketMarks, MIGRATION_MARK} from '../../schema/migration-marks.js'
import {putAbsent, readItems, removeMark, replaceSeen} from '../records/conditional.js'
import {
  type Compare,
  isSingleItem,
  type MigrationContext,
  type MigrationFinding,
  mapConcurrently,
  type OldItem,
  oldPrefixes,
  startsAmong,
  targetNamespace,
} from '../records/finding.js'
import {bucketMarksOf} from '../records/marks.js'
import {applyCharges, computeCharges, mergeBucket} from './charge.js'
import {type OldBucket, readOldBucket, readOldBucketItems} from './old-bucket.js'

interface BucketSources {
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  readonly sources: readonly OldItem<'bucket'>[]
}

/** Creates a missing new bucket from the old items, or charges both. */
export const compareBuckets: Compare<'bucket'> = async (context, items) => {
  const buckets = await gatherBuckets(context, items)
  const firstShards = await readItems(context, buckets.map(firstShardKey))
  const currentOf = (bucket: BucketSources) => firstShards.get(keyId(firstShardKey(bucket)))
  // Other shards of existing buckets, and entities of missing buckets.
  const relatedKeys = buckets.flatMap(bucket => keysRelatedTo(context, bucket, currentOf(bucket)))
  const related = await readItems(context, relatedKeys)
  return buckets.map(bucket => compareBucket(context, bucket, currentOf(bucket), related))
}

export async function gatherBuckets(
  context: MigrationContext,
  items: readonly OldItem<'bucket'>[],
): Promise<BucketSources[]> {
  const byEntity = groupBy(items, ({record}) => `${targetNamespace(context, record)}/${record.entity}`)
  const all = (await mapConcurrently([...byEntity.values()], members => gatherSources(context, members))).flat()
  const startsHere = startsAmong(items)
  return all.filter(({sources}) => startsHere(sources))
}

async function gatherSources(
  context: MigrationContext,
  members: readonly OldItem<'bucket'>[],
): Promise<BucketSources[]> {
  const {record} = members[0] as OldItem<'bucket'>
  const namespace = targetNamespace(context, record)
  const {entity} = record
  if (isSingleItem(context, 'bucket', namespace)) {
    return members.map(member => ({namespace, entity, resource: member.record.resource, sources: [member]}))
  }
  const resources = new Set(members.map(member => member.record.resource))
  const byResource = await readOldBucketItems(context, namespace, entity, resources)
  return [...byResource].map(([resource, sources]) => ({namespace, entity, resource, sources}))
}

const firstShardKey = ({namespace, entity, resource}: BucketSources): Key => keys.bucket(namespace, entity, resource, 0)

function keysRelatedTo(context: MigrationContext, bucket: BucketSources, current: Item | undefined): Key[] {
  const stored = current && decodeBucket(current)
  return stored?.kind === 'bucket' ? furtherShardKeys(stored.record) : entityKeys(context, bucket)
}

/** Most recent first. */
function entityKeys(context: MigrationContext, {namespace, entity}: BucketSources): Key[] {
  const prefixes = new Set([partitionPrefix(namespace), ...oldPrefixes(context, 'entity', namespace).toReversed()])
  return [...prefixes].map(prefix => legacyKeys.entity(prefix, entity))
}

function furtherShardKeys({namespace, entity, resource, shardCount}: BucketRecord): Key[] {
  const count = Math.max(0, Math.min(shardCount, MAX_SHARDS) - 1)
  return Array.from({length: count}, (_, at) => keys.bucket(namespace, entity, resource, at + 1))
}

function compareBucket(
  context: MigrationContext,
  bucket: BucketSources,
  current: Item | undefined,
  related: ReadonlyMap<string, Item>,
): MigrationFinding {
  const {sources} = bucket
  const old = readOldBucket(sources, context.table.clock())
  if (old === 'expired') return {type: 'bucket', sources, state: 'expired'}
  if (old === 'unreadable') return {type: 'bucket', sources, state: 'unknown'}
  const stored = current && decodeBucket(current)
  if (current && stored?.kind === 'bucket') {
    const shards = [stored.record, ...furtherShards(stored.record, related)]
    return compareReplicas(context, sources, old, current, shards)
  }
  if (old.limits.size === 0) {
    // Residue is charged as soon as there is a new bucket.
    return {type: 'bucket', sources, state: old.residue.size === 0 ? 'same' : 'unknown'}
  }
  // Encoded now, because this throws if the current layout cannot hold the bucket.
  const item = encodeCopy(context, bucket, old, related, current)
  const write = () => (current ? replaceSeen(context, current, item) : putAbsent(context, item))
  const copy = {reason: 'is not copied yet', decision: decisionOn(old), isAbsent: current === undefined, write}
  return {type: 'bucket', sources, state: 'behind', ...copy}
}

const decisionOn = (old: OldBucket) => (old.others.size === 0 ? undefined : ('superseded' as const))

function furtherShards(first: BucketRecord, related: ReadonlyMap<string, Item>): BucketRecord[] {
  return furtherShardKeys(first).flatMap(key => {
    const item = related.get(keyId(key))
    const shard = item && decodeBucket(item)
    return shard?.kind === 'bucket' ? [shard.record] : []
  })
}

function compareReplicas(
  context: MigrationContext,
  sources: readonly OldItem[],
  old: OldBucket,
  current: Item,
  shards: readonly BucketRecord[],
): MigrationFinding {
  const before = bucketMarksOf(current)
  const charges = computeCharges(old, shards, before)
  const common = {type: 'bucket', sources, decision: decisionOn(old)} as const
  const write = () => applyCharges(context, current, old, charges)
  if (charges.toNew.size > 0 || hasNewLocation(charges.marks, before)) {
    return {...common, state: 'behind', reason: 'was used in the old layout', write}
  }
  const onDelete = current[MIGRATION_MARK] === undefined ? [] : [removeMark(context, current)]
  // Only clients of the old bucket need a charge to it, so the old items may be deleted without it.
  return {...common, state: 'same', onDelete, ...(charges.toOld.size > 0 ? {write} : {})}
}

function hasNewLocation(marks: BucketMarks, before: BucketMarks): boolean {
  return [...marks].some(([limit, locations]) => [...locations.keys()].some(each => !before.get(limit)?.has(each)))
}

function encodeCopy(
  context: MigrationContext,
  bucket: BucketSources,
  old: OldBucket,
  related: ReadonlyMap<string, Item>,
  ghost: Item | undefined,
): Item {
  const {namespace, entity, resource} = bucket
  const stored = entityKeys(context, bucket)
    .map(key => related.get(keyId(key)))
    .find(item => item !== undefined)
  const meta = stored && decodeEntity(moderniseInto(namespace, stored))
  const {record, marks} = mergeBucket(old, {
    namespace,
    entity,
    resource,
    cascade: meta?.cascade ?? old.cascade,
    parent: meta ? meta.parent : old.parent,
  })
  return {...encodeBucket(withResidue(record, ghost)), [MIGRATION_MARK]: s(encodeBucketMarks(marks))}
}

function withResidue(record: BucketRecord, ghost: Item | undefined): BucketRecord {
  const stored = ghost && decodeBucket(ghost)
  if (stored?.kind !== 'ghost') return record
  const limits = new Map(record.state.limits)
  for (const [name, {tokensMilli, consumedMilli}] of stored.residue) {
    const limit = limits.get(name)
    if (limit) limits.set(name, {...limit, tokensMilli: limit.tokensMilli + tokensMilli, consumedMilli})
  }
  return {...record, state: {...record.state, limits}}
}
