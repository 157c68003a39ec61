import {isRetryableWhenIdempotent} from '../../dynamo/errors.js'
import type {Backoff} from '../../dynamo/retry.js'
import {retrying} from '../../dynamo/retry.js'
import type {Transport} from '../../dynamo/transport.js'
import {type Item, type Key, s} from '../../schema/attribute-value.js'

/** The table, and everything that is passed in and never reached for. */
export interface Table {
  readonly name: string
  readonly transport: Transport
  /** Epoch milliseconds, corrected to the server's clock where that is known. */
  readonly clock: () => number
  readonly randomBytes: (count: number) => Uint8Array
  readonly backoff: Backoff
}

/** A table seen from within one namespace. */
export interface NamespaceTable extends Table {
  /** The opaque id that prefixes every key, not the name. */
  readonly namespace: string
}

/** The same table for work that ends with a signal, whether it hands one on or not: requests and pauses are given up. */
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

/** A primary key in the spelling of a request. */
export function wireKey({PK, SK}: Key): {PK: {S: string}; SK: {S: string}} {
  return {PK: s(PK), SK: s(SK)}
}

/** One item, strongly consistent unless said otherwise; `undefined` when there is none. */
export async function getItem(
  table: Table,
  key: Key,
  options: {consistent?: boolean; signal?: AbortSignal | undefined} = {},
): Promise<Item | undefined> {
  const {consistent = true, signal} = options
  const request = {TableName: table.name, Key: wireKey(key), ConsistentRead: consistent}
  const answer = await retrying(() => table.transport.send('GetItem', request, {signal}), {
    ...table.backoff,
    signal,
    retryable: isRetryableWhenIdempotent,
  })
  return answer.Item
}
