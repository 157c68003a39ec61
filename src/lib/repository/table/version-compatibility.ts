import {ZaelError} from '../../core/errors.js'
import type {VersionRecord} from '../../schema/version-record.js'

/** The layout that zael writes; it reads the next one too, which differs only in unused local indexes. */
export const SCHEMA_VERSION = '0.9.0'

const OLDEST_SCHEMA: Version = [0, 9, 0]
const NEXT_UNKNOWN_SCHEMA: Version = [0, 11, 0]

/**
 * The release of zae-limiter whose records zael reads: what it cannot honour of them it refuses record by record. A table
 * that asks for more has records of which zael knows nothing.
 */
const SPOKEN_RELEASE = '0.17.0'

/**
 * What the version record says of zael's aggregator: it keeps the records of zae-limiter up to the releases of 0.17. By it
 * Python clients decide whether session quotas, soft limits, bypasses, cascade policies, moves and top-ups may be stored,
 * and whether the function is to be updated:
 * - A client that is newer than the mark puts Python's code into the function `{stack}-aggregator`. Patch releases add no
 *   records, so the last number is above all of them.
 * - `zae-limiter upgrade` applies its template to a stack whose mark equals its own version, and does nothing where the mark
 *   differs and is not older. The suffix makes it differ; all releases since 0.10 accept it and do not compare it.
 */
export const AGGREGATOR_MARK = '0.17.999-zael'

/** How `updatedBy` begins in a version record that zael wrote: `zael:{version}`. */
export const UPDATED_BY_ZAEL = 'zael:'

type Version = readonly [major: number, minor: number, patch: number]

/**
 * Throws when this version of zael must not work on a table. No record at all is fine: the table is new. A record under
 * the key that tables without namespaces used counts only when there is none under today's key: migrated tables may
 * have kept it.
 *
 * The minimum client version is a release of zae-limiter, which raises it with its features; zael has release numbers of
 * its own, so it is compared with the release that zael speaks (D-45).
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
  const {schemaVersion, clientMinVersion} = record
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
  const least = parseVersion(clientMinVersion)
  if (least && isBefore(parseVersion(SPOKEN_RELEASE) as Version, least)) {
    const us = ourVersion ? `this zael (${ourVersion})` : 'this zael'
    const reason = `The table requires zae-limiter ${clientMinVersion} or newer; ${us} reads records up to zae-limiter ${SPOKEN_RELEASE}.`
    throw new ZaelError('conflict', 'schema.client-too-old', reason, {
      hint: 'Install a newer zael.',
      details: {clientMinVersion, spokenRelease: SPOKEN_RELEASE, ourVersion},
    })
  }
}

/**
 * The release of zae-limiter whose records a table has at least, by its version record: the layout, or the minimum that
 * some features raise. Others raise nothing, so only the records themselves tell all.
 */
export function recordedRelease({schemaVersion, clientMinVersion}: VersionRecord): string {
  return laterRelease(schemaVersion, clientMinVersion)
}

/** The later of two release numbers; one that is not a version counts as the earlier. */
export function laterRelease(one: string, other: string): string {
  const [a, b] = [parseVersion(one), parseVersion(other)]
  return b && (!a || isBefore(a, b)) ? other : one
}

/** Whether a release is known to be older than another; one that is not a version is not. */
export function isOlderRelease(one: string, than: string): boolean {
  const [a, b] = [parseVersion(one), parseVersion(than)]
  return a !== undefined && b !== undefined && isBefore(a, b)
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
