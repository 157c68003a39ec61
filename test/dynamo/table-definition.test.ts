import {expect, it} from 'vitest'
import {loadTableDefinition} from '../../src/lib/dynamo/table-definition.js'

it('takes keys, four indexes, stream and expiry from the stack template', async () => {
  const {create, ttlAttribute} = await loadTableDefinition({tableName: 'prod'})
  const index = (name: string, ProjectionType: string) => ({
    IndexName: name,
    KeySchema: [
      {AttributeName: `${name}PK`, KeyType: 'HASH'},
      {AttributeName: `${name}SK`, KeyType: 'RANGE'},
    ],
    Projection: {ProjectionType},
  })
  expect(create).toEqual({
    TableName: 'prod',
    BillingMode: 'PAY_PER_REQUEST',
    AttributeDefinitions: [
      'PK',
      'SK',
      'GSI1PK',
      'GSI1SK',
      'GSI2PK',
      'GSI2SK',
      'GSI3PK',
      'GSI3SK',
      'GSI4PK',
      'GSI4SK',
    ].map(AttributeName => ({AttributeName, AttributeType: 'S'})),
    KeySchema: [
      {AttributeName: 'PK', KeyType: 'HASH'},
      {AttributeName: 'SK', KeyType: 'RANGE'},
    ],
    GlobalSecondaryIndexes: [
      index('GSI1', 'ALL'),
      index('GSI2', 'KEYS_ONLY'),
      index('GSI3', 'KEYS_ONLY'),
      index('GSI4', 'KEYS_ONLY'),
    ],
    StreamSpecification: {StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES'},
  })
  expect(ttlAttribute).toBe('ttl')
})

it('D-39 projects only keys into the resource index by default, and can omit the stream', async () => {
  const {create} = await loadTableDefinition({tableName: 'prod', resourceIndex: 'ALL', stream: false})
  expect(create.GlobalSecondaryIndexes.map(index => index.Projection.ProjectionType)).toEqual([
    'ALL',
    'ALL',
    'KEYS_ONLY',
    'KEYS_ONLY',
  ])
  expect(create.StreamSpecification).toBeUndefined()
})
