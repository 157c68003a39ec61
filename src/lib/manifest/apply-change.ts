import {ZaelError} from '../core/errors.js'
import {Aborted, Denied, isRetryable, TableMissing, Throttled, Unavailable} from '../dynamo/errors.js'
import type {EntityChange} from '../repository/entities/entities.js'
import type {SyncResult} from '../repository/limit-sync.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {PlannedChange, ScopeChange} from './plan.js'
import type {EntityRecordChange} from './plan-entities.js'

const NO_BUCKETS: SyncResult = {checked: 0, updated: 0, failed: 0}

/** Makes one change through the ordinary writers, and tells which live buckets followed. */
export async function applyChange(repository: NamespaceRepository, change: PlannedChange): Promise<SyncResult> {
  if (change.kind === 'limits') return change.action === 'delete' ? remove(repository, change) : set(repository, change)
  await writeEntity(repository, change)
  return NO_BUCKETS
}

async function set(repository: NamespaceRepository, {scope, after, onUnavailable}: ScopeChange): Promise<SyncResult> {
  if (scope.level === 'system' && after.length === 0) {
    return setPolicyOnly(repository, onUnavailable?.after)
  }
  const policy = onUnavailable ? {onUnavailable: onUnavailable.after} : {}
  const {buckets} = await repository.setLimits(scope, after, {replace: true, ...policy})
  return buckets
}

/** A system section without limits states a policy; limits that are there go. */
async function setPolicyOnly(
  repository: NamespaceRepository,
  wanted: 'allow' | 'block' | undefined,
): Promise<SyncResult> {
  const system = {level: 'system'} as const
  // Restated where it stays: a set must give something.
  const onUnavailable = wanted ?? (await repository.configs.get(system))?.onUnavailable
  const {buckets} = await repository.setLimits(system, [], {replace: true, onUnavailable})
  return buckets
}

async function remove(repository: NamespaceRepository, {scope}: ScopeChange): Promise<SyncResult> {
  try {
    const {buckets} = await repository.deleteLimits(scope)
    return buckets
  } catch (error) {
    if (isCode(error, 'limits.missing')) return NO_BUCKETS // somebody else was quicker
    throw error
  }
}

async function writeEntity(
  {entities}: NamespaceRepository,
  {action, entity, after}: EntityRecordChange,
): Promise<void> {
  const change: EntityChange = after
  if (action === 'update') {
    await entities.update(entity, change)
    return
  }
  try {
    await entities.create({...after, id: entity, parent: after.parent ?? undefined})
  } catch (error) {
    if (!isCode(error, 'entity.exists')) throw error
    // Created by somebody else since the plan was made.
    await entities.update(entity, change)
  }
}

const isCode = (error: unknown, code: string): boolean => error instanceof ZaelError && error.code === code

/** Others were at the same records, or the table was busy: alone, it may succeed. */
export function isContention(error: unknown): boolean {
  return (isRetryable(error) && !(error instanceof Unavailable)) || isCode(error, 'limits.contended')
}

/** The next change would fail in the same way. */
export function isHopeless(error: ZaelError): boolean {
  return [Throttled, Unavailable, Denied, TableMissing].some(kind => error instanceof kind)
}

/** Whether a failed change may have been made all the same. */
export function maybeApplied(error: ZaelError): boolean {
  return (error instanceof Unavailable || error instanceof Aborted) && error.maybeApplied
}
