import {ExpressionBuilder} from '../../dynamo/expression.js'
import {s} from '../../schema/attribute-value.js'
import {decodeEntity, type EntityRecord} from '../../schema/entity-record.js'
import {indexKeys, keys} from '../../schema/keys.js'
import {readAll} from '../table/query.js'
import {type NamespaceTable, wireKey} from '../table/table.js'
import type {TransactItem} from '../table/transact.js'
import {parentCycle, parentMissing, selfParent, tooDeep} from './errors.js'
import {readEntity} from './read.js'

// Leaves room for the entity and its audit event among the hundred items of a transaction.
const MOST_ANCESTORS = 64

/** One entity on the way up. */
interface Ancestor {
  readonly entity: string
  /** `undefined` when it does not exist: other clients do not check parents. */
  readonly record: EntityRecord | undefined
}

/** From an entity upwards, itself first, until there is no parent, or it does not exist, or the way leads in a circle. */
export async function climb(table: NamespaceTable, entity: string): Promise<Ancestor[]> {
  const way: Ancestor[] = []
  let next: string | undefined = entity
  while (next !== undefined && way.length <= MOST_ANCESTORS && !way.some(each => each.entity === next)) {
    const record: EntityRecord | undefined = await readEntity(table, next)
    way.push({entity: next, record})
    next = record?.parent
  }
  return way
}

/** The direct children of an entity, by id. They come from an index, which knows a change a moment later. */
export async function readChildren(table: NamespaceTable, parent: string): Promise<EntityRecord[]> {
  const {GSI1PK} = indexKeys.child(table.namespace, parent, '')
  const children: EntityRecord[] = []
  for await (const item of readAll(table, {index: 'GSI1', partition: GSI1PK})) {
    const record = decodeEntity(item)
    if (record) children.push(record)
  }
  return children
}

/**
 * Checks that an entity may have a parent. The result belongs into the transaction that sets it: it holds only if none
 * of the ancestors has got another parent meanwhile, so two changes at once cannot close a circle either.
 */
export async function checkParent(table: NamespaceTable, entity: string, parent: string): Promise<TransactItem[]> {
  if (parent === entity) throw selfParent(entity)
  const way = await climb(table, parent)
  if (!way[0]?.record) throw parentMissing(entity, parent)
  if (way.length > MOST_ANCESTORS) throw tooDeep(entity, MOST_ANCESTORS)
  const path = [entity, ...way.map(each => each.entity)]
  const top = way.at(-1)?.record?.parent
  const meets = path.indexOf(entity, 1)
  if (meets > 0) throw parentCycle(entity, path.slice(0, meets + 1))
  if (top !== undefined) throw parentCycle(entity, [...path.slice(path.indexOf(top)), top])
  return way.map(ancestor => unchanged(table, ancestor))
}

function unchanged(table: NamespaceTable, {entity, record}: Ancestor): TransactItem {
  const e = new ExpressionBuilder()
  const parent = record?.parent
  if (parent !== undefined) e.condition(`${e.name('parent_id')} = ${e.value(s(parent))}`)
  else e.condition(`${record ? '' : 'NOT '}attribute_exists(${e.name('PK')})`)
  // Without a parent the attribute is NULL or missing.
  if (record && parent === undefined) e.condition(`NOT attribute_type(${e.name('parent_id')}, ${e.value(s('S'))})`)
  return {ConditionCheck: {TableName: table.name, Key: wireKey(keys.entity(table.namespace, entity)), ...e.write()}}
}
