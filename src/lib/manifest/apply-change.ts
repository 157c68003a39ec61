import {ZaelError} from '../core/errors.js'
import {Aborted, Denied, isRetryable, TableMissing, Throttled, Unavailable} from '../dynamo/errors.js'
import type {EntityChange} from '../repository/entities/entities.js'
import type {SyncResult} from '../repository/limits/bucket-sync.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {EntityRecordChange} from './manifest.js'
import type {PlannedChange, ScopeChange} from './plan.js'

const NO_BUCKETS: SyncResult = {checked: 0, updated: 0, failed: 0}

export async function applyChange(repository: NamespaceRepository, change: PlannedChange): Promise<SyncResult> {
  if (change.kind === 'limits') return change.action === 'delete' ? remove(repository, change) : set(repository, change)
  await writeEntity(repository, change)
  return NO_BUCKETS
}

async function set(repository: NamespaceRepository, change: ScopeChange): Promise<SyncResult> {
  const {scope, after, onUnavailable, policies} = change
  if (scope.level === 'system' && after.length === 0) {
    return setPolicyOnly(repository, onUnavailable?.after)
  }
  const policy = onUnavailable ? {onUnavailable: onUnavailable.after} : {}
  const {buckets} = await repository.setLimits(scope, after, {replace: true, keepsBoosts: true, ...policy, policies})
  return buckets
}

/** A system section without limits removes existing limits and may set a policy. */
async function setPolicyOnly(
  repository: NamespaceRepository,
  stated: 'allow' | 'block' | undefined,
): Promise<SyncResult> {
  const system = {level: 'system'} as const
  // A set must contain something: repeat the stored policy if none is stated.
  const onUnavailable = stated ?? (await repository.configs.get(system))?.onUnavailable
  const {buckets} = await repository.setLimits(system, [], {replace: true, onUnavailable})
  return buckets
}

async function remove(repository: NamespaceRepository, change: ScopeChange): Promise<SyncResult> {
  const {scope, access, cascade, leavesCopy} = change
  if (leavesCopy && scope.level !== 'system') {
    const {buckets: a} = access ? await repository.setAccess(scope, undefined) : {buckets: NO_BUCKETS}
    const {buckets: b} = cascade ? await repository.setCascade(scope, undefined) : {buckets: NO_BUCKETS}
    return {checked: a.checked + b.checked, updated: a.updated + b.updated, failed: a.failed + b.failed}
  }
  try {
    const {buckets} = await repository.deleteConfig(scope)
    return buckets
  } catch (error) {
    if (hasCode(error, 'limits.missing')) return NO_BUCKETS // already deleted by another writer
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
    if (!hasCode(error, 'entity.exists')) throw error
    // Another writer created it since the plan was made.
    await entities.update(entity, change)
  }
}

const hasCode = (error: unknown, code: string): boolean => error instanceof ZaelError && error.code === code

/** Worth one retry without concurrency. */
export function isContention(error: unknown): boolean {
  return (isRetryable(error) && !(error instanceof Unavailable)) || hasCode(error, 'limits.contended')
}

/** Other changes would fail too. */
export function isSystemic(error: ZaelError): boolean {
  return [Throttled, Unavailable, Denied, TableMissing].some(kind => error instanceof kind)
}

export function maybeApplied(error: ZaelError): boolean {
  return (error instanceof Unavailable || error instanceof Aborted) && error.maybeApplied
}
