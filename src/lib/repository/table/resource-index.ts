import {TableMissing} from '../../dynamo/errors.js'
import {indexes} from '../../schema/attributes.js'
import type {Table} from './table.js'

/** The projection of the table's resource index; `null`: the table has no such index, `undefined`: there is no table. */
export async function readResourceIndex({transport, name: TableName}: Table): Promise<string | null | undefined> {
  try {
    const {Table: found} = await transport.send('DescribeTable', {TableName})
    const index = found?.GlobalSecondaryIndexes?.find(({IndexName}) => IndexName === indexes.resource)
    return index?.Projection?.ProjectionType ?? null
  } catch (error) {
    if (error instanceof TableMissing) return undefined
    throw error
  }
}
