import type {Limit} from '../../core/limit.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {type AttributeValue, type Item, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {
  type ConfigRecord,
  configKey,
  encodeConfig,
  guardedAttributes,
  limitAttributesIn,
  limitOfAttribute,
} from '../../schema/config-record.js'
import {wireKey, withoutKey} from '../../schema/keys.js'
import type {NamespaceTable} from '../table/table.js'
import type {TransactItem} from '../table/transact.js'

const names = attributes.config

/**
 * Makes the stored configuration equal to `after`, if it is unchanged since it was read. Attributes that are not zael's
 * stay: other tools keep theirs in the same item (D-30). `given` are the limits being set now.
 */
export function updateConfig(
  table: NamespaceTable,
  before: Item | undefined,
  after: ConfigRecord,
  given: readonly Limit[],
): TransactItem {
  const e = new ExpressionBuilder()
  requireUnchanged(e, before)
  const {[names.version]: version, ...written} = withoutKey(encodeConfig(after))
  for (const [name, value] of Object.entries(written)) e.set(name, value)
  e.setIfMissing(names.version, version as AttributeValue)
  const kept = new Set(after.limits.map(limit => limit.name))
  for (const {name} of given) kept.delete(name)
  for (const name of limitAttributesIn(before)) {
    // Setting a limit removes what older clients stored of it, such as a burst that would override its capacity.
    if (!(name in written) && !kept.has(limitOfAttribute(name))) e.remove(name)
  }
  return revisedUpdate(table, after, e)
}

/** Removes the limits and the outage policy from the system's configuration; retention and foreign attributes stay. */
export function clearConfig(table: NamespaceTable, before: Item, {namespace, scope}: ConfigRecord): TransactItem {
  const e = new ExpressionBuilder()
  requireUnchanged(e, before)
  for (const name of [...limitAttributesIn(before), names.onUnavailable]) e.remove(name)
  return revisedUpdate(table, {namespace, scope}, e)
}

/** Deletes the whole configuration, if it is unchanged since it was read. */
export function deleteConfig(table: NamespaceTable, before: Item, {namespace, scope}: ConfigRecord): TransactItem {
  const e = new ExpressionBuilder()
  requireUnchanged(e, before)
  return {Delete: {TableName: table.name, Key: wireKey(configKey(namespace, scope)), ...e.write()}}
}

function requireUnchanged(e: ExpressionBuilder, before: Item | undefined): void {
  const key = e.name(attributes.key.partition)
  if (before === undefined) {
    e.condition(`attribute_not_exists(${key})`)
    return
  }
  e.condition(`attribute_exists(${key})`)
  for (const name of guardedAttributes(before)) {
    const value = before[name]
    e.condition(value ? `${e.name(name)} = ${e.value(value)}` : `attribute_not_exists(${e.name(name)})`)
  }
}

function revisedUpdate(
  table: NamespaceTable,
  {namespace, scope}: Pick<ConfigRecord, 'namespace' | 'scope'>,
  e: ExpressionBuilder,
) {
  e.set(names.revision, s(Buffer.from(table.randomBytes(8)).toString('base64url')))
  const {UpdateExpression = '', ...rest} = e.update()
  return {Update: {TableName: table.name, Key: wireKey(configKey(namespace, scope)), UpdateExpression, ...rest}}
}
