import {setMaxListeners} from 'node:events'
import {DEFAULT_NAMESPACE, Namespaces} from '../../repository/namespaces/namespaces.js'
import {type Table, untilAborted} from '../../repository/table/table.js'
import {LITERAL_DEFAULT} from '../../schema/legacy-key.js'
import {classifyItem} from '../records/classify.js'
import type {MigrationContext} from '../records/finding.js'

/** For throttled requests: a migration can wait, and other traffic goes first. */
const LONG_RETRIES = {attempts: 12, maxMs: 20_000}

/** Settings that the table already has win. */
export function withLongRetries(table: Table): Table {
  return {...table, backoff: {...LONG_RETRIES, ...table.backoff}}
}

export async function openMigrationContext(anyTable: Table, signal?: AbortSignal): Promise<MigrationContext> {
  // Every request in flight adds a listener.
  if (signal) setMaxListeners(0, signal)
  const table = withLongRetries(anyTable)
  const registry = new Namespaces(signal ? untilAborted(table, signal) : table)
  const registered = await registry.resolve(DEFAULT_NAMESPACE)
  const literalDefaultMoves = registered !== undefined && registered.id !== LITERAL_DEFAULT
  return {
    table,
    signal,
    defaultNamespace: registered?.id,
    literalDefaultMoves,
    classify: item => classifyItem(item, {literalDefaultMoves}),
  }
}
