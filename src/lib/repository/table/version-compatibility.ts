import {ZaelError} from '../../core/errors.js'
import type {VersionRecord} from '../../schema/version-record.js'

/** The layout that zael writes; it reads the next one too, which differs only in local indexes that nobody uses. */
export const SCHEMA_VERSION = '0.9.0'

const OLDEST_SCHEMA: Version = [0, 9, 0]
const NEXT_UNKNOWN_SCHEMA: Version = [0, 11, 0]

/** Who wrote the version record, when it was zael: `zael:{version}`. */
export const UPDATED_BY_ZAEL = 'zael:'

type Version = readonly [major: number, minor: number, patch: number]

/**
 * Throws when this version of zael must not work on a table. No record at all is fine: the table is new. A record in the
 * place where tables without namespaces had it counts only when there is none in today's place; migrated tables may have
 * kept it.
 *
 * `client_min_version` counts only when zael wrote it: the Python clients number their releases by themselves, so their
 * minimum says nothing about ours (D-45). Without our version, only the layout is judged.
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
    const said = `The table says that its layout is ${JSON.stringify(schemaVersion)}, which is no version.`
    throw new ZaelError('conflict', 'schema.unreadable', said, {
      hint: 'Check that the table is one of a rate limiter; its version record is `_/SYSTEM#`, `#VERSION`.',
      details: {schemaVersion},
    })
  }
  if (isBefore(schema, OLDEST_SCHEMA)) throw needsMigration(schemaVersion)
  if (!isBefore(schema, NEXT_UNKNOWN_SCHEMA)) {
    const us = ourVersion ? `this zael (${ourVersion})` : 'this zael'
    const said = `The table has layout ${schemaVersion}; ${us} knows layouts up to 0.10.`
    throw new ZaelError('conflict', 'schema.too-new', said, {
      hint: 'Install a newer zael.',
      details: {schemaVersion, ourVersion},
    })
  }
  const least = updatedBy?.startsWith(UPDATED_BY_ZAEL) ? parseVersion(clientMinVersion) : undefined
  const ours = parseVersion(ourVersion ?? '')
  if (least && ours && isBefore(ours, least)) {
    const said = `The table asks for zael ${clientMinVersion} or newer; this is ${ourVersion}.`
    throw new ZaelError('conflict', 'schema.client-too-old', said, {
      hint: 'Install a newer zael.',
      details: {clientMinVersion, ourVersion},
    })
  }
}

/** The table has a layout whose buckets lie elsewhere; working on it would start all of them anew. */
export function needsMigration(schemaVersion: string | undefined): ZaelError {
  const layout = schemaVersion === undefined ? 'one from before namespaces' : schemaVersion
  return new ZaelError('conflict', 'schema.needs-migration', `The layout of the table is ${layout}: that is too old.`, {
    hint: 'Bring it up to date with `zael migrate run`; `zael migrate plan` shows the steps first.',
    details: {schemaVersion},
  })
}

/** What follows the three numbers (pre-release, build) is for people. */
function parseVersion(text: string): Version | undefined {
  const match = /^v?(\d+)\.(\d+)\.(\d+)(?:[-+.].*)?$/.exec(text)
  return match ? [Number(match[1]), Number(match[2]), Number(match[3])] : undefined
}

function isBefore(one: Version, other: Version): boolean {
  const place = one.findIndex((part, index) => part !== other[index])
  return place >= 0 && (one[place] as number) < (other[place] as number)
}
