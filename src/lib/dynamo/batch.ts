import type {Item, Key} from '../schema/attribute-value.js'
import {keyNames} from '../schema/attributes.js'
import {keyId, keyOf, wireKey} from '../schema/keys.js'
import {chunksOf, forEachConcurrently} from './concurrency.js'
import {isRetryableWhenIdempotent, Throttled} from './errors.js'
import {ExpressionBuilder} from './expression.js'
import {type Backoff, DEFAULT_ATTEMPTS, pause, retrying} from './retry.js'
import type {OperationInput, Transport} from './transport.js'

// DynamoDB's bounds on one request.
const KEYS_PER_GET = 100
const REQUESTS_PER_WRITE = 25
const CONCURRENT_CHUNKS = 4

interface BatchOptions {
  backoff: Backoff
  signal?: AbortSignal | undefined
}

interface BatchGetOptions extends BatchOptions {
  consistent?: boolean
  projection?: readonly string[]
}

interface BatchWriteOptions extends BatchOptions {
  onProgress?: (done: number) => void
}

/** No two requests may name the same key. */
type BatchWriteRequest = {put: Item} | {delete: Key}

type WireRequest = NonNullable<OperationInput<'BatchWriteItem'>['RequestItems']>[string][number]

/**
 * Throws on a partial response, which would look like missing items (D-38). Items by `keyId`, in the order of `keys`.
 */
export async function batchGet(
  transport: Transport,
  table: string,
  keys: Iterable<Key>,
  options: BatchGetOptions,
): Promise<Map<string, Item>> {
  const wanted = new Map<string, Item>()
  for (const key of keys) wanted.set(keyId(key), wireKey(key))
  const {consistent = false, projection} = options
  const expression = new ExpressionBuilder()
  if (projection !== undefined) expression.project(...keyNames(), ...projection)
  const settings = {...expression.read(), ...(consistent ? {ConsistentRead: true} : {})}

  const found = new Map<string, Item>()
  await forEachConcurrently(chunksOf(wanted.values(), KEYS_PER_GET), CONCURRENT_CHUNKS, chunk =>
    drain('BatchGetItem', chunk, options, async pending => {
      const request = {RequestItems: {[table]: {Keys: pending, ...settings}}}
      const answer = await transport.send('BatchGetItem', request, {signal: options.signal})
      for (const item of answer.Responses?.[table] ?? []) found.set(keyId(keyOf(item)), item)
      return answer.UnprocessedKeys?.[table]?.Keys ?? []
    }),
  )
  const ordered = new Map<string, Item>()
  for (const id of wanted.keys()) {
    const item = found.get(id)
    if (item !== undefined) ordered.set(id, item)
  }
  return ordered
}

/**
 * Completed writes stay after a failure. Repeats requests without a response, so no other client may write the items.
 */
export async function batchWrite(
  transport: Transport,
  table: string,
  requests: Iterable<BatchWriteRequest> | AsyncIterable<BatchWriteRequest>,
  options: BatchWriteOptions,
): Promise<void> {
  let done = 0
  await forEachConcurrently(chunksOf(requests, REQUESTS_PER_WRITE), CONCURRENT_CHUNKS, chunk =>
    drain('BatchWriteItem', chunk.map(wireRequest), options, async pending => {
      const request = {RequestItems: {[table]: pending}}
      const answer = await transport.send('BatchWriteItem', request, {signal: options.signal})
      const left = answer.UnprocessedItems?.[table] ?? []
      done += pending.length - left.length
      options.onProgress?.(done)
      return left
    }),
  )
}

/** Gives up after `attempts` in a row without progress. */
async function drain<T>(
  operation: string,
  chunk: T[],
  {backoff, signal}: BatchOptions,
  send: (pending: T[]) => Promise<T[]>,
): Promise<void> {
  const {attempts = DEFAULT_ATTEMPTS} = backoff
  let pending = chunk
  let withoutProgress = 0
  while (pending.length > 0) {
    const left = await retrying(() => send(pending), {...backoff, signal, retryable: isRetryableWhenIdempotent})
    withoutProgress = left.length < pending.length ? 0 : withoutProgress + 1
    if (withoutProgress >= attempts)
      throw new Throttled(operation, new Error(`${left.length} items were never processed`))
    if (left.length > 0) await pause(withoutProgress, backoff, signal)
    pending = left
  }
}

function wireRequest(request: BatchWriteRequest): WireRequest {
  return 'put' in request ? {PutRequest: {Item: request.put}} : {DeleteRequest: {Key: wireKey(request.delete)}}
}
