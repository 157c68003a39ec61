import {ZaelError} from '../../core/errors.js'
import {nearest} from '../output/suggest.js'
import type {StackContext} from './context.js'

/** A stack, namespace, entity or resource that does not exist is named together with those that it could have been. */
export async function withNearestNames(error: unknown, context: StackContext): Promise<unknown> {
  if (!(error instanceof ZaelError)) return error
  const {namespace, entity, resource} = error.details
  if (error.code === 'namespace.missing') {
    return suggesting(error, String(namespace), await quietly(() => namespaceNames(context)))
  }
  if (error.code === 'entity.missing') {
    return suggesting(error, String(entity), await quietly(() => entityIds(context, String(entity))))
  }
  if (error.code === 'limits.missing' && resource !== undefined) {
    return suggesting(error, String(resource), await quietly(() => resourceNames(context)))
  }
  if (error.code === 'table.missing') {
    const {stack} = context
    const hint = stack === 'local' ? 'zael local up' : `zael list, or zael deploy --stack ${stack}`
    const missing = new ZaelError('notFound', 'stack.missing', `there is no stack "${stack}"`, {hint, cause: error})
    return suggesting(missing, stack, await quietly(() => tableNames(context)))
  }
  return error
}

/** The error with the nearest names as its hint; with its own hint when none is near. */
function suggesting(error: ZaelError, typed: string, names: readonly string[]): ZaelError {
  const meant = nearest(
    [typed],
    names.map(name => ({words: [name], type: name})),
  )
  const {kind, code, message, cause} = error
  const details = {...error.details, nearest: meant}
  const hint = meant.length > 0 ? `Did you mean ${meant.map(name => `"${name}"`).join(' or ')}?` : error.hint
  return new ZaelError(kind, code, message, {...(hint === undefined ? {} : {hint}), details, cause})
}

async function namespaceNames({repository}: StackContext): Promise<string[]> {
  return (await repository.namespaces.list()).map(({name}) => name)
}

async function entityIds(context: StackContext, typed: string): Promise<string[]> {
  return (await context.namespace()).entities.similar(typed)
}

async function resourceNames(context: StackContext): Promise<string[]> {
  const configured = await (await context.namespace()).configs.resources()
  return configured.flatMap(({scope}) => (scope.level === 'resource' ? [scope.resource] : []))
}

/** One page is enough to find a typing error; a table that is no stack is a bad guess and no harm. */
async function tableNames({table}: StackContext): Promise<string[]> {
  return (await table.transport.send('ListTables', {})).TableNames ?? []
}

/** A suggestion is a courtesy: whoever may not list gets the error without one. */
async function quietly(names: () => Promise<string[]>): Promise<string[]> {
  try {
    return await names()
  } catch {
    return []
  }
}
