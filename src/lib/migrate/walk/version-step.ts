import {ZaelError} from '../../core/errors.js'
import {sendRepeatable, type Table} from '../../repository/table/table.js'
import {readVersion, type StoredVersion} from '../../repository/table/version.js'
import {checkCompatibility, SCHEMA_VERSION, UPDATED_BY_ZAEL} from '../../repository/table/version-compatibility.js'
import {keyId, keys} from '../../schema/keys.js'
import {modernise} from '../../schema/legacy-item.js'
import {legacyVersionKey} from '../../schema/legacy-key.js'
import {isoSeconds} from '../../schema/read.js'
import {decodeVersion, encodeVersion, type VersionRecord} from '../../schema/version-record.js'
import {putAbsent, readItems, replaceSeen} from '../records/conditional.js'
import {isAcceptedVersion} from '../records/copied-records.js'
import type {MigrationContext} from '../records/finding.js'

const SCHEMA_WITH_LOCAL_INDEXES = '0.10.0'

/** Throws for a layout newer than this zael knows. An older one is accepted. */
export async function refuseNewerSchema(table: Table, ourVersion: string | undefined): Promise<StoredVersion> {
  const stored = await readVersion(table)
  try {
    checkCompatibility(stored.record, ourVersion, false)
  } catch (error) {
    if (!(error instanceof ZaelError) || error.code !== 'schema.needs-migration') throw error
  }
  return stored
}

/** Keeps a record that current clients accept, and the Lambda version of an older one. Resolves to whether it wrote. */
export async function recordVersion(context: MigrationContext, ourVersion: string): Promise<boolean> {
  const seen = await readItems(context, [keys.version(), legacyVersionKey])
  const current = seen.get(keyId(keys.version()))
  if (current && isAcceptedVersion(decodeVersion(current))) return false
  const previous = current ?? seen.get(keyId(legacyVersionKey))
  const record: VersionRecord = {
    schemaVersion: (await hasLocalIndexes(context)) ? SCHEMA_WITH_LOCAL_INDEXES : SCHEMA_VERSION,
    lambdaVersion: previous && decodeVersion(modernise(previous, ''))?.lambdaVersion,
    // The minimum version of Python clients does not apply to ours (D-45).
    clientMinVersion: '0.0.0',
    updatedAt: isoSeconds(context.table.clock()),
    updatedBy: `${UPDATED_BY_ZAEL}${ourVersion}`,
  }
  const item = encodeVersion(record)
  const written = await (current ? replaceSeen(context, current, {...current, ...item}) : putAbsent(context, item))
  return written || recordVersion(context, ourVersion)
}

async function hasLocalIndexes({table, signal}: MigrationContext): Promise<boolean> {
  const {Table} = await sendRepeatable(table, 'DescribeTable', {TableName: table.name}, {signal})
  return (Table?.LocalSecondaryIndexes ?? []).length > 0
}
