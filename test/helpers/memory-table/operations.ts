import type {Operation, OperationInput, OperationOutput} from '../../../src/lib/dynamo/transport.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {readUnits, reportedCapacity, sumOf, type Units} from './capacity.js'
import {type Page, query, scan} from './read.js'
import {projected, readExpressions} from './request.js'
import {attributesOf, checkKey, textOf} from './schema.js'
import {type Cancellation, cancelled, invalid, MemoryServiceError, tableMissing, throttled} from './service-error.js'
import {type Change, MemoryTable} from './table.js'
import {itemSize} from './values.js'
import {carryOut, checkOnly, type PlannedWrite, planDelete, planPut, planUpdate, returnedItem} from './write.js'

const MOST_IN_TRANSACTION = 100
const MOST_IN_BATCH_WRITE = 25
const MOST_IN_BATCH_GET = 100

type Input<O extends Operation> = OperationInput<O>
type Output<O extends Operation> = OperationOutput<O>
type Handlers = {[O in Operation]?: (input: Input<O>) => Output<O>}

/** Whether a partition, by its key, takes so many more write units now; where it does not, the write is throttled. */
export type MayWrite = (partition: string, units: number) => boolean

/** The operations of DynamoDB, each carried out at once. */
export class MemoryOperations {
  readonly #tables = new Map<string, MemoryTable>()
  readonly #tokens = new Map<string, string>()
  readonly #clock: () => number
  readonly #onChange: (change: Change) => void
  readonly #mayWrite: MayWrite

  constructor(clock: () => number, onChange: (change: Change) => void, mayWrite: MayWrite = () => true) {
    this.#clock = clock
    this.#onChange = onChange
    this.#mayWrite = mayWrite
  }

  carryOut<O extends Operation>(operation: O, input: Input<O>): Output<O> {
    const handler = this.#handlers[operation]
    if (!handler) throw new Error(`the memory table knows no ${operation}`)
    return handler(input)
  }

  table(name: string | undefined): MemoryTable {
    const table = this.#tables.get(name ?? '')
    if (!table) throw tableMissing()
    return table
  }

  readonly #handlers: Handlers = {
    CreateTable: input => {
      const {TableName = ''} = input
      if (this.#tables.has(TableName)) {
        throw new MemoryServiceError('ResourceInUseException', `Table already exists: ${TableName}`)
      }
      this.#tables.set(TableName, new MemoryTable(input))
      return {TableDescription: describe(this.table(TableName))}
    },
    DescribeTable: ({TableName}) => ({Table: describe(this.table(TableName))}),
    ListTables: () => ({TableNames: [...this.#tables.keys()].sort()}),
    DeleteTable: ({TableName}) => {
      const table = this.table(TableName)
      this.#tables.delete(table.name)
      return {TableDescription: {...describe(table), TableStatus: 'DELETING'}}
    },
    UpdateTable: ({TableName, AttributeDefinitions = [], GlobalSecondaryIndexUpdates = []}) => {
      const created = GlobalSecondaryIndexUpdates.flatMap(({Create}) => Create ?? [])
      if (created.length === 0) throw new Error('the memory table changes nothing but indexes')
      this.#tables.set(TableName ?? '', this.table(TableName).withIndexes(AttributeDefinitions, created))
      return {TableDescription: describe(this.table(TableName))}
    },
    UpdateTimeToLive: ({TableName, TimeToLiveSpecification}) => {
      this.table(TableName).timeToLive = TimeToLiveSpecification as MemoryTable['timeToLive']
      return {TimeToLiveSpecification}
    },
    DescribeTimeToLive: ({TableName}) => {
      const {AttributeName, Enabled} = this.table(TableName).timeToLive ?? {}
      const TimeToLiveStatus = Enabled ? 'ENABLED' : 'DISABLED'
      return {TimeToLiveDescription: {TimeToLiveStatus, ...(AttributeName && {AttributeName})}}
    },
    GetItem: input => {
      const table = this.table(input.TableName)
      const {item, units} = this.#get(table, input)
      return {Item: item, ...consumedCapacity(input, table, {table: units, indexes: {}})} as never
    },
    PutItem: input => this.#write(input, planPut(this.table(input.TableName), input as never)),
    UpdateItem: input => this.#write(input, planUpdate(this.table(input.TableName), input as never)),
    DeleteItem: input => this.#write(input, planDelete(this.table(input.TableName), input as never)),
    Query: input => this.#page(input, query(this.table(input.TableName), input)),
    Scan: input => this.#page(input, scan(this.table(input.TableName), input)),
    BatchGetItem: input => this.#batchGet(input),
    BatchWriteItem: input => this.#batchWrite(input),
    TransactWriteItems: input => this.#transact(input),
    TransactGetItems: input => this.#transactGet(input),
  }

  #get(table: MemoryTable, input: {Key?: Item | undefined; ConsistentRead?: boolean | undefined}) {
    const expressions = readExpressions(input as never)
    const stored = table.items.get(checkKey(input.Key, table.schema))
    const units = readUnits(stored ? itemSize(stored) : 0, input.ConsistentRead)
    return {item: stored && projected(stored, expressions), units}
  }

  #write(input: object, planned: PlannedWrite): never {
    const {ReturnValues} = input as {ReturnValues?: string}
    if (!this.#takes(planned)) throw throttled()
    const units = this.#perform(planned)
    const Attributes = returnedItem(planned, ReturnValues)
    return {...(Attributes && {Attributes}), ...consumedCapacity(input, planned.table, units)} as never
  }

  /** `times` is 2 in a transaction, which writes each item twice. */
  #takes({table, before, after}: PlannedWrite, times = 1): boolean {
    const item = after ?? before
    if (!item) return true
    const units = Math.max(1, ...[before, after].map(each => (each ? Math.ceil(itemSize(each) / 1024) : 0)))
    return this.#mayWrite(textOf(item[table.schema.hash]), times * units)
  }

