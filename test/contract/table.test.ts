import {expect, it} from 'vitest'
import {ExpressionBuilder} from '../../src/lib/dynamo/expression.js'
import {loadTableDefinition} from '../../src/lib/dynamo/table-definition.js'
import {n} from '../../src/lib/schema/attribute-value.js'
import {describeOnEngine, type TestTable, useTable} from '../helpers/table.js'
import {firstAcquireItem} from '../schema/samples.js'

/** The write of one admitted request of one token: consumes and counts if the tokens are there. */
function consumeOne(table: TestTable) {
  const e = new ExpressionBuilder()
  e.add('b_rpm_tk', n(-1000)).add('b_rpm_tc', n(1000)).add('b_wcu_tk', n(-1000)).add('b_wcu_tc', n(1000))
  e.condition(`${e.name('b_rpm_tk')} >= ${e.value(n(1000))}`)
  const Key = {PK: firstAcquireItem.PK as {S: string}, SK: firstAcquireItem.SK as {S: string}}
  return table.transport.send('UpdateItem', {TableName: table.name, Key, ReturnValues: 'ALL_NEW', ...e.update()})
}

describeOnEngine('the table made from the stack template', () => {
  const table = useTable({stream: true})

  it('has the keys, indexes, projections, stream and expiry of the template', async () => {
    const {create, ttlAttribute} = await loadTableDefinition({tableName: table.name})
    const {Table: described} = await table.transport.send('DescribeTable', {TableName: table.name})
    expect(described).toMatchObject({
      TableStatus: 'ACTIVE',
      KeySchema: create.KeySchema,
      StreamSpecification: create.StreamSpecification,
    })
    const indexes = described?.GlobalSecondaryIndexes?.map(({IndexName, KeySchema, Projection}) => ({
      IndexName,
      KeySchema,
      Projection: {ProjectionType: Projection?.ProjectionType},
    }))
    expect(indexes?.sort((a, b) => ((a.IndexName ?? '') < (b.IndexName ?? '') ? -1 : 1))).toEqual(
      create.GlobalSecondaryIndexes,
    )
    const {TimeToLiveDescription} = await table.transport.send('DescribeTimeToLive', {TableName: table.name})
    expect(TimeToLiveDescription).toMatchObject({TimeToLiveStatus: 'ENABLED', AttributeName: ttlAttribute})
  })
})

describeOnEngine.each([
  ['KEYS_ONLY', 1],
  ['ALL', 2],
] as const)('D-39 L7 an admitted request, resource index projecting %s', (resourceIndex, writeUnits) => {
  const table = useTable({resourceIndex})

  it(`costs ${writeUnits} write unit(s), all indexes included, and no read`, async () => {
    await table.transport.send('PutItem', {TableName: table.name, Item: firstAcquireItem})
    const before = table.capacity.snapshot()
    const {Attributes} = await consumeOne(table)
    expect(Attributes).toMatchObject({b_rpm_tk: {N: '98000'}, b_rpm_tc: {N: '2000'}})
    expect(table.capacity.since(before)).toMatchObject({calls: 1, read: 0, write: writeUnits})
  })
})
