import {chunksOf} from '../dynamo/concurrency.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {ConfigRecord, ConfigScope} from '../schema/config-record.js'
import {type LiveEntities, type Manifest, statesRecord} from './manifest.js'
import {liveEntity} from './plan-entities.js'
import {type ScopeSet, statedAt, statedScopes} from './scopes.js'

// 10 requests of 100 keys, 4 at a time.
const RECORDS_PER_REPORT = 1000

export interface ReadOptions {
  readonly onProgress?: ((progress: {readonly done: number; readonly total: number}) => void) | undefined
  readonly signal?: AbortSignal | undefined
}

/** Reads in batches. Passes config records to `compare` without keeping them; keeps only entities that differ. */
export async function compareLive(
  repository: NamespaceRepository,
  manifest: Manifest,
  managed: ScopeSet,
  compare: (scope: ConfigScope, record: ConfigRecord | undefined) => void,
  {onProgress, signal}: ReadOptions,
): Promise<LiveEntities> {
  // Iterate twice to get the total: lists of 100,000 scopes would dominate the memory use.
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
    // Use the manifest's id strings, so that the records' strings can be freed.
    for (const id of chunk) {
      const record = records.get(id)
      if (record) live.set(id, liveEntity(record, manifest.entities.get(id)))
    }
    report(chunk.length)
  }
  return live
}

function* comparedScopes(manifest: Manifest, managed: ScopeSet): Generator<ConfigScope, void> {
  for (const {scope} of statedScopes(manifest)) yield scope
  for (const scope of managed) if (!statedAt(manifest, scope)) yield scope
}

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
