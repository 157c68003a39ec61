import type {Level, Limit} from '../core/limits/limit.js'
import {DEFAULT_RESOURCE} from '../core/names.js'
import {
  type AttributeValue,
  bool,
  type Item,
  isoSeconds,
  type Key,
  n,
  readBoolean,
  readNumber,
  readString,
  s,
  texts,
} from './attribute-value.js'
import {attributes, indexes, keyNames} from './attributes.js'
import {encodeConfigLimits, limitAttributesIn, limitOfAttribute, readConfigLimits} from './config-limits.js'
import type {Json} from './json-attribute.js'
import {indexKeys, keys, parseItemKey, wireKey} from './keys.js'
import {type CarriedFeature, configFeatures, unsupportedOf} from './peer-features.js'

/** The scope of a configuration. For all resources of an entity, `resource` is `_default_`. */
export type ConfigScope =
  | {readonly level: 'entity'; readonly entity: string; readonly resource: string}
  | {readonly level: 'resource'; readonly resource: string}
  | {readonly level: 'system'}

export type OnUnavailable = 'allow' | 'block'

export interface ConfigRecord {
  readonly namespace: string
  readonly scope: ConfigScope
  /** Sorted by name. */
  readonly limits: readonly Limit[]
  /** System level only: the policy when the table is unavailable. */
  readonly onUnavailable: OnUnavailable | undefined
  /** System level only: how long audit events are kept. */
  readonly auditRetentionDays: number | undefined
  /** Whether requests are admitted and limits apply; absent if the next level decides. Not at the system level. */
  readonly access?: AccessSwitch | undefined
  /** Epoch ms from which the switch no longer applies; absent if it stays. */
  readonly accessUntilMs?: number | undefined
  /** Why an operator set the switch. */
  readonly accessReason?: string | undefined
  /** The entity was deleted at this instant, ISO 8601. Its id stays blocked. */
  readonly deletedAt?: string | undefined
  /** Whether requests also charge the parent; absent if the next level or the entity decides. Not at system level. */
  readonly cascade?: boolean | undefined
  /** The limits are copies for a boost and expire at this instant, in epoch ms. */
  readonly copiedUntilMs?: number | undefined
  /** Features of its limits that zael does not support. Absent if there are none. */
  readonly unsupported?: readonly CarriedFeature[] | undefined
}

/** `enabled` and `bypass` also override a switch of a less specific level. */
export type AccessSwitch = 'disabled' | 'enabled' | 'bypass'

const names = attributes.config

/** A configuration with one of these is kept when its last limit is removed. */
export const POLICY_ATTRIBUTES: readonly string[] = [names.disabled, names.cascade]

/** Changed only together with the switch. */
export const SWITCH_ATTRIBUTES: readonly string[] = [
  ...POLICY_ATTRIBUTES,
  names.accessUntil,
  names.accessReason,
  names.deletedAt,
]

/** Whether more than `limits` is left: a policy, or limits that cannot be read. */
export function hasMoreThanLimits(item: Item, limits: readonly string[]): boolean {
  const hasOtherLimits = limitAttributesIn(item).some(name => !limits.includes(limitOfAttribute(name)))
  return hasPolicy(item) || hasOtherLimits
}

export const holdsOnlyPolicies = (item: Item): boolean => limitAttributesIn(item).length === 0 && !hasSettings(item)

export const isBlock = (item: Item, nowMs: number): boolean =>
  readBoolean(item, names.disabled) === true && (readNumber(item, names.accessUntil) ?? Infinity) > nowMs

/** Only the block of a deleted entity is left. */
export const isBareBlock = (item: Item, nowMs: number): boolean =>
  isBlock(item, nowMs) && names.deletedAt in item && !(names.cascade in item) && holdsOnlyPolicies(item)

const hasPolicy = (item: Item): boolean => POLICY_ATTRIBUTES.some(name => name in item)

