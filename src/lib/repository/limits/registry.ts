import {ExpressionBuilder} from '../../dynamo/expression.js'
import {type Item, type Key, n, s} from '../../schema/attribute-value.js'
import type {ConfigScope} from '../../schema/config-record.js'
import {indexKeys, keys} from '../../schema/keys.js'
import {decodeEntityConfigRegistry} from '../../schema/registry-records.js'
import {getItem, type NamespaceTable, wireKey} from '../table/table.js'
import type {TransactItem} from '../table/transact.js'

/**
 * Registries tell which resources have limits of their own, and how many entities have limits per resource. They change
 * in the transaction that changes the configuration, so they are exact. A configuration of another tool that is in no
 * registry is not in the index of entity configurations either; that is how it is told apart.
 */
const isCounted = (item: Item | undefined): boolean => item?.GSI3PK !== undefined

/** The registry's part in writing a configuration, if it has one; `before` is the stored configuration. */
export function registerConfig(table: NamespaceTable, scope: ConfigScope, before: Item | undefined): TransactItem[] {
  if (scope.level === 'system' || (scope.level === 'entity' && isCounted(before))) return []
  const e = new ExpressionBuilder()
  if (scope.level === 'entity') e.add(scope.resource, n(1))
  else e.add('resources', {SS: [scope.resource]})
  return [registryUpdate(table, scope, e)]
}

/** The registry's part in deleting a configuration; the last entity of a resource takes the resource's count with it. */
export async function unregisterConfig(
  table: NamespaceTable,
  scope: ConfigScope,
  before: Item,
): Promise<TransactItem[]> {
  if (scope.level === 'system' || (scope.level === 'entity' && !isCounted(before))) return []
  const e = new ExpressionBuilder()
  if (scope.level === 'resource') {
    e.delete('resources', {SS: [scope.resource]})
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
  const {GSI4PK, GSI4SK} = indexKeys.inNamespace(table.namespace, key.PK)
  e.setIfMissing('GSI4PK', s(GSI4PK)).setIfMissing('GSI4SK', s(GSI4SK))
  const {UpdateExpression = '', ...rest} = e.update()
  return {Update: {TableName: table.name, Key: wireKey(key), UpdateExpression, ...rest}}
}

function registryKey(namespace: string, {level}: ConfigScope): Key {
  return level === 'entity' ? keys.entityConfigRegistry(namespace) : keys.resourceRegistry(namespace)
}
