import type {Operation, OperationInput, Transport} from '../../../src/lib/dynamo/transport.js'
import {type Item, readString} from '../../../src/lib/schema/attribute-value.js'

/** One permission that AWS checks for a call. */
export interface Authorisation {
  /** Such as `dynamodb:GetItem`. */
  readonly action: string
  /** The table itself, or one of its indexes; `account` when the call names no table. */
  readonly target: 'table' | `index/${string}` | 'account'
  /** Partition keys in the call; `undefined` when there are none. */
  readonly leadingKeys: readonly string[] | undefined
}

/** Forwards calls and records the permissions that they need. */
export class RecordingTransport implements Transport {
  readonly #inner: Transport
  #calls: Authorisation[] = []

  constructor(inner: Transport) {
    this.#inner = inner
  }

  readonly send: Transport['send'] = (operation, input, options) => {
    this.#calls.push(...authorisationsOf(operation, input))
    return this.#inner.send(operation, input, options)
  }

  /** The records since the last call, without duplicates. */
  take(): Authorisation[] {
    const calls = new Map(this.#calls.map(call => [JSON.stringify(call), call]))
    this.#calls = []
    return [...calls.values()]
  }
}

/** A transaction is authorised as the reads, writes and checks it consists of; a batch as itself, for all its keys. */
function authorisationsOf<O extends Operation>(operation: O, input: OperationInput<O>): Authorisation[] {
  const on = (action: string, ...leadingKeys: (string | undefined)[]): Authorisation => ({
    action: `dynamodb:${action}`,
    target: 'table',
    leadingKeys: leadingKeys.map(key => key ?? ''),
  })
  switch (operation) {
    case 'GetItem':
    case 'UpdateItem':
    case 'DeleteItem':
      return [on(operation, partition((input as OperationInput<'GetItem'>).Key))]
    case 'PutItem':
      return [on(operation, partition((input as OperationInput<'PutItem'>).Item))]
    case 'Query':
      return [queried(input as OperationInput<'Query'>)]
    case 'BatchGetItem': {
      const {RequestItems = {}} = input as OperationInput<'BatchGetItem'>
      return [on(operation, ...Object.values(RequestItems).flatMap(({Keys = []}) => Keys.map(partition)))]
    }
    case 'BatchWriteItem': {
      const {RequestItems = {}} = input as OperationInput<'BatchWriteItem'>
      const requests = Object.values(RequestItems).flat()
      const items = requests.map(({PutRequest, DeleteRequest}) => PutRequest?.Item ?? DeleteRequest?.Key)
      return [on(operation, ...items.map(partition))]
    }
    case 'TransactGetItems': {
      const {TransactItems = []} = input as OperationInput<'TransactGetItems'>
      return TransactItems.map(({Get}) => on('GetItem', partition(Get?.Key)))
    }
    case 'TransactWriteItems': {
      const {TransactItems = []} = input as OperationInput<'TransactWriteItems'>
      return TransactItems.map(({Put, Update, Delete, ConditionCheck}) => {
        if (Put) return on('PutItem', partition(Put.Item))
        if (Update) return on('UpdateItem', partition(Update.Key))
        if (Delete) return on('DeleteItem', partition(Delete.Key))
        return on('ConditionCheckItem', partition(ConditionCheck?.Key))
      })
    }
    case 'ListTables':
      return [{action: 'dynamodb:ListTables', target: 'account', leadingKeys: undefined}]
    default:
      return [{action: `dynamodb:${operation}`, target: 'table', leadingKeys: undefined}]
  }
}

function partition(item: object | undefined): string | undefined {
  return item && readString(item as Item, 'PK')
}

/** For a query on an index, the leading key is the index's. */
function queried(input: OperationInput<'Query'>): Authorisation {
  const {IndexName, KeyConditionExpression = '', ExpressionAttributeNames = {}, ExpressionAttributeValues = {}} = input
  const attribute = IndexName === undefined ? 'PK' : `${IndexName}PK`
  const equalities = [...KeyConditionExpression.matchAll(/([#\w]+) = (:\w+)/g)]
  const found = equalities.find(([, name = '']) => (ExpressionAttributeNames[name] ?? name) === attribute)
  const key = readString(ExpressionAttributeValues as Item, found?.[2] ?? '')
  if (key === undefined) throw new Error(`no partition key in "${KeyConditionExpression}"`)
  const target = IndexName === undefined ? 'table' : (`index/${IndexName}` as const)
  return {action: 'dynamodb:Query', target, leadingKeys: [key]}
}
