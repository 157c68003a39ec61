import {DEFAULT_RESOURCE} from '../../core/names.js'
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
