import {REGISTRY_NAMESPACE} from '../core/names.js'
import {type Item, s} from './attribute-value.js'
import {indexKeys, keys, parseItemKey} from './keys.js'
import {readString} from './read.js'

export const NAMESPACE_STATUSES = ['active', 'deleted', 'purging'] as const

export type NamespaceStatus = (typeof NAMESPACE_STATUSES)[number]

/**
 * A tenant. It is registered twice: by name, which exists only while it is active and so decides what a name means, and
 * by id, which lives on until its data is purged.
 */
export interface NamespaceRecord {
  readonly id: string
  readonly name: string
  readonly status: NamespaceStatus
  readonly createdAt: string
  readonly deletedAt: string | undefined
}

export function encodeNamespaceByName(record: NamespaceRecord): Item {
  return encode(record, keys.namespaceByName(record.name).SK, 'active')
}

export function encodeNamespaceById(record: NamespaceRecord): Item {
  const item = encode(record, keys.namespaceById(record.id).SK, record.status)
  if (record.deletedAt !== undefined) item.deleted_at = s(record.deletedAt)
  return item
}

/** Reads either of the two records; `undefined` when the key is neither's. */
export function decodeNamespace(item: Item): NamespaceRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'namespace-by-name' && key?.record !== 'namespace-by-id') return undefined
  const status = readString(item, 'status')
  return {
    id: key.record === 'namespace-by-id' ? key.id : (readString(item, 'namespace_id') ?? ''),
    name: key.record === 'namespace-by-name' ? key.name : (readString(item, 'namespace_name') ?? ''),
    status: NAMESPACE_STATUSES.find(known => known === status) ?? 'active',
    createdAt: readString(item, 'created_at') ?? '',
    deletedAt: readString(item, 'deleted_at'),
  }
}

function encode(record: NamespaceRecord, SK: string, status: NamespaceStatus): Item {
  const {PK} = keys.version()
  const {GSI4PK, GSI4SK} = indexKeys.inNamespace(REGISTRY_NAMESPACE, PK)
  return {
    PK: s(PK),
    SK: s(SK),
    namespace_id: s(record.id),
    namespace_name: s(record.name),
    status: s(status),
    created_at: s(record.createdAt),
    GSI4PK: s(GSI4PK),
    GSI4SK: s(GSI4SK),
  }
}
