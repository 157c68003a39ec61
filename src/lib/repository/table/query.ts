import {InvalidInput} from '../../core/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {queryItems, scanPages} from '../../dynamo/paging.js'
import type {OperationInput} from '../../dynamo/transport.js'
import {type Item, readString, s} from '../../schema/attribute-value.js'
import {keyNames} from '../../schema/attributes.js'
import {type KeyRange, startKeyOf, wireStartKey} from '../../schema/ranges.js'
import {badCursor, type CursorKind, decodeCursor, encodeCursor, readFromCursor} from './cursor.js'
import type {Table} from './table.js'

/** Reads of the table itself are strongly consistent. */
export interface RangeQuery extends KeyRange {
  /** First and last sort key. */
  readonly between?: readonly [string, string]
  readonly descending?: boolean
}

interface PagedQuery extends RangeQuery {
  readonly kind: CursorKind
}

/** Which part of a listing to read. */
export interface PageRequest {
  /** Records per page. @default all that remain */
  readonly limit?: number | undefined
  /** `next` of the previous page. */
  readonly cursor?: string | undefined
}

/** A page of a listing. */
export interface RecordPage<T> {
  readonly records: readonly T[]
  /** Cursor of the next page; `undefined` at the end. */
  readonly next: string | undefined
}

export function queryInput(table: Table, query: RangeQuery, e = new ExpressionBuilder()): OperationInput<'Query'> {
  const {index, partition, prefix, between, descending} = query
  const [pk, sk] = keyNames(index)
  e.keyCondition(`${e.name(pk)} = ${e.value(s(partition))}`)
  if (prefix !== undefined) e.keyCondition(`begins_with(${e.name(sk)}, ${e.value(s(prefix))})`)
  if (between) e.keyCondition(`${e.name(sk)} BETWEEN ${e.value(s(between[0]))} AND ${e.value(s(between[1]))}`)
  return {
    TableName: table.name,
    ...(index === undefined ? {ConsistentRead: true} : {IndexName: index}),
    ...(descending ? {ScanIndexForward: false} : {}),
    ...e.read(),
  }
}

export function readAll(
  table: Table,
  query: RangeQuery,
  e?: ExpressionBuilder,
  signal?: AbortSignal,
): AsyncGenerator<Item, void> {
  return queryItems(table.transport, queryInput(table, query, e), {backoff: table.backoff, signal})
}

const SCAN_SEGMENTS = 4

/** The whole table, strongly consistent, in any order. */
export async function* scanTable(
  table: Table,
  e: ExpressionBuilder,
  signal: AbortSignal | undefined,
): AsyncGenerator<Item, void> {
  const {KeyConditionExpression: _, ...fields} = e.read()
  const input = {TableName: table.name, ConsistentRead: true, ...fields}
  const options = {backoff: table.backoff, signal, segments: SCAN_SEGMENTS}
  for await (const {items} of scanPages(table.transport, input, options)) yield* items
}

export async function decodeRange<T>(
  table: Table,
  query: RangeQuery,
  decode: (item: Item) => T | undefined,
  options: {readonly e?: ExpressionBuilder; readonly signal?: AbortSignal | undefined} = {},
): Promise<T[]> {
  const records: T[] = []
  for await (const item of readAll(table, query, options.e, options.signal)) {
    const record = decode(item)
    if (record !== undefined) records.push(record)
  }
  return records
}

/** Returns `limit` matches of the filter, however many items lie between the matches. */
export async function readPage(
  table: Table,
  query: PagedQuery,
  {limit, cursor}: PageRequest,
  e?: ExpressionBuilder,
): Promise<RecordPage<Item>> {
  // One more than wanted shows whether there is a next page.
  const wanted = checkPageLimit(limit) + 1
  const input = queryInput(table, query, e)
  if (cursor !== undefined) input.ExclusiveStartKey = startKey(cursor, query)
  // DynamoDB counts items before it filters them: with a filter, small pages would only mean more requests.
  const atMost = input.FilterExpression === undefined && wanted !== Infinity ? wanted : undefined
  const found: Item[] = []
  await readFromCursor(cursor, async () => {
    for await (const item of queryItems(table.transport, input, {backoff: table.backoff, limit: atMost})) {
      found.push(item)
      if (found.length === wanted) break
    }
  })
  if (found.length < wanted) return {records: found, next: undefined}
  const records = found.slice(0, -1)
  return {records, next: cursorAfter(records.at(-1) as Item, query)}
}

/** The item must have all its keys. */
export function cursorAfter(item: Item, {kind, index}: PagedQuery): string {
  return encodeCursor(kind, startKeyOf(item, index))
}

export function checkPageLimit(limit: number | undefined): number {
  if (limit === undefined) return Infinity
  if (Number.isInteger(limit) && limit > 0) return limit
  throw new InvalidInput('page.limit', `A page cannot have ${limit} records. Use a whole number of at least 1.`)
}

/** Refuses a cursor of another partition, perhaps another namespace's (S11). */
function startKey(cursor: string, {kind, index, partition}: PagedQuery): Item {
  const start = wireStartKey(decodeCursor(kind, cursor), index)
  if (readString(start, keyNames(index)[0]) !== partition) throw badCursor(cursor)
  return start
}
