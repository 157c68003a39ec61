import type {ChangeReach} from '../../insight/preview/change-reach.js'
import type {ImportPlan} from '../../manifest/import.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {levelOf} from '../../schema/config-record.js'

/**
 * What an import does to live buckets besides what is listed: limits of an entity for every resource hide those of
 * resources, and where it had none they start from those of the system. Reads only, and not for everybody.
 */
export async function importReach(
  namespace: NamespaceRepository,
  {limits}: ImportPlan,
  nowMs: number,
): Promise<ChangeReach> {
  const {lossReach} = await import('../../insight/preview/change-reach.js')
  const hiding = limits.filter(({scope, before}) => levelOf(scope) === 'entity_default' && before.length === 0)
  const [system] = hiding.length === 0 ? [] : await namespace.configs.readableLimits([{level: 'system'}])
  const changes = hiding.map(({scope, limits: listed, before}) => {
    const named = listed.map(({name}) => name)
    const copied = system?.limits.filter(({name}) => !named.includes(name)) ?? []
    return {scope, before, after: [...copied, ...listed], named}
  })
  return lossReach(namespace, changes, nowMs)
}
