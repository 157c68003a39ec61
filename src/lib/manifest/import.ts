import {isDeepStrictEqual} from 'node:util'
import {ZaelError} from '../core/errors.js'
import {groupBy} from '../core/group-by.js'
import {baseOf, type Limit} from '../core/limits/limit.js'
import {DEFAULT_RESOURCE} from '../core/names.js'
import {chunksOf, forEachConcurrently} from '../dynamo/concurrency.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {ConfigRecord, ConfigScope} from '../schema/config-record.js'
import type {EntityRecord} from '../schema/entity-record.js'
import {applyChange, isContention, isSystemic} from './apply-change.js'
import type {ListedEntities} from './entity-file.js'
import {type EntityRecordChange, limitsWithoutBoosts} from './manifest.js'
import {planEntities} from './plan-entities.js'

/** Records that are read between two reports. */
const RECORDS_PER_READ = 100
const CONCURRENT_CHANGES = 8

/** Limits of a listed entity that are not set like that yet; others of its scope stay. */
export interface ListedLimits {
  readonly kind: 'limits'
  readonly entity: string
  readonly scope: Extract<ConfigScope, {level: 'entity'}>
  readonly limits: readonly Limit[]
  /** What the scope has now, without boosts: they go on. */
  readonly before: readonly Limit[]
  /** Other limits that the scope has only for the time of a boost, and that stay for good with these. */
  readonly kept: readonly Limit[]
}

/** Limits that were copied to a scope for a boost and are there for good now, because others of the scope were listed. */
export interface KeptCopy {
  readonly scope: ConfigScope
  /** As they are without boosts. */
  readonly limits: readonly Limit[]
}

/** What has to be written so that entities are as a list states them. Nothing is ever removed. */
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

/** Compares a list with the table; reads only. Throws when a parent is neither listed nor there, or an entity too large. */
export async function planImport(
  repository: NamespaceRepository,
  listed: ListedEntities,
  {onProgress = () => {}, signal}: ImportOptions = {},
): Promise<ImportPlan> {
  // A line with an id alone states that the entity exists.
  const stated = new Map([...listed].map(([id, entity]) => [id, {name: id, ...entity}] as const))
  const ids = new Set([...stated.keys(), ...[...stated.values()].flatMap(({parent}) => parent ?? [])])
  const live = new Map<string, EntityRecord>()
  for await (const chunk of chunksOf(ids, RECORDS_PER_READ)) {
    for (const record of await repository.entities.getMany(chunk, signal)) live.set(record.entity, record)
    onProgress(Math.min(live.size, listed.size))
  }
  // A name that is not stated stays, and so do other keys of the metadata.
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

export interface ImportResult {
  readonly created: number
  readonly updated: number
  readonly limitsSet: number
  /** Of these, those whose other limits would have ended with a boost. */
  readonly kept: readonly KeptCopy[]
  readonly failures: readonly ImportFailure[]
  /** Changes that were not tried; another run makes them. */
  readonly left: number
}

type ImportChange = EntityRecordChange | ListedLimits

/**
 * Makes the changes of a plan, several at a time: limits first, so that a parent has its limits when it is first charged.
 * Made changes are no changes in the plan of the next run, so an import that was stopped is continued by running it again.
 */
export async function runImport(
  repository: NamespaceRepository,
  {entities, limits}: ImportPlan,
  {onProgress = () => {}, signal}: ImportOptions = {},
): Promise<ImportResult> {
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
  // Limits of one resource start from those for all resources: these come first, or chance would decide.
  const byReach = groupBy(limits, ({scope}) => scope.resource === DEFAULT_RESOURCE)
  for (const group of [byReach.get(true) ?? [], byReach.get(false) ?? [], ...generations.values()]) {
    await forEachConcurrently(chunksOf<ImportChange>(group, 1), CONCURRENT_CHANGES, async ([change]) => {
      if (change) await make(change)
    })
    // One at a time, they do not get in each other's way.
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
