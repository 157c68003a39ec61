import type {ConsumedCapacity} from '@aws-sdk/client-dynamodb'
import type {Operation} from './transport.js'

/** What a transport tells its observer about each response, refusals included. Times are ms since 1970. */
export interface ResponseInfo {
  operation: Operation
  sentAtMs: number
  receivedAtMs: number
  /** The server's `Date` header, cut to whole seconds; undefined when missing or malformed. */
  serverDateMs: number | undefined
  /** One entry per table; empty unless capacity is metered. */
  capacity: readonly ConsumedCapacity[]
}

/** The instant of a `Date` header. */
export function dateOf(header: string | undefined): number | undefined {
  const date = Date.parse(header ?? '')
  return Number.isNaN(date) ? undefined : date
}

/** What an answer says it cost. */
export function capacityOf(output: unknown): readonly ConsumedCapacity[] {
  const {ConsumedCapacity: consumed} = (output ?? {}) as {ConsumedCapacity?: ConsumedCapacity | ConsumedCapacity[]}
  if (consumed === undefined) return []
  return Array.isArray(consumed) ? consumed : [consumed]
}
