import {valueFor, ZaelError} from '../../core/errors.js'
import {Denied} from '../../dynamo/errors.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {keys} from '../../schema/keys.js'
import {type MigrationStage, migrationRecordKey, migrationStage} from '../../schema/migration-record.js'
import {type ChargedLevels, decodeNamespace, type NamespaceRecord} from '../../schema/namespace-record.js'
import {decodeVersion} from '../../schema/version-record.js'
import {getItem, type NamespaceTable, type Table} from '../table/table.js'
import {readVersion} from '../table/version.js'
import {incompatibility} from '../table/version-compatibility.js'
import {namespaceMissing} from './errors.js'

// All requests of a process share one lookup, so one that hangs must end soon.
const LOOKUP_TIMEOUT_MS = 2_000

export interface OpenedNamespace {
  readonly id: string
  readonly levels: ChargedLevels
  /** During a migration, absent records may not be copied yet. */
  readonly isMigrating: boolean
}

/**
 * Reads the version too: an older layout would look empty, so every bucket would start full. During a migration an
 * older version is fine once all limits are copied: consumption is then charged to both layouts.
 */
export async function openNamespace(table: Table, name: string): Promise<OpenedNamespace> {
  const [found, refusal] = await Promise.all([activeNamespace(table, name), layoutRefusal(table)])
  if (refusal && refusal.code !== 'schema.needs-migration') throw refusal
  // After the name lookup: a migration that registers the name has stored its own record before.
  const stage = await readMigrationStage(table)
  if (stage === 'copying-limits') throw stillCopyingLimits()
  if (found && (!refusal || stage))
    return {id: found.id, levels: found.levels ?? 'parent', isMigrating: stage === 'open'}
  throw refusal ?? (await whyMissing(table, name))
}

/** The active namespace with this name; `undefined` if there is none. */
export async function activeNamespace(table: Table, name: string): Promise<NamespaceRecord | undefined> {
  const item = await getItem(table, keys.namespaceByName(name), {timeoutMs: LOOKUP_TIMEOUT_MS})
  const record = item && decodeNamespace(item)
  return record?.status === 'active' ? record : undefined
}

/** `undefined` without a migration, or without permission to read its record. */
export async function readMigrationStage(table: Table): Promise<MigrationStage | undefined> {
  const item = await lookUp(table, migrationRecordKey)
  return item && migrationStage(item)
}

/** GetItem, because permissions limited to one namespace allow no batch on these records. */
async function layoutRefusal(table: Table): Promise<ZaelError | undefined> {
  const item = await lookUp(table, keys.version())
  return incompatibility(item && decodeVersion(item), undefined, false)
}

/** The setting of a namespace known by id. `parent` without a registration, as with literal ids. */
export async function readChargedLevels(table: NamespaceTable): Promise<ChargedLevels> {
  const item = await getItem(table, keys.namespaceById(table.namespace), {timeoutMs: LOOKUP_TIMEOUT_MS})
  return (item && decodeNamespace(item))?.levels ?? 'parent'
}

/** `undefined` also without permission. */
function lookUp(table: Table, key: Key): Promise<Item | undefined> {
  return getItem(table, key, {timeoutMs: LOOKUP_TIMEOUT_MS}).catch(valueFor([Denied], undefined))
}

function stillCopyingLimits(): ZaelError {
  const message = 'The table is being migrated. Requests fail until all limits are copied.'
  return new ZaelError('conflict', 'schema.migrating', message, {hint: 'Wait for the migration to copy the limits.'})
}

/** Tables from before namespaces have their version record under another key. */
async function whyMissing(table: Table, name: string): Promise<ZaelError> {
  const stored = await readVersion(table).catch(valueFor([Denied], undefined))
  const refusal = stored && incompatibility(stored.record, undefined, stored.hasLegacyRecord)
  return refusal ?? namespaceMissing(name)
}
