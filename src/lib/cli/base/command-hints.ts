import {ZaelError} from '../../core/errors.js'
import {formatAmount} from '../../core/limits/amount-text.js'
import {didYouMean, nearestNames} from '../../core/text/nearest.js'
import {shellWord} from '../../core/text/text.js'
import type {ConfigScope} from '../../schema/config-record.js'
import {scopeArguments} from './scope-text.js'

type Details = Readonly<Record<string, unknown>>

const words = (...names: unknown[]): string => names.map(name => shellWord(String(name))).join(' ')

const listOf = (names: unknown): string[] => (Array.isArray(names) ? names.map(String) : [])

/** By error code. The library's own hints name no commands. */
const HINTS: Readonly<Record<string, (details: Details) => string | undefined>> = {
  'request.too-large': ({entity, resource, limit, requested, unit}) => {
    const amount = unit === undefined ? requested : formatAmount(Number(requested), String(unit))
    return `Ask for less, or raise the limit; the command for that: zael why ${words(entity, resource, `${limit}=${amount}`)}`
  },
  'resource.disabled': ({entity, resource, level}) =>
    level === 'resource'
      ? `Lift it: zael resource clear ${words(resource)}`
      : `Lift it: zael entity clear ${words(entity)}${level === 'entity' ? ` --resource ${words(resource)}` : ''}`,
  'limit.unknown': ({entity, resource, names, known}) => {
    if (resource === undefined) return undefined
    const [name] = listOf(names)
    const meant = name === undefined ? undefined : didYouMean(nearestNames(name, listOf(known)))
    return [...(meant === undefined ? [] : [meant]), `See zael limits resolve ${words(entity, resource)}`].join(' ')
  },
  'limits.missing': ({entity, resource, others}) => {
    if (Array.isArray(others) && others.length > 0) return undefined
    if (entity !== undefined)
      return `Set some: zael limits set --entity ${words(entity)} --resource ${words(resource)} rpm=100/min`
    return 'Run `zael limits list` to see what is configured.'
  },
  'boost.missing': () => 'See `zael limits boosts`.',
  'until.same': ({scope, limit, boosted}) =>
    boosted
      ? `To end its boost now: zael limits unset --boost ${words(limit)} ${scopeArguments(scope as ConfigScope)}`
      : undefined,
  'namespace.missing': () => 'See `zael namespace list`, or `zael namespace orphans` for deleted ones.',
  'namespace.ambiguous': () => 'Use the id instead of the name; `zael namespace orphans` shows when each was deleted.',
  'namespace.state': ({id, name, remedy}) => {
    if (remedy === 'delete') return `Delete it first with \`zael namespace delete ${words(name)}\`.`
    if (remedy === 'purge') return `Use \`zael namespace purge ${words(id)}\` to delete its data too.`
    return remedy === 'finish purge' ? `Finish with \`zael namespace purge ${words(id)}\`.` : undefined
  },
  'namespace.name-taken': ({id, name}) =>
    `Free the name with \`zael namespace delete ${words(name)}\`, then recover ${words(id)}.`,
  'namespace.changed': ({id}) => `Check it with \`zael namespace show ${words(id)}\`, then try again.`,
  'entity.missing': () => 'See `zael entity list`.',
  'entity.exists': ({entity}) => `Change it with \`zael entity update ${words(entity)}\`.`,
  'entity.version': ({entity}) => `Check it with \`zael entity show ${words(entity)}\`, then try again.`,
  'entity.parent-missing': ({parent}) => `Create it first with \`zael entity create ${words(parent)}\`.`,
  'entity.has-children': () => 'Delete them first, or give them another parent with `zael entity update`.',
  'schema.needs-migration': () => 'Upgrade it with `zael migrate run`; `zael migrate plan` shows the steps first.',
  'schema.migrating': () =>
    'Wait; `zael migrate status` shows the step. If the run was interrupted, continue it with `zael migrate run`.',
  'manifest.changed': () => 'Check the differences with `zael limits plan`, then apply again.',
}

export function commandHint({code, details, hint}: ZaelError): string | undefined {
  return HINTS[code]?.(details) ?? hint
}

export function withCommandHint(error: ZaelError): ZaelError {
  const hint = commandHint(error)
  if (hint === undefined || hint === error.hint || 'nearest' in error.details) return error
  const {kind, code, message, details, cause} = error
  return new ZaelError(kind, code, message, {hint, details, cause})
}
