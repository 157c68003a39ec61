import {ExpressionBuilder} from '../../dynamo/expression.js'
import {type Item, type Key, n} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {type ConfigScope, isIndexedConfig} from '../../schema/config-record.js'
import {keys, wireKey} from '../../schema/keys.js'
import {decodeEntityConfigRegistry, registryIndexKeys} from '../../schema/registry-records.js'
import {getItem, type NamespaceTable} from '../table/table.js'
import type {TransactItem} from '../table/transact.js'

/**
 * Registries hold which resources have limits of their own, and how many entities have limits per resource. They change
 * in the transaction that changes the configuration, so they are exact.
 */

export function registerConfig(table: NamespaceTable, scope: ConfigScope, before: Item | undefined): TransactItem[] {
  if (scope.level === 'system' || (scope.level === 'entity' && isIndexedConfig(before))) return []
  const e = new ExpressionBuilder()
  if (scope.level === 'entity') e.add(scope.resource, n(1))
  else e.add(attributes.registry.resources, {SS: [scope.resource]})
  return [registryUpdate(table, scope, e)]
}

/** The registry's part in deleting a configuration; with the last entity of a resource its count is removed. */
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
  const key = registryKey(table.namespace, scope)
  for (const [name, value] of Object.entries(registryIndexKeys(table.namespace))) e.setIfMissing(name, value)
  const {UpdateExpression = '', ...rest} = e.update()
  return {Update: {TableName: table.name, Key: wireKey(key), UpdateExpression, ...rest}}
}

function registryKey(namespace: string, {level}: ConfigScope): Key {
  return level === 'entity' ? keys.entityConfigRegistry(namespace) : keys.resourceRegistry(namespace)
}
