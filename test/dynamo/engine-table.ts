import {randomUUID} from 'node:crypto'
import type {Transport} from '../../src/lib/dynamo/transport.js'

/** A fresh table with the usual key and one index by `GSI1PK`; no stream, which would slow the engines down. */
export async function createTestTable(transport: Transport): Promise<string> {
  const TableName = `dynamo-${randomUUID()}`
  const attribute = (AttributeName: string) => ({AttributeName, AttributeType: 'S' as const})
  await transport.send('CreateTable', {
    TableName,
    BillingMode: 'PAY_PER_REQUEST',
    AttributeDefinitions: [attribute('PK'), attribute('SK'), attribute('GSI1PK')],
    KeySchema: [
      {AttributeName: 'PK', KeyType: 'HASH'},
      {AttributeName: 'SK', KeyType: 'RANGE'},
    ],
    GlobalSecondaryIndexes: [
      {
        IndexName: 'GSI1',
        KeySchema: [{AttributeName: 'GSI1PK', KeyType: 'HASH'}],
        Projection: {ProjectionType: 'KEYS_ONLY'},
      },
    ],
  })
  return TableName
}
