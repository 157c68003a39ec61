import type {Limit} from '../../core/limit.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {type AttributeValue, type Item, s} from '../../schema/attribute-value.js'
import {type ConfigRecord, configKey, encodeConfig} from '../../schema/config-record.js'
import {type NamespaceTable, wireKey} from '../table/table.js'
import type {TransactItem} from '../table/transact.js'

/** Tells one write of a configuration from every other; clients that put whole items drop it, which tells too. */
const REVISION = 'rev'

const SYSTEM_OPTIONS = ['on_unavailable', 'audit_retention_days'] as const

/**
 * Makes the stored configuration equal to `after`, if it still is as it was read. Attributes that are not zael's are
 * left alone: other tools keep theirs in the same item (D-30). `given` are the limits being set now.
 */
export function updateConfig(
  table: NamespaceTable,
  before: Item | undefined,
  after: ConfigRecord,
  given: readonly Limit[],
): TransactItem {
  const e = new ExpressionBuilder()
  guardUnchanged(e, before)
  const {PK: _, SK: __, config_version, ...attributes} = encodeConfig(after)
  for (const [name, value] of Object.entries(attributes)) e.set(name, value)
  e.setIfMissing('config_version', config_version as AttributeValue)
  const kept = new Set(after.limits.map(limit => limit.name))
  for (const {name} of given) kept.delete(name)
  for (const name of limitAttributes(before)) {
    // A limit that is set anew loses what older clients kept of it, such as a burst that would override its capacity.
    if (!(name in attributes) && !kept.has(limitOf(name))) e.remove(name)
  }
  return finish(table, after, e)
}

/** Takes the limits and the outage policy out of the system's configuration; retention and foreign attributes stay. */
export function clearConfig(table: NamespaceTable, before: Item, {namespace, scope}: ConfigRecord): TransactItem {
  const e = new ExpressionBuilder()
  guardUnchanged(e, before)
  for (const name of [...limitAttributes(before), 'on_unavailable']) e.remove(name)
  return finish(table, {namespace, scope}, e)
}

/** Deletes the whole configuration, if it still is as it was read. */
export function deleteConfig(table: NamespaceTable, before: Item, {namespace, scope}: ConfigRecord): TransactItem {
  const e = new ExpressionBuilder()
  guardUnchanged(e, before)
  return {Delete: {TableName: table.name, Key: wireKey(configKey(namespace, scope)), ...e.write()}}
}

function guardUnchanged(e: ExpressionBuilder, before: Item | undefined): void {
  if (before === undefined) {
    e.condition(`attribute_not_exists(${e.name('PK')})`)
    return
  }
  e.condition(`attribute_exists(${e.name('PK')})`)
  for (const name of [...limitAttributes(before), ...SYSTEM_OPTIONS, 'GSI3PK', REVISION]) {
    const value = before[name]
    e.condition(value ? `${e.name(name)} = ${e.value(value)}` : `attribute_not_exists(${e.name(name)})`)
  }
}

function finish(
  table: NamespaceTable,
  {namespace, scope}: Pick<ConfigRecord, 'namespace' | 'scope'>,
  e: ExpressionBuilder,
) {
  e.set(REVISION, s(Buffer.from(table.randomBytes(8)).toString('base64url')))
  const {UpdateExpression = '', ...rest} = e.update()
  return {Update: {TableName: table.name, Key: wireKey(configKey(namespace, scope)), UpdateExpression, ...rest}}
}

const limitAttributes = (item: Item = {}): string[] => Object.keys(item).filter(name => /^l_.+_/.test(name))

const limitOf = (attribute: string): string => attribute.slice(2, attribute.lastIndexOf('_'))
