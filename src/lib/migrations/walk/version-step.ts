import {ZaelError} from '../../core/errors.js'
import {keyId} from '../../dynamo/batch.js'
import {isRetryableWhenIdempotent} from '../../dynamo/errors.js'
import {retrying} from '../../dynamo/retry.js'
import type {Table} from '../../repository/table/table.js'
import {readVersion, type StoredVersion} from '../../repository/table/version.js'
import {checkCompatibility, SCHEMA_VERSION, UPDATED_BY_ZAEL} from '../../repository/table/version-compatibility.js'
import {isoSeconds} from '../../schema/instant.js'
import {keys} from '../../schema/keys.js'
import {legacyVersionKey} from '../../schema/legacy/key.js'
import {flatten} from '../../schema/legacy/modernise.js'
import {readString} from '../../schema/read.js'
import {decodeVersion, encodeVersion, type VersionRecord} from '../../schema/version-record.js'
import {isAccepted} from '../records/accepted-version.js'
import {putAbsent, replaceSeen} from '../records/conditional.js'
import {readItems} from '../records/copied-records.js'
import type {MigrationContext} from '../records/finding.js'

/** The layout of tables with local indexes. */
const SCHEMA_WITH_LOCAL_INDEXES = '0.10.0'

/** What a table says about its layout. Throws when that is one which this zael does not know yet; an older one is what migration is for. */
export async function refuseNewerSchema(table: Table, ourVersion: string | undefined): Promise<StoredVersion> {
  const stored = await readVersion(table)
  try {
    checkCompatibility(stored.record, ourVersion, false)
  } catch (error) {
    if (!(error instanceof ZaelError) || error.code !== 'schema.needs-migration') throw error
  }
  return stored
}

/**
 * Records the layout once everything is in its place. A record that current clients accept is left alone, whoever wrote
 * it; an older one is raised, and keeps what it says about the Lambda.
 */
export async function recordVersion(stage: MigrationContext, ourVersion: string): Promise<boolean> {
  const seen = await readItems(stage, [keys.version(), legacyVersionKey])
  const current = seen.get(keyId(keys.version()))
  if (current && isAccepted(decodeVersion(current))) return false
  const before = flatten(current ?? seen.get(keyId(legacyVersionKey)) ?? {})
  const record: VersionRecord = {
    schemaVersion: (await hasLocalIndexes(stage)) ? SCHEMA_WITH_LOCAL_INDEXES : SCHEMA_VERSION,
    lambdaVersion: readString(before, 'lambda_version'),
    // A minimum of the Python clients means nothing under our name (D-45).
    clientMinVersion: '0.0.0',
    updatedAt: isoSeconds(stage.table.clock()),
    updatedBy: `${UPDATED_BY_ZAEL}${ourVersion}`,
  }
  const item = encodeVersion(record)
  const written = await (current ? replaceSeen(stage, current, {...current, ...item}) : putAbsent(stage, item))
  return written || recordVersion(stage, ourVersion)
}

async function hasLocalIndexes({table, signal}: MigrationContext): Promise<boolean> {
  const send = () => table.transport.send('DescribeTable', {TableName: table.name}, {signal})
  const {Table} = await retrying(send, {...table.backoff, signal, retryable: isRetryableWhenIdempotent})
  return (Table?.LocalSecondaryIndexes ?? []).length > 0
}
