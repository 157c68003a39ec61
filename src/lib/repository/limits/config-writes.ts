import type {Limit} from '../../core/limits/limit.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {type AttributeValue, type Item, isoSeconds, type Key, n, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {limitDetails, resourceSubject, SYSTEM_SUBJECT} from '../../schema/audit-record.js'
import {isOtherForm, limitAttributesIn, limitOfAttribute, staleTimeZone} from '../../schema/config-limits.js'
import {
  type ConfigRecord,
  type ConfigScope,
  configKey,
  encodeConfig,
  guardedAttributes,
  isIndexedConfig,
  POLICY_ATTRIBUTES,
  type Policies,
  policiesDetails,
  policyAttributes,
  policyDetails,
  SWITCH_ATTRIBUTES,
} from '../../schema/config-record.js'
import {keys, wireKey, withoutKey} from '../../schema/keys.js'
import {decodeEntityConfigRegistry, registryIndexKeys} from '../../schema/registry-records.js'
import type {AuditEvent} from '../table/audit.js'
import {getItem, type NamespaceTable} from '../table/table.js'
import {type TransactItem, updateItem} from '../table/transact.js'

const names = attributes.config

/** Keeps other tools' attributes (D-30). Replaced limits keep only `after`: a burst would override the capacity. */
export function updateConfig(
  table: NamespaceTable,
  before: Item | undefined,
  after: ConfigRecord,
  isReplaced: (limit: string) => boolean,
  policies: Policies = {},
): TransactItem {
  const e = new ExpressionBuilder()
  requireUnchanged(e, before)
  const {[names.version]: version, ...written} = withoutKey(encodeConfig(after))
  const isKept = (name: string): boolean =>
    before !== undefined &&
    name in before &&
    limitAttributesIn(written).includes(name) &&
    !isReplaced(limitOfAttribute(name))
  // Setting an omitted policy would undo a concurrent change. Limits not replaced stay as another client wrote them.
  for (const [name, value] of Object.entries(written))
    if (!SWITCH_ATTRIBUTES.includes(name) && !isKept(name)) e.set(name, value)
  e.setIfMissing(names.version, version as AttributeValue)
  // A limit that became a session quota, or stopped being one, is stored under other names (G4).
  const stale = limitAttributesIn(before).filter(
    name => !(name in written) && (isReplaced(limitOfAttribute(name)) || isOtherForm(name, written)),
  )
  for (const name of [...stale, ...staleTimeZone(before ?? {}, stale, written)]) e.remove(name)
  if (before && names.copiedUntil in before && !(names.copiedUntil in written)) e.remove(names.copiedUntil)
  storePolicies(e, policies)
  return revisedUpdate(table, after, e)
}

export function updatePolicies(
  table: NamespaceTable,
  before: Item | undefined,
  after: ConfigRecord,
  policies: Policies,
): TransactItem {
  const e = new ExpressionBuilder()
  requireUnchanged(e, before)
  const identity = withoutKey(encodeConfig({...after, limits: [], copiedUntilMs: undefined}))
  for (const [name, value] of Object.entries(identity))
    if (!SWITCH_ATTRIBUTES.includes(name)) e.setIfMissing(name, value)
  storePolicies(e, policies)
  return revisedUpdate(table, after, e)
}

function storePolicies(e: ExpressionBuilder, policies: Policies): void {
  for (const [name, value] of policyAttributes(policies)) e.store(name, value)
}

/** Removes the limits and the outage policy; keeps retention, policies and foreign attributes. */
export function clearConfig(table: NamespaceTable, before: Item, {namespace, scope}: ConfigRecord): TransactItem {
  const e = new ExpressionBuilder()
  requireUnchanged(e, before)
  const limits = limitAttributesIn(before)
  for (const name of [...limits, ...staleTimeZone(before, limits), names.onUnavailable, names.copiedUntil])
    e.remove(name)
  return revisedUpdate(table, {namespace, scope}, e)
}

/** Keeps only the switch of a deleted entity. Refused if the item changed since it was read, or the block was lifted. */
export function keepBlock(table: NamespaceTable, before: Item, {namespace, scope}: ConfigRecord): TransactItem {
  const e = new ExpressionBuilder()
  requireUnchanged(e, before)
  requirePolicies(e, before)
  const limits = limitAttributesIn(before)
  for (const name of [...limits, ...staleTimeZone(before, limits), names.copiedUntil, names.cascade]) e.remove(name)
  e.set(names.deletedAt, s(isoSeconds(table.clock())))
  return revisedUpdate(table, {namespace, scope}, e)
}

/** Refused if the item or a policy changed since it was read. */
export function deleteConfig(table: NamespaceTable, before: Item, {namespace, scope}: ConfigRecord): TransactItem {
  const e = new ExpressionBuilder()
  requireUnchanged(e, before)
  requirePolicies(e, before)
  return {Delete: {TableName: table.name, Key: wireKey(configKey(namespace, scope)), ...e.write()}}
}

