import {batchGet} from '../../dynamo/batch.js'
import {ConditionFailed, isRetryableWhenIdempotent} from '../../dynamo/errors.js'
import {retrying} from '../../dynamo/retry.js'
import {isoSeconds} from '../../schema/instant.js'
import {keyId, keys} from '../../schema/keys.js'
import {legacyVersionKey} from '../../schema/legacy/key.js'
import {decodeVersion, encodeVersion, type VersionRecord} from '../../schema/version-record.js'
import type {Table} from './table.js'
import {putNew} from './transact.js'
import {needsMigration, SCHEMA_VERSION} from './version-compatibility.js'

/** The version records of a table. */
export interface StoredVersion {
  readonly record: VersionRecord | undefined
  /** Whether there is a record where tables without namespaces had it. */
  readonly hasLegacyRecord: boolean
}

/** Reads the version record, from its current key and from that of tables without namespaces. */
export async function readVersion(table: Table): Promise<StoredVersion> {
  const current = keys.version()
  const wanted = [current, legacyVersionKey]
  const items = await batchGet(table.transport, table.name, wanted, {backoff: table.backoff, consistent: true})
  const item = items.get(keyId(current))
  return {record: item && decodeVersion(item), hasLegacyRecord: items.has(keyId(legacyVersionKey))}
}

/**
 * Writes the version record of a new table and returns the one that is there. An existing record is never changed, and a
 * table of an old layout never gets one. No Lambda version: a Python client that finds one older than itself would
 * replace the function. `by` is `zael:{version}`.
 */
export async function ensureVersion(table: Table, {by}: {by: string}): Promise<VersionRecord> {
  const {record, hasLegacyRecord} = await readVersion(table)
  if (record) return record
  if (hasLegacyRecord) throw needsMigration(undefined)
  const first: VersionRecord = {
    schemaVersion: SCHEMA_VERSION,
    lambdaVersion: undefined,
    clientMinVersion: '0.0.0',
    updatedAt: isoSeconds(table.clock()),
    updatedBy: by,
  }
  const {Put} = putNew(table, encodeVersion(first))
  try {
    await retrying(() => table.transport.send('PutItem', Put), {
      ...table.backoff,
      retryable: isRetryableWhenIdempotent,
    })
    return first
  } catch (error) {
    if (!(error instanceof ConditionFailed)) throw error
    return (error.oldItem && decodeVersion(error.oldItem)) ?? first
  }
}
