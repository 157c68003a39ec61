import {chunksOf} from '../dynamo/concurrency.js'
import type {Managed} from '../repository/provisioner.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {ConfigRecord, ConfigScope} from '../schema/config-record.js'
import type {EntityRecord} from '../schema/entity-record.js'
import {type Manifest, statesRecord} from './manifest.js'
import {ScopeSet, scopeName, statedScopes} from './scopes.js'

// Ten requests of a hundred keys, four at a time; then a progress report.
const RECORDS_PER_REPORT = 1000

/** Progress and cancellation of reading. */
export interface ReadOptions {
  readonly onProgress?: ((progress: {readonly done: number; readonly total: number}) => void) | undefined
  readonly signal?: AbortSignal | undefined
}

/** The table's records for everything that a manifest states or stated before. */
export interface LiveState {
  /** By scope name; scopes without a record are absent. */
  readonly configs: ReadonlyMap<string, ConfigRecord>
  readonly entities: ReadonlyMap<string, EntityRecord>
}

/** Reads in batches: thousands of entities take dozens of requests. */
export async function readLiveState(
  repository: NamespaceRepository,
  manifest: Manifest,
  managed: Managed,
  {onProgress, signal}: ReadOptions,
): Promise<LiveState> {
  const scopes = ScopeSet.of(managed)
  for (const {scope} of statedScopes(manifest)) scopes.add(scope)
  const scopeList: ConfigScope[] = [...scopes]
  const entityIds = [...entitiesOf(manifest)]

  const total = scopeList.length + entityIds.length
  let done = 0
  const report = (count: number) => {
    done += count
    onProgress?.({done, total})
  }
  const configs = new Map<string, ConfigRecord>()
  for await (const chunk of chunksOf(scopeList, RECORDS_PER_REPORT)) {
    for (const record of await repository.configs.getMany(chunk, signal)) {
      if (record) configs.set(scopeName(record.scope), record)
    }
    report(chunk.length)
  }
  const entities = new Map<string, EntityRecord>()
  for await (const chunk of chunksOf(entityIds, RECORDS_PER_REPORT)) {
    for (const record of await repository.entities.getMany(chunk, signal)) entities.set(record.entity, record)
    report(chunk.length)
  }
  return {configs, entities}
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
