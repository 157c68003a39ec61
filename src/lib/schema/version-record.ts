import {REGISTRY_NAMESPACE} from '../core/names.js'
import {type Item, NULL, readString, s, texts} from './attribute-value.js'
import {attributes} from './attributes.js'
import {indexKeys, keys, parseItemKey, wireKey} from './keys.js'

/** Shared with other clients: written only if absent. */
export interface VersionRecord {
  readonly schemaVersion: string
  /** Release of zae-limiter whose records the aggregator keeps. */
  readonly lambdaVersion: string | undefined
  readonly clientMinVersion: string
  readonly updatedAt: string
  readonly updatedBy: string | undefined
}

const names = attributes.version

export function encodeVersion(record: VersionRecord): Item {
  const key = keys.version()
  return {
    ...wireKey(key),
    [names.schema]: s(record.schemaVersion),
    [names.lambda]: record.lambdaVersion === undefined ? NULL : s(record.lambdaVersion),
    [names.clientMin]: s(record.clientMinVersion),
    [names.updatedAt]: s(record.updatedAt),
    [names.updatedBy]: record.updatedBy === undefined ? NULL : s(record.updatedBy),
    ...texts(indexKeys.inNamespace(REGISTRY_NAMESPACE, key.PK)),
  }
}

export function decodeVersion(item: Item): VersionRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'version') return undefined
  return {
    schemaVersion: readString(item, names.schema) ?? '',
    lambdaVersion: readString(item, names.lambda),
    clientMinVersion: readString(item, names.clientMin) ?? '0.0.0',
    updatedAt: readString(item, names.updatedAt) ?? '',
    updatedBy: readString(item, names.updatedBy),
  }
}
