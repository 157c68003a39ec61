import {expect, it} from 'vitest'
import {TableMissing} from '../../../src/lib/dynamo/errors.js'
import type {Transport} from '../../../src/lib/dynamo/transport.js'
import {listTables} from '../../../src/lib/infra/stack/list-stacks.js'
import {encodeVersion} from '../../../src/lib/schema/version-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'

describeOnBoth('tables of a local engine', {}, table => {
  /** Other files create and delete tables on the same engine, and DynamoDB Local fails to describe one that is being deleted. */
  const onlyOwn: Transport = {
    send: (async (operation: 'DescribeTable', input: {TableName: string}) =>
      (operation as string) === 'ListTables'
        ? {TableNames: [table.name]}
        : table.transport.send(operation, input)) as Transport['send'],
  }

  it('are listed page by page, without one that is deleted meanwhile', async () => {
    const pages: (string | undefined)[] = []
    const transport: Transport = {
      send: (async (operation: string, input: {TableName?: string; ExclusiveStartTableName?: string}) => {
        if (operation === 'ListTables') {
          pages.push(input.ExclusiveStartTableName)
          if (input.ExclusiveStartTableName === undefined) return {TableNames: ['gone'], LastEvaluatedTableName: 'gone'}
          return {TableNames: [table.name]}
        }
        if (input.TableName === 'gone') throw new TableMissing('DescribeTable')
        return table.transport.send(operation as 'DescribeTable', input as {TableName: string})
      }) as Transport['send'],
    }
    expect(await listTables(transport)).toMatchObject([{name: table.name, status: 'ACTIVE', tool: null}])
    expect(pages).toEqual([undefined, 'gone'])
  })

  it.each([
    ['zael:0.1.0', 'zael', '0.1.0'],
    ['cli:0.10.3', 'zae-limiter', '0.10.3'],
    ['client:0.10.3', 'zae-limiter', '0.10.3'],
    ['another-tool', null, null],
    [undefined, null, null],
  ])('have the tool that created them from the version record: %s', async (updatedBy, tool, version) => {
    const record = {schemaVersion: '0.9.0', lambdaVersion: undefined, clientMinVersion: '0.0.0', updatedBy}
    const Item = encodeVersion({...record, updatedAt: '2026-01-01T00:00:00Z'})
    await table.transport.send('PutItem', {TableName: table.name, Item})
    expect(await listTables(onlyOwn)).toMatchObject([{name: table.name, tool, version, schemaVersion: '0.9.0'}])
  })
})