export function unchangedCheck(table: NamespaceTable, key: Key, before: Item | undefined): TransactItem {
  const e = new ExpressionBuilder()
  requireUnchanged(e, before)
  return {ConditionCheck: {TableName: table.name, Key: wireKey(key), ...e.write()}}
}

function requireUnchanged(e: ExpressionBuilder, before: Item | undefined): void {
  if (before) requireValues(e.exists(), before, guardedAttributes(before))
  else e.absent()
}

const requirePolicies = (e: ExpressionBuilder, before: Item): void => requireValues(e, before, POLICY_ATTRIBUTES)

function requireValues(e: ExpressionBuilder, before: Item, attributes: readonly string[]): void {
  for (const name of attributes) e.require(name, before[name])
}

function revisedUpdate(
  table: NamespaceTable,
  {namespace, scope}: Pick<ConfigRecord, 'namespace' | 'scope'>,
  e: ExpressionBuilder,
) {
  e.set(names.revision, s(Buffer.from(table.randomBytes(8)).toString('base64url')))
  return updateItem({TableName: table.name, Key: wireKey(configKey(namespace, scope)), ...e.update()})
}

export function setEvent(after: ConfigRecord, before: ConfigRecord | undefined, policies: Policies = {}): AuditEvent {
  const limits = {limits: limitDetails(after.limits), before: limitDetails(before?.limits ?? [])}
  const details = {...limits, ...policyDetails(after), ...policiesDetails(policies)}
  return {...subjectOf(after.scope), action: 'limits_set', details}
}

export function policyEvent(after: ConfigRecord, before: ConfigRecord | undefined, policies: Policies): AuditEvent {
  const details = {...policiesDetails(policies), before: policiesDetails(policies, before ?? {})}
  return {...subjectOf(after.scope), action: 'limits_set', details}
}

export const removedPolicies = ({access, cascade}: ConfigRecord): Policies => ({
  ...(access !== undefined && {access: undefined}),
  ...(cascade !== undefined && {cascade: undefined}),
})

export function deletedEvent(before: ConfigRecord, removed: Policies): AuditEvent {
  const names = before.scope.level === 'system' ? {limits: before.limits.map(limit => limit.name)} : {}
  const policies = {...policyDetails(before), ...policiesDetails(removed)}
  const details = {...names, ...policies, before: limitDetails(before.limits)}
  return {...subjectOf(before.scope), action: 'limits_deleted', details}
}

/** `after` is empty if a copy ended with the boost. */
export function boostEndedEvent(before: ConfigRecord, after: readonly Limit[]): AuditEvent {
  const details = {limits: limitDetails(after), before: limitDetails(before.limits)}
  return {...subjectOf(before.scope), action: 'limits_boost_ended', details}
}

function subjectOf(scope: ConfigScope): Pick<AuditEvent, 'entity' | 'resource'> {
  if (scope.level === 'system') return {entity: SYSTEM_SUBJECT}
  const {resource} = scope
  return {entity: scope.level === 'entity' ? scope.entity : resourceSubject(resource), resource}
}

/** Registries list resources with limits and count entities per resource. The shared transaction keeps them exact. */
export function registerConfig(table: NamespaceTable, scope: ConfigScope, before: Item | undefined): TransactItem[] {
  if (scope.level === 'system' || (scope.level === 'entity' && isIndexedConfig(before))) return []
  const e = new ExpressionBuilder()
  if (scope.level === 'entity') e.add(scope.resource, n(1))
  else e.add(attributes.registry.resources, {SS: [scope.resource]})
  return [registryUpdate(table, scope, e)]
}

export async function unregisterConfig(
  table: NamespaceTable,
  scope: ConfigScope,
  before: Item,
): Promise<TransactItem[]> {
  if (scope.level === 'system' || (scope.level === 'entity' && !isIndexedConfig(before))) return []
  const e = new ExpressionBuilder()
  if (scope.level === 'resource') {
    e.delete(attributes.registry.resources, {SS: [scope.resource]})
    return [registryUpdate(table, scope, e)]
  }
  const registry = await getItem(table, keys.entityConfigRegistry(table.namespace))
  const count = (registry && decodeEntityConfigRegistry(registry)?.counts.get(scope.resource)) ?? 0
  const name = e.name(scope.resource)
  const one = e.value(n(1))
  if (count > 1) e.add(scope.resource, n(-1)).condition(`${name} > ${one}`)
  else e.remove(scope.resource).condition(`attribute_not_exists(${name}) OR ${name} <= ${one}`)
  return [registryUpdate(table, scope, e)]
}

function registryUpdate(table: NamespaceTable, scope: ConfigScope, e: ExpressionBuilder): TransactItem {
  for (const [name, value] of Object.entries(registryIndexKeys(table.namespace))) e.setIfMissing(name, value)
  const key = scope.level === 'entity' ? keys.entityConfigRegistry : keys.resourceRegistry
  return updateItem({TableName: table.name, Key: wireKey(key(table.namespace)), ...e.update()})
}
