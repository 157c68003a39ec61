import {boolean, string} from '@oclif/core/flags'
import {InvalidInput} from '../../core/errors.js'
import {checkConfigResource, checkEntityId, checkResourceName, DEFAULT_RESOURCE} from '../../core/names.js'
import type {ConfigScope} from '../../schema/config-record.js'

const helpGroup = 'SCOPE'

/** Flags that say whose limits are meant. */
export const scopeFlags = {
  system: boolean({
    description: 'Everybody and every resource, unless something more specific is set.',
    exclusive: ['resource', 'entity'],
    helpGroup,
  }),
  resource: string({
    char: 'r',
    description: 'Everybody who uses this resource; with --entity, only that entity.',
    helpValue: 'NAME',
    helpGroup,
  }),
  entity: string({
    char: 'e',
    description: 'This entity, for every resource unless --resource names one.',
    helpValue: 'ID',
    helpGroup,
  }),
}

/** The values of those flags. */
export interface ScopeFlagValues {
  readonly system: boolean
  readonly resource?: string | undefined
  readonly entity?: string | undefined
}

/** The one scope that the flags name. Nothing is assumed: a forgotten flag must not change limits for everybody. */
export function scopeOf(flags: ScopeFlagValues): ConfigScope {
  const {system, resource, entity} = checkedNames(flags)
  if (entity !== undefined) return {level: 'entity', entity, resource: resource ?? DEFAULT_RESOURCE}
  if (resource !== undefined) return {level: 'resource', resource}
  if (system) return {level: 'system'}
  throw new InvalidInput('limits.scope', 'it is not said whose limits are meant', {
    hint: 'Add --system, --resource NAME, --entity ID, or --entity ID --resource NAME.',
  })
}

/** The same flags as a selection of a list, where none of them means everything. */
export function checkedNames({system, resource, entity}: ScopeFlagValues): ScopeFlagValues {
  if (entity !== undefined) checkEntityId(entity)
  if (resource !== undefined) (entity === undefined ? checkResourceName : checkConfigResource)(resource)
  return {system, resource, entity}
}
