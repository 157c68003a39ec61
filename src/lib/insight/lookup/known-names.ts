import {ZaelError} from '../../core/errors.js'
import {DEFAULT_RESOURCE} from '../../core/names.js'
import {didYouMean, nearestNames} from '../../core/text/nearest.js'
import {entityMissing} from '../../repository/entities/lineage.js'
import type {PolicyScope} from '../../repository/limits/change-options.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {ConfigScope} from '../../schema/config-record.js'

/** Throws if the namespace holds nothing of the entity. Limits and buckets count without a record. */
export async function needEntity(repository: NamespaceRepository, entity: string): Promise<void> {
  if (!(await isKnownEntity(repository, entity))) throw entityMissing(entity)
}

/** Similar ids; `undefined` if the namespace holds something of the entity. */
export async function unknownEntity(
  repository: NamespaceRepository,
  entity: string,
): Promise<{nearest: string[]} | undefined> {
  if (await isKnownEntity(repository, entity)) return undefined
  return {nearest: nearestNames(entity, await repository.entities.similar(entity))}
}

export async function needResource(repository: NamespaceRepository, resource: string): Promise<void> {
  const configured = await configuredResources(repository)
  if (await isKnownResource(repository, resource, configured)) return
  const nearest = nearestNames(resource, configured)
  throw new ZaelError('notFound', 'resource.missing', `Resource ${JSON.stringify(resource)} does not exist.`, {
    hint: didYouMean(nearest) ?? 'zael limits list',
    details: {resource, nearest},
  })
}

async function isKnownEntity(repository: NamespaceRepository, entity: string): Promise<boolean> {
  if (await repository.entities.get(entity)) return true
  if ((await repository.configs.ofEntity(entity)).length > 0) return true
  if ((await repository.usage.ofEntity(entity, {limit: 1})).records.length > 0) return true
  for await (const _ of repository.buckets.ofEntity(entity)) return true
  return false
}

async function isKnownResource(
  repository: NamespaceRepository,
  resource: string,
  configured: readonly string[],
): Promise<boolean> {
  if (configured.includes(resource)) return true
  if ((await repository.usage.ofResource(resource, {limit: 1})).records.length > 0) return true
  for await (const _ of repository.buckets.ofResource(resource, {wanted: 1})) return true
  return false
}

export async function configuredResources({configs}: NamespaceRepository): Promise<string[]> {
  const named = (await configs.resources()).flatMap(({scope}) => (scope.level === 'resource' ? [scope.resource] : []))
  const ofEntities = await configs.resourcesOfEntities()
  return [...new Set([...named, ...ofEntities])].filter(name => name !== DEFAULT_RESOURCE).sort()
}

/** New, or misspelled. */
export interface NewName {
  readonly kind: 'entity' | 'resource' | 'limit'
  readonly name: string
  /** At most three. */
  readonly nearest: readonly string[]
}

/** Read-only. Reports no limits if the search for them would take too long. */
export async function newNames(
  repository: NamespaceRepository,
  scope: ConfigScope,
  limits: readonly string[],
): Promise<NewName[]> {
  const found: NewName[] = []
  for await (const name of newNamesOfScope(repository, scope)) found.push(name)
  return [...found, ...(await newLimits(repository, limits))]
}

/** Names the first unknown part of the scope. */
export async function newNameNotice(repository: NamespaceRepository, scope: PolicyScope): Promise<string | undefined> {
  try {
    for await (const {kind, name, nearest} of newNamesOfScope(repository, scope)) {
      const notice = `Unknown ${kind} ${JSON.stringify(name)}: nothing has used it yet.`
      return [notice, didYouMean(nearest) ?? ''].join(' ').trimEnd()
    }
  } catch {
    // Never fail: switching access off matters more than a spelling hint.
  }
  return undefined
}

async function* newNamesOfScope(repository: NamespaceRepository, scope: ConfigScope): AsyncGenerator<NewName, void> {
  const unknown = scope.level === 'entity' ? await unknownEntity(repository, scope.entity) : undefined
  if (scope.level === 'entity' && unknown) yield {kind: 'entity', name: scope.entity, ...unknown}
  if (scope.level === 'system' || scope.resource === DEFAULT_RESOURCE) return
  const {resource} = scope
  const configured = await configuredResources(repository)
  if (await isKnownResource(repository, resource, configured)) return
  yield {kind: 'resource', name: resource, nearest: nearestNames(resource, configured)}
}

const MOST_CONFIGS = 500

/** Reads entity configurations only for names that the system and resources lack. */
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
    .map(name => ({
      kind: 'limit',
      name,
      nearest: nearestNames(name, [...known]).filter(
        near => PER_PERIOD.exec(near)?.[1] !== (PER_PERIOD.exec(name)?.[1] ?? ''),
      ),
    }))
}

/** `tpm` and `tpd` count the same per minute and per day: neither is a misspelling of the other. */
const PER_PERIOD = /^(.+p)[smhdw]$/
