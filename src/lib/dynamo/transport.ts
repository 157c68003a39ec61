import type * as sdk from '@aws-sdk/client-dynamodb'
import type {ConsumedCapacity} from '@aws-sdk/client-dynamodb'
import type {AttributeValue} from '../schema/attribute-value.js'

/** The SDK's shape with its attribute values replaced by ours, all the way down. */
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
  /** Aborting gives `Aborted`; a signal of `AbortSignal.timeout` is a deadline and gives `Unavailable`. */
  signal?: AbortSignal | undefined
  /** A deadline without the cost of a signal: after so many ms without an answer the request fails as `Unavailable`. */
  timeoutMs?: number | undefined
}

/**
 * The seam between zael and DynamoDB. One `send` is at most one HTTP request: a retry of an `ADD` whose answer was lost
 * could count twice, so only callers, who know what they write, retry. Failures are the errors of `errors.ts`.
 */
export interface Transport {
  send<O extends Operation>(operation: O, input: OperationInput<O>, options?: SendOptions): Promise<OperationOutput<O>>
}

export interface ClosableTransport extends Transport {
  /** Closes its own connections; used again, it opens new ones. */
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

/** Whether the operation is about items and not about tables. */
export function isDataOperation(operation: Operation): boolean {
  return DATA_OPERATIONS.has(operation)
}

/** One response, error answers included, as a transport reports it. Times are ms since 1970. */
export interface ResponseInfo {
  operation: Operation
  sentAtMs: number
  receivedAtMs: number
  /** The server's `Date` header, cut to whole seconds; undefined when missing or malformed. */
  serverDateMs: number | undefined
  /** The service refused the request because of its time: its own date is the right one, however far off. */
  isTimeRefused?: boolean
  /** One entry per table; empty unless capacity is metered. */
  capacity: readonly ConsumedCapacity[]
}

export function dateOf(header: string | undefined): number | undefined {
  const date = Date.parse(header ?? '')
  return Number.isNaN(date) ? undefined : date
}

export function capacityOf(output: unknown): readonly ConsumedCapacity[] {
  const {ConsumedCapacity: consumed} = (output ?? {}) as {ConsumedCapacity?: ConsumedCapacity | ConsumedCapacity[]}
  if (consumed === undefined) return []
  return Array.isArray(consumed) ? consumed : [consumed]
}

/** Whether an error of the service is about the time at which the request was signed. */
export function refusesTime(error: {readonly name?: unknown; readonly message?: unknown}): boolean {
  return error.name === 'RequestTimeTooSkewed' || /signature (expired|not yet current)/i.test(String(error.message))
}
