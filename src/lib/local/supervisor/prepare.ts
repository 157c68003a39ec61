import {DEFAULT_SETTINGS} from '../../aggregator/environment.js'
import {rollUpFromStart} from '../../aggregator/rollup/plan.js'
import {valueFor, ZaelError} from '../../core/errors.js'
import {TableMissing} from '../../dynamo/errors.js'
import {createTable, type TableOptions} from '../../dynamo/table-definition.js'
import {DEFAULT_NAMESPACE, Namespaces} from '../../repository/namespaces/namespaces.js'
import {isEmptyTable, readResourceIndex, type Table} from '../../repository/table/table.js'
import {ensureVersion, markAggregator, readVersion} from '../../repository/table/version.js'
import {checkCompatibility} from '../../repository/table/version-compatibility.js'

type TableShape = Pick<TableOptions, 'resourceIndex'>

/** Creates only missing parts, and marks the aggregator in an existing record. Throws if the resource index differs. */
export async function prepareStack(table: Table, version: string, shape: TableShape = {}): Promise<{created: boolean}> {
  const created = await ensureTable(table, version, shape)
  const namespaces = new Namespaces(table)
  if (created || !(await namespaces.resolve(DEFAULT_NAMESPACE))) await namespaces.register(DEFAULT_NAMESPACE)
  return {created}
}

async function ensureTable(table: Table, version: string, shape: TableShape): Promise<boolean> {
  const stored = await readVersion(table).catch(valueFor([TableMissing], undefined))
  if (stored?.record) {
    // The record is written last, so the table is complete. Another version of zael may have written it.
    checkCompatibility(stored.record, version, stored.hasLegacyRecord)
    await checkResourceIndex(table, shape)
    await markAggregator(table)
    return false
  }
  // The template needs the YAML parser: load it only on the first start.
  const {loadTableDefinition} = await import('../../dynamo/table-definition.js')
  const definition = await loadTableDefinition({...shape, tableName: table.name})
  if (stored === undefined) await createTable(table.transport, definition)
  else await ensureExpiry(table, definition.ttlAttribute)
  if (await isEmptyTable(table)) await rollUpFromStart(table, DEFAULT_SETTINGS)
  await ensureVersion(table, {by: `zael:${version}`})
  return stored === undefined
}

/** An index cannot be changed in place. */
async function checkResourceIndex(table: Table, {resourceIndex}: TableShape): Promise<void> {
  if (resourceIndex === undefined || (await readResourceIndex(table)) === resourceIndex) return
  throw new ZaelError('conflict', 'local.other-index', 'The existing data has another resource index.', {
    hint: 'Omit --resource-index to use the existing data, or add --reset to delete it.',
    details: {resourceIndex},
  })
}

/** An interrupted start may have left a table without expiry. */
async function ensureExpiry({transport, name: TableName}: Table, AttributeName: string): Promise<void> {
  const {TimeToLiveDescription} = await transport.send('DescribeTimeToLive', {TableName})
  if (TimeToLiveDescription?.TimeToLiveStatus === 'ENABLED') return
  await transport.send('UpdateTimeToLive', {TableName, TimeToLiveSpecification: {AttributeName, Enabled: true}})
}
