import type {Item} from '../schema/attribute-value.js'
import {type Backoff, retrying} from './retry.js'
import type {OperationInput, Transport} from './transport.js'

interface PagingOptions {
  backoff: Backoff
  signal?: AbortSignal | undefined
  limit?: number | undefined
}

export interface ItemPage {
  items: Item[]
  /** The `ExclusiveStartKey` of the next page; undefined after the last one. */
  next: Item | undefined
}

type PagedOperation = 'Query' | 'Scan'

export function queryPages(
  transport: Transport,
  input: OperationInput<'Query'>,
  options: PagingOptions,
): AsyncGenerator<ItemPage, void> {
  return pages(transport, 'Query', input, options)
}

export async function* queryItems(
  transport: Transport,
  input: OperationInput<'Query'>,
  options: PagingOptions,
): AsyncGenerator<Item, void> {
  for await (const page of queryPages(transport, input, options)) yield* page.items
}

/** Pages of several segments come in any order. */
export async function* scanPages(
  transport: Transport,
  input: OperationInput<'Scan'>,
  options: Omit<PagingOptions, 'limit'> & {segments?: number},
): AsyncGenerator<ItemPage, void> {
  const {segments = 1} = options
  if (segments === 1) {
    yield* pages(transport, 'Scan', input, options)
    return
  }
  const sources = Array.from({length: segments}, (_, segment) =>
    pages(transport, 'Scan', {...input, Segment: segment, TotalSegments: segments}, options),
  )
  yield* merge(sources)
}

async function* pages(
  transport: Transport,
  operation: PagedOperation,
  input: OperationInput<PagedOperation>,
  options: PagingOptions,
): AsyncGenerator<ItemPage, void> {
  const {backoff, signal, limit = Infinity} = options
  let remaining = limit
  let start = input.ExclusiveStartKey
  while (remaining > 0) {
    // Never request more items than wanted: cutting a page would make `next` skip items.
    const size = Math.min(input.Limit ?? Infinity, remaining)
    const request = {
      ...input,
      ...(size === Infinity ? {} : {Limit: size}),
      ...(start === undefined ? {} : {ExclusiveStartKey: start}),
    }
    const answer = await retrying(() => transport.send(operation, request, {signal}), {...backoff, signal})
    const items = answer.Items ?? []
    start = answer.LastEvaluatedKey
    remaining -= items.length
    yield {items, next: start}
    if (start === undefined) return
  }
}

async function* merge<T>(sources: AsyncGenerator<T, void>[]): AsyncGenerator<T, void> {
  const turns = new Map(sources.map(source => [source, turnOf(source)]))
  try {
    while (turns.size > 0) {
      const {source, result} = await Promise.race(turns.values())
      if (result.done) turns.delete(source)
      else {
        yield result.value
        // Only now: if the reader stops here, a pending turn would reject unhandled.
        turns.set(source, turnOf(source))
      }
    }
  } finally {
    await Promise.all(sources.map(source => source.return()))
  }
}

async function turnOf<T>(source: AsyncGenerator<T, void>) {
  return {source, result: await source.next()}
}
