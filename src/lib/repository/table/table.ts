import {isRetryableWhenIdempotent, TableMissing} from '../../dynamo/errors.js'
import {type Backoff, retrying} from '../../dynamo/retry.js'
import type {Transport} from '../../dynamo/transport.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {indexes} from '../../schema/attributes.js'
import {wireKey} from '../../schema/keys.js'

// Until src/lib/migrations imports it from schema.

export interface Table {
  readonly name: string
  readonly transport: Transport
  /** Epoch milliseconds, corrected to the server's clock where that is known. */
  readonly clock: () => number
  readonly randomBytes: (count: number) => Uint8Array
  readonly backoff: Backoff
}

export interface NamespaceTable extends Table {
  /** The opaque id that prefixes every key, not the name. */
  readonly namespace: string
}

/** The same table for work that a signal ends: it aborts requests and pauses, also those that get a signal of their own. */
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
  /** Bound of each attempt; otherwise that of the transport. */
  readonly timeoutMs?: number | undefined
}

/** One item, by default strongly consistent; `undefined` when there is none. */
export async function getItem(table: Table, key: Key, options: ReadOptions = {}): Promise<Item | undefined> {
  const {consistent = true, signal, timeoutMs} = options
  const request = {TableName: table.name, Key: wireKey(key), ConsistentRead: consistent}
  const answer = await retrying(() => table.transport.send('GetItem', request, {signal, timeoutMs}), {
    ...table.backoff,
    signal,
    retryable: isRetryableWhenIdempotent,
  })
  return answer.Item
}

/** The projection of the table's resource index; `null`: the table has no such index, `undefined`: there is no table. */
export async function readResourceIndex({transport, name: TableName}: Table): Promise<string | null | undefined> {
  try {
    const {Table: found} = await transport.send('DescribeTable', {TableName})
    const index = found?.GlobalSecondaryIndexes?.find(({IndexName}) => IndexName === indexes.resource)
    return index?.Projection?.ProjectionType ?? null
  } catch (error) {
    if (error instanceof TableMissing) return undefined
    throw error
  }
}
