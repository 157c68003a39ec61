import {InvalidInput, ZaelError} from '../../core/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {decodeEntity, type EntityRecord} from '../../schema/entity-record.js'
import {keys, wireKey} from '../../schema/keys.js'
import {ranges} from '../../schema/ranges.js'
import {decodeRange} from '../table/query.js'
import {getItem, type NamespaceTable} from '../table/table.js'
import type {TransactItem} from '../table/transact.js'

// Leaves room for the entity and its audit event within the 100 items of a transaction.
const MOST_ANCESTORS = 64

interface Ancestor {
  readonly entity: string
  /** `undefined` if it does not exist: other clients do not check parents. */
  readonly record: EntityRecord | undefined
}

export async function readEntity(table: NamespaceTable, entity: string): Promise<EntityRecord | undefined> {
  const item = await getItem(table, keys.entity(table.namespace, entity))
  return item && decodeEntity(item)
}

/** The entity and its ancestors, up to a missing parent or a cycle. */
export async function climb(table: NamespaceTable, entity: string): Promise<Ancestor[]> {
  const path: Ancestor[] = []
  let next: string | undefined = entity
  while (next !== undefined && path.length <= MOST_ANCESTORS && !path.some(each => each.entity === next)) {
    const record: EntityRecord | undefined = await readEntity(table, next)
    path.push({entity: next, record})
    next = record?.parent
  }
  return path
}

/** By id; from an index, so eventually consistent. */
export function readChildren(table: NamespaceTable, parent: string): Promise<EntityRecord[]> {
  return decodeRange(table, ranges.children(table.namespace, parent), decodeEntity)
}

/** Returns checks for the transaction that sets the parent. They also stop concurrent moves from creating a cycle. */
export async function checkParent(table: NamespaceTable, entity: string, parent: string): Promise<TransactItem[]> {
  if (parent === entity) throw selfParent(entity)
  const ancestors = await climb(table, parent)
  if (!ancestors[0]?.record) throw parentMissing(entity, parent)
  if (ancestors.length > MOST_ANCESTORS) throw tooDeep(entity, MOST_ANCESTORS)
  const path = [entity, ...ancestors.map(each => each.entity)]
  const top = ancestors.at(-1)?.record?.parent
  const meets = path.indexOf(entity, 1)
  if (meets > 0) throw parentCycle(entity, path.slice(0, meets + 1))
  if (top !== undefined) throw parentCycle(entity, [...path.slice(path.indexOf(top)), top])
  return ancestors.map(ancestor => requireParent(table, ancestor))
}

function requireParent(table: NamespaceTable, {entity, record}: Ancestor): TransactItem {
  const e = new ExpressionBuilder()
  const parent = record?.parent
  if (parent !== undefined) e.require(attributes.entity.parent, parent)
  else if (record) e.exists()
  else e.absent()
  // Without a parent the attribute is NULL or missing.
  if (record && parent === undefined)
    e.condition(`NOT attribute_type(${e.name(attributes.entity.parent)}, ${e.value(s('S'))})`)
  return {ConditionCheck: {TableName: table.name, Key: wireKey(keys.entity(table.namespace, entity)), ...e.write()}}
}

const NAMED_CHILDREN = 5

export function entityMissing(entity: string): ZaelError {
  return new ZaelError('notFound', 'entity.missing', `Entity ${JSON.stringify(entity)} does not exist.`, {
    hint: 'Check the spelling, or create it.',
    details: {entity},
  })
}

/** Nothing is left but its block. */
export function entityDeleted(entity: string): ZaelError {
  const message = `Entity ${JSON.stringify(entity)} is already deleted. It stays blocked.`
  return new ZaelError('notFound', 'entity.deleted', message, {
    hint: 'Remove its switch to lift the block.',
    details: {entity},
  })
}

export function entityExists(entity: string): ZaelError {
  return new ZaelError('conflict', 'entity.exists', `Entity ${JSON.stringify(entity)} already exists.`, {
    hint: 'Update it instead.',
    details: {entity},
  })
}

export function entityChanged(entity: string, expected: number, version: number): ZaelError {
  const reason = `Entity ${JSON.stringify(entity)} has version ${version}, not ${expected}: another client changed it.`
  return new ZaelError('conflict', 'entity.version', reason, {
    hint: 'Read it again, then try again.',
    details: {entity, expected, version},
  })
}

function parentMissing(entity: string, parent: string): ZaelError {
  const reason = `The parent ${JSON.stringify(parent)} of entity ${JSON.stringify(entity)} does not exist.`
  return new ZaelError('notFound', 'entity.parent-missing', reason, {
    hint: 'Create the parent first.',
    details: {entity, parent},
  })
}

function selfParent(entity: string): InvalidInput {
  return new InvalidInput('entity.self-parent', `Entity ${JSON.stringify(entity)} cannot be its own parent.`, {
    details: {entity},
  })
}

function parentCycle(entity: string, path: readonly string[]): ZaelError {
  const reason = `Entity ${JSON.stringify(entity)} cannot have that parent: the parents would form a cycle`
  return new ZaelError('conflict', 'entity.cycle', `${reason} (${path.join(' → ')}).`, {
    hint: 'Choose another parent, or first remove a parent from one of these entities.',
    details: {entity, path},
  })
}

function tooDeep(entity: string, levels: number): ZaelError {
  const message = `Entity ${JSON.stringify(entity)} would have more than ${levels} ancestors.`
  return new ZaelError('conflict', 'entity.too-deep', message, {
    hint: 'Requests charge at most eight levels. Choose a parent closer to the top.',
    details: {entity, levels},
  })
}

export function hasChildren(entity: string, children: readonly string[]): ZaelError {
  const more = children.length - NAMED_CHILDREN
  const names = children.slice(0, NAMED_CHILDREN).join(', ') + (more > 0 ? ` and ${more} more` : '')
  const message = `Entity ${JSON.stringify(entity)} is the parent of ${names}.`
  return new ZaelError('conflict', 'entity.has-children', message, {
    hint: 'Delete them first, or give them another parent.',
    details: {entity, children},
  })
}
