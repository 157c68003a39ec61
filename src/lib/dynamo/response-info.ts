import type {ConsumedCapacity} from '@aws-sdk/client-dynamodb'
import type {Operation} from './transport.js'

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
