import {ZaelError} from '../../core/errors.js'
import {DEFAULT_RESOURCE} from '../../core/names.js'
import {nearestNames} from '../../core/text/nearest.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {ConfigScope} from '../../schema/config-record.js'
import {configuredResources, needEntity, needResource} from '../lookup/known-names.js'

/** Not used before: perhaps new, perhaps misspelled. */
export interface NewName {
  readonly kind: 'entity' | 'resource' | 'limit'
  readonly name: string
  /** Existing names that it may stand for, at most three. */
  readonly nearest: readonly string[]
}

const MOST_CONFIGS = 500

/** Read-only. Reports nothing if the search would take too long. */
export async function newNames(
  namespace: NamespaceRepository,
  scope: ConfigScope,
  limits: readonly string[],
): Promise<NewName[]> {
  const found: NewName[] = []
  if (scope.level === 'entity' && (await isUnknown(() => needEntity(namespace, scope.entity)))) {
    const nearest = nearestNames(scope.entity, await namespace.entities.similar(scope.entity))
    found.push({kind: 'entity', name: scope.entity, nearest})
  }
  const resource = scope.level === 'system' ? DEFAULT_RESOURCE : scope.resource
  if (resource !== DEFAULT_RESOURCE && (await isUnknown(() => needResource(namespace, resource)))) {
    found.push({
      kind: 'resource',
      name: resource,
      nearest: nearestNames(resource, await configuredResources(namespace)),
    })
  }
  return [...found, ...(await newLimits(namespace, limits))]
}

async function isUnknown(look: () => Promise<void>): Promise<boolean> {
  try {
    await look()
    return false
  } catch (error) {
    if (error instanceof ZaelError && error.kind === 'notFound') return true
    throw error
  }
}

/** Reads configurations of entities only for names that the system and resources lack. */
async function newLimits({configs}: NamespaceRepository, asked: readonly string[]): Promise<NewName[]> {
  const known = new Set<string>()
  const note = (records: readonly {limits: readonly {name: string}[]}[]): boolean => {
    for (const {limits} of records) for (const {name} of limits) known.add(name)
    return asked.every(name => known.has(name))
  }
  const system = await configs.get({level: 'system'})
  if (note(system ? [system] : []) || note(await configs.resources())) return []
  let left = MOST_CONFIGS
  for (const resource of await configs.resourcesOfEntities()) {
    const {records, next} = await configs.entities(resource, {limit: Math.max(1, left)})
    if (note(records)) return []
    left -= records.length
    if (next !== undefined || left <= 0) return []
  }
  return asked
    .filter(name => !known.has(name))
    .map(name => ({kind: 'limit', name, nearest: nearestNames(name, [...known])}))
}
