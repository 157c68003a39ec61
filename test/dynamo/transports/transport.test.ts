import {afterAll, beforeAll, describe, expect, inject, test} from 'vitest'
import {CapacityMeter} from '../../../src/lib/dynamo/capacity.js'
import {
  ConditionFailed,
  Conflict,
  TableMissing,
  TransactionCancelled,
  ValidationFailed,
} from '../../../src/lib/dynamo/errors.js'
import {ExpressionBuilder} from '../../../src/lib/dynamo/expression.js'
import type {ResponseInfo} from '../../../src/lib/dynamo/transport.js'
import {bool, type Item, NULL, n, s} from '../../../src/lib/schema/attribute-value.js'
import {createTestTable} from '../engine-table.js'
import {localTransport, TRANSPORTS} from './scripted-server.js'

const endpoint = inject('engineEndpoint')

describe.skipIf(endpoint === '').each(TRANSPORTS)('the $kind transport on a real engine', ({create}) => {
  const meter = new CapacityMeter()
  const seen: ResponseInfo[] = []
  const onResponse = (info: ResponseInfo) => {
    meter.observe(info)
    seen.push(info)
  }
  const transport = localTransport(endpoint || 'http://127.0.0.1', {meterCapacity: true, onResponse}, create)
  let TableName = ''

  beforeAll(async () => {
    TableName = await createTestTable(transport)
  })

  afterAll(async () => {
    await transport.send('DeleteTable', {TableName})
    await transport.close()
  })

  const keyOf = (id: string) => ({PK: s(id), SK: s('x')})
  const read = async (id: string): Promise<Item | undefined> =>
    (await transport.send('GetItem', {TableName, Key: keyOf(id), ConsistentRead: true})).Item

  test('returns items of every type unchanged', async () => {
    const Item: Item = {
      ...keyOf('types'),
      string: s('ü\u0000"'),
      number: n(-12_345_678_901_234_567_890n),
      flag: bool(false),
      nothing: NULL,
      map: {M: {list: {L: [n(1), s(''), {M: {}}]}}},
      strings: {SS: ['a', 'b']},
      bytes: {B: new Uint8Array([0, 255])},
    }
    await transport.send('PutItem', {TableName, Item})
    expect(await read('types')).toEqual(Item)
  })

  describe('D-17 every attribute name works in every clause', () => {
    const awkward = ['my-limit', 'gpt-3.5', 'wcu', 'size', 'name', 'a b', '#0', ':0', 'ünï', '__proto__x', 'b_a-b.c_tk']

    test.each(awkward)('%s', async attribute => {
      const id = `name ${attribute}`
      const create = new ExpressionBuilder()
      create.set(attribute, n(7)).setIfMissing(`${attribute}2`, n(1)).add(`${attribute}3`, n(5))
      create.set('tags', {SS: ['x', 'y']}).condition(`attribute_not_exists(${create.name(attribute)})`)
      await transport.send('UpdateItem', {TableName, Key: keyOf(id), ...create.update()})

      const change = new ExpressionBuilder()
      change.add(attribute, n(-9)).setIfMissing(`${attribute}2`, n(2)).remove(`${attribute}3`)
      change.delete('tags', {SS: ['x']})
      change.condition(`${change.name(attribute)} >= ${change.value(n(7))}`)
      change.condition(`attribute_exists(${change.name('PK')}) OR ${change.name('size')} = ${change.value(n(7))}`)
      const {Attributes} = await transport.send('UpdateItem', {
        TableName,
        Key: keyOf(id),
        ReturnValues: 'ALL_NEW',
        ...change.update(),
      })
      expect(Attributes).toEqual({...keyOf(id), [attribute]: n(-2), [`${attribute}2`]: n(1), tags: {SS: ['y']}})

      const look = new ExpressionBuilder()
      look.keyCondition(`${look.name('PK')} = ${look.value(s(id))}`)
      look.filter(`${look.name(attribute)} < ${look.value(n(0))}`).project(attribute)
      const {Items} = await transport.send('Query', {TableName, ...look.read()})
      expect(Items).toEqual([{[attribute]: n(-2)}])

      const gone = new ExpressionBuilder()
      gone.condition(`${gone.name(attribute)} = ${gone.value(n(-2))}`)
      await transport.send('DeleteItem', {TableName, Key: keyOf(id), ...gone.write()})
      expect(await read(id)).toBeUndefined()
    })
  })

  test('returns the stored item with a failed condition', async () => {
    const stored = {...keyOf('condition'), v: n(3)}
    await transport.send('PutItem', {TableName, Item: stored})
    const e = new ExpressionBuilder()
    e.set('v', n(4)).condition(`${e.name('v')} = ${e.value(n(99))}`)
    const request = {TableName, Key: keyOf('condition'), ...e.update()}
    const withItem = {...request, ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const}
    const error = await transport.send('UpdateItem', withItem).catch(error => error)
    expect(error).toBeInstanceOf(ConditionFailed)
    expect(error.oldItem).toEqual(stored)
    await expect(transport.send('UpdateItem', request)).rejects.toMatchObject({oldItem: undefined})
    expect(await read('condition')).toEqual(stored)
  })

  test('names the item that cancelled a transaction, and applies nothing', async () => {
    const stored = {...keyOf('tx-1'), v: n(1)}
    await transport.send('PutItem', {TableName, Item: stored})
    const put = {TableName, Item: keyOf('tx-2')}
    const update = new ExpressionBuilder()
    update.add('v', n(1)).condition(`${update.name('v')} > ${update.value(n(1))}`)
    const error = await transport
      .send('TransactWriteItems', {
        TransactItems: [
          {Put: put},
          {
            Update: {
              TableName,
              Key: keyOf('tx-1'),
              ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
              ...update.update(),
            },
          },
        ],
      })
      .catch(error => error)
    expect(error).toBeInstanceOf(TransactionCancelled)
    expect(error).toMatchObject({hasConditionFailure: true, hasConflict: false})
    expect(error.reasons).toMatchObject([
      {code: 'None', oldItem: undefined},
      {code: 'ConditionalCheckFailed', oldItem: stored},
    ])
    expect(await read('tx-2')).toBeUndefined()
  })

  test('runs a condition check and reads in a transaction', async () => {
    await transport.send('PutItem', {TableName, Item: keyOf('check')})
    const e = new ExpressionBuilder()
    e.condition(`attribute_exists(${e.name('PK')})`)
    await transport.send('TransactWriteItems', {
      TransactItems: [
        {ConditionCheck: {TableName, Key: keyOf('check'), ...e.write()}},
        {Put: {TableName, Item: keyOf('checked')}},
      ],
    })
    const {Responses} = await transport.send('TransactGetItems', {
      TransactItems: [{Get: {TableName, Key: keyOf('checked')}}, {Get: {TableName, Key: keyOf('never')}}],
    })
    expect(Responses?.map(response => response.Item)).toEqual([keyOf('checked'), undefined])
  })

  test('D-34 does not treat a missing table, an invalid request or a conflict as an outage', async () => {
    const missing = transport.send('GetItem', {TableName: 'no-such-table', Key: keyOf('x')})
    await expect(missing).rejects.toBeInstanceOf(TableMissing)
    const bad = transport.send('UpdateItem', {TableName, Key: keyOf('x'), UpdateExpression: 'SET my-limit = :x'})
    await expect(bad).rejects.toBeInstanceOf(ValidationFailed)
    const again = transport.send('CreateTable', {
      TableName,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{AttributeName: 'PK', AttributeType: 'S'}],
      KeySchema: [{AttributeName: 'PK', KeyType: 'HASH'}],
    })
    await expect(again).rejects.toBeInstanceOf(Conflict)
  })

  test('describes and lists tables, and sets their time to live', async () => {
    const {Table} = await transport.send('DescribeTable', {TableName})
    expect(Table?.TableStatus).toBe('ACTIVE')
    expect((await transport.send('ListTables', {})).TableNames).toContain(TableName)
    const TimeToLiveSpecification = {AttributeName: 'ttl', Enabled: true}
    await transport.send('UpdateTimeToLive', {TableName, TimeToLiveSpecification})
    const {TimeToLiveDescription} = await transport.send('DescribeTimeToLive', {TableName})
    expect(TimeToLiveDescription?.AttributeName).toBe('ttl')
  })

  test('dates each response, and counts its units by table and index', async () => {
    const before = meter.snapshot()
    seen.length = 0
    await transport.send('PutItem', {TableName, Item: {...keyOf('cost'), GSI1PK: s('g')}})
    await read('cost')
    expect(meter.since(before)).toEqual({calls: 2, read: 1, write: 2})
    expect(seen[0]?.capacity).toMatchObject([
      {TableName, Table: {CapacityUnits: 1}, GlobalSecondaryIndexes: {GSI1: {CapacityUnits: 1}}},
    ])

    const [put] = seen
    expect(put).toMatchObject({operation: 'PutItem'})
    expect(put?.serverDateMs).toBeLessThanOrEqual(put?.receivedAtMs ?? 0)
    expect(put?.serverDateMs).toBeGreaterThan((put?.sentAtMs ?? 0) - 1_000)
  })
})
