import {bool, type Item, NULL, n, s} from './attribute-value.js'
import {fromJson, type Json} from './json-attribute.js'
import {indexKeys, keys, parseItemKey} from './keys.js'
import {readBoolean, readMap, readNumber, readString} from './read.js'

/** Who is limited, and whose budget it shares. */
export interface EntityRecord {
  readonly namespace: string
  readonly entity: string
  readonly name: string
  readonly parent: string | undefined
  /** Whether every admitted request is charged to the parent too. */
  readonly cascade: boolean
  readonly metadata: {readonly [key: string]: Json}
  readonly createdAt: string
  /** Counts updates, for optimistic locking. 0 on records of clients that do not keep it. */
  readonly version: number
}

export function encodeEntity(record: EntityRecord): Item {
  const {PK, SK} = keys.entity(record.namespace, record.entity)
  const item: Item = {
    PK: s(PK),
    SK: s(SK),
    entity_id: s(record.entity),
    name: s(record.name),
    parent_id: record.parent === undefined ? NULL : s(record.parent),
    cascade: bool(record.cascade),
    metadata: fromJson(record.metadata),
    created_at: s(record.createdAt),
    GSI4PK: s(record.namespace),
    GSI4SK: s(PK),
  }
  if (record.parent !== undefined) {
    const {GSI1PK, GSI1SK} = indexKeys.child(record.namespace, record.parent, record.entity)
    item.GSI1PK = s(GSI1PK)
    item.GSI1SK = s(GSI1SK)
  }
  if (record.version > 0) item.version = n(record.version)
  return item
}

/** `undefined` when the key is not an entity's. */
export function decodeEntity(item: Item): EntityRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'entity') return undefined
  return {
    namespace: key.namespace,
    entity: key.entity,
    name: readString(item, 'name') ?? key.entity,
    parent: readString(item, 'parent_id'),
    cascade: readBoolean(item, 'cascade') ?? false,
    metadata: readMap(item, 'metadata'),
    createdAt: readString(item, 'created_at') ?? '',
    version: readNumber(item, 'version') ?? 0,
  }
}

/** Attributes of an entity's index keys: among its parent's children, and in its namespace. */
export const ENTITY_INDEX_KEYS = ['GSI1PK', 'GSI1SK', 'GSI4PK', 'GSI4SK'] as const
