import {isRetryableWhenIdempotent, Unavailable, ValidationFailed} from '../../dynamo/errors.js'
import {DEFAULT_ATTEMPTS, pause, retrying} from '../../dynamo/retry.js'
import type {Operation, OperationInput, OperationOutput} from '../../dynamo/transport.js'
import {loadTableDefinition, type TableDefinition} from '../../schema/table-definition.js'
import type {MigrationContext} from '../records/finding.js'

const POLL_MS = 2_000

/** What a table lacks of what the template describes. */
export interface MissingParts {
  readonly indexes: readonly string[]
  readonly stream: boolean
  readonly expiry: boolean
}

/** Whom to tell, and what to leave out. */
export interface AddIndexesOptions {
  /** Local engines write much slower with a stream; tables that nothing follows do without. Default true. */
  readonly stream?: boolean | undefined
  /** Called with the index that is being built, again and again while it is. */
  readonly onWaiting?: (index: string) => void
}

/** Adds what is missing, one after the other, and waits until each can be used. Resolves to what was added. */
export async function addMissingParts(stage: MigrationContext, options: AddIndexesOptions = {}): Promise<string[]> {
  const definition = await loadTableDefinition({tableName: stage.table.name})
  const missing = await findMissingParts(stage, definition)
  const added: string[] = []
  for (const index of missing.indexes) {
    await waitUntilActive(stage, index, options)
    const isThere = ({indexes}: MissingParts) => !indexes.includes(index)
    await change(stage, definition, isThere, 'UpdateTable', createIndex(definition, index))
    await waitUntilActive(stage, index, options)
    added.push(`index ${index}`)
  }
  const {StreamSpecification} = definition.create
  if (missing.stream && options.stream !== false && StreamSpecification) {
    const input = {TableName: stage.table.name, StreamSpecification}
    await change(stage, definition, ({stream}) => !stream, 'UpdateTable', input)
    await waitUntilActive(stage, 'stream', options)
    added.push('stream')
  }
  if (missing.expiry) {
    const TimeToLiveSpecification = {AttributeName: definition.ttlAttribute, Enabled: true}
    const input = {TableName: stage.table.name, TimeToLiveSpecification}
    await change(stage, definition, ({expiry}) => !expiry, 'UpdateTimeToLive', input)
    added.push('expiry')
  }
  return added
}

/** Looks what is missing; writes nothing. */
export async function findMissingParts(stage: MigrationContext, definition?: TableDefinition): Promise<MissingParts> {
  const {create, ttlAttribute} = definition ?? (await loadTableDefinition({tableName: stage.table.name}))
  const {Table} = await send(stage, 'DescribeTable', {TableName: stage.table.name})
  const there = new Set(Table?.GlobalSecondaryIndexes?.map(({IndexName}) => IndexName))
  return {
    indexes: create.GlobalSecondaryIndexes.map(({IndexName}) => IndexName).filter(name => !there.has(name)),
    stream: Table?.StreamSpecification?.StreamEnabled !== true,
    expiry: !(await hasExpiry(stage, ttlAttribute)),
  }
}

/** An engine that knows nothing of expiry needs none. */
async function hasExpiry(stage: MigrationContext, attribute: string): Promise<boolean> {
  try {
    const {TimeToLiveDescription: found} = await send(stage, 'DescribeTimeToLive', {TableName: stage.table.name})
    return found?.AttributeName === attribute || /^ENABL/.test(found?.TimeToLiveStatus ?? '')
  } catch (error) {
    if (error instanceof ValidationFailed) return true
    throw error
  }
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

/** DynamoDB builds one index at a time and refuses other changes meanwhile. */
async function waitUntilActive(stage: MigrationContext, what: string, {onWaiting}: AddIndexesOptions): Promise<void> {
  const {table, signal} = stage
  for (;;) {
    const {Table} = await send(stage, 'DescribeTable', {TableName: table.name})
    const states = [Table?.TableStatus, ...(Table?.GlobalSecondaryIndexes ?? []).map(({IndexStatus}) => IndexStatus)]
    // Some engines do not tell the state of an index; it is then usable at once.
    if (states.every(state => state === undefined || state === 'ACTIVE')) return
    onWaiting?.(what)
    await pause(0, {...table.backoff, random: () => 1, baseMs: POLL_MS, maxMs: POLL_MS}, signal)
  }
}

/** A change that is asked for twice is refused the second time; after a lost answer the table itself tells. */
async function change<O extends 'UpdateTable' | 'UpdateTimeToLive'>(
  stage: MigrationContext,
  definition: TableDefinition,
  isThere: (missing: MissingParts) => boolean,
  operation: O,
  input: OperationInput<O>,
): Promise<void> {
  const {table, signal} = stage
  for (let attempt = 0; ; attempt++) {
    try {
      await retrying(() => table.transport.send(operation, input, {signal}), {...table.backoff, signal})
      return
    } catch (error) {
      if (isThere(await findMissingParts(stage, definition))) return
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
  const options = {...table.backoff, signal, retryable: isRetryableWhenIdempotent}
  return retrying(() => table.transport.send(operation, input, {signal}), options)
}
