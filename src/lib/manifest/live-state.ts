import {chunksOf} from '../dynamo/concurrency.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {ConfigRecord, ConfigScope} from '../schema/config-record.js'
import {type LiveEntities, type Manifest, statesRecord} from './manifest.js'
import {liveEntity} from './plan-entities.js'
import {type ScopeSet, statedAt, statedScopes} from './scopes.js'

// Ten requests of a hundred keys, four at a time; then a progress report.
const RECORDS_PER_REPORT = 1000

export interface ReadOptions {
  readonly onProgress?: ((progress: {readonly done: number; readonly total: number}) => void) | undefined
  readonly signal?: AbortSignal | undefined
}

/**
 * Reads what there is for the scopes of a manifest and those that are managed, and for its entities, in batches: thousands
 * of entities take dozens of requests. Each record is given to `compare` and not kept, and of entities only those are kept
 * that differ.
 */
export async function compareLive(
  repository: NamespaceRepository,
  manifest: Manifest,
  managed: ScopeSet,
  compare: (scope: ConfigScope, record: ConfigRecord | undefined) => void,
  {onProgress, signal}: ReadOptions,
): Promise<LiveEntities> {
  // Twice over, to know how many there are: lists of a hundred thousand would take more memory than anything else here.
  const [scopes, entityIds] = [() => comparedScopes(manifest, managed), () => comparedEntities(manifest)]
  const total = countOf(scopes()) + countOf(entityIds())
  let done = 0
  const report = (count: number) => {
    done += count
    onProgress?.({done, total})
  }
  for await (const chunk of chunksOf(scopes(), RECORDS_PER_REPORT)) {
    const records = await repository.configs.getMany(chunk, signal)
    for (const [at, scope] of chunk.entries()) compare(scope, records[at])
    report(chunk.length)
  }
  const live = new Map<string, ReturnType<typeof liveEntity>>()
  for await (const chunk of chunksOf(entityIds(), RECORDS_PER_REPORT)) {
    const records = new Map((await repository.entities.getMany(chunk, signal)).map(record => [record.entity, record]))
    // By the names in the manifest: those of records would be kept as well.
    for (const id of chunk) {
      const record = records.get(id)
      if (record) live.set(id, liveEntity(record, manifest.entities.get(id)))
    }
    report(chunk.length)
  }
  return live
}

/** Those that are stated, and those that are managed and no longer stated. */
function* comparedScopes(manifest: Manifest, managed: ScopeSet): Generator<ConfigScope, void> {
  for (const {scope} of statedScopes(manifest)) yield scope
  for (const scope of managed) if (!statedAt(manifest, scope)) yield scope
}

/** Entities whose record is compared: those with a stated record, and all parents. */
function* comparedEntities({entities}: Manifest): Generator<string, void> {
  const parents = new Set<string>()
  for (const [id, entity] of entities) {
    if (statesRecord(entity)) yield id
    if (typeof entity.parent === 'string') parents.add(entity.parent)
  }
  for (const parent of parents) {
    const stated = entities.get(parent)
    if (!stated || !statesRecord(stated)) yield parent
  }
}

function countOf(elements: Iterable<unknown>): number {
  let count = 0
  for (const _ of elements) count++
  return count
}
