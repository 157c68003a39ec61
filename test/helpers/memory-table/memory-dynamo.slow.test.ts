import {randomUUID} from 'node:crypto'
import fc from 'fast-check'
import {beforeEach, describe, expect, inject, it} from 'vitest'
import {ZaelError} from '../../../src/lib/core/errors.js'
import {ConditionFailed, TableMissing, TransactionCancelled, ValidationFailed} from '../../../src/lib/dynamo/errors.js'
import {createTable, loadTableDefinition} from '../../../src/lib/dynamo/table-definition.js'
import type {Transport} from '../../../src/lib/dynamo/transport.js'
import {type AttributeValue, type Item, n} from '../../../src/lib/schema/attribute-value.js'
import {describeOnEngine, useTable} from '../table.js'
import {addNumbers} from './decimal.js'
import {MemoryDynamo, type MemoryDynamoOptions} from './memory-dynamo.js'
import {MemoryOperations} from './operations.js'
import {type RandomRequest, randomRequest} from './random-requests.js'
import type {Change} from './table.js'

const RUNS = process.env.ZAEL_TEST_SIZE === 'full' ? 2000 : 30

/**
 * What DynamoDB Local is not compared in, and why:
 * - costs: a query or a batch that finds nothing costs nothing there, and a deletion in a batch two units;
 * - the order of partitions in a scan and of items in a batch: both are read as a whole, as sets;
 * - whether a page that ends with the last item names a next one, which would be empty: it knows better now and then;
 * - how a number is written: a sum may be `1.0` there, and `1e3` inside a map stays what it is;
 * - for a place inside a map, UPDATED_NEW and UPDATED_OLD return the whole map;
 * - the order of values that have none, such as maps: it refuses to compare them, so it is not asked to;
 * - why a transaction is refused: it looks at conditions before it looks for items named twice, and a value of a wrong type
 *   makes the whole request invalid instead of being one of the reasons.
 */
const isLocal = inject('engineName') === 'dynamodb-local'

interface Answer {
  readonly ConsumedCapacity?: unknown
  readonly Attributes?: Item
  readonly Items?: readonly Item[]
  readonly LastEvaluatedKey?: Item
  readonly Responses?: Readonly<Record<string, readonly Item[]>>
}

/** The observable part of a response or refusal; the order of sets and of index entries with one key is free. */
async function observed(transport: Transport, {operation, input}: RandomRequest, table: string): Promise<unknown> {
  const {Limit, ...whole} = input(table) as {Limit?: number; ReturnValues?: string}
  const {ReturnValues = ''} = whole
  const isSetOnly = isLocal && operation === 'Scan'
  const request = {ReturnConsumedCapacity: 'INDEXES', ...whole, ...(Limit && !isSetOnly && {Limit})}
  try {
    const {ConsumedCapacity, ...answer} = (await transport.send(operation, request as never)) as Answer
    if (isLocal && /UPDATED/.test(ReturnValues)) delete answer.Attributes?.map
    return comparable(isLocal ? withoutOrder(answer, isSetOnly) : {...answer, ConsumedCapacity})
  } catch (error) {
    if (!(error instanceof ZaelError)) throw error
    if (isLocal && operation === 'TransactWriteItems') return 'refused'
    const oldItem = error instanceof ConditionFailed ? error.oldItem : undefined
    const reasons = error instanceof TransactionCancelled ? error.reasons.map(each => [each.code, each.oldItem]) : []
    return comparable({code: error.code, oldItem, reasons})
  }
}

function withoutOrder({Items, Responses, LastEvaluatedKey: _, ...rest}: Answer, isSetOnly: boolean): Answer {
  const found = Object.entries(Responses ?? {}).map(([name, items]) => [name, unordered(items)])
  return {
    ...rest,
    ...(Items && {Items: isSetOnly ? unordered(Items) : Items}),
    ...(Responses && {Responses: Object.fromEntries(found)}),
  }
}

/** Whether a request compares values that have no order. */
function ordersTheUnordered(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const {ExpressionAttributeValues: values = {}, ...fields} = value as {ExpressionAttributeValues?: Item}
  const texts = Object.values(fields).filter(each => typeof each === 'string')
  const compared = texts.flatMap(text => [...text.matchAll(/[<>]=? (:\w+)/g)].map(([, name = '']) => values[name]))
  const isOdd = compared.some(each => each && !('N' in each) && !('S' in each))
  return isOdd || Object.values(fields).some(ordersTheUnordered)
}

