import {REGISTRY_NAMESPACE} from '../core/names.js'
import {type Item, NULL, s} from './attribute-value.js'
import {keys, parseItemKey} from './keys.js'
import {readString} from './read.js'

/** Which layout a table has and who may use it. Shared with other clients: left alone unless it is absent. */
export interface VersionRecord {
  readonly schemaVersion: string
  readonly lambdaVersion: string | undefined
  readonly clientMinVersion: string
  readonly updatedAt: string
  /** `client:{version}` or `cli:{version}`. */
  readonly updatedBy: string | undefined
}

export function encodeVersion(record: VersionRecord): Item {
  const {PK, SK} = keys.version()
  return {
    PK: s(PK),
    SK: s(SK),
    schema_version: s(record.schemaVersion),
    lambda_version: record.lambdaVersion === undefined ? NULL : s(record.lambdaVersion),
    client_min_version: s(record.clientMinVersion),
    updated_at: s(record.updatedAt),
    updated_by: record.updatedBy === undefined ? NULL : s(record.updatedBy),
    GSI4PK: s(REGISTRY_NAMESPACE),
    GSI4SK: s(PK),
  }
}

/** `undefined` when the key is not the version record's. */
export function decodeVersion(item: Item): VersionRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'version') return undefined
  return {
    schemaVersion: readString(item, 'schema_version') ?? '',
    lambdaVersion: readString(item, 'lambda_version'),
    clientMinVersion: readString(item, 'client_min_version') ?? '0.0.0',
    updatedAt: readString(item, 'updated_at') ?? '',
    updatedBy: readString(item, 'updated_by'),
  }
}
