import {ExpressionBuilder} from '../dynamo/expression.js'
import {retrying} from '../dynamo/retry.js'
import {keyOf} from '../repository/query.js'
import {wireKey} from '../repository/table.js'
import {type Item, type Key, s} from '../schema/attribute-value.js'
import type {Stage} from './finding.js'

/** Items in memory at once; also how much is done again after a crash. */
const ITEMS_PER_PAGE = 1000

/** A part of the table, and where the next one starts. */
export interface TablePage {
  readonly items: readonly Item[]
  /** Items gone through, those that were left out included. */
  readonly scanned: number
  readonly next: Key | undefined
}

export interface ScanOptions {
  /** Where an earlier scan stopped. */
  readonly position?: Key | undefined
  /** Items whose sort key begins with one of these stay in the engine. */
  readonly leaveOut?: readonly string[]
}

/** The whole table, page by page. */
export async function* tablePages(stage: Stage, options: ScanOptions = {}): AsyncGenerator<TablePage, void> {
  const {table, signal} = stage
  const e = new ExpressionBuilder()
  for (const prefix of options.leaveOut ?? []) e.filter(`NOT begins_with(${e.name('SK')}, ${e.value(s(prefix))})`)
  const input = {TableName: table.name, ConsistentRead: true, Limit: ITEMS_PER_PAGE, ...e.read()}
  let {position} = options
  do {
    const request = position ? {...input, ExclusiveStartKey: wireKey(position)} : input
    const send = () => table.transport.send('Scan', request, {signal})
    const {Items = [], ScannedCount = Items.length, LastEvaluatedKey} = await retrying(send, {...table.backoff, signal})
    position = LastEvaluatedKey && keyOf(LastEvaluatedKey)
    yield {items: Items, scanned: ScannedCount, next: position}
  } while (position)
}
