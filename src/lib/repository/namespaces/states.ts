import {ExpressionBuilder} from '../../dynamo/expression.js'
import {s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {keys, wireKey} from '../../schema/keys.js'
import {decodeNamespace, type NamespaceRecord, type NamespaceStatus} from '../../schema/namespace-record.js'
import {isoSeconds} from '../../schema/read.js'
import type {Table} from '../table/table.js'
import {isRefused, type TransactItem, transact} from '../table/transact.js'
import {namespaceChanged, namespaceNameTaken} from './errors.js'

const names = attributes.namespace

/** A namespace in the registry. */
export interface Namespace extends NamespaceRecord {
  /** Active by id, without its name: a client crashed deleting it (D-31). Can be recovered, deleted or purged. */
  readonly halfDeleted: boolean
  /** Only records exist: a client wrote them after a purge, or with an id that was never registered. */
  readonly isUnregistered?: true
}

/** One transaction with the change of the name, so a crash cannot separate them. Refused if changed since the read. */
export async function changeState(
  table: Table,
  seen: Namespace,
  status: NamespaceStatus,
  ofName?: TransactItem,
): Promise<Namespace> {
  const deletedAt = status === 'active' ? undefined : (seen.deletedAt ?? isoSeconds(table.clock()))
  const after = {...seen, status, deletedAt, halfDeleted: false}
  try {
    await transact(table, [...(ofName ? [ofName] : []), byIdUpdate(table, seen, after)])
    return after
  } catch (error) {
    if (!isRefused(error)) throw error
    if (!ofName?.Put || !isRefused(error, 0)) throw namespaceChanged(seen, error)
    const takenBy = error.reasons[0]?.oldItem
    throw namespaceNameTaken(seen, takenBy && decodeNamespace(takenBy)?.id)
  }
}

export function nameDelete(table: Table, {id, name}: Namespace): TransactItem {
  const e = new ExpressionBuilder()
  e.condition(`${e.name(names.id)} = ${e.value(s(id))}`)
  e.condition(`${e.name(names.status)} = ${e.value(s('active'))}`)
  return {Delete: {TableName: table.name, Key: wireKey(keys.namespaceByName(name)), ...e.write()}}
}

export function nameElsewhere(table: Table, {id, name}: Namespace): TransactItem {
  const e = new ExpressionBuilder()
  e.condition(`attribute_not_exists(${e.name(attributes.key.partition)}) OR ${e.name(names.id)} <> ${e.value(s(id))}`)
  return {ConditionCheck: {TableName: table.name, Key: wireKey(keys.namespaceByName(name)), ...e.write()}}
}

function byIdUpdate(table: Table, seen: Namespace, {id, status, deletedAt}: Namespace): TransactItem {
  const e = new ExpressionBuilder()
  e.set(names.status, s(status))
  if (deletedAt === undefined) e.remove(names.deletedAt)
  else e.set(names.deletedAt, s(deletedAt))
  e.condition(`${e.name(names.status)} = ${e.value(s(seen.status))}`)
  return {Update: {TableName: table.name, Key: wireKey(keys.namespaceById(id)), ...e.update()}}
}
