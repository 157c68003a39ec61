import {ZaelError} from '../../core/errors.js'

type Details = Readonly<Record<string, unknown>>

/** Commands that help, by the code of the error; the library's own hints name none. */
const HINTS: Readonly<Record<string, (details: Details) => string | undefined>> = {
  'request.too-large': ({resource, limit, requested}) =>
    `Ask for less, or raise the limit: zael limits set --resource ${resource} ${limit}=${requested}`,
  'resource.disabled': ({entity, resource, level}) =>
    level === 'resource'
      ? `Lift it: zael resource enable ${resource}`
      : `Lift it: zael entity enable ${entity}${level === 'entity' ? ` --resource ${resource}` : ''}`,
  'limit.unknown': ({entity, resource}) =>
    resource === undefined
      ? undefined
      : `See zael limits resolve ${entity} ${resource}, or add it with zael limits set.`,
  'limits.missing': ({entity, resource, others}) => {
    if (Array.isArray(others) && others.length > 0) return undefined
    if (entity !== undefined) return `Set some: zael limits set --resource ${resource} rpm=100/min`
    return 'Run `zael limits list` to see what is configured.'
  },
  'namespace.missing': () => 'See `zael namespace list`, or `zael namespace orphans` for deleted ones.',
  'namespace.ambiguous': () => 'Use the id instead of the name; `zael namespace orphans` shows when each was deleted.',
  'namespace.state': ({id, name, remedy}) => {
    if (remedy === 'delete') return `Delete it first with \`zael namespace delete ${name}\`.`
    if (remedy === 'purge') return `Use \`zael namespace purge ${id}\` to delete its data too.`
    return remedy === 'finish purge' ? `Finish with \`zael namespace purge ${id}\`.` : undefined
  },
  'namespace.name-taken': ({id, name}) => `Free the name with \`zael namespace delete ${name}\`, then recover ${id}.`,
  'namespace.changed': ({id}) => `Check it with \`zael namespace show ${id}\`, then try again.`,
  'entity.missing': () => 'See `zael entity list`.',
  'entity.exists': ({entity}) => `Change it with \`zael entity update ${entity}\`.`,
  'entity.version': ({entity}) => `Check it with \`zael entity show ${entity}\`, then try again.`,
  'entity.parent-missing': ({parent}) => `Create it first with \`zael entity create ${parent}\`.`,
  'entity.has-children': () => 'Delete them first, or give them another parent with `zael entity update`.',
  'schema.needs-migration': () => 'Upgrade it with `zael migrate run`; `zael migrate plan` shows the steps first.',
  'manifest.changed': () => 'Check the differences with `zael limits plan`, then apply again.',
}

/** The hint of an error for people at a terminal. */
export function commandHint({code, details, hint}: ZaelError): string | undefined {
  return HINTS[code]?.(details) ?? hint
}

/** The error with the command that helps; unchanged when there is none, or nearer names are its hint already. */
export function withCommandHint(error: ZaelError): ZaelError {
  const hint = commandHint(error)
  if (hint === undefined || hint === error.hint || 'nearest' in error.details) return error
  const {kind, code, message, details, cause} = error
  return new ZaelError(kind, code, message, {hint, details, cause})
}