/** A change is written only if these are unchanged since the item was read. */
export function guardedAttributes(item: Item): string[] {
  const [indexKey] = keyNames(indexes.entity)
  const settings = [names.timeZone, names.onUnavailable, names.auditRetentionDays]
  return [...limitAttributesIn(item), ...settings, indexKey, names.revision]
}

/** Some tools write items without the index keys. The registry does not count those either. */
export function isIndexedConfig(item: Item | undefined): boolean {
  return item?.[keyNames(indexes.entity)[0]] !== undefined
}

export function configKey(namespace: string, scope: ConfigScope): Key {
  if (scope.level === 'entity') return keys.entityConfig(namespace, scope.entity, scope.resource)
  return scope.level === 'resource' ? keys.resourceConfig(namespace, scope.resource) : keys.systemConfig(namespace)
}

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
  if (record.access !== undefined) item[names.disabled] = encodeAccess(record.access)
  if (record.accessUntilMs !== undefined) item[names.accessUntil] = n(record.accessUntilMs)
  if (record.accessReason !== undefined) item[names.accessReason] = s(record.accessReason)
  if (record.deletedAt !== undefined) item[names.deletedAt] = s(record.deletedAt)
  if (record.cascade !== undefined) item[names.cascade] = bool(record.cascade)
  if (record.copiedUntilMs !== undefined) item[names.copiedUntil] = n(record.copiedUntilMs)
  Object.assign(item, encodeConfigLimits(record.limits))
  return item
}

