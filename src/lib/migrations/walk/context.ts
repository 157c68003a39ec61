import {setMaxListeners} from 'node:events'
import {DEFAULT_NAMESPACE, Namespaces} from '../../repository/namespaces/namespaces.js'
import {type Table, untilAborted} from '../../repository/table/table.js'
import {LITERAL_DEFAULT} from '../records/classify.js'
import type {MigrationContext} from '../records/finding.js'
import {patient} from './patience.js'

/** What every look at the table needs to know; reads the registry, writes nothing. */
export async function openMigrationContext(table: Table, signal?: AbortSignal): Promise<MigrationContext> {
  // Many requests are under way at once, and each listens.
  if (signal) setMaxListeners(0, signal)
  const waiting = patient(table)
  const registry = new Namespaces(signal ? untilAborted(waiting, signal) : waiting)
  const registered = await registry.resolve(DEFAULT_NAMESPACE)
  return {
    table: waiting,
    signal,
    defaultNamespace: registered?.id,
    literalDefaultMoves: registered !== undefined && registered.id !== LITERAL_DEFAULT,
  }
}
