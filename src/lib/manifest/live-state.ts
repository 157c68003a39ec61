import {chunksOf} from '../dynamo/concurrency.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {ConfigRecord, ConfigScope} from '../schema/config-record.js'
import type {LiveEntities} from './entity-change.js'
import {type Manifest, statesRecord} from './manifest.js'
import {liveEntity} from './plan-entities.js'
import type {ScopeSet} from './scopes.js'

// Ten requests of a hundred keys, four at a time; then a progress report.
const RECORDS_PER_REPORT = 1000

/** Progress and cancellation of reading. */
export interface ReadOptions {
  readonly onProgress?: ((progress: {readonly done: number; readonly total: number}) => void) | undefined
  readonly signal?: AbortSignal | undefined
}

/**
 * Reads what there is for scopes and for the entities of a manifest, in batches: thousands of entities take dozens of
 * requests. Each record is given to `compare` and not kept, and of entities only those are kept that differ.
 */
export async function compareLive(
  repository: NamespaceRepository,
  manifest: Manifest,
  scopes: ScopeSet,
  compare: (scope: ConfigScope, record: ConfigRecord | undefined) => void,
  {onProgress, signal}: ReadOptions,
): Promise<LiveEntities> {
  const entityIds = entitiesOf(manifest)
  const total = scopes.size + entityIds.size
  let done = 0
  const report = (count: number) => {
    done += count
    onProgress?.({done, total})
  }
  for await (const chunk of chunksOf(scopes, RECORDS_PER_REPORT)) {
    const records = await repository.configs.getMany(chunk, signal)
    for (const [at, scope] of chunk.entries()) compare(scope, records[at])
    report(chunk.length)
  }
  const live = new Map<string, ReturnType<typeof liveEntity>>()
  for await (const chunk of chunksOf(entityIds, RECORDS_PER_REPORT)) {
    for (const record of await repository.entities.getMany(chunk, signal)) {
      live.set(record.entity, liveEntity(record, manifest.entities.get(record.entity)))
    }
    report(chunk.length)
  }
  return live
}

/** Entities whose record is compared: those with a stated record, and all parents. */
function entitiesOf({entities}: Manifest): Set<string> {
  const ids = new Set<string>()
  for (const [id, entity] of entities) {
    if (statesRecord(entity)) ids.add(id)
    if (typeof entity.parent === 'string') ids.add(entity.parent)
  }
  return ids
}