/** Index keys may be missing. With `readLimits`, the caller handles unreadable limits. */
export function decodeConfig(item: Item, readLimits = decodeConfigLimits): ConfigRecord | undefined {
  const key = parseItemKey(item)
  if (!key) return undefined
  const onUnavailable = readString(item, names.onUnavailable)
  const accessUntilMs = readNumber(item, names.accessUntil)
  const accessReason = readString(item, names.accessReason)
  const deletedAt = readString(item, names.deletedAt)
  const cascade = readBoolean(item, names.cascade)
  const unsupported = unsupportedOf(configFeatures(item))
  const copiedUntilMs = readNumber(item, names.copiedUntil)
  const rest = {
    limits: readLimits(item),
    onUnavailable: onUnavailable === 'allow' || onUnavailable === 'block' ? onUnavailable : undefined,
    auditRetentionDays: readNumber(item, names.auditRetentionDays),
    ...(names.disabled in item && {access: decodeAccess(item)}),
    ...(accessUntilMs !== undefined && {accessUntilMs}),
    ...(accessReason !== undefined && {accessReason}),
    ...(deletedAt !== undefined && {deletedAt}),
    ...(cascade !== undefined && {cascade}),
    ...(copiedUntilMs !== undefined && {copiedUntilMs}),
    ...(unsupported.length > 0 && {unsupported}),
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

/**
 * Whether the limits were copied for boosts that have all expired. Then the next level applies, even before the
 * clean-up.
 */
export const isCopyOver = ({copiedUntilMs}: Pick<ConfigRecord, 'copiedUntilMs'>, atMs: number): boolean =>
  copiedUntilMs !== undefined && copiedUntilMs <= atMs

/** Without a switch and copied limits that have expired. */
export function countingAt(stored: ConfigRecord | undefined, atMs: number): ConfigRecord | undefined {
  const record = stored && isAccessOver(stored, atMs) ? withoutAccess(stored) : stored
  if (!record) return undefined
  if (!isCopyOver(record, atMs)) return record === stored || saysSomething(record) ? record : undefined
  const {copiedUntilMs: _, unsupported: __, ...rest} = record
  return rest.access === undefined && rest.cascade === undefined ? undefined : {...rest, limits: []}
}

export const isAccessOver = ({accessUntilMs}: Pick<ConfigRecord, 'accessUntilMs'>, atMs: number): boolean =>
  accessUntilMs !== undefined && accessUntilMs <= atMs

function withoutAccess(record: ConfigRecord): ConfigRecord {
  const {access: _, accessUntilMs: __, accessReason: ___, deletedAt: ____, ...rest} = record
  return rest
}

const saysSomething = ({scope, limits, cascade, unsupported}: ConfigRecord): boolean =>
  scope.level === 'system' || limits.length > 0 || cascade !== undefined || unsupported !== undefined

const BYPASS = 'bypass'

function encodeAccess(access: AccessSwitch): AttributeValue {
  return access === 'bypass' ? s(BYPASS) : bool(access === 'disabled')
}

/** An unknown text counts as enabled: limits are enforced. */
function decodeAccess(item: Item): AccessSwitch {
  if (readString(item, names.disabled) === BYPASS) return 'bypass'
  return readBoolean(item, names.disabled) ? 'disabled' : 'enabled'
}

/** Throws on a schedule that cannot be evaluated: without it a different limit would apply. */
export function decodeConfigLimits(item: Item): Limit[] {
  return readConfigLimits(item, (_, error) => {
    throw error
  })
}

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

export const hasConfigVersion = (item: Item): boolean => names.version in item || hasPolicy(item)

/** An omitted field stays; `undefined` lets the next level decide. The end and reason belong to `access`. */
export type Policies = Pick<ConfigRecord, 'access' | 'accessUntilMs' | 'accessReason' | 'cascade'>

/** Remove attributes that are `undefined`. */
export function policyAttributes(policies: Policies): Map<string, AttributeValue | undefined> {
  const {access, accessUntilMs, accessReason, cascade} = policies
  const attributes = new Map<string, AttributeValue | undefined>()
  if ('access' in policies) {
    attributes.set(names.disabled, access && encodeAccess(access))
    attributes.set(names.accessUntil, accessUntilMs === undefined ? undefined : n(accessUntilMs))
    attributes.set(names.accessReason, accessReason === undefined ? undefined : s(accessReason))
    if (access !== 'disabled') attributes.set(names.deletedAt, undefined)
  }
  if ('cascade' in policies) attributes.set(names.cascade, cascade === undefined ? undefined : bool(cascade))
  return attributes
}

export function policiesDetails(policies: Policies, of: Policies = policies): {[key: string]: Json} {
  const {access, accessUntilMs, accessReason, cascade} = of
  const disabled = access === undefined ? null : access === 'bypass' ? access : access === 'disabled'
  return {
    ...('access' in policies && {[names.disabled]: disabled}),
    ...(accessUntilMs !== undefined && of === policies && {until: isoSeconds(accessUntilMs)}),
    ...(accessReason !== undefined && of === policies && {reason: accessReason}),
    ...('cascade' in policies && {[names.cascade]: cascade ?? null}),
  }
}

/** The switch that an audit event set or removed; `undefined` if it changed none. */
export function accessInDetails(details: {
  readonly [key: string]: Json
}): {access: AccessSwitch | undefined} | undefined {
  const {[names.disabled]: disabled} = details
  if (disabled === undefined) return undefined
  return {access: disabled === 'bypass' ? disabled : disabled === null ? undefined : disabled ? 'disabled' : 'enabled'}
}

interface AuditedPolicy {
  readonly name: string
  /** Absent in events of other clients. */
  readonly before: Json | undefined
  readonly after: Json
}

export function policiesInDetails(details: {readonly [key: string]: Json}): {
  policies: readonly AuditedPolicy[]
  others: {readonly [key: string]: Json}
} {
  const {before, ...after} = details
  const isPlain = typeof before === 'object' && before !== null && !Array.isArray(before)
  const policies = POLICY_ATTRIBUTES.flatMap((name): AuditedPolicy[] => {
    const {[name]: value} = after
    return value === undefined ? [] : [{name, before: isPlain ? before[name] : undefined, after: value}]
  })
  const others = Object.fromEntries(Object.entries(after).filter(([name]) => !POLICY_ATTRIBUTES.includes(name)))
  return {
    policies,
    others: policies.length > 0 && isPlain ? others : {...others, ...(before !== undefined && {before})},
  }
}

export function policyDetails({scope, onUnavailable}: ConfigRecord): {[key: string]: Json} {
  return scope.level === 'system' ? {[names.onUnavailable]: onUnavailable ?? null} : {}
}
