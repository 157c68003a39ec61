import {expect, it} from 'vitest'
import {TableMissing} from '../../src/lib/dynamo/errors.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {listTables} from '../../src/lib/infra/list-tables.js'
import {describeOnEngine, useTable} from '../helpers/table.js'

describeOnEngine('tables of a local engine', () => {
  const table = useTable()

  it('are listed page by page, and one that is deleted meanwhile is left out', async () => {
    const pages: (string | undefined)[] = []
    const transport: Transport = {
      send: (async (operation: string, input: {TableName?: string; ExclusiveStartTableName?: string}) => {
        if (operation === 'ListTables') {
          pages.push(input.ExclusiveStartTableName)
          if (input.ExclusiveStartTableName === undefined) return {TableNames: ['gone'], LastEvaluatedTableName: 'gone'}
          return {TableNames: [table.name]}
        }
        if (input.TableName === 'gone') throw new TableMissing('DescribeTable')
        return table.transport.send('DescribeTable', {TableName: table.name})
      }) as Transport['send'],
    }
    expect(await listTables(transport)).toMatchObject([{name: table.name, status: 'ACTIVE', tool: null}])
    expect(pages).toEqual([undefined, 'gone'])
  })
})
