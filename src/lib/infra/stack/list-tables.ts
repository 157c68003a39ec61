import {TableMissing, ValidationFailed} from '../../dynamo/errors.js'
import type {Transport} from '../../dynamo/transport.js'
import {openTable} from '../../repository/table/open-table.js'
import {readVersion} from '../../repository/table/version.js'
import {indexes} from '../../schema/attributes.js'
import {isoSeconds} from '../../schema/read.js'
import type {ListedStack} from './list-stacks.js'

/** The tables of a local engine that have a limiter's indexes; their version records tell which tool created them. */
export async function listTables(transport: Transport): Promise<ListedStack[]> {
  const found: ListedStack[] = []
  let after: string | undefined
  do {
    const page = await transport.send('ListTables', after === undefined ? {} : {ExclusiveStartTableName: after})
    for (const name of page.TableNames ?? []) found.push(...(await readTable(transport, name)))
    after = page.LastEvaluatedTableName
  } while (after !== undefined)
  return found
}

async function readTable(transport: Transport, name: string): Promise<ListedStack[]> {
  const {Table: table} = await transport.send('DescribeTable', {TableName: name}).catch(error => {
    // Deleted after it was listed.
    if (error instanceof TableMissing) return {Table: undefined}
    throw error
  })
  if (!table?.GlobalSecondaryIndexes?.some(({IndexName}) => IndexName === indexes.namespace)) return []
  const createdAt = table.CreationDateTime ? isoSeconds(table.CreationDateTime.getTime()) : null
  const common = {name, status: table.TableStatus ?? '', createdAt, region: null, updatedAt: null}
  return [{...common, ...(await readCreator(transport, name))}]
}

type Creator = Pick<ListedStack, 'tool' | 'version' | 'schemaVersion'>

async function readCreator(transport: Transport, stack: string): Promise<Creator> {
  const {record} = await readVersion(openTable({stack, transport}).table).catch(error => {
    // The table has another key schema, or was deleted meanwhile.
    if (error instanceof ValidationFailed || error instanceof TableMissing) return {record: undefined}
    throw error
  })
  const [, writer, version = null] = /^(zael|cli|client):(.+)$/.exec(record?.updatedBy ?? '') ?? []
  const tool = writer === undefined ? null : writer === 'zael' ? 'zael' : 'zae-limiter'
  return {tool, version, schemaVersion: record?.schemaVersion ?? null}
}
