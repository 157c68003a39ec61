import {InvalidInput} from '../../core/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {queryItems} from '../../dynamo/paging.js'
import type {OperationInput} from '../../dynamo/transport.js'
import {type Item, type Key, s} from '../../schema/attribute-value.js'
import {readString} from '../../schema/read.js'
import {badCursor, type CursorKind, decodeCursor, encodeCursor} from './cursor.js'
import type {Table} from './table.js'

/** A stretch of one partition of the table, or of an index. Reads of the table itself are strongly consistent. */
export interface Stretch {
  readonly index?: 'GSI1' | 'GSI3' | 'GSI4'
  readonly partition: string
  /** What sort keys begin with. */
  readonly prefix?: string
  /** First and last sort key. */
  readonly between?: readonly [string, string]
  readonly descending?: boolean
}

/** A stretch that is read page by page. */
export interface PagedStretch extends Stretch {
  readonly kind: CursorKind
}

/** Which part of a listing is wanted. */
export interface PageRequest {
  /** Records on the page; all that are left when absent. */
  readonly limit?: number | undefined
  /** `next` of the page before. */
  readonly cursor?: string | undefined
}

/** A part of a listing. */
export interface RecordPage<T> {
  readonly records: readonly T[]
  /** The cursor of the next page; `undefined` when nothing is left. */
  readonly next: string | undefined
}

/** The request for a stretch; filters and projections are taken from the builder. */
export function stretchQuery(table: Table, stretch: Stretch, e = new ExpressionBuilder()): OperationInput<'Query'> {
  const {index, partition, prefix, between, descending} = stretch
  const [pk, sk] = keyNames(stretch)
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

/** Every item of a stretch. */
export function readAll(
  table: Table,
  stretch: Stretch,
  e?: ExpressionBuilder,
  signal?: AbortSignal,
): AsyncGenerator<Item, void> {
  return queryItems(table.transport, stretchQuery(table, stretch, e), {backoff: table.backoff, signal})
}

/** The primary key of an item that was read. */
export function keyOf(item: Item): Key {
  return {PK: readString(item, 'PK') ?? '', SK: readString(item, 'SK') ?? ''}
}

/** One page of a stretch: as many matches of the filter as asked for, however many items lie between them. */
export async function readPage(
  table: Table,
  stretch: PagedStretch,
  {limit, cursor}: PageRequest,
  e?: ExpressionBuilder,
): Promise<RecordPage<Item>> {
  // One more than wanted tells whether there is a next page.
  const wanted = checkPageLimit(limit) + 1
  const input = stretchQuery(table, stretch, e)
  if (cursor !== undefined) input.ExclusiveStartKey = startKey(cursor, stretch)
  // DynamoDB counts items before it filters them: with a filter, small pages would only mean more requests.
  const atMost = input.FilterExpression === undefined && wanted !== Infinity ? wanted : undefined
  const found: Item[] = []
  for await (const item of queryItems(table.transport, input, {backoff: table.backoff, limit: atMost})) {
    found.push(item)
    if (found.length === wanted) break
  }
  if (found.length < wanted) return {records: found, next: undefined}
  const records = found.slice(0, -1)
  return {records, next: cursorAfter(records.at(-1) as Item, stretch)}
}

/** The cursor that goes on after an item of a stretch, given all its keys. */
export function cursorAfter(item: Item, stretch: PagedStretch): string {
  return encodeCursor(
    stretch.kind,
    cursorNames(stretch).map(name => readString(item, name) ?? ''),
  )
}

/** The size of a page as a number; Infinity when there is no bound. */
export function checkPageLimit(limit: number | undefined): number {
  if (limit === undefined) return Infinity
  if (Number.isInteger(limit) && limit > 0) return limit
  throw new InvalidInput('page.limit', `A page cannot have ${limit} records: the number must be whole and at least 1.`)
}

function keyNames({index}: Stretch): [string, string] {
  return [`${index ?? ''}PK`, `${index ?? ''}SK`]
}

function cursorNames(stretch: Stretch): string[] {
  return ['PK', 'SK', ...(stretch.index === undefined ? [] : keyNames(stretch))]
}

/** A cursor names its partition, and one of another partition, perhaps another namespace's, is refused (S11). */
function startKey(cursor: string, stretch: PagedStretch): Item {
  const values = decodeCursor(stretch.kind, cursor)
  const start = Object.fromEntries(cursorNames(stretch).map((name, at) => [name, s(values[at] ?? '')]))
  if (start[keyNames(stretch)[0]]?.S !== stretch.partition) throw badCursor(cursor)
  return start
}
