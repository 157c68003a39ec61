import {ZaelError} from '../../core/errors.js'
import {DEFAULT_RESOURCE} from '../../core/names.js'
import {chunksOf, forEachConcurrently} from '../../dynamo/concurrency.js'
import {nothingApplies} from '../../repository/limits/checks.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {needEntity} from '../lookup/known-names.js'
import {type Explanation, explain} from './explain.js'

const CONCURRENT_EXPLANATIONS = 4

/**
 * Explains the average request of an entity on each resource that it has a bucket or limits of its own for, worst first.
 * Resources without limits are left out. Throws when the namespace contains nothing of the entity.
 */
export async function explainAll(
  namespace: NamespaceRepository,
  entity: string,
  clock: () => number,
): Promise<Explanation[]> {
  const resources = await resourcesOf(namespace, entity)
  if (resources.length === 0) await needEntity(namespace, entity)
  const explanations: Explanation[] = []
  await forEachConcurrently(chunksOf(resources, 1), CONCURRENT_EXPLANATIONS, async ([resource = '']) => {
    try {
      explanations.push(await explain(namespace, {entity, resource}, clock))
    } catch (error) {
      if (!isWithoutLimits(error)) throw error
    }
  })
  return explanations.sort((a, b) => compareSeverity(a, b) || (a.resource < b.resource ? -1 : 1))
}

async function resourcesOf({buckets, configs}: NamespaceRepository, entity: string): Promise<string[]> {
  const own = await configs.ofEntity(entity)
  const names = new Set(own.flatMap(({scope}) => (scope.level === 'entity' ? [scope.resource] : [])))
  for await (const {resource} of buckets.ofEntity(entity)) names.add(resource)
  names.delete(DEFAULT_RESOURCE)
  return [...names].sort()
}

const isWithoutLimits = (error: unknown): boolean =>
  error instanceof ZaelError && error.code === nothingApplies('', '').code

/** What refuses now first, then what was refused lately, then where the least is left. */
function compareSeverity(a: Explanation, b: Explanation): number {
  return severityOf(b) - severityOf(a) || leftOf(a) - leftOf(b)
}

function severityOf({disabled, admitted, refused}: Explanation): number {
  if (disabled) return 3
  if (!admitted) return 2
  return refused.requests + refused.byParent > 0 ? 1 : 0
}

/** The smallest fraction of a capacity that is left. */
function leftOf({limits}: Explanation): number {
  return Math.min(...limits.map(({available, capacity}) => (capacity > 0 ? available / capacity : 0)), 1)
}
