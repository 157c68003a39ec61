import {ZaelError} from '../../core/errors.js'
import {DEFAULT_RESOURCE} from '../../core/names.js'
import {didYouMean, nearestNames} from '../../core/text/nearest.js'
import {entityMissing} from '../../repository/entities/errors.js'
import type {PolicyScope} from '../../repository/limits/change-options.js'
import type {NamespaceRepository} from '../../repository/repository.js'

/** Throws if the namespace holds nothing of the entity. Limits and buckets count without a record. */
export async function needEntity(repository: NamespaceRepository, entity: string): Promise<void> {
  if (await repository.entities.get(entity)) return
  if ((await repository.configs.ofEntity(entity)).length > 0) return
  if ((await repository.usage.ofEntity(entity, {limit: 1})).records.length > 0) return
  for await (const _ of repository.buckets.ofEntity(entity)) return
  throw entityMissing(entity)
}

export async function needResource(repository: NamespaceRepository, resource: string): Promise<void> {
  const configured = await configuredResources(repository)
  if (configured.includes(resource)) return
  if ((await repository.usage.ofResource(resource, {limit: 1})).records.length > 0) return
  for await (const _ of repository.buckets.ofResource(resource, {wanted: 1})) return
  throw resourceMissing(resource, configured)
}

export async function configuredResources({configs}: NamespaceRepository): Promise<string[]> {
  const named = (await configs.resources()).flatMap(({scope}) => (scope.level === 'resource' ? [scope.resource] : []))
  const ofEntities = await configs.resourcesOfEntities()
  return [...new Set([...named, ...ofEntities])].filter(name => name !== DEFAULT_RESOURCE).sort()
}

export async function newNameNotice(repository: NamespaceRepository, scope: PolicyScope): Promise<string | undefined> {
  const {resource} = scope
  try {
    if (scope.level === 'entity') await needEntity(repository, scope.entity)
    if (resource !== DEFAULT_RESOURCE) await needResource(repository, resource)
    return undefined
  } catch (error) {
    // Never fail: switching access off matters more than a spelling hint.
    if (!(error instanceof ZaelError) || error.kind !== 'notFound') return undefined
    const isResource = error.code === RESOURCE_MISSING
    const name = isResource || scope.level === 'resource' ? resource : scope.entity
    const known = isResource ? await configuredResources(repository) : await repository.entities.similar(name)
    const notice = `nothing has used ${isResource ? 'resource' : 'entity'} ${JSON.stringify(name)} before`
    return [`${notice}.`, didYouMean(nearestNames(name, known)) ?? ''].join(' ').trimEnd()
  }
}

const RESOURCE_MISSING = 'resource.missing'

function resourceMissing(resource: string, known: readonly string[]): ZaelError {
  const nearest = nearestNames(resource, known)
  return new ZaelError('notFound', RESOURCE_MISSING, `There is no resource ${JSON.stringify(resource)}.`, {
    hint: didYouMean(nearest) ?? 'zael limits list',
    details: {resource, nearest},
  })
}
