import {groupBy} from '../../core/group-by.js'
import {keyId} from '../../dynamo/batch.js'
import {type Item, type Key, s} from '../../schema/attribute-value.js'
import {type BucketRecord, decodeBucket, encodeBucket, type StoredBucket} from '../../schema/bucket-record.js'
import {decodeEntity} from '../../schema/entity-record.js'
import {keys} from '../../schema/keys.js'
import {
  type BucketMarks,
  decodeBucketMarks,
  encodeBucketMarks,
  MIGRATION_MARK,
  readMigrationMark,
} from '../../schema/migration-marks.js'
import {putAbsent, removeMark, replaceSeen} from '../records/conditional.js'
import {readItems, spelledIn} from '../records/copied-records.js'
import {
  beginningIn,
  eachOf,
  type Found,
  homeOf,
  isOneItem,
  type MigrationContext,
  type MigrationFinding,
  oldPrefixes,
} from '../records/finding.js'
import {chargesOf} from './charge.js'
import {mergeBucket} from './merge.js'
import {type OldBucket, readOldBucket} from './old-bucket.js'
import {readOldItems} from './old-bucket-items.js'
import type {OldBucketItem} from './old-bucket-parts.js'
import {applyCharges} from './writes.js'

/** Beyond this a shard count is an accident of another client. */
const MAX_SHARDS = 1024

/** The old items of one entity and resource, and where they belong. */
interface Group {
  readonly home: string
  readonly entity: string
  readonly resource: string
  readonly items: readonly OldBucketItem[]
}

/** Buckets: a new one is made of the old items; one that is there already bears what the old ones have consumed. */
export async function lookAtBuckets(
  stage: MigrationContext,
  found: readonly Found<'bucket'>[],
): Promise<MigrationFinding[]> {
  const byEntity = [...groupBy(found, ({record}) => `${homeOf(stage, record)}/${record.entity}`).values()]
  const groups = (await eachOf(byEntity, members => groupsOf(stage, members))).flat()
  const begins = beginningIn(found)
  const begun = groups.filter(({items}) => begins(items.map(({item}) => item)))
  const current = await readItems(stage, begun.map(keyOfBucket))
  const besides = await readItems(
    stage,
    begun.flatMap(group => keysBesides(stage, group, current.get(keyId(keyOfBucket(group))))),
  )
  return begun.map(group => lookAtBucket(stage, group, {current, besides}))
}

const keyOfBucket = ({home, entity, resource}: Group): Key => keys.bucket(home, entity, resource, 0)

/** What else has to be known: of a bucket that is there its further shards, of one that is not its entity. */
function keysBesides(stage: MigrationContext, {home, entity}: Group, current: Item | undefined): Key[] {
  const stored = current && decodeBucket(current)
  return stored?.kind === 'bucket' ? furtherShards(stored.record) : placesOfEntity(stage, home, entity)
}

/** Where the entity of a bucket may be, the place that counts first. */
function placesOfEntity(stage: MigrationContext, home: string, entity: string): Key[] {
  const prefixes = new Set([`${home}/`, ...oldPrefixes(stage, 'entity', home).reverse()])
  return [...prefixes].map(prefix => ({PK: `${prefix}ENTITY#${entity}`, SK: '#META'}))
}

function furtherShards({namespace, entity, resource, shardCount}: BucketRecord): Key[] {
  const count = Math.max(0, Math.min(shardCount, MAX_SHARDS) - 1)
  return Array.from({length: count}, (_, at) => keys.bucket(namespace, entity, resource, at + 1))
}

/** What was read, by `keyId`. */
interface Seen {
  /** First shards. */
  readonly current: ReadonlyMap<string, Item>
  readonly besides: ReadonlyMap<string, Item>
}

/** The buckets of one entity, each with all its old items. */
async function groupsOf(stage: MigrationContext, members: readonly Found<'bucket'>[]): Promise<Group[]> {
  const {record} = members[0] as Found<'bucket'>
  const home = homeOf(stage, record)
  const {entity} = record
  if (isOneItem(stage, 'bucket', home)) {
    return members.map(member => ({home, entity, resource: member.record.resource, items: [member]}))
  }
  const resources = new Set(members.map(member => member.record.resource))
  const items = await readOldItems(stage, home, entity, resources)
  return [...items].map(([resource, each]) => ({home, entity, resource, items: each}))
}

