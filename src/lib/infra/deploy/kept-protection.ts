import type {Table} from '../../repository/table/table.js'

type Parameters = Readonly<Record<string, string>>

/**
 * A repair sets the table back to what the stack states. Deletion protection that somebody has turned on by hand stays, and
 * becomes an option of the stack, unless another value is asked for: taking it away must be meant.
 */
export async function keptProtection({transport, name: TableName}: Table, asked: Parameters): Promise<Parameters> {
  if (asked.EnableDeletionProtection !== undefined) return {}
  const {Table: table} = await transport.send('DescribeTable', {TableName})
  return table?.DeletionProtectionEnabled ? {EnableDeletionProtection: 'true'} : {}
}
