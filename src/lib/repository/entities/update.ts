import {isDeepStrictEqual} from 'node:util'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {type Json, n} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {type EntityDetails, type EntityRecord, encodeEntity, entityDetails} from '../../schema/entity-record.js'
import {keys, wireKey} from '../../schema/keys.js'
import type {AuditEvent} from '../audit/audit.js'
import type {NamespaceTable} from '../table/table.js'
import type {TransactItem} from '../table/transact.js'

/** How to change the metadata of an entity. */
export interface MetadataChange {
  /** Replaces all of it. */
  readonly metadata?: {readonly [key: string]: Json} | undefined
  /** Keys to set; the others stay. */
  readonly setMetadata?: {readonly [key: string]: Json} | undefined
  /** Keys to remove, if they are there. */
  readonly unsetMetadata?: readonly string[] | undefined
}

export function changedMetadata(before: EntityRecord, change: MetadataChange): EntityRecord['metadata'] {
  const {metadata = before.metadata, setMetadata = {}, unsetMetadata = []} = change
  const gone = new Set(unsetMetadata)
  return Object.fromEntries(Object.entries({...metadata, ...setMetadata}).filter(([key]) => !gone.has(key)))
}

/**
 * Writes what differs, if the entity still has the version and the parent of `before`; other attributes stay. Clients of
 * zae-limiter count only moves: one that came in between must not get the same number.
 */
export function entityUpdate(table: NamespaceTable, before: EntityRecord, after: EntityRecord): TransactItem {
  const e = new ExpressionBuilder()
  const version = e.name(attributes.entity.version)
  e.condition(`attribute_exists(${e.name(attributes.key.partition)})`)
  e.condition(before.version === 0 ? `attribute_not_exists(${version})` : `${version} = ${e.value(n(before.version))}`)
  const generation = e.name(attributes.entity.parentGeneration)
  const moves = before.parentGeneration?.moves
  e.condition(moves === undefined ? `attribute_not_exists(${generation})` : `${generation} = ${e.value(n(moves))}`)
  const from = encodeEntity(before)
  const to = encodeEntity(after)
  for (const [name, value] of Object.entries(to)) if (!isDeepStrictEqual(value, from[name])) e.set(name, value)
  for (const name of Object.keys(from)) if (!(name in to)) e.remove(name)
  const Key = wireKey(keys.entity(table.namespace, before.entity))
  return {Update: {TableName: table.name, Key, ...e.update()}}
}

export function entityUpdated(before: EntityRecord, after: EntityRecord): AuditEvent | undefined {
  const from = entityDetails(before)
  const to = entityDetails(after)
  const changed = (Object.keys(to) as Array<keyof EntityDetails>).filter(key => !isDeepStrictEqual(from[key], to[key]))
  if (changed.length === 0) return undefined
  const only = (details: EntityDetails) =>
    Object.fromEntries(changed.map(key => [key, details[key]])) as {[key: string]: Json}
  return {
    entity: before.entity,
    action: 'entity_updated',
    details: {before: only(from), after: only(to), version: after.version},
  }
}
