import {tokenLimits} from '../../core/limits/limit.js'
import {type BucketName, checkEntityId} from '../../core/names.js'
import type {BucketListing, ShardedBucket} from '../../repository/buckets/buckets.js'
import {type BucketLevels, viewBucket} from '../../repository/buckets/view.js'
import {nothingApplies} from '../../repository/limits/checks.js'
import {bucketDisabled, bucketMissing} from '../../repository/operations/operation.js'
import {requireKnown} from '../../repository/operations/record.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {badCursor, decodeCursor, encodeCursor} from '../../repository/table/cursor.js'
import {checkPageLimit, type PageRequest, type RecordPage} from '../../repository/table/query.js'
import {type InFlightLevel, inFlightLevels, storedSlots} from '../holders/in-flight.js'
import {needEntity, needResource} from './known-names.js'

export async function bucketOf(
  repository: NamespaceRepository,
  entity: string,
  resource: string,
  nowMs: number,
): Promise<BucketLevels | undefined> {
  const bucket = await repository.buckets.find(entity, resource)
  return bucket && (await viewInForce(repository, nowMs))(bucket)
}

export interface BucketWithSlots extends BucketLevels {
  readonly inFlight: readonly InFlightLevel[]
}

/** Throws for an unknown entity or bucket. */
export async function bucketsOf(
  repository: NamespaceRepository,
  entity: string,
  resource: string | undefined,
  nowMs: number,
): Promise<BucketWithSlots[]> {
  const view = await viewInForce(repository, nowMs)
  const withSlots = async (bucket: ShardedBucket): Promise<BucketWithSlots> => {
    const [levels, inFlight] = await Promise.all([view(bucket), inFlightLevels(repository, storedSlots(bucket))])
    return {...levels, inFlight}
  }
  if (resource !== undefined) {
    const bucket = await repository.buckets.find(entity, resource)
    if (bucket) return [await withSlots(bucket)]
    await needEntity(repository, entity)
    throw bucketMissing(entity, resource)
  }
  const found: BucketWithSlots[] = []
  for await (const bucket of repository.buckets.ofEntity(entity)) found.push(await withSlots(bucket))
  if (found.length === 0) await needEntity(repository, entity)
  return found
}

/** Tokens left before and after a top-up. */
export interface TopUpEffect {
  readonly name: string
  readonly before: number
  readonly after: number
}

/** Throws where the top-up would be refused for missing limits. `asked`: whole tokens. */
export async function topUpEffects(
  repository: NamespaceRepository,
  {entity, resource}: BucketName,
  asked: Readonly<Record<string, number>>,
  nowMs: number,
): Promise<TopUpEffect[]> {
  const bucket = await bucketOf(repository, entity, resource, nowMs)
  const {source, limits, access} = await repository.configs.resolve({entity, resource})
  const stored = bucket?.limits ?? []
  if (source === undefined && stored.length === 0) throw nothingApplies(entity, resource)
  if (!bucket && access?.access === 'disabled') throw bucketDisabled({entity, resource})
  const full = tokenLimits(limits).map(({name, capacity, reset}) => ({name, capacity, level: capacity, quota: reset}))
  const inForce = source === undefined ? stored : full.map(each => stored.find(({name}) => name === each.name) ?? each)
  requireKnown(Object.keys(asked), new Set(inForce.map(({name}) => name)), limits)
  return inForce.flatMap(({name, level, capacity, quota}) => {
    const tokens = asked[name]
    if (tokens === undefined) return []
    const most = quota === undefined ? Math.max(level, capacity) : Infinity
    return [{name, before: level, after: Math.min(level + tokens, most)}]
  })
}

/** By entity. Eventually consistent. */
export async function bucketsFor(
  repository: NamespaceRepository,
  resource: string,
  {limit, cursor}: PageRequest,
  nowMs: number,
): Promise<RecordPage<BucketLevels>> {
  const most = checkPageLimit(limit)
  const after = cursor === undefined ? undefined : entityIn(cursor)
  const records: BucketLevels[] = []
  // One extra shows that there is a next page.
  for await (const bucket of walkBuckets(repository, resource, nowMs, {after, wanted: most + 1})) {
    const last = records.length === most ? records.at(-1) : undefined
    if (last) return {records, next: encodeCursor('buckets', [last.entity])}
    records.push(bucket)
  }
  return {records, next: undefined}
}

export async function* walkBuckets(
  repository: NamespaceRepository,
  resource: string,
  nowMs: number,
  {after, wanted}: Pick<BucketListing, 'after' | 'wanted'> = {},
): AsyncGenerator<BucketLevels, void> {
  let isEmpty = true
  const view = await viewInForce(repository, nowMs)
  for await (const bucket of repository.buckets.ofResource(resource, {after, wanted, isEventual: true})) {
    isEmpty = false
    yield await view(bucket)
  }
  if (isEmpty && after === undefined) await needResource(repository, resource)
}

/** Shows the current limits: a bucket may keep an expired boost until its next request. */
async function viewInForce(repository: NamespaceRepository, nowMs: number): Promise<ViewInForce> {
  const copies = await repository.endedCopies()
  return async bucket => {
    const current = viewBucket({...bucket, shards: await copies.inForce(bucket.shards, 1)}, nowMs)
    // Write instants are shown as stored.
    const written = viewBucket(bucket, nowMs).shards.map(({refilledAt, refillAgeMs}) => ({refilledAt, refillAgeMs}))
    return {...current, shards: current.shards.map((shard, at) => ({...shard, ...written[at]}))}
  }
}

type ViewInForce = (bucket: ShardedBucket) => Promise<BucketLevels>

function entityIn(cursor: string): string {
  const [entity = ''] = decodeCursor('buckets', cursor)
  try {
    return checkEntityId(entity)
  } catch {
    throw badCursor(cursor)
  }
}
