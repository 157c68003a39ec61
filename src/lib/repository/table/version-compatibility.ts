import {ZaelError} from '../../core/errors.js'
import type {VersionRecord} from '../../schema/version-record.js'

/** The layout that zael writes. zael also reads the next one, which differs only in unused local indexes. */
export const SCHEMA_VERSION = '0.9.0'

const OLDEST_SCHEMA: Version = [0, 9, 0]
const NEXT_UNKNOWN_SCHEMA: Version = [0, 11, 0]

/** The zae-limiter release whose records zael reads; unsupported records are refused one by one, newer tables whole. */
const SPOKEN_RELEASE = '0.17.0'

/**
 * Marks zael's aggregator in the version record: it keeps the records of zae-limiter up to 0.17. Python clients decide
 * by it which features may be stored, and whether to update the function:
 * - A client newer than the mark replaces the code of `{stack}-aggregator`; 999 is above all patch releases.
 * - `zae-limiter upgrade` acts if the mark is its own version or older. The suffix differs and is not compared.
 */
export const AGGREGATOR_MARK = '0.17.999-zael'

/** Prefix of `updatedBy` in version records that zael wrote: `zael:{version}`. */
export const UPDATED_BY_ZAEL = 'zael:'

type Version = readonly [major: number, minor: number, patch: number]

/**
 * Why zael must not work on a table; `undefined` if it may. Without a record the table is new. A legacy record counts only without a
 * current one: migrated tables may have kept it. The minimum client version is a release of zae-limiter, so it is
 * compared with the release that zael speaks (D-45).
 */
export function incompatibility(
  record: VersionRecord | undefined,
  ourVersion: string | undefined,
  hasLegacyRecord: boolean,
): ZaelError | undefined {
  if (!record) return hasLegacyRecord ? needsMigration(undefined) : undefined
  const {schemaVersion, clientMinVersion} = record
  const us = ourVersion ? `this zael (${ourVersion})` : 'this zael'
  const schema = parseVersion(schemaVersion)
  if (!schema) {
    const reason = `The table's layout version is ${JSON.stringify(schemaVersion)}, which is not a version number.`
    return new ZaelError('conflict', 'schema.unreadable', reason, {
      hint: 'Check that the table belongs to a rate limiter; its version record is `_/SYSTEM#`, `#VERSION`.',
      details: {schemaVersion},
    })
  }
  if (isBefore(schema, OLDEST_SCHEMA)) return needsMigration(schemaVersion)
  if (!isBefore(schema, NEXT_UNKNOWN_SCHEMA)) {
    const reason = `The table has layout ${schemaVersion}; ${us} supports layouts up to 0.10.`
    return new ZaelError('conflict', 'schema.too-new', reason, {
      hint: 'Install a newer zael.',
      details: {schemaVersion, ourVersion},
    })
  }
  const least = parseVersion(clientMinVersion)
  if (least && isBefore(parseVersion(SPOKEN_RELEASE) as Version, least)) {
    const reason = `The table requires zae-limiter ${clientMinVersion} or newer; ${us} reads records up to zae-limiter ${SPOKEN_RELEASE}.`
    return new ZaelError('conflict', 'schema.client-too-old', reason, {
      hint: 'Install a newer zael.',
      details: {clientMinVersion, spokenRelease: SPOKEN_RELEASE, ourVersion},
    })
  }
  return undefined
}

/** Throws the {@link incompatibility}, if there is one. */
export function checkCompatibility(...stored: Parameters<typeof incompatibility>): void {
  const refusal = incompatibility(...stored)
  if (refusal) throw refusal
}

/** A lower bound of the zae-limiter release that wrote the records: not all features raise it. */
export function recordedRelease({schemaVersion, clientMinVersion}: VersionRecord): string {
  return laterRelease(schemaVersion, clientMinVersion)
}

/** Text that is not a version counts as the earlier release. */
export function laterRelease(one: string, other: string): string {
  const [a, b] = [parseVersion(one), parseVersion(other)]
  return b && (!a || isBefore(a, b)) ? other : one
}

export function isOlderRelease(one: string, than: string): boolean {
  const [a, b] = [parseVersion(one), parseVersion(than)]
  return a !== undefined && b !== undefined && isBefore(a, b)
}

/** An older layout uses other keys, so every bucket would start full. */
export function needsMigration(schemaVersion: string | undefined): ZaelError {
  const layout = schemaVersion ?? 'from before namespaces'
  return new ZaelError('conflict', 'schema.needs-migration', `The table's layout (${layout}) is too old.`, {
    hint: 'Migrate the table.',
    details: {schemaVersion},
  })
}

function parseVersion(text: string): Version | undefined {
  const match = /^v?(\d+)\.(\d+)\.(\d+)(?:[-+.].*)?$/.exec(text)
  return match ? [Number(match[1]), Number(match[2]), Number(match[3])] : undefined
}

function isBefore(one: Version, other: Version): boolean {
  const place = one.findIndex((part, index) => part !== other[index])
  return place >= 0 && (one[place] as number) < (other[place] as number)
}
