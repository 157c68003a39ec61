import {ZaelError} from '../../core/errors.js'
import type {VersionRecord} from '../../schema/version-record.js'

/** The layout that zael writes; it reads the next one too, which differs only in unused local indexes. */
export const SCHEMA_VERSION = '0.9.0'

const OLDEST_SCHEMA: Version = [0, 9, 0]
const NEXT_UNKNOWN_SCHEMA: Version = [0, 11, 0]

/** How `updatedBy` begins in a version record that zael wrote: `zael:{version}`. */
export const UPDATED_BY_ZAEL = 'zael:'

type Version = readonly [major: number, minor: number, patch: number]

/**
 * Throws when this version of zael must not work on a table. No record at all is fine: the table is new. A record under
 * the key that tables without namespaces used counts only when there is none under today's key: migrated tables may
 * have kept it.
 *
 * The minimum client version counts only when zael wrote it: the Python clients have their own release numbers, so
 * their minimum means nothing for zael (D-45). Without `ourVersion`, only the layout is checked.
 */
export function checkCompatibility(
  record: VersionRecord | undefined,
  ourVersion: string | undefined,
  hasLegacyRecord: boolean,
): void {
  if (!record) {
    if (hasLegacyRecord) throw needsMigration(undefined)
    return
  }
  const {schemaVersion, clientMinVersion, updatedBy} = record
  const schema = parseVersion(schemaVersion)
  if (!schema) {
    const reason = `The layout of the table is ${JSON.stringify(schemaVersion)}, which is not a version.`
    throw new ZaelError('conflict', 'schema.unreadable', reason, {
      hint: 'Check that the table belongs to a rate limiter; its version record is `_/SYSTEM#`, `#VERSION`.',
      details: {schemaVersion},
    })
  }
  if (isBefore(schema, OLDEST_SCHEMA)) throw needsMigration(schemaVersion)
  if (!isBefore(schema, NEXT_UNKNOWN_SCHEMA)) {
    const us = ourVersion ? `this zael (${ourVersion})` : 'this zael'
    const reason = `The table has layout ${schemaVersion}; ${us} supports layouts up to 0.10.`
    throw new ZaelError('conflict', 'schema.too-new', reason, {
      hint: 'Install a newer zael.',
      details: {schemaVersion, ourVersion},
    })
  }
  const least = updatedBy?.startsWith(UPDATED_BY_ZAEL) ? parseVersion(clientMinVersion) : undefined
  const ours = parseVersion(ourVersion ?? '')
  if (least && ours && isBefore(ours, least)) {
    const reason = `The table requires zael ${clientMinVersion} or newer; this is ${ourVersion}.`
    throw new ZaelError('conflict', 'schema.client-too-old', reason, {
      hint: 'Install a newer zael.',
      details: {clientMinVersion, ourVersion},
    })
  }
}

/** The table has a layout with other keys; working on it would start every bucket full. */
export function needsMigration(schemaVersion: string | undefined): ZaelError {
  const layout = schemaVersion ?? 'one from before namespaces'
  return new ZaelError('conflict', 'schema.needs-migration', `The layout of the table is ${layout}: that is too old.`, {
    hint: 'Migrate it.',
    details: {schemaVersion},
  })
}

/** A suffix (pre-release, build) does not count. */
function parseVersion(text: string): Version | undefined {
  const match = /^v?(\d+)\.(\d+)\.(\d+)(?:[-+.].*)?$/.exec(text)
  return match ? [Number(match[1]), Number(match[2]), Number(match[3])] : undefined
}

function isBefore(one: Version, other: Version): boolean {
  const place = one.findIndex((part, index) => part !== other[index])
  return place >= 0 && (one[place] as number) < (other[place] as number)
}
