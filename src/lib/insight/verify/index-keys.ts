import {decodeOperation, encodeOperation} from '../../repository/operations/record.js'
import type {Item} from '../../schema/attribute-value.js'
import {indexes, keyNames} from '../../schema/attributes.js'
import {decodeAudit, encodeAudit} from '../../schema/audit-record.js'
import {bucketIndexKeys} from '../../schema/bucket-record.js'
import {decodeConfig, encodeConfig} from '../../schema/config-record.js'
import {decodeEntity, encodeEntity} from '../../schema/entity-record.js'
import type {ParsedKey} from '../../schema/keys.js'
import {decodeNamespace, encodeNamespaceById, encodeNamespaceByName} from '../../schema/namespace-record.js'
import {decodeProvisioner, encodeProvisioner} from '../../schema/provisioner-record.js'
import {registryIndexKeys} from '../../schema/registry-records.js'
import {decodeUsage, encodeUsage} from '../../schema/usage-record.js'
import {decodeVersion, encodeVersion} from '../../schema/version-record.js'

const INDEX_KEYS = Object.values(indexes).flatMap(index => keyNames(index))

/** The index keys that a record must have and has not, or has and must not have: those that differ, with their right values. */
export function wrongIndexKeys(item: Item, key: ParsedKey): {[name: string]: Item[string] | undefined} {
  const expected = encoded(item, key)
  const differing = INDEX_KEYS.filter(name => textOf(item, name) !== textOf(expected, name))
  return Object.fromEntries(differing.map(name => [name, expected[name]]))
}

function encoded(item: Item, key: ParsedKey): Item {
  switch (key.record) {
    case 'entity':
      return again(item, decodeEntity, encodeEntity)
    case 'entity-config':
    case 'resource-config':
    case 'system-config':
      return again(item, decodeConfig, encodeConfig)
    case 'usage':
      return again(item, decodeUsage, encodeUsage)
    case 'audit':
      return again(item, decodeAudit, encodeAudit)
    case 'provisioner':
      return again(item, decodeProvisioner, encodeProvisioner)
    case 'version':
      return again(item, decodeVersion, encodeVersion)
    case 'namespace-by-name':
      return again(item, decodeNamespace, encodeNamespaceByName)
    case 'namespace-by-id':
      return again(item, decodeNamespace, encodeNamespaceById)
    case 'bucket':
      return bucketIndexKeys(key)
    case 'operation':
      return again(item, decodeOperation, encodeOperation)
    case 'pending-apply':
    case 'rollups':
    case 'rollup-agenda':
      return item
    default:
      return registryIndexKeys(key.namespace)
  }
}

function again<T>(item: Item, decode: (item: Item) => T | undefined, encode: (record: T) => Item): Item {
  const record = decode(item)
  return record === undefined ? item : encode(record)
}

function textOf(item: Item, name: string): string | undefined {
  const value = item[name]
  return (value && (('S' in value && value.S) || JSON.stringify(value))) || undefined
}
