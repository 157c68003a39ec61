import {checkEntityId} from '../core/names.js'
import {type BucketView, viewBucket} from '../repository/buckets/view.js'
import {bucketMissing} from '../repository/operations/errors.js'
import type {NamespaceRepository} from '../repository/repository.js'
import {badCursor, decodeCursor, encodeCursor} from '../repository/table/cursor.js'
import {checkPageLimit, type PageRequest, type RecordPage} from '../repository/table/query.js'
import {needEntity, needResource} from './known-names.js'

/** The buckets of an entity as they are now, or the one for a resource. An unknown entity or bucket is an error. */
export async function bucketsOf(
  repository: NamespaceRepository,
  entity: string,
  resource: string | undefined,
  nowMs: number,
): Promise<BucketView[]> {
  if (resource !== undefined) {
    const bucket = await repository.buckets.find(entity, resource)
    if (bucket) return [viewBucket(bucket, nowMs)]
    await needEntity(repository, entity)
    throw bucketMissing(entity, resource)
  }
  const found: BucketView[] = []
  for await (const bucket of repository.buckets.ofEntity(entity)) found.push(viewBucket(bucket, nowMs))
  if (found.length === 0) await needEntity(repository, entity)
  return found
}

/** A page of the buckets of a resource as they are now, by entity. */
export async function bucketsFor(
  repository: NamespaceRepository,
  resource: string,
  {limit, cursor}: PageRequest,
  nowMs: number,
): Promise<RecordPage<BucketView>> {
  const wanted = checkPageLimit(limit)
  const after = cursor === undefined ? undefined : entityIn(cursor)
  const records: BucketView[] = []
  for await (const bucket of repository.buckets.ofResource(resource, {after})) {
    // One more than wanted shows that there is a next page.
    const last = records.length === wanted ? records.at(-1) : undefined
    if (last) return {records, next: encodeCursor('buckets', [last.entity])}
    records.push(viewBucket(bucket, nowMs))
  }
  if (records.length === 0 && cursor === undefined) await needResource(repository, resource)
  return {records, next: undefined}
}

function entityIn(cursor: string): string {
  const [entity = ''] = decodeCursor('buckets', cursor)
  try {
    return checkEntityId(entity)
  } catch {
    throw badCursor(cursor)
  }
}