  #perform(planned: PlannedWrite): Units {
    const {units, change} = carryOut(planned, this.#clock())
    if (change) this.#onChange(change)
    return units
  }

  #page(input: {TableName?: string | undefined}, {units, ...page}: Page): never {
    const table = this.table(input.TableName)
    return {...defined(page), ...consumedCapacity(input, table, units)} as never
  }

  #batchGet(input: Input<'BatchGetItem'>): Output<'BatchGetItem'> {
    const Responses: Record<string, Item[]> = {}
    const capacity: unknown[] = []
    for (const [name, {Keys = [], ...rest}] of Object.entries(input.RequestItems ?? {})) {
      const table = this.table(name)
      refuseMany(Keys.length, MOST_IN_BATCH_GET)
      refuseTwice(table, Keys as Item[])
      const found = Keys.map(Key => this.#get(table, {...rest, Key: Key as Item}))
      Responses[name] = found.flatMap(({item}) => (item ? [item] : []))
      const units = found.reduce((sum, each) => sum + each.units, 0)
      capacity.push(reportedCapacity(input.ReturnConsumedCapacity, name, {table: units, indexes: {}}) ?? [])
    }
    return {Responses, UnprocessedKeys: {}, ...list(capacity)} as never
  }

  #batchWrite(input: Input<'BatchWriteItem'>): Output<'BatchWriteItem'> {
    const capacity: unknown[] = []
    const UnprocessedItems: Record<string, unknown> = {}
    for (const [name, requests] of Object.entries(input.RequestItems ?? {})) {
      const table = this.table(name)
      refuseMany(requests.length, MOST_IN_BATCH_WRITE)
      refuseTwice(
        table,
        requests.map(({PutRequest, DeleteRequest}) => (PutRequest?.Item ?? DeleteRequest?.Key) as Item),
      )
      const planned = requests.map(({PutRequest, DeleteRequest}) =>
        PutRequest ? planPut(table, PutRequest as never) : planDelete(table, DeleteRequest as never),
      )
      const isTaken = planned.map(each => this.#takes(each))
      if (!isTaken.includes(true)) throw throttled()
      const left = requests.filter((_, at) => !isTaken[at])
      if (left.length > 0) UnprocessedItems[name] = left
      const units = sumOf(planned.filter((_, at) => isTaken[at]).map(each => this.#perform(each)))
      capacity.push(reportedCapacity(input.ReturnConsumedCapacity, name, units) ?? [])
    }
    return {UnprocessedItems, ...list(capacity)} as never
  }

  #transact(input: Input<'TransactWriteItems'>): Output<'TransactWriteItems'> {
    const {TransactItems = [], ClientRequestToken: token, ReturnConsumedCapacity} = input
    refuseMany(TransactItems.length, MOST_IN_TRANSACTION)
    const asked = token === undefined ? '' : JSON.stringify(TransactItems)
    if (token !== undefined && this.#tokens.has(token)) {
      if (this.#tokens.get(token) === asked) return {} as never
      throw new MemoryServiceError('IdempotentParameterMismatchException', 'The token was used for another request')
    }
    this.#refuseSameItem(TransactItems)
    const planned = this.#planAll(TransactItems)
    const reasons = planned.map(each => ({Code: this.#takes(each, 2) ? 'None' : 'ThrottlingError'}))
    if (reasons.some(({Code}) => Code !== 'None')) throw cancelled(reasons)
    if (token !== undefined) this.#tokens.set(token, asked)
    const units = planned.map(each => ({name: each.table.name, units: this.#perform(each)}))
    const capacity = [...new Set(units.map(({name}) => name))].map(name => {
      const {table, indexes} = sumOf(units.filter(each => each.name === name).map(each => each.units))
      // Twice for the items, once for the indexes.
      return reportedCapacity(ReturnConsumedCapacity, name, {table: 2 * table, indexes}, 'WriteCapacityUnits') ?? []
    })
    return list(capacity) as never
  }

  #refuseSameItem(items: NonNullable<Input<'TransactWriteItems'>['TransactItems']>): void {
    const keys = items.map(({Put, Update, Delete, ConditionCheck}) => {
      const request = Put ?? Update ?? Delete ?? ConditionCheck
      const table = this.table(request?.TableName)
      return `${table.name} ${keyText(table, (Put?.Item ?? (request as {Key?: Item})?.Key ?? {}) as Item)}`
    })
    if (new Set(keys).size < keys.length) {
      throw invalid('Transaction request cannot include multiple operations on one item')
    }
  }

  /** All of them, or the reasons why not. */
  #planAll(items: NonNullable<Input<'TransactWriteItems'>['TransactItems']>): PlannedWrite[] {
    const planned: PlannedWrite[] = []
    const reasons = items.map(({Put, Update, Delete, ConditionCheck}): Cancellation => {
      const request = (Put ?? Update ?? Delete ?? ConditionCheck) as {TableName: string}
      const plan = Put ? planPut : Update ? planUpdate : Delete ? planDelete : checkOnly
      try {
        planned.push(plan(this.table(request.TableName), request as never))
        return {Code: 'None'}
      } catch (error) {
        return reasonOf(error)
      }
    })
    if (reasons.some(({Code}) => Code !== 'None')) throw cancelled(reasons)
    return planned
  }

  #transactGet({TransactItems = [], ReturnConsumedCapacity}: Input<'TransactGetItems'>): Output<'TransactGetItems'> {
    const found = TransactItems.map(({Get}) => {
      const table = this.table(Get?.TableName)
      return {name: table.name, ...this.#get(table, {...(Get as {Key?: Item}), ConsistentRead: true})}
    })
    const capacity = [...new Set(found.map(({name}) => name))].map(name => {
      const units = found.filter(each => each.name === name).reduce((sum, each) => sum + 2 * each.units, 0)
      return reportedCapacity(ReturnConsumedCapacity, name, {table: units, indexes: {}}, 'ReadCapacityUnits') ?? []
    })
    return {Responses: found.map(({item}) => (item ? {Item: item} : {})), ...list(capacity)} as never
  }
}

function reasonOf(error: unknown): Cancellation {
  if (!(error instanceof MemoryServiceError)) throw error
  if (error.name === 'ConditionalCheckFailedException') {
    return {Code: 'ConditionalCheckFailed', Message: error.message, Item: error.Item}
  }
  if (error.name === 'ValidationException') return {Code: 'ValidationError', Message: error.message}
  throw error
}

function consumedCapacity(input: object, {name}: MemoryTable, units: Units): object {
  const {ReturnConsumedCapacity} = input as {ReturnConsumedCapacity?: string}
  const capacity = reportedCapacity(ReturnConsumedCapacity, name, units)
  return capacity ? {ConsumedCapacity: capacity} : {}
}

function list(capacity: readonly unknown[]): object {
  const all = capacity.flat()
  return all.length > 0 ? {ConsumedCapacity: all} : {}
}

function defined(fields: object): object {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

function refuseMany(count: number, most: number): void {
  if (count < 1 || count > most) throw invalid(`Member must have length between 1 and ${most}: ${count}`)
}

function refuseTwice(table: MemoryTable, keys: readonly Item[]): void {
  if (new Set(keys.map(key => keyText(table, key))).size < keys.length) {
    throw invalid('Provided list of item keys contains duplicates')
  }
}

function keyText({schema}: MemoryTable, item: Item): string {
  return JSON.stringify(attributesOf(schema).map(name => textOf(item[name])))
}

function describe({name, definition, items}: MemoryTable) {
  return {
    TableName: name,
    TableStatus: 'ACTIVE' as const,
    KeySchema: definition.KeySchema,
    AttributeDefinitions: definition.AttributeDefinitions,
    ItemCount: items.size,
    GlobalSecondaryIndexes: definition.GlobalSecondaryIndexes?.map(index => ({
      ...index,
      IndexStatus: 'ACTIVE' as const,
    })),
    ...(definition.StreamSpecification && {StreamSpecification: definition.StreamSpecification}),
  }
}
