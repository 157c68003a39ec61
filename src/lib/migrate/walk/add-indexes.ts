import {valueFor} from '../../core/errors.js'
import {Unavailable, ValidationFailed} from '../../dynamo/errors.js'
import {DEFAULT_ATTEMPTS, pause, retrying} from '../../dynamo/retry.js'
import {loadTableDefinition, type TableDefinition} from '../../dynamo/table-definition.js'
import type {Operation, OperationInput, OperationOutput} from '../../dynamo/transport.js'
import {sendRepeatable} from '../../repository/table/table.js'
import type {MigrationContext} from '../records/finding.js'

const POLL_MS = 2_000

export type MissingParts = Readonly<Awaited<ReturnType<typeof findMissingParts>>>

interface AddIndexesOptions {
  /** Enable the stream. Local engines write much slower with one. Default: true. */
  readonly stream?: boolean | undefined
  /** Called repeatedly while a part is being built. */
  readonly onWaiting?: (part: string) => void
}

/** One after the other, each awaited until active. Resolves to the parts added. */
export async function addMissingParts(context: MigrationContext, options: AddIndexesOptions = {}): Promise<string[]> {
  const definition = await loadTableDefinition({tableName: context.table.name})
  const missing = await findMissingParts(context, definition)
  const added: string[] = []
  for (const index of missing.indexes) {
    await waitUntilActive(context, index, options)
    const isDone = ({indexes}: MissingParts) => !indexes.includes(index)
    await change(context, definition, isDone, 'UpdateTable', createIndex(definition, index))
    await waitUntilActive(context, index, options)
    added.push(`index ${index}`)
  }
  const {StreamSpecification} = definition.create
  if (missing.stream && options.stream !== false && StreamSpecification) {
    const input = {TableName: context.table.name, StreamSpecification}
    await change(context, definition, ({stream}) => !stream, 'UpdateTable', input)
    await waitUntilActive(context, 'stream', options)
    added.push('stream')
  }
  if (missing.expiry) {
    const TimeToLiveSpecification = {AttributeName: definition.ttlAttribute, Enabled: true}
    const input = {TableName: context.table.name, TimeToLiveSpecification}
    await change(context, definition, ({expiry}) => !expiry, 'UpdateTimeToLive', input)
    added.push('expiry')
  }
  return added
}

export async function findMissingParts(context: MigrationContext, definition?: TableDefinition) {
  const {create, ttlAttribute} = definition ?? (await loadTableDefinition({tableName: context.table.name}))
  const {Table} = await send(context, 'DescribeTable', {TableName: context.table.name})
  const existing = new Set(Table?.GlobalSecondaryIndexes?.map(({IndexName}) => IndexName))
  return {
    indexes: create.GlobalSecondaryIndexes.map(({IndexName}) => IndexName).filter(name => !existing.has(name)),
    stream: Table?.StreamSpecification?.StreamEnabled !== true,
    expiry: !(await hasExpiry(context, ttlAttribute)),
  }
}

/** Engines that do not support expiry need none. */
async function hasExpiry(context: MigrationContext, attribute: string): Promise<boolean> {
  const reading = send(context, 'DescribeTimeToLive', {TableName: context.table.name})
  const found = await reading.catch(valueFor([ValidationFailed], undefined))
  const {TimeToLiveDescription: expiry} = found ?? {}
  return !found || expiry?.AttributeName === attribute || /^ENABL/.test(expiry?.TimeToLiveStatus ?? '')
}

function createIndex({create}: TableDefinition, name: string): OperationInput<'UpdateTable'> {
  const index = create.GlobalSecondaryIndexes.find(({IndexName}) => IndexName === name)
  if (!index) throw new RangeError(`no index ${name} in the template`)
  const used = new Set([...create.KeySchema, ...index.KeySchema].map(({AttributeName}) => AttributeName))
  return {
    TableName: create.TableName,
    AttributeDefinitions: create.AttributeDefinitions.filter(({AttributeName}) => used.has(AttributeName)),
    GlobalSecondaryIndexUpdates: [{Create: index}],
  }
}

/** DynamoDB builds one index at a time and rejects other changes meanwhile. */
async function waitUntilActive(context: MigrationContext, part: string, {onWaiting}: AddIndexesOptions): Promise<void> {
  const {table, signal} = context
  for (;;) {
    const {Table} = await send(context, 'DescribeTable', {TableName: table.name})
    const states = [Table?.TableStatus, ...(Table?.GlobalSecondaryIndexes ?? []).map(({IndexStatus}) => IndexStatus)]
    // Some engines do not report the state of an index, which is then active at once.
    if (states.every(state => state === undefined || state === 'ACTIVE')) return
    onWaiting?.(part)
    await pause(0, {...table.backoff, random: () => 1, baseMs: POLL_MS, maxMs: POLL_MS}, signal)
  }
}

/** Repeating a change is an error, so after a failure, perhaps a lost response, the table is checked. */
async function change<O extends 'UpdateTable' | 'UpdateTimeToLive'>(
  context: MigrationContext,
  definition: TableDefinition,
  isDone: (missing: MissingParts) => boolean,
  operation: O,
  input: OperationInput<O>,
): Promise<void> {
  const {table, signal} = context
  for (let attempt = 0; ; attempt++) {
    try {
      await retrying(() => table.transport.send(operation, input, {signal}), {...table.backoff, signal})
      return
    } catch (error) {
      if (isDone(await findMissingParts(context, definition))) return
      if (!(error instanceof Unavailable) || attempt >= DEFAULT_ATTEMPTS) throw error
    }
    await pause(attempt, table.backoff, signal)
  }
}

function send<O extends Operation>(
  {table, signal}: MigrationContext,
  operation: O,
  input: OperationInput<O>,
): Promise<OperationOutput<O>> {
  return sendRepeatable(table, operation, input, {signal})
}
