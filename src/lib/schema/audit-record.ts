import {type Item, type Key, NULL, n, s, texts} from './attribute-value.js'
import {attributes} from './attributes.js'
import {fromJson, type Json} from './json-attribute.js'
import {indexKeys, keyParts, keys, parseItemKey, wireKey} from './keys.js'
import {readMap, readNumber, readString} from './read.js'

/** Who changed what and when. */
export interface AuditRecord {
  readonly namespace: string
  /** The entity concerned, or {@link SYSTEM_SUBJECT}, or a {@link resourceSubject}. */
  readonly entity: string
  /** A ULID: sorts by time. */
  readonly eventId: string
  readonly timestamp: string
  readonly action: string
  readonly principal: string | undefined
  readonly resource: string | undefined
  readonly details: {readonly [key: string]: Json}
  /** Epoch seconds after which the table deletes the event. */
  readonly ttlSeconds: number | undefined
}

/** In place of the entity in events about system defaults. */
export const SYSTEM_SUBJECT = '$SYSTEM'

/** In place of the entity in events about a resource's defaults. */
export const resourceSubject = (resource: string): string => `$RESOURCE:${resource}`

/** Whether this is one of the subjects above: entity ids do not begin like this. */
export const isSubject = (entity: string): boolean => entity.startsWith('$')

const names = attributes.audit

export function encodeAudit(record: AuditRecord): Item {
  const key = keys.audit(record.namespace, record.entity, record.eventId)
  const item: Item = {
    ...wireKey(key),
    [names.entity]: s(record.entity),
    [names.eventId]: s(record.eventId),
    [names.timestamp]: s(record.timestamp),
    [names.action]: s(record.action),
    [names.principal]: record.principal === undefined ? NULL : s(record.principal),
    [names.resource]: record.resource === undefined ? NULL : s(record.resource),
    [names.details]: fromJson(record.details),
    ...texts(indexKeys.inNamespace(record.namespace, key.PK)),
  }
  if (record.ttlSeconds !== undefined) item[names.expiresAt] = n(record.ttlSeconds)
  return item
}

/** Whether a key is that of an event, in any layout. */
export const isAuditKey = ({SK}: Key): boolean => SK.startsWith(keyParts.sort.audit)

/** `undefined` when the key is not an audit event's. */
export function decodeAudit(item: Item): AuditRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'audit') return undefined
  return {
    namespace: key.namespace,
    entity: key.entity,
    eventId: key.eventId,
    timestamp: readString(item, names.timestamp) ?? '',
    action: readString(item, names.action) ?? '',
    principal: readString(item, names.principal),
    resource: readString(item, names.resource),
    details: readMap(item, names.details),
    ttlSeconds: readNumber(item, names.expiresAt),
  }
}

/** An event as JSON, for archives: the names are those of the table. */
export function auditJson(record: AuditRecord): Record<string, Json> {
  return {
    [names.eventId]: record.eventId,
    [names.entity]: record.entity,
    [names.action]: record.action,
    [names.timestamp]: record.timestamp,
    [names.principal]: record.principal ?? null,
    [names.resource]: record.resource ?? null,
    [names.details]: record.details,
  }
}
