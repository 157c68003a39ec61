import {setMaxListeners} from 'node:events'
import {DEFAULT_NAMESPACE, Namespaces} from '../repository/namespaces.js'
import type {Table} from '../repository/table.js'
import {LITERAL_DEFAULT} from './classify.js'
import type {Stage} from './finding.js'

/** How often throttled requests are tried: a migration has time, and other traffic goes first. */
const PATIENCE = {attempts: 12, maxMs: 20_000}

/** What every look at the table needs to know; reads the registry, writes nothing. */
export async function openStage(table: Table, signal?: AbortSignal): Promise<Stage> {
  // Many requests are under way at once, and each listens.
  if (signal) setMaxListeners(0, signal)
  const patient = {...table, backoff: {...PATIENCE, ...table.backoff}}
  const registered = await new Namespaces(patient).resolve(DEFAULT_NAMESPACE)
  return {
    table: patient,
    signal,
    defaultNamespace: registered?.id,
    literalDefaultMoves: registered !== undefined && registered.id !== LITERAL_DEFAULT,
  }
}
