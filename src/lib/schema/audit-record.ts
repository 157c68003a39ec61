import {type Item, NULL, n, s} from './attribute-value.js'
import {fromJson, type Json} from './json-attribute.js'
import {keys, parseItemKey} from './keys.js'
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
  /** Epoch seconds after which the table drops the event. */
  readonly ttlSeconds: number | undefined
}

/** Stands in for the entity in events about system defaults. */
export const SYSTEM_SUBJECT = '$SYSTEM'

/** Stands in for the entity in events about a resource's defaults. */
export const resourceSubject = (resource: string): string => `$RESOURCE:${resource}`

export function encodeAudit(record: AuditRecord): Item {
  const {PK, SK} = keys.audit(record.namespace, record.entity, record.eventId)
  const item: Item = {
    PK: s(PK),
    SK: s(SK),
    entity_id: s(record.entity),
    event_id: s(record.eventId),
    timestamp: s(record.timestamp),
    action: s(record.action),
    principal: record.principal === undefined ? NULL : s(record.principal),
    resource: record.resource === undefined ? NULL : s(record.resource),
    details: fromJson(record.details),
    GSI4PK: s(record.namespace),
    GSI4SK: s(PK),
  }
  if (record.ttlSeconds !== undefined) item.ttl = n(record.ttlSeconds)
  return item
}

/** `undefined` when the key is not an audit event's. */
export function decodeAudit(item: Item): AuditRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'audit') return undefined
  return {
    namespace: key.namespace,
    entity: key.entity,
    eventId: key.eventId,
    timestamp: readString(item, 'timestamp') ?? '',
    action: readString(item, 'action') ?? '',
    principal: readString(item, 'principal'),
    resource: readString(item, 'resource'),
    details: readMap(item, 'details'),
    ttlSeconds: readNumber(item, 'ttl'),
  }
}
