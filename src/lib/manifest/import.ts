import {isDeepStrictEqual} from 'node:util'
import {ZaelError} from '../core/errors.js'
import {groupBy} from '../core/group-by.js'
import {baseOf, type Limit} from '../core/limits/limit.js'
import {DEFAULT_RESOURCE} from '../core/names.js'
import {chunksOf, forEachConcurrently} from '../dynamo/concurrency.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {ConfigRecord, ConfigScope} from '../schema/config-record.js'
import type {EntityRecord} from '../schema/entity-record.js'
import {applyChange, isContention, isSystemic} from './apply.js'
import type {ListedEntities} from './entity-file.js'
import {type EntityRecordChange, limitsWithoutBoosts} from './manifest.js'
import {planEntities} from './plan-entities.js'

const RECORDS_PER_READ = 100
const CONCURRENT_CHANGES = 8

/** Listed limits that differ from the table; other limits of the scope are kept. */
export interface ListedLimits {
  readonly kind: 'limits'
  readonly entity: string
  readonly scope: Extract<ConfigScope, {level: 'entity'}>
  readonly limits: readonly Limit[]
  /** Current limits, without boosts; boosts continue. */
  readonly before: readonly Limit[]
  /** Unlisted limits copied for a boost; this change makes them permanent. */
  readonly kept: readonly Limit[]
}

/** Limits of a temporary copy that are now permanent, without boosts. */
export interface KeptCopy {
  readonly scope: ConfigScope
  readonly limits: readonly Limit[]
}

/** An import never removes anything. */
export interface ImportPlan {
  readonly listed: number
  /** Parents before their children. */
  readonly entities: readonly EntityRecordChange[]
  readonly limits: readonly ListedLimits[]
  readonly unchanged: number
}

export interface ImportOptions {
  readonly onProgress?: ((done: number) => void) | undefined
  readonly signal?: AbortSignal | undefined
}

/** Read-only. Throws when a parent is neither listed nor stored, or when an entity is too large. */
export async function planImport(
  repository: NamespaceRepository,
  listed: ListedEntities,
  {onProgress = () => {}, signal}: ImportOptions = {},
): Promise<ImportPlan> {
  // A line with only an id states that the entity exists.
  const stated = new Map([...listed].map(([id, entity]) => [id, {name: id, ...entity}] as const))
  const ids = new Set([...stated.keys(), ...[...stated.values()].flatMap(({parent}) => parent ?? [])])
  const live = new Map<string, EntityRecord>()
  for await (const chunk of chunksOf(ids, RECORDS_PER_READ)) {
    for (const record of await repository.entities.getMany(chunk, signal)) live.set(record.entity, record)
    onProgress(Math.min(live.size, listed.size))
  }
  // Keep the name and metadata keys that are not stated.
  for (const [id, {name, metadata, ...fields}] of listed) {
    const record = live.get(id)
    if (!record) continue
    const merged = metadata && {metadata: {...record.metadata, ...metadata}}
    stated.set(id, {...fields, name: name ?? record.name, ...merged})
  }
  const {changes: entities} = planEntities({entities: stated}, live, 'import')
  const limits = await differingLimits(repository, listed, signal)
  const changed = new Set([...entities, ...limits].map(({entity}) => entity))
  return {listed: listed.size, entities, limits, unchanged: listed.size - changed.size}
}

async function differingLimits(
  {configs}: NamespaceRepository,
  listed: ListedEntities,
  signal: AbortSignal | undefined,
): Promise<ListedLimits[]> {
  const wanted = [...listed].flatMap(([entity, {scopes}]) =>
    Array.from(scopes, ([resource, {limits}]) => ({scope: {level: 'entity', entity, resource} as const, limits})),
  )
  const differing: ListedLimits[] = []
  for await (const chunk of chunksOf(wanted, RECORDS_PER_READ)) {
    const records = await configs.getMany(
      chunk.map(({scope}) => scope),
      signal,
    )
    for (const [at, {scope, limits}] of chunk.entries()) {
      const before = limitsWithoutBoosts(records[at])
      const kept = copiedBeside(records[at], limits)
      const isSet = limits.every(limit => before.some(stored => isDeepStrictEqual(stored, limit)))
      if (!isSet) differing.push({kind: 'limits', entity: scope.entity, scope, limits, before, kept})
    }
  }
  return differing
}

function copiedBeside(record: ConfigRecord | undefined, listed: readonly Limit[]): Limit[] {
  if (record?.copiedUntilMs === undefined) return []
  const names = new Set(listed.map(({name}) => name))
  return record.limits.filter(({name}) => !names.has(name)).map(baseOf)
}

interface ImportFailure {
  readonly entity: string
  readonly error: ZaelError
}

export type ImportResult = Readonly<Awaited<ReturnType<typeof runImport>>>

type ImportChange = EntityRecordChange | ListedLimits

/** Limits first, so that a parent has limits when it is first charged. Run again to continue a stopped import. */
export async function runImport(
  repository: NamespaceRepository,
  {entities, limits}: ImportPlan,
  {onProgress = () => {}, signal}: ImportOptions = {},
) {
  const done: ImportChange[] = []
  const failures: ImportFailure[] = []
  let isStopped = false
  const contended: ImportChange[] = []
  const kept: KeptCopy[] = []
  const setLimits = async ({scope, limits}: ListedLimits): Promise<void> => {
    const {previous, copied} = await repository.setLimits(scope, limits, {keepsBoosts: true})
    if (previous?.copiedUntilMs !== undefined && copied) kept.push({scope, limits: copied.limits.map(baseOf)})
  }
  const make = async (change: ImportChange, isRepeated = false): Promise<void> => {
    if (isStopped || signal?.aborted) return
    try {
      if (change.kind === 'limits') await setLimits(change)
      else await applyChange(repository, change)
      done.push(change)
    } catch (error) {
      if (!(error instanceof ZaelError)) throw error
      if (!isRepeated && isContention(error)) {
        contended.push(change)
        return
      }
      failures.push({entity: change.entity, error})
      isStopped ||= isSystemic(error)
    }
    onProgress(done.length + failures.length)
  }
  const generations = groupBy(entities, ({depth}) => depth)
  // Default limits first: limits of one resource start from a copy of them.
  const byDefault = groupBy(limits, ({scope}) => scope.resource === DEFAULT_RESOURCE)
  for (const group of [byDefault.get(true) ?? [], byDefault.get(false) ?? [], ...generations.values()]) {
    await forEachConcurrently<ImportChange>(group, CONCURRENT_CHANGES, change => make(change))
    // One at a time, so that they don't contend with each other.
    for (const change of contended.splice(0)) await make(change, true)
  }
  const count = (action: 'create' | 'update'): number =>
    done.filter(change => change.kind === 'entity' && change.action === action).length
  return {
    created: count('create'),
    updated: count('update'),
    limitsSet: done.filter(({kind}) => kind === 'limits').length,
    kept,
    failures,
    left: entities.length + limits.length - done.length - failures.length,
  }
}
