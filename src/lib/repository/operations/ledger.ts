import {ZaelError} from '../../core/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {keys} from '../../schema/keys.js'
import {getItem, type NamespaceTable} from '../table/table.js'
import type {TransactItem} from '../table/transact.js'
import type {BucketOperation} from './operation.js'
import {decodeOperation, encodeOperation, NO_INCARNATION, type OperationRecord, type TokensByLimit} from './record.js'

/** Of several operations with the same id, for the same creation of the entity, one is applied. */
export interface OperationId {
  readonly entity: string
  readonly resource: string
  readonly id: string
  readonly incarnation: string
}

export function operationPut(table: NamespaceTable, record: OperationRecord): TransactItem {
  const e = new ExpressionBuilder()
  const isMissing = `attribute_not_exists(${e.name(attributes.key.partition)})`
  const {incarnation} = record
  // Planted fault: a top-up is made again under its key
  if (incarnation === NO_INCARNATION) e.condition(isMissing)
  else {
    // A record of a deleted entity with the same name does not count, unless it may belong to this one.
    const stored = e.name(attributes.operation.incarnation)
    const isOther = [incarnation, NO_INCARNATION].map(each => `${stored} <> ${e.value(s(each))}`).join(' AND ')
    e.condition(`${isMissing} OR (attribute_exists(${stored}) AND ${isOther})`)
  }
  return {Put: {TableName: table.name, Item: encodeOperation(record), ...e.write()}}
}

export async function findOperation(
  table: NamespaceTable,
  {entity, resource, id, incarnation}: OperationId,
): Promise<OperationRecord | undefined> {
  const item = await getItem(table, keys.operation(table.namespace, entity, resource, id))
  const record = item && decodeOperation(item)
  if (!record) return undefined
  const isOther = incarnation !== NO_INCARNATION && record.incarnation !== NO_INCARNATION
  return isOther && record.incarnation !== incarnation ? undefined : record
}

export function askedOf(operation: BucketOperation): TokensByLimit | undefined {
  if (operation.kind === 'top_up') return operation.amounts
  return operation.limits && new Map([...operation.limits].map(name => [name, 0]))
}

export function requireSameOperation(record: OperationRecord, operation: BucketOperation): void {
  const before = describe(record.operation, record.asked ?? record.amounts)
  if (record.operation !== operation.kind) throw otherOperation(record, before)
  const names = new Set(record.amounts.keys())
  if (operation.kind === 'reset') {
    const {limits} = operation
    // A reset of all limits stores no names: there may be others by now.
    if (!limits && record.asked) throw otherOperation(record, before)
    if (limits && !(limits.size === names.size && [...limits].every(name => names.has(name))))
      throw otherOperation(record, before)
    return
  }
  const isSame = ([name, tokens]: [string, number]) => {
    const asked = record.asked?.get(name)
    if (asked !== undefined) return asked === tokens
    // Other clients store only the amount added, which is less than asked if a limit had no room.
    const added = record.amounts.get(name)
    return added !== undefined && added <= tokens
  }
  const {amounts} = operation
  if (amounts.size !== names.size || ![...amounts].every(isSame)) throw otherOperation(record, before)
}

function describe(kind: OperationRecord['operation'], tokens: ReadonlyMap<string, number>): string {
  if (kind === 'reset') return `a reset of ${[...tokens.keys()].join(', ')}`
  return `a top-up of ${[...tokens].map(([name, count]) => `${name}=${count}`).join(' ')}`
}

function otherOperation({entity, resource, id}: OperationRecord, before: string): ZaelError {
  return new ZaelError(
    'conflict',
    'bucket.key-used',
    `The idempotency key "${id}" stands for ${before} of "${entity}" for "${resource}", which was applied before.`,
    {hint: 'Nothing was changed. Use another key for another change.', details: {entity, resource, idempotencyKey: id}},
  )
}
