import {chunksOf} from '../dynamo/concurrency.js'
import type {SeenProvisioner} from '../repository/provisioner.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {ConfigRecord, ConfigScope} from '../schema/config-record.js'
import type {EntityRecord} from '../schema/entity-record.js'
import {type Manifest, statesRecord} from './manifest.js'
import {ScopeSet, scopeName, statedLimits} from './scopes.js'

// Ten requests of a hundred keys, four of them at a time; then a report.
const RECORDS_PER_REPORT = 1000

/** Whom to tell how far the reading is, and when to stop. */
export interface ReadOptions {
  readonly onProgress?: ((progress: {readonly done: number; readonly total: number}) => void) | undefined
  readonly signal?: AbortSignal | undefined
}

/** What the table holds of everything that a manifest states or stated before. */
export interface LiveState {
  readonly provisioner: SeenProvisioner
  /** By name of the scope; those without a record are missing. */
  readonly configs: ReadonlyMap<string, ConfigRecord>
  readonly entities: ReadonlyMap<string, EntityRecord>
}

/** Reads in batches, so that thousands of entities take dozens of requests. */
export async function readLiveState(
  repository: NamespaceRepository,
  manifest: Manifest,
  {onProgress, signal}: ReadOptions,
): Promise<LiveState> {
  const provisioner = await repository.provisioner.get()
  const scopes = ScopeSet.of(provisioner.record)
  for (const {scope} of statedLimits(manifest)) scopes.add(scope)
  const wantedScopes: ConfigScope[] = [...scopes]
  const wantedEntities = [...entitiesOf(manifest)]

  const total = wantedScopes.length + wantedEntities.length
  let done = 0
  const report = (count: number) => {
    done += count
    onProgress?.({done, total})
  }
  const configs = new Map<string, ConfigRecord>()
  for await (const chunk of chunksOf(wantedScopes, RECORDS_PER_REPORT)) {
    for (const record of await repository.configs.getMany(chunk, signal)) {
      if (record) configs.set(scopeName(record.scope), record)
    }
    report(chunk.length)
  }
  const entities = new Map<string, EntityRecord>()
  for await (const chunk of chunksOf(wantedEntities, RECORDS_PER_REPORT)) {
    for (const record of await repository.entities.getMany(chunk, signal)) entities.set(record.entity, record)
    report(chunk.length)
  }
  return {provisioner, configs, entities}
}

/** Entities whose record matters: those with a stated record, and all parents. */
function entitiesOf({entities}: Manifest): Set<string> {
  const wanted = new Set<string>()
  for (const [id, entity] of entities) {
    if (statesRecord(entity)) wanted.add(id)
    if (typeof entity.parent === 'string') wanted.add(entity.parent)
  }
  return wanted
}
