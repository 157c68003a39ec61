import {decodeEntity, type EntityRecord} from '../../schema/entity-record.js'
import {keys} from '../../schema/keys.js'
import {getItem, type NamespaceTable} from '../table/table.js'

/** The record of an entity as it is now; `undefined` when there is none. */
export async function readEntity(table: NamespaceTable, entity: string): Promise<EntityRecord | undefined> {
  const item = await getItem(table, keys.entity(table.namespace, entity))
  return item && decodeEntity(item)
}
