import type {Limit} from '../core/limit.js'
import {DEFAULT_RESOURCE} from '../core/names.js'
import type {Level} from '../core/resolve.js'
import {type Item, type Key, n, s} from './attribute-value.js'
import {indexKeys, keys, parseItemKey} from './keys.js'
import {readNumber, readString} from './read.js'

/** Whose limits a configuration holds; an entity's default has the resource `_default_`. */
export type ConfigScope =
  | {readonly level: 'entity'; readonly entity: string; readonly resource: string}
  | {readonly level: 'resource'; readonly resource: string}
  | {readonly level: 'system'}

export type OnUnavailable = 'allow' | 'block'

export interface ConfigRecord {
  readonly namespace: string
  readonly scope: ConfigScope
  /** Sorted by name: the table keeps no order. */
  readonly limits: readonly Limit[]
  /** System level only: what to do when the table cannot be reached. */
  readonly onUnavailable: OnUnavailable | undefined
  /** System level only: how long audit events are kept. */
  readonly auditRetentionDays: number | undefined
}

/** Attribute of one field of one limit: capacity and refill amount in whole tokens, refill period in seconds. */
export function configAttribute(limit: string, field: 'cp' | 'ra' | 'rp'): string {
  return `l_${limit}_${field}`
}

export function configKey(namespace: string, scope: ConfigScope): Key {
  if (scope.level === 'entity') return keys.entityConfig(namespace, scope.entity, scope.resource)
  return scope.level === 'resource' ? keys.resourceConfig(namespace, scope.resource) : keys.systemConfig(namespace)
}

/** The level of resolution a scope stands for. */
export function levelOf(scope: ConfigScope): Level {
  return scope.level === 'entity' && scope.resource === DEFAULT_RESOURCE ? 'entity_default' : scope.level
}

export function encodeConfig(record: ConfigRecord): Item {
  const {PK, SK} = configKey(record.namespace, record.scope)
  const item: Item = {PK: s(PK), SK: s(SK), config_version: n(1), GSI4PK: s(record.namespace), GSI4SK: s(PK)}
  if (record.scope.level !== 'system') item.resource = s(record.scope.resource)
  if (record.scope.level === 'entity') {
    const {entity, resource} = record.scope
    const {GSI3PK, GSI3SK} = indexKeys.configOfResource(record.namespace, resource, entity)
    item.entity_id = s(entity)
    item.GSI3PK = s(GSI3PK)
    item.GSI3SK = s(GSI3SK)
  }
  if (record.onUnavailable !== undefined) item.on_unavailable = s(record.onUnavailable)
  if (record.auditRetentionDays !== undefined) item.audit_retention_days = n(record.auditRetentionDays)
  for (const limit of record.limits) {
    item[configAttribute(limit.name, 'cp')] = n(limit.capacity)
    item[configAttribute(limit.name, 'ra')] = n(limit.refillAmount)
    item[configAttribute(limit.name, 'rp')] = n(limit.refillPeriodSeconds)
  }
  return item
}

/** `undefined` when the key is not a configuration's. Index keys may be missing: some writers leave them out. */
export function decodeConfig(item: Item): ConfigRecord | undefined {
  const key = parseItemKey(item)
  if (!key) return undefined
  const onUnavailable = readString(item, 'on_unavailable')
  const rest = {
    limits: decodeConfigLimits(item),
    onUnavailable: onUnavailable === 'allow' || onUnavailable === 'block' ? onUnavailable : undefined,
    auditRetentionDays: readNumber(item, 'audit_retention_days'),
  } as const
  switch (key.record) {
    case 'entity-config':
      return {namespace: key.namespace, scope: {level: 'entity', entity: key.entity, resource: key.resource}, ...rest}
    case 'resource-config':
      return {namespace: key.namespace, scope: {level: 'resource', resource: key.resource}, ...rest}
    case 'system-config':
      return {namespace: key.namespace, scope: {level: 'system'}, ...rest}
    default:
      return undefined
  }
}

/** What is missing takes the defaults of declarative limits: refill = capacity, every minute. */
export function decodeConfigLimits(item: Item): Limit[] {
  const limits: Limit[] = []
  for (const attribute of Object.keys(item)) {
    if (!attribute.startsWith('l_') || !attribute.endsWith('_cp')) continue
    const name = attribute.slice(2, -3)
    const capacity = readNumber(item, attribute)
    if (capacity === undefined) continue
    limits.push({
      name,
      capacity,
      refillAmount: readNumber(item, configAttribute(name, 'ra')) ?? capacity,
      refillPeriodSeconds: readNumber(item, configAttribute(name, 'rp')) ?? 60,
    })
  }
  return limits.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Settings of the system level as attributes; those that are undefined are left out. */
export function settingsAttributes({
  onUnavailable,
  auditRetentionDays,
}: Pick<ConfigRecord, 'onUnavailable' | 'auditRetentionDays'>): Item {
  return {
    ...(onUnavailable === undefined ? {} : {on_unavailable: s(onUnavailable)}),
    ...(auditRetentionDays === undefined ? {} : {audit_retention_days: n(auditRetentionDays)}),
  }
}

export const hasSettings = (item: Item): boolean => 'on_unavailable' in item || 'audit_retention_days' in item

/** Whether an item is marked as a configuration; it may have lost all its limits. */
export const hasConfigVersion = (item: Item): boolean => 'config_version' in item

/** A configuration item without the attributes of its limits. */
export function withoutLimits(item: Item): Item {
  return Object.fromEntries(Object.entries(item).filter(([name]) => !/^l_.+_(cp|ra|rp)$/.test(name)))
}
