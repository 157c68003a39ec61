import {boolean, string} from '@oclif/core/flags'
import {InvalidInput} from '../../core/errors.js'
import {checkConfigResource, checkEntityId, checkResourceName, DEFAULT_RESOURCE} from '../../core/names.js'
import {shellWord} from '../../core/text/text.js'
import type {ConfigScope} from '../../schema/config-record.js'

export function scopeWords(scope: ConfigScope): string {
  if (scope.level === 'system') return 'the system'
  if (scope.level === 'resource') return `resource ${scope.resource}`
  return scope.resource === DEFAULT_RESOURCE
    ? `entity ${scope.entity} for every resource`
    : `entity ${scope.entity} for ${scope.resource}`
}

export function scopeArguments(scope: ConfigScope): string {
  if (scope.level === 'system') return '--system'
  const resource = `--resource ${shellWord(scope.resource)}`
  if (scope.level === 'resource') return resource
  const entity = `--entity ${shellWord(scope.entity)}`
  return scope.resource === DEFAULT_RESOURCE ? entity : `${entity} ${resource}`
}

export function topUpCommand(scope: ConfigScope, amounts: readonly string[]): string {
  const entity = scope.level === 'entity' ? shellWord(scope.entity) : 'ENTITY'
  const resource =
    scope.level === 'system' || scope.resource === DEFAULT_RESOURCE ? 'RESOURCE' : shellWord(scope.resource)
  return `zael bucket top-up ${entity} ${resource} ${amounts.map(shellWord).join(' ')}`
}

const helpGroup = 'SCOPE'

export const scopeFlags = {
  system: boolean({
    description: 'Namespace-wide default for all entities and resources.',
    exclusive: ['resource', 'entity'],
    helpGroup,
  }),
  resource: string({
    char: 'r',
    description: 'All entities that use this resource. With --entity, only that entity.',
    helpValue: 'NAME',
    helpGroup,
  }),
  entity: string({
    char: 'e',
    description: 'This entity, for all resources unless --resource names one.',
    helpValue: 'ID',
    helpGroup,
  }),
}

export interface ScopeFlagValues {
  readonly system: boolean
  readonly resource?: string | undefined
  readonly entity?: string | undefined
}

/** No default: a forgotten flag must not change the limits of all entities. */
export function scopeOf(flags: ScopeFlagValues): ConfigScope {
  const {system, resource, entity} = checkedNames(flags)
  if (entity !== undefined) return {level: 'entity', entity, resource: resource ?? DEFAULT_RESOURCE}
  if (resource !== undefined) return {level: 'resource', resource}
  if (system) return {level: 'system'}
  throw new InvalidInput('limits.scope', 'No scope is given.', {
    hint: 'Add --system, --resource NAME, --entity ID, or --entity ID --resource NAME.',
  })
}

export function checkedNames({system, resource, entity}: ScopeFlagValues): ScopeFlagValues {
  if (entity !== undefined) checkEntityId(entity)
  if (resource !== undefined) (entity === undefined ? checkResourceName : checkConfigResource)(resource)
  return {system, resource, entity}
}
