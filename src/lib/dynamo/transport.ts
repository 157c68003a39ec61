import type * as sdk from '@aws-sdk/client-dynamodb'
import type {ConsumedCapacity} from '@aws-sdk/client-dynamodb'
import {checkTimeoutMs} from '../core/text/duration.js'
import type {AttributeValue} from '../schema/attribute-value.js'

type Wire<T> = T extends sdk.AttributeValue
  ? AttributeValue
  : T extends Date | Uint8Array
    ? T
    : T extends object
      ? {[K in keyof T]: Wire<T[K]>}
      : T

interface Operations {
  GetItem: {input: sdk.GetItemInput; output: sdk.GetItemOutput}
  PutItem: {input: sdk.PutItemInput; output: sdk.PutItemOutput}
  UpdateItem: {input: sdk.UpdateItemInput; output: sdk.UpdateItemOutput}
  DeleteItem: {input: sdk.DeleteItemInput; output: sdk.DeleteItemOutput}
  Query: {input: sdk.QueryInput; output: sdk.QueryOutput}
  Scan: {input: sdk.ScanInput; output: sdk.ScanOutput}
  BatchGetItem: {input: sdk.BatchGetItemInput; output: sdk.BatchGetItemOutput}
  BatchWriteItem: {input: sdk.BatchWriteItemInput; output: sdk.BatchWriteItemOutput}
  TransactWriteItems: {input: sdk.TransactWriteItemsInput; output: sdk.TransactWriteItemsOutput}
  TransactGetItems: {input: sdk.TransactGetItemsInput; output: sdk.TransactGetItemsOutput}
  CreateTable: {input: sdk.CreateTableInput; output: sdk.CreateTableOutput}
  DescribeTable: {input: sdk.DescribeTableInput; output: sdk.DescribeTableOutput}
  DeleteTable: {input: sdk.DeleteTableInput; output: sdk.DeleteTableOutput}
  UpdateTable: {input: sdk.UpdateTableInput; output: sdk.UpdateTableOutput}
  ListTables: {input: sdk.ListTablesInput; output: sdk.ListTablesOutput}
  UpdateTimeToLive: {input: sdk.UpdateTimeToLiveInput; output: sdk.UpdateTimeToLiveOutput}
  DescribeTimeToLive: {input: sdk.DescribeTimeToLiveInput; output: sdk.DescribeTimeToLiveOutput}
  DescribeContinuousBackups: {
    input: sdk.DescribeContinuousBackupsInput
    output: sdk.DescribeContinuousBackupsOutput
  }
  TagResource: {input: sdk.TagResourceInput; output: sdk.TagResourceCommandOutput}
}

export type Operation = keyof Operations

export type OperationInput<O extends Operation> = Wire<Operations[O]['input']>

export type OperationOutput<O extends Operation> = Wire<Operations[O]['output']>

export interface SendOptions {
  /** Aborting throws `Aborted`; the deadline of `AbortSignal.timeout` throws `Unavailable`. */
  signal?: AbortSignal | undefined
  /** A deadline in ms without the cost of a signal; throws `Unavailable`. */
  timeoutMs?: number | undefined
}

/** One `send` is at most one HTTP request. Only callers retry: repeating an `ADD` could count twice. */
export interface Transport {
  send<O extends Operation>(operation: O, input: OperationInput<O>, options?: SendOptions): Promise<OperationOutput<O>>
}

export interface ClosableTransport extends Transport {
  /** Closes its own connections. Using it again opens new ones. */
  close(): Promise<void>
}

const READS: ReadonlySet<Operation> = new Set([
  'GetItem',
  'Query',
  'Scan',
  'BatchGetItem',
  'TransactGetItems',
  'DescribeTable',
  'ListTables',
  'DescribeTimeToLive',
  'DescribeContinuousBackups',
] as const)

export function isRead(operation: Operation): boolean {
  return READS.has(operation)
}

const DATA_OPERATIONS: ReadonlySet<Operation> = new Set([
  'GetItem',
  'PutItem',
  'UpdateItem',
  'DeleteItem',
  'Query',
  'Scan',
  'BatchGetItem',
  'BatchWriteItem',
  'TransactWriteItems',
  'TransactGetItems',
] as const)

export function isDataOperation(operation: Operation): boolean {
  return DATA_OPERATIONS.has(operation)
}

/** One response, errors included. Times in epoch ms. */
export interface ResponseInfo {
  operation: Operation
  sentAtMs: number
  receivedAtMs: number
  /** The `Date` header, in whole seconds; undefined if missing or malformed. */
  serverDateMs: number | undefined
  /** The service refused the request's time, so its date is right, however far off. */
  isTimeRefused?: boolean
  /** One entry per table; empty unless capacity is metered. */
  capacity: readonly ConsumedCapacity[]
}

export function capacityOf(output: unknown): readonly ConsumedCapacity[] {
  const {ConsumedCapacity: consumed} = (output ?? {}) as {ConsumedCapacity?: ConsumedCapacity | ConsumedCapacity[]}
  if (consumed === undefined) return []
  return Array.isArray(consumed) ? consumed : [consumed]
}

export function refusesTime(error: {readonly name?: unknown; readonly message?: unknown}): boolean {
  return error.name === 'RequestTimeTooSkewed' || /signature (expired|not yet current)/i.test(String(error.message))
}

export interface TransportOptions {
  clock: () => number
  onResponse?: (info: ResponseInfo) => void
  meterCapacity?: boolean
}

export interface Timeouts {
  /** Includes the wait for a free socket. */
  connectTimeoutMs?: number
  /** How long a response may take to begin, and how long it may stall. */
  requestTimeoutMs?: number
}

export function timeoutsOf(options: Timeouts): Required<Timeouts> {
  const {connectTimeoutMs = 3_000, requestTimeoutMs = 10_000} = options
  return {
    connectTimeoutMs: checkTimeoutMs('connectTimeoutMs', connectTimeoutMs),
    requestTimeoutMs: checkTimeoutMs('requestTimeoutMs', requestTimeoutMs),
  }
}

/** A response may stall, but not repeatedly. */
export function longestExchangeMs(options: Timeouts): number {
  const {connectTimeoutMs, requestTimeoutMs} = timeoutsOf(options)
  return connectTimeoutMs + 3 * requestTimeoutMs
}