function unordered(items: readonly Item[] = []): Item[] {
  const text = ({PK, SK}: Item) => JSON.stringify([PK, SK])
  return items.toSorted((a, b) => (text(a) < text(b) ? -1 : 1))
}

function comparable(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (_, each) => {
      if (isSet(each)) return {SS: each.SS.toSorted()}
      return isLocal && typeof each?.N === 'string' ? {N: addNumbers(each.N, '0')} : each
    }),
  )
}

function isSet(value: unknown): value is Extract<AttributeValue, {SS: string[]}> {
  return typeof value === 'object' && value !== null && 'SS' in value
}

describeOnEngine('the table in memory', () => {
  const {transport: engine} = useTable()

  it('returns the same items, failures and costs as an engine, for any request', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(randomRequest, {minLength: 20, maxLength: 40}), async requests => {
        const tableName = `memory-${randomUUID()}`
        const memory = new MemoryDynamo()
        for (const transport of [engine, memory]) {
          await createTable(transport, await loadTableDefinition({tableName, stream: false, resourceIndex: 'ALL'}))
        }
        try {
          for (const request of requests) {
            if (isLocal && ordersTheUnordered(request.input(tableName))) continue
            const [expected, got] = await Promise.all(
              [engine, memory].map(transport => observed(transport, request, tableName)),
            )
            expect(got, JSON.stringify([request.operation, request.input(tableName)])).toEqual(expected)
          }
        } finally {
          await engine.send('DeleteTable', {TableName: tableName})
        }
      }),
      {numRuns: RUNS},
    )
  })

  it('has the bounds of keys, and the indexes that are added later', async () => {
    const TableName = `memory-${randomUUID()}`
    const {create} = await loadTableDefinition({tableName: TableName, stream: false})
    const [index] = create.GlobalSecondaryIndexes
    const attributes = (keys: readonly string[]) =>
      create.AttributeDefinitions.filter(({AttributeName}) => keys.includes(AttributeName))
    const own = {TableName, BillingMode: create.BillingMode, KeySchema: create.KeySchema}
    const added = {
      TableName,
      AttributeDefinitions: attributes(['PK', 'SK', 'GSI1PK', 'GSI1SK']),
      GlobalSecondaryIndexUpdates: [{Create: index}],
    }
    const code = (answer: Promise<unknown>) => answer.then(() => undefined).catch((error: ZaelError) => error.code)
    const seen: unknown[] = []
    for (const transport of [engine, new MemoryDynamo()]) {
      await transport.send('CreateTable', {...own, AttributeDefinitions: attributes(['PK', 'SK'])} as never)
      const codes: unknown[] = []
      for (const [hash, range] of [
        [2048, 1024],
        [2049, 1],
        [1, 1025],
      ] as const) {
        const key = {PK: {S: 'x'.repeat(hash)}, SK: {S: 'x'.repeat(range)}}
        codes.push(await code(transport.send('PutItem', {TableName, Item: key})))
        codes.push(await code(transport.send('GetItem', {TableName, Key: key})))
      }
      const item = {PK: {S: 'a'}, SK: {S: 'b'}, GSI1PK: {S: 'c'}, GSI1SK: {S: 'd'}}
      await transport.send('PutItem', {TableName, Item: item})
      await transport.send('UpdateTable', added as never)
      const found = {KeyConditionExpression: 'GSI1PK = :c', ExpressionAttributeValues: {':c': {S: 'c'}}}
      await expect
        .poll(async () => (await transport.send('Query', {TableName, IndexName: 'GSI1', ...found})).Count)
        .toBe(1)
      codes.push(await code(transport.send('UpdateTable', added as never)))
      await transport.send('DeleteTable', {TableName})
      seen.push(codes)
    }
    expect(seen[1]).toEqual(seen[0])
  })
})

