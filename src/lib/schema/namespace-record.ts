import {REGISTRY_NAMESPACE} from '../core/names.js'
import {type Item, type Key, readString, s, texts} from './attribute-value.js'
import {attributes} from './attributes.js'
import {indexKeys, keys, parseItemKey, wireKey} from './keys.js'

const NAMESPACE_STATUSES = ['active', 'deleted', 'purging'] as const

export type NamespaceStatus = (typeof NAMESPACE_STATUSES)[number]

/** Which ancestors a request charges: the direct parent, or all of them, as far as each link cascades. */
export const CHARGED_LEVELS = ['parent', 'all'] as const

export type ChargedLevels = (typeof CHARGED_LEVELS)[number]

/** Entities that one request charges at most, the requesting one included. */
export const MOST_LEVELS: Readonly<Record<ChargedLevels, number>> = {parent: 2, all: 8}

/** A tenant. Registered by name while it is active, and by id until its data is purged. */
export interface NamespaceRecord {
  readonly id: string
  readonly name: string
  readonly status: NamespaceStatus
  readonly createdAt: string
  readonly deletedAt: string | undefined
  /** Default: `parent`. */
  readonly levels?: ChargedLevels | undefined
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
    ...(readString(item, names.levels) === 'all' && {levels: 'all'}),
  }
}

function encode(record: NamespaceRecord, key: Key, status: NamespaceStatus): Item {
  return {
    ...wireKey(key),
    [names.id]: s(record.id),
    [names.name]: s(record.name),
    [names.status]: s(status),
    [names.createdAt]: s(record.createdAt),
    ...(record.levels === 'all' && {[names.levels]: s(record.levels)}),
    ...texts(indexKeys.inNamespace(REGISTRY_NAMESPACE, key.PK)),
  }
}
