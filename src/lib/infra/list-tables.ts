import {TableMissing} from '../dynamo/errors.js'
import type {Transport} from '../dynamo/transport.js'
import {isoSeconds} from '../schema/instant.js'
import type {ListedStack} from './list-stacks.js'

/** The tables of a local engine that have the indexes of a limiter; nobody there knows which tool made them. */
export async function listTables(transport: Transport): Promise<ListedStack[]> {
  const found: ListedStack[] = []
  let after: string | undefined
  do {
    const page = await transport.send('ListTables', after === undefined ? {} : {ExclusiveStartTableName: after})
    for (const name of page.TableNames ?? []) found.push(...(await listed(transport, name)))
    after = page.LastEvaluatedTableName
  } while (after !== undefined)
  return found
}

async function listed(transport: Transport, name: string): Promise<ListedStack[]> {
  const {Table: table} = await transport.send('DescribeTable', {TableName: name}).catch(error => {
    // Deleted since it was listed.
    if (error instanceof TableMissing) return {Table: undefined}
    throw error
  })
  if (!table?.GlobalSecondaryIndexes?.some(({IndexName}) => IndexName === 'GSI4')) return []
  const createdAt = table.CreationDateTime ? isoSeconds(table.CreationDateTime.getTime()) : null
  const unknown = {region: null, tool: null, version: null, schemaVersion: null, updatedAt: null}
  return [{name, status: table.TableStatus ?? '', createdAt, ...unknown}]
}
