import {ExpressionBuilder} from '../../dynamo/expression.js'
import {s} from '../../schema/attribute-value.js'
import {isoSeconds} from '../../schema/instant.js'
import {keys} from '../../schema/keys.js'
import {decodeNamespace, type NamespaceRecord, type NamespaceStatus} from '../../schema/namespace-record.js'
import {type Table, wireKey} from '../table/table.js'
import {type TransactItem, transact} from '../table/transact.js'
import {isRefused} from '../table/transact-items.js'
import {namespaceChanged, namespaceNameTaken} from './errors.js'

/** A namespace as the registry knows it. */
export interface Namespace extends NamespaceRecord {
  /**
   * Active by id, while its name leads nowhere or to another: a client died half way through deleting it (D-31). Such a
   * namespace can be recovered, deleted and purged.
   */
  readonly halfDeleted: boolean
}

/**
 * Takes a namespace from the state it was seen in to another, in one transaction with what becomes of its name: a crash
 * in between cannot leave one without the other.
 */
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

/** Frees the name, provided that it stands for this very namespace. */
export function nameDelete(table: Table, {id, name}: Namespace): TransactItem {
  const e = new ExpressionBuilder()
  e.condition(`${e.name('namespace_id')} = ${e.value(s(id))}`)
  e.condition(`${e.name('status')} = ${e.value(s('active'))}`)
  return {Delete: {TableName: table.name, Key: wireKey(keys.namespaceByName(name)), ...e.write()}}
}

/** Makes sure that the name does not stand for this namespace. */
export function nameElsewhere(table: Table, {id, name}: Namespace): TransactItem {
  const e = new ExpressionBuilder()
  e.condition(`attribute_not_exists(${e.name('PK')}) OR ${e.name('namespace_id')} <> ${e.value(s(id))}`)
  return {ConditionCheck: {TableName: table.name, Key: wireKey(keys.namespaceByName(name)), ...e.write()}}
}

function byIdUpdate(table: Table, seen: Namespace, {id, status, deletedAt}: Namespace): TransactItem {
  const e = new ExpressionBuilder()
  e.set('status', s(status))
  if (deletedAt === undefined) e.remove('deleted_at')
  else e.set('deleted_at', s(deletedAt))
  e.condition(`${e.name('status')} = ${e.value(s(seen.status))}`)
  return {Update: {TableName: table.name, Key: wireKey(keys.namespaceById(id)), ...e.update()}}
}
