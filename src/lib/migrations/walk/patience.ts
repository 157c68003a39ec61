import type {Table} from '../../repository/table/table.js'

/** How often throttled requests are tried: a migration has time, and other traffic goes first. */
const PATIENCE = {attempts: 12, maxMs: 20_000}

/** The same table for requests that may wait; what the table itself says about waiting counts. */
export function patient(table: Table): Table {
  return {...table, backoff: {...PATIENCE, ...table.backoff}}
}
