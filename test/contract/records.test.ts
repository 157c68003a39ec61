import {describe, expect, it} from 'vitest'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {describeOnEngine, type TestTable, useTable} from '../helpers/table.js'
import {type Sample, samples} from '../schema/samples.js'

const INDEXES = ['GSI1', 'GSI2', 'GSI3', 'GSI4'] as const

/** DynamoDB sets have no order; everything else must be equal to the letter. */
function comparable(item: Item | undefined): Item | undefined {
  if (item?.resources && 'SS' in item.resources) return {...item, resources: {SS: [...item.resources.SS].sort()}}
  return item
}

async function put(table: TestTable, sample: Sample): Promise<Item> {
  const item = sample.encode()
  await table.transport.send('PutItem', {TableName: table.name, Item: item})
  return item
}

const pick = (item: Item, names: string[]): Item =>
  Object.fromEntries(names.flatMap(name => (item[name] ? [[name, item[name]]] : [])))

describeOnEngine.each(['KEYS_ONLY', 'ALL'] as const)(
  'records on a table whose resource index projects %s',
  resourceIndex => {
    const table = useTable({resourceIndex})

    describe.each(samples)('$name', sample => {
      it('comes back from the engine equal in attributes, types and index keys, and as the same record', async () => {
        const {PK, SK} = await put(table, sample)
        const {Item: stored} = await table.transport.send('GetItem', {
          TableName: table.name,
          Key: {PK: PK as {S: string}, SK: SK as {S: string}},
          ConsistentRead: true,
        })
        expect(comparable(stored)).toEqual(sample.item)
        expect(sample.decode(stored as Item)).toEqual(sample.record)
      })

      it('is found in exactly the indexes whose keys it has, with their projections', async () => {
        const item = await put(table, sample)
        for (const index of INDEXES) {
          const keyNames = [`${index}PK`, `${index}SK`]
          const [partition, sort] = keyNames.map(name => item[name])
          if (!partition || !sort) continue
          const {Items = []} = await table.transport.send('Query', {
            TableName: table.name,
            IndexName: index,
            KeyConditionExpression: '#p = :p AND #s = :s',
            ExpressionAttributeNames: {'#p': `${index}PK`, '#s': `${index}SK`},
            ExpressionAttributeValues: {':p': partition, ':s': sort},
          })
          const mine = Items.filter(
            found => JSON.stringify([found.PK, found.SK]) === JSON.stringify([item.PK, item.SK]),
          )
          const projectsAll = index === 'GSI1' || (index === 'GSI2' && resourceIndex === 'ALL')
          expect(mine.map(comparable)).toEqual([projectsAll ? sample.item : pick(item, ['PK', 'SK', ...keyNames])])
        }
      })
    })
  },
)
