import {ConditionFailed} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {keyId, keys, wireKey} from '../../schema/keys.js'
import {legacyVersionKey} from '../../schema/legacy-key.js'
import {isoSeconds} from '../../schema/read.js'
import {decodeVersion, encodeVersion, type VersionRecord} from '../../schema/version-record.js'
import {getItems, sendRepeatable, type Table} from './table.js'
import {putNew} from './transact.js'
import {AGGREGATOR_MARK, needsMigration, SCHEMA_VERSION} from './version-compatibility.js'

export interface StoredVersion {
  readonly record: VersionRecord | undefined
  /** A record exists under the key of tables without namespaces. */
  readonly hasLegacyRecord: boolean
}

export async function readVersion(table: Table): Promise<StoredVersion> {
  const current = keys.version()
  const items = await getItems(table, [current, legacyVersionKey])
  const item = items.get(keyId(current))
  return {record: item && decodeVersion(item), hasLegacyRecord: items.has(keyId(legacyVersionKey))}
}

/** Never changes an existing record or an old layout. A new table has zael's aggregator. `by`: `zael:{version}`. */
export async function ensureVersion(table: Table, {by}: {by: string}): Promise<VersionRecord> {
  const {record, hasLegacyRecord} = await readVersion(table)
  if (record) return record
  if (hasLegacyRecord) throw needsMigration(undefined)
  const first: VersionRecord = {
    schemaVersion: SCHEMA_VERSION,
    lambdaVersion: AGGREGATOR_MARK,
    clientMinVersion: '0.0.0',
    updatedAt: isoSeconds(table.clock()),
    updatedBy: by,
  }
  const {Put} = putNew(table, encodeVersion(first))
  try {
    await sendRepeatable(table, 'PutItem', Put)
    return first
  } catch (error) {
    if (!(error instanceof ConditionFailed)) throw error
    return (error.oldItem && decodeVersion(error.oldItem)) ?? first
  }
}

/** Records that zael's aggregator processes the stream; older zael versions left no mark. False: not written. */
export async function markAggregator(table: Table): Promise<boolean> {
  const {record} = await readVersion(table)
  if (!record || record.lambdaVersion === AGGREGATOR_MARK) return false
  await updateVersion(table, new ExpressionBuilder().set(attributes.version.lambda, s(AGGREGATOR_MARK)))
  return true
}

export async function updateVersion(table: Table, e: ExpressionBuilder): Promise<void> {
  e.condition(`attribute_exists(${e.name(attributes.key.partition)})`)
  const request = {TableName: table.name, Key: wireKey(keys.version()), ...e.update()}
  await sendRepeatable(table, 'UpdateItem', request)
}