function lookAtBucket(stage: MigrationContext, group: Group, seen: Seen): MigrationFinding {
  const {items} = group
  const sources = items.map(({item}) => item)
  const old = readOldBucket(items, stage.table.clock())
  if (old === 'expired') return {type: 'bucket', sources, state: 'expired'}
  if (old === 'unreadable') return {type: 'bucket', sources, state: 'unknown'}
  const decision = old.others.size === 0 ? undefined : 'superseded'
  const current = seen.current.get(keyId(keyOfBucket(group)))
  const stored = current && decodeBucket(current)
  if (!current || stored?.kind !== 'bucket') {
    if (old.limits.size === 0) {
      // What adjustments left says nothing about a bucket; it is charged as soon as there is one.
      return {type: 'bucket', sources, state: old.residue.size === 0 ? 'same' : 'unknown'}
    }
    // Made already now: what today's layout cannot hold shows here.
    const item = newItem(stage, group, old, seen.besides, current)
    const write = () => (current ? replaceSeen(stage, current, item) : putAbsent(stage, item))
    const isAbsent = current === undefined
    return {type: 'bucket', sources, state: 'behind', says: 'is not there yet', decision, isAbsent, write}
  }
  const further = furtherShards(stored.record).flatMap(key => {
    const item = seen.besides.get(keyId(key))
    const shard = item && decodeBucket(item)
    return shard?.kind === 'bucket' ? [shard.record] : []
  })
  const shards = [stored.record, ...further]
  const before = decodeBucketMarks(readMigrationMark(current))
  const charges = chargesOf(old, shards, before)
  const onDelete = readMigrationMark(current) === undefined ? [] : [removeMark(stage, current)]
  const write = () => applyCharges(stage, {current, old, charges})
  // What the old bucket still has to bear matters only to clients that use it; it does not hold up a deletion.
  if (charges.toNew.size > 0 || hasNewPlaces(charges.marks, before)) {
    return {type: 'bucket', sources, state: 'behind', says: 'was used in the old place', decision, write}
  }
  const isOwed = charges.toOld.size > 0
  return {type: 'bucket', sources, state: 'same', decision, onDelete, ...(isOwed ? {write} : {})}
}

/** Whether something lies in an old place that was not there, or not known, when the new bucket was marked. */
function hasNewPlaces(marks: BucketMarks, before: BucketMarks): boolean {
  return [...marks].some(([limit, places]) => [...places.keys()].some(place => !before.get(limit)?.has(place)))
}

/** A new bucket; what refunds left of one that is gone goes into it. */
function newItem(
  stage: MigrationContext,
  {home, entity, resource}: Group,
  old: OldBucket,
  besides: ReadonlyMap<string, Item>,
  ghost: Item | undefined,
): Item {
  const stored = placesOfEntity(stage, home, entity)
    .map(key => besides.get(keyId(key)))
    .find(item => item !== undefined)
  const meta = stored && decodeEntity(spelledIn(home, stored))
  const {record, marks} = mergeBucket(old, {
    namespace: home,
    entity,
    resource,
    cascade: meta?.cascade ?? old.cascade,
    parent: meta ? meta.parent : old.parent,
  })
  return {...encodeBucket(withResidue(record, ghost)), [MIGRATION_MARK]: s(encodeBucketMarks(marks))}
}

function withResidue(record: BucketRecord, ghost: Item | undefined): BucketRecord {
  const stored: StoredBucket | undefined = ghost && decodeBucket(ghost)
  if (stored?.kind !== 'ghost') return record
  const limits = new Map(record.state.limits)
  for (const [name, {tokensMilli, consumedMilli}] of stored.residue) {
    const limit = limits.get(name)
    if (limit) limits.set(name, {...limit, tokensMilli: limit.tokensMilli + tokensMilli, consumedMilli})
  }
  return {...record, state: {...record.state, limits}}
}
