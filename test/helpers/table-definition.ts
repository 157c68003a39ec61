import {loadTableDefinition, type TableDefinition, type TableOptions} from '../../src/lib/schema/table-definition.js'

const definitions = new Map<string, Promise<TableDefinition>>()

/** As `loadTableDefinition`, which reads the whole template, once for all tables of the same kind. */
export async function definitionOf({tableName, ...kind}: TableOptions): Promise<TableDefinition> {
  const key = JSON.stringify(kind)
  const loaded = definitions.get(key) ?? loadTableDefinition({tableName, ...kind})
  definitions.set(key, loaded)
  const {create, ttlAttribute} = await loaded
  return {create: {...create, TableName: tableName}, ttlAttribute}
}
