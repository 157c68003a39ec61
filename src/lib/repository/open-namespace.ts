import {ZaelError} from '../core/errors.js'
import {Denied} from '../dynamo/errors.js'
import {keys} from '../schema/keys.js'
import {migrationRecordKey} from '../schema/migration/migration-record.js'
import {decodeVersion} from '../schema/version-record.js'
import {namespaceMissing} from './namespaces/errors.js'
import {LOOKUP_TIMEOUT_MS, Namespaces} from './namespaces/namespaces.js'
import {getItem, type Table} from './table/table.js'
import {readVersion} from './table/version.js'
import {checkCompatibility} from './table/version-compatibility.js'

/**
 * The id of a namespace, in a table with a supported layout. In an older layout everything would look empty and every
 * bucket would start full, so the version is read together with the name, which costs one more small read. Once a
 * migration has begun an older version is fine: the migration charges what is consumed to both layouts.
 */
export async function openNamespace(table: Table, name: string): Promise<string> {
  const [found, refusal] = await Promise.all([new Namespaces(table).resolve(name), layoutRefusal(table)])
  if (found && (!refusal || (await hasMigrationBegun(table, refusal)))) return found.id
  throw refusal ?? (await whyMissing(table, name))
}

/** A single read: permissions limited to one namespace allow GetItem on these records, but no batch. */
async function layoutRefusal(table: Table): Promise<ZaelError | undefined> {
  return refusalOf(async () => {
    const item = await getItem(table, keys.version(), {timeoutMs: LOOKUP_TIMEOUT_MS})
    checkCompatibility(item && decodeVersion(item), undefined, false)
  })
}

async function hasMigrationBegun(table: Table, refusal: ZaelError): Promise<boolean> {
  return refusal.code === 'schema.needs-migration' && (await getItem(table, migrationRecordKey)) !== undefined
}

/** Tables from before namespaces have their version record under another key. */
async function whyMissing(table: Table, name: string): Promise<ZaelError> {
  const refusal = await refusalOf(async () => {
    const {record, hasLegacyRecord} = await readVersion(table)
    checkCompatibility(record, undefined, hasLegacyRecord)
  })
  return refusal ?? namespaceMissing(name)
}

/** The error about the layout, if there is one; without permission to read it, none. */
async function refusalOf(check: () => Promise<void>): Promise<ZaelError | undefined> {
  try {
    await check()
    return undefined
  } catch (error) {
    if (error instanceof ZaelError && error.code.startsWith('schema.')) return error
    if (error instanceof Denied) return undefined
    throw error
  }
}
