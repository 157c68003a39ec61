import {valueFor} from '../../core/errors.js'
import {batchGet} from '../../dynamo/batch.js'
import {isRetryableWhenIdempotent, TableMissing} from '../../dynamo/errors.js'
import {type Backoff, retrying} from '../../dynamo/retry.js'
import type {Operation, OperationInput, OperationOutput, SendOptions, Transport} from '../../dynamo/transport.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {indexes} from '../../schema/attributes.js'
import {wireKey} from '../../schema/keys.js'
import type {SteadyTimers} from './timers.js'

export interface Table {
  readonly name: string
  readonly transport: Transport
  /** Epoch milliseconds, by the server's clock where known. */
  readonly clock: () => number
  readonly randomBytes: (count: number) => Uint8Array
  readonly backoff: Backoff
  /** Of holders of slots. @default the system's */
  readonly timers?: SteadyTimers | undefined
}

export interface NamespaceTable extends Table {
  /** The opaque id that prefixes every key, not the name. */
  readonly namespace: string
}

/** For ids that are never reused. They begin with a letter or digit: a hyphen would look like a flag of a command. */
export function randomId({randomBytes}: Pick<Table, 'randomBytes'>, bytes: number): string {
  return Buffer.from(randomBytes(bytes)).toString('base64url').replace(/^[-_]/, 'A')
}

/** The signal aborts requests and pauses, including those with their own signal. */
export function untilAborted<T extends Table>(table: T, signal: AbortSignal): T {
  const {transport, backoff} = table
  const either = (other: AbortSignal | undefined) => (other ? AbortSignal.any([signal, other]) : signal)
  const bound: Transport = {
    send: (operation, input, options) =>
      transport.send(operation, input, {...options, signal: either(options?.signal)}),
  }
  const sleep: Backoff['sleep'] = (ms, other) => backoff.sleep(ms, either(other))
  return {...table, transport: bound, backoff: {...backoff, sleep}}
}

interface ReadOptions {
  readonly consistent?: boolean
  readonly signal?: AbortSignal | undefined
  /** Bounds each attempt. Default: the transport's timeout. */
  readonly timeoutMs?: number | undefined
}

export async function getItem(table: Table, key: Key, options: ReadOptions = {}): Promise<Item | undefined> {
  const {consistent = true, signal, timeoutMs} = options
  const request = {TableName: table.name, Key: wireKey(key), ConsistentRead: consistent}
  return (await sendRepeatable(table, 'GetItem', request, {signal, timeoutMs})).Item
}

/** By `keyId`, in the order of `wanted`. Default: strongly consistent. */
export function getItems(
  {transport, name, backoff}: Table,
  wanted: Iterable<Key>,
  options: Pick<ReadOptions, 'consistent' | 'signal'> & {readonly projection?: readonly string[]} = {},
): Promise<Map<string, Item>> {
  return batchGet(transport, name, wanted, {consistent: true, ...options, backoff})
}

/** Retries even if DynamoDB may have applied the request, so repeating it must be harmless. */
export function sendRepeatable<O extends Operation>(
  {transport, backoff}: Pick<Table, 'transport' | 'backoff'>,
  operation: O,
  request: OperationInput<O>,
  options?: SendOptions,
): Promise<OperationOutput<O>> {
  const send = () => transport.send(operation, request, options)
  return retrying(send, {...backoff, signal: options?.signal, retryable: isRetryableWhenIdempotent})
}

export async function isEmptyTable(table: Table): Promise<boolean> {
  const request = {TableName: table.name, Limit: 1, ConsistentRead: true}
  const {Items = []} = await sendRepeatable(table, 'Scan', request)
  return Items.length === 0
}

export async function describeTable({transport, name: TableName}: Pick<Table, 'transport' | 'name'>) {
  const found = await transport.send('DescribeTable', {TableName}).catch(valueFor([TableMissing], undefined))
  return found && (found.Table ?? {})
}

/** Projection of the table's resource index; `null` without the index; `undefined` without the table. */
export async function readResourceIndex(table: Table): Promise<string | null | undefined> {
  const found = await describeTable(table)
  const index = found?.GlobalSecondaryIndexes?.find(({IndexName}) => IndexName === indexes.resource)
  return found && (index?.Projection?.ProjectionType ?? null)
}
