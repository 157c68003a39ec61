import {ZaelError} from '../errors.js'
import type {StackContext} from './context.js'
import {nearest} from './suggest.js'

/** A stack or namespace that does not exist is named together with those that it could have been. */
export async function withNearestNames(error: unknown, context: StackContext, namespace: string): Promise<unknown> {
  if (!(error instanceof ZaelError)) return error
  if (error.code === 'namespace.missing') {
    const names = await quietly(() => namespaceNames(context))
    return suggesting(error, namespace, names, 'zael namespace list')
  }
  if (error.code === 'table.missing') {
    const names = await quietly(() => tableNames(context))
    return suggesting(
      new ZaelError('notFound', 'stack.missing', `there is no stack "${context.stack}"`, {cause: error}),
      context.stack,
      names,
      'zael local up',
    )
  }
  return error
}

function suggesting(error: ZaelError, typed: string, names: readonly string[], otherwise: string): ZaelError {
  const meant = nearest(
    [typed],
    names.map(name => ({words: [name], type: name})),
  )
  const hint = meant.length > 0 ? `Did you mean ${meant.map(name => `"${name}"`).join(' or ')}?` : otherwise
  const {kind, code, message, details, cause} = error
  return new ZaelError(kind, code, message, {hint, details: {...details, nearest: meant}, cause})
}

async function namespaceNames({repository}: StackContext): Promise<string[]> {
  return (await repository.namespaces.list()).map(({name}) => name)
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