describe('the table in memory, alone', () => {
  const TableName = 'memory'
  const Key = {PK: {S: 'a'}, SK: {S: '1'}}
  let changes: Change[]
  let memory: MemoryDynamo

  async function newTable(options: MemoryDynamoOptions = {}): Promise<void> {
    changes = []
    memory = new MemoryDynamo({clock: () => 17, onChange: change => changes.push(change), ...options})
    await createTable(memory, await loadTableDefinition({tableName: TableName}))
  }
  beforeEach(() => newTable())

  it.each([
    ['two places that overlap', {UpdateExpression: 'SET a.b = :v REMOVE a', ExpressionAttributeValues: {':v': n(1)}}],
    ['a name that nobody uses', {UpdateExpression: 'REMOVE a', ExpressionAttributeNames: {'#b': 'b'}}],
    ['a value that nobody uses', {UpdateExpression: 'REMOVE a', ExpressionAttributeValues: {':v': n(1)}}],
    ['a name that is not given', {UpdateExpression: 'REMOVE #a'}],
    ['a value that is not given', {UpdateExpression: 'SET a = :v'}],
    ['an operator too many', {UpdateExpression: 'SET a = = :v', ExpressionAttributeValues: {':v': n(1)}}],
    ['a clause twice', {UpdateExpression: 'REMOVE a REMOVE b'}],
    ['nothing at all', {UpdateExpression: ''}],
    ['a key', {UpdateExpression: 'SET PK = :v', ExpressionAttributeValues: {':v': {S: 'b'}}}],
    ['a number for an index', {UpdateExpression: 'SET GSI1PK = :v', ExpressionAttributeValues: {':v': n(1)}}],
  ])('rejects an update with %s', async (_, fields) => {
    await expect(memory.send('UpdateItem', {TableName, Key, ...fields})).rejects.toThrow(ValidationFailed)
    expect(memory.table(TableName).items.size).toBe(0)
  })

  it('knows no table that was not created', async () => {
    await expect(memory.send('GetItem', {TableName: 'other', Key})).rejects.toThrow(TableMissing)
  })

  it('reports every change in order, with both images, and nothing else', async () => {
    await memory.send('PutItem', {TableName, Item: {...Key, a: n(1)}})
    await memory.send('PutItem', {TableName, Item: {...Key, a: n(1)}})
    const fields = {UpdateExpression: 'ADD a :v', ExpressionAttributeValues: {':v': n(2)}}
    await memory.send('UpdateItem', {TableName, Key, ...fields})
    await memory.send('DeleteItem', {TableName, Key})
    await memory.send('DeleteItem', {TableName, Key})
    const numbers = changes.map(({before, after, ...rest}) => ({...rest, before: before?.a, after: after?.a}))
    expect(numbers).toEqual([
      {table: TableName, sequence: 1, atMs: 17, before: undefined, after: n(1)},
      {table: TableName, sequence: 2, atMs: 17, before: n(1), after: n(3)},
      {table: TableName, sequence: 3, atMs: 17, before: n(3), after: undefined},
    ])
  })

  it('applies a transaction once, however often it is sent with its token', async () => {
    const Update = {TableName, Key, UpdateExpression: 'ADD a :v', ExpressionAttributeValues: {':v': n(1)}}
    const request = {ClientRequestToken: 'token', TransactItems: [{Update}]}
    await memory.send('TransactWriteItems', request)
    await memory.send('TransactWriteItems', request)
    expect((await memory.send('GetItem', {TableName, Key})).Item?.a).toEqual(n(1))
    const other = {...request, TransactItems: [{Delete: {TableName, Key}}]}
    await expect(memory.send('TransactWriteItems', other)).rejects.toThrow(ValidationFailed)
  })

  it('lets a test intercept every call: a response can be lost after the work was done', async () => {
    const calls: string[] = []
    await newTable({
      around: async ({operation, number}, carryOut) => {
        calls.push(`${number} ${operation}`)
        const answer = carryOut()
        if (operation === 'PutItem') throw Object.assign(new Error('reset'), {code: 'ECONNRESET'})
        return answer
      },
    })
    const put = memory.send('PutItem', {TableName, Item: Key})
    await expect(put).rejects.toMatchObject({code: 'dynamo.unavailable', maybeApplied: true})
    expect((await memory.send('GetItem', {TableName, Key})).Item).toEqual(Key)
    expect(calls).toEqual(['1 CreateTable', '2 UpdateTimeToLive', '3 PutItem', '4 GetItem'])
  })

  it('starts nothing for an aborted caller', async () => {
    const put = memory.send('PutItem', {TableName, Item: Key}, {signal: AbortSignal.abort()})
    await expect(put).rejects.toMatchObject({code: 'dynamo.aborted', maybeApplied: false})
    expect(changes).toEqual([])
  })

  it('returns copies: changing one changes nothing else', async () => {
    await memory.send('PutItem', {TableName, Item: {...Key, m: {M: {x: n(1)}}}})
    const {Item: first} = await memory.send('GetItem', {TableName, Key})
    if (first?.m && 'M' in first.m) first.m.M.x = n(2)
    expect((await memory.send('GetItem', {TableName, Key})).Item?.m).toEqual({M: {x: n(1)}})
  })

  it('rejects expressions that are too long or have too many operators, like DynamoDB', async () => {
    const update = (count: number, name: (at: number) => string) => {
      const parts = Array.from({length: count}, (_, at) => `${name(at)} = :v`)
      const fields = {UpdateExpression: `SET ${parts.join(', ')}`, ExpressionAttributeValues: {':v': n(1)}}
      return memory.send('UpdateItem', {TableName, Key, ...fields})
    }
    await update(140, at => `a${at}`)
    await expect(update(200, at => `a${at}`)).rejects.toThrow(ValidationFailed)
    await expect(update(45, at => `a${at}`.padEnd(100, 'x'))).rejects.toThrow(ValidationFailed)
  })

  it('updates an index later than the table, in order', async () => {
    const follow: (() => void)[] = []
    memory.table(TableName).deferIndexes = each => follow.push(each)
    const indexed = {GSI4PK: {S: 'ns'}, GSI4SK: {S: 'x'}}
    const query = async () => {
      const fields = {KeyConditionExpression: 'GSI4PK = :p', ExpressionAttributeValues: {':p': {S: 'ns'}}}
      return (await memory.send('Query', {TableName, IndexName: 'GSI4', ...fields})).Count
    }
    await memory.send('PutItem', {TableName, Item: {...Key, ...indexed}})
    expect(await query()).toBe(0)
    follow.shift()?.()
    expect(await query()).toBe(1)
    await memory.send('DeleteItem', {TableName, Key})
    expect([await query(), follow.length]).toEqual([1, 1])
    follow.shift()?.()
    expect(await query()).toBe(0)
  })

  it('throttles a partition beyond its write capacity, alone and in transactions', () => {
    const operations = new MemoryOperations(
      () => 17,
      change => changes.push(change),
      partition => partition !== 'Sa',
    )
    operations.carryOut('CreateTable', memory.table(TableName).definition)
    const names = (error: unknown) => (error as Error).name
    const put = (PK: string) => ({TableName, Item: {...Key, PK: {S: PK}}})
    const thrown = (work: () => unknown) => {
      try {
        work()
        return undefined
      } catch (error) {
        return names(error)
      }
    }
    expect(thrown(() => operations.carryOut('PutItem', put('a')))).toBe('ProvisionedThroughputExceededException')
    const both = {TransactItems: [{Put: put('b')}, {Put: put('a')}]}
    expect(thrown(() => operations.carryOut('TransactWriteItems', both))).toBe('TransactionCanceledException')
    expect(changes).toEqual([])
    expect(thrown(() => operations.carryOut('PutItem', put('b')))).toBeUndefined()
    const batch = (...partitions: string[]) =>
      operations.carryOut('BatchWriteItem', {
        RequestItems: {[TableName]: partitions.map(each => ({PutRequest: {Item: put(each).Item}}))},
      })
    expect(thrown(() => batch('a'))).toBe('ProvisionedThroughputExceededException')
    expect(batch('a', 'c').UnprocessedItems).toEqual({[TableName]: [{PutRequest: {Item: put('a').Item}}]})
    expect(changes.map(({after}) => after?.PK)).toEqual([{S: 'b'}, {S: 'c'}])
  })

  it('counts the units of a write against its partition, twice in a transaction', () => {
    const asked: [string, number][] = []
    const operations = new MemoryOperations(
      () => 17,
      () => {},
      (partition, units) => asked.push([partition, units]) > 0,
    )
    operations.carryOut('CreateTable', memory.table(TableName).definition)
    const put = {TableName, Item: {...Key, text: {S: 'x'.repeat(1500)}}}
    operations.carryOut('PutItem', put)
    operations.carryOut('TransactWriteItems', {TransactItems: [{Put: put}]})
    expect(asked).toEqual([
      ['Sa', 2],
      ['Sa', 4],
    ])
  })

  it('rejects an item above 400 KB, like DynamoDB', async () => {
    const item = (bytes: number) => ({...Key, text: {S: 'x'.repeat(bytes)}})
    const besides = 'PK'.length + 'a'.length + 'SK'.length + '1'.length + 'text'.length
    await memory.send('PutItem', {TableName, Item: item(400 * 1024 - besides)})
    const put = memory.send('PutItem', {TableName, Item: item(400 * 1024 - besides + 1)})
    await expect(put).rejects.toThrow(ValidationFailed)
  })
})
