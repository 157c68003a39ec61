import {REGISTRY_NAMESPACE} from '../core/names.js'
import {type Item, type Key, readString, s, texts} from './attribute-value.js'
import {attributes} from './attributes.js'
import {indexKeys, keys, parseItemKey, wireKey} from './keys.js'

const NAMESPACE_STATUSES = ['active', 'deleted', 'purging'] as const

export type NamespaceStatus = (typeof NAMESPACE_STATUSES)[number]

/** A tenant. Registered by name while it is active, and by id until its data is purged. */
export interface NamespaceRecord {
  readonly id: string
  readonly name: string
  readonly status: NamespaceStatus
  readonly createdAt: string
  readonly deletedAt: string | undefined
}

const names = attributes.namespace

export function encodeNamespaceByName(record: NamespaceRecord): Item {
  return encode(record, keys.namespaceByName(record.name), 'active')
}

export function encodeNamespaceById(record: NamespaceRecord): Item {
  const item = encode(record, keys.namespaceById(record.id), record.status)
  if (record.deletedAt !== undefined) item[names.deletedAt] = s(record.deletedAt)
  return item
}

export function decodeNamespace(item: Item): NamespaceRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'namespace-by-name' && key?.record !== 'namespace-by-id') return undefined
  const status = readString(item, names.status)
  return {
    id: key.record === 'namespace-by-id' ? key.id : (readString(item, names.id) ?? ''),
    name: key.record === 'namespace-by-name' ? key.name : (readString(item, names.name) ?? ''),
    status: NAMESPACE_STATUSES.find(known => known === status) ?? 'active',
    createdAt: readString(item, names.createdAt) ?? '',
    deletedAt: readString(item, names.deletedAt),
  }
}

function encode(record: NamespaceRecord, key: Key, status: NamespaceStatus): Item {
  return {
    ...wireKey(key),
    [names.id]: s(record.id),
    [names.name]: s(record.name),
    [names.status]: s(status),
    [names.createdAt]: s(record.createdAt),
    ...texts(indexKeys.inNamespace(REGISTRY_NAMESPACE, key.PK)),
  }
}
