import {bool, type Item, NULL, n, readBoolean, readNumber, readString, s, texts} from './attribute-value.js'
import {attributes, indexes, keyNames} from './attributes.js'
import {generationAttributes, type ParentGeneration, readGeneration} from './family.js'
import {fromJson, type Json, readMap} from './json-attribute.js'
import {indexKeys, keys, parseItemKey, wireKey} from './keys.js'

/** A limited entity and its parent. */
export interface EntityRecord {
  readonly namespace: string
  readonly entity: string
  readonly name: string
  readonly parent: string | undefined
  /** Whether every admitted request also charges the parent. */
  readonly cascade: boolean
  readonly metadata: {readonly [key: string]: Json}
  readonly createdAt: string
  /** Counts updates, for optimistic locking. 0 if the client that wrote it does not count. */
  readonly version: number
  /** Counts moves to another parent; absent if no client counts them. */
  readonly parentGeneration?: ParentGeneration | undefined
}

const names = attributes.entity

export function encodeEntity(record: EntityRecord): Item {
  const key = keys.entity(record.namespace, record.entity)
  const item: Item = {
    ...wireKey(key),
    [names.entity]: s(record.entity),
    [names.name]: s(record.name),
    [names.parent]: record.parent === undefined ? NULL : s(record.parent),
    [names.cascade]: bool(record.cascade),
    [names.metadata]: fromJson(record.metadata),
    [names.createdAt]: s(record.createdAt),
    ...texts(indexKeys.inNamespace(record.namespace, key.PK)),
  }
  if (record.parent !== undefined) {
    Object.assign(item, texts(indexKeys.child(record.namespace, record.parent, record.entity)))
  }
  if (record.version > 0) item[names.version] = n(record.version)
  if (record.parentGeneration !== undefined) Object.assign(item, generationAttributes(record.parentGeneration))
  return item
}

export function decodeEntity(item: Item): EntityRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'entity') return undefined
  const parentGeneration = readGeneration(item)
  return {
    namespace: key.namespace,
    entity: key.entity,
    name: readString(item, names.name) ?? key.entity,
    parent: readString(item, names.parent),
    cascade: readBoolean(item, names.cascade) ?? false,
    metadata: readMap(item, names.metadata),
    createdAt: readString(item, names.createdAt) ?? '',
    version: readNumber(item, names.version) ?? 0,
    ...(parentGeneration && {parentGeneration}),
  }
}

export type EntityDetails = {
  readonly name: string
  readonly parent_id: string | null
  readonly cascade: boolean
  readonly metadata: {readonly [key: string]: Json}
}

export function entityDetails({name, parent, cascade, metadata}: EntityRecord): EntityDetails {
  return {name, parent_id: parent ?? null, cascade, metadata}
}

export const ENTITY_INDEX_KEYS = [...keyNames(indexes.parent), ...keyNames(indexes.namespace)]
