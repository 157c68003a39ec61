import type {Limit} from '../core/limit.js'
import {DEFAULT_RESOURCE} from '../core/names.js'
import type {Level} from '../core/resolve.js'
import {type Item, type Key, n, s, texts} from './attribute-value.js'
import {attributes, indexes, keyNames} from './attributes.js'
import type {Json} from './json-attribute.js'
import {indexKeys, keys, parseItemKey, wireKey} from './keys.js'
import {readNumber, readString} from './read.js'

/** What a configuration applies to; the default of an entity has the resource `_default_`. */
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

const names = attributes.config

const FIELDS = {capacity: 'cp', refillAmount: 'ra', refillPeriod: 'rp'} as const

/** What the attributes of limits begin with. */
const LIMIT_PREFIX = 'l_'

/** Attribute of one field of one limit: capacity and refill amount in whole tokens, refill period in seconds. */
export function configAttribute(limit: string, field: keyof typeof FIELDS): string {
  return `${LIMIT_PREFIX}${limit}_${FIELDS[field]}`
}

/** The attributes of limits in a stored item, with those that only older clients know. */
export function limitAttributesIn(item: Item = {}): string[] {
  return Object.keys(item).filter(name => name.startsWith(LIMIT_PREFIX) && name.lastIndexOf('_') > LIMIT_PREFIX.length)
}

/** The limit that an attribute belongs to. */
export function limitOfAttribute(name: string): string {
  return name.slice(LIMIT_PREFIX.length, name.lastIndexOf('_'))
}

/** The attributes that a change is based on: it is written only if they are the same as when the item was read. */
export function guardedAttributes(item: Item): string[] {
  const [indexKey] = keyNames(indexes.entity)
  return [...limitAttributesIn(item), names.onUnavailable, names.auditRetentionDays, indexKey, names.revision]
}

/**
 * Whether the index of entity configurations has a stored item. Some tools write it without the keys of the index; such
 * an item is not counted in the registry either.
 */
export function isIndexedConfig(item: Item | undefined): boolean {
  return item?.[keyNames(indexes.entity)[0]] !== undefined
}

export function configKey(namespace: string, scope: ConfigScope): Key {
  if (scope.level === 'entity') return keys.entityConfig(namespace, scope.entity, scope.resource)
  return scope.level === 'resource' ? keys.resourceConfig(namespace, scope.resource) : keys.systemConfig(namespace)
}

/** The level of a scope in the resolution of limits. */
export function levelOf(scope: ConfigScope): Level {
  return scope.level === 'entity' && scope.resource === DEFAULT_RESOURCE ? 'entity_default' : scope.level
}

export function encodeConfig(record: ConfigRecord): Item {
  const key = configKey(record.namespace, record.scope)
  const item: Item = {
    ...wireKey(key),
    [names.version]: n(1),
    ...texts(indexKeys.inNamespace(record.namespace, key.PK)),
  }
  if (record.scope.level !== 'system') item[names.resource] = s(record.scope.resource)
  if (record.scope.level === 'entity') {
    const {entity, resource} = record.scope
    item[names.entity] = s(entity)
    Object.assign(item, texts(indexKeys.configOfResource(record.namespace, resource, entity)))
  }
  if (record.onUnavailable !== undefined) item[names.onUnavailable] = s(record.onUnavailable)
  if (record.auditRetentionDays !== undefined) item[names.auditRetentionDays] = n(record.auditRetentionDays)
  for (const limit of record.limits) {
    item[configAttribute(limit.name, 'capacity')] = n(limit.capacity)
    item[configAttribute(limit.name, 'refillAmount')] = n(limit.refillAmount)
    item[configAttribute(limit.name, 'refillPeriod')] = n(limit.refillPeriodSeconds)
  }
  return item
}

/** `undefined` when the key is not a configuration's. Index keys may be missing: some writers leave them out. */
export function decodeConfig(item: Item): ConfigRecord | undefined {
  const key = parseItemKey(item)
  if (!key) return undefined
  const onUnavailable = readString(item, names.onUnavailable)
  const rest = {
    limits: decodeConfigLimits(item),
    onUnavailable: onUnavailable === 'allow' || onUnavailable === 'block' ? onUnavailable : undefined,
    auditRetentionDays: readNumber(item, names.auditRetentionDays),
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

/** Missing fields get the defaults of declarative limits: refill = capacity, every minute. */
export function decodeConfigLimits(item: Item): Limit[] {
  const limits: Limit[] = []
  for (const attribute of limitAttributesIn(item)) {
    const name = limitOfAttribute(attribute)
    const capacity = attribute === configAttribute(name, 'capacity') ? readNumber(item, attribute) : undefined
    if (capacity === undefined) continue
    limits.push({
      name,
      capacity,
      refillAmount: readNumber(item, configAttribute(name, 'refillAmount')) ?? capacity,
      refillPeriodSeconds: readNumber(item, configAttribute(name, 'refillPeriod')) ?? 60,
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
    ...(onUnavailable === undefined ? {} : {[names.onUnavailable]: s(onUnavailable)}),
    ...(auditRetentionDays === undefined ? {} : {[names.auditRetentionDays]: n(auditRetentionDays)}),
  }
}

export const hasSettings = (item: Item): boolean => names.onUnavailable in item || names.auditRetentionDays in item

/** Whether an item is marked as a configuration; it may have lost all its limits. */
export const hasConfigVersion = (item: Item): boolean => names.version in item

/** A configuration item without the attributes of its limits. */
export function withoutLimits(item: Item): Item {
  return Object.fromEntries(Object.entries(item).filter(([name]) => !/^l_.+_(cp|ra|rp)$/.test(name)))
}

/** Limits as audit events show them. */
export function limitDetails(limits: readonly Limit[]): Json[] {
  return limits.map(({name, capacity, refillAmount, refillPeriodSeconds}) => ({
    name,
    capacity,
    refill_amount: refillAmount,
    refill_period_seconds: refillPeriodSeconds,
  }))
}

/** The policy of a system configuration, as audit events show it; empty for other scopes. */
export function policyDetails({scope, onUnavailable}: ConfigRecord): {[key: string]: Json} {
  return scope.level === 'system' ? {[names.onUnavailable]: onUnavailable ?? null} : {}
}
