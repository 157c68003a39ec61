import {ExpressionBuilder} from '../../dynamo/expression.js'
import {retrying} from '../../dynamo/retry.js'
import {keyOf} from '../../repository/table/query.js'
import {wireKey} from '../../repository/table/table.js'
import {type Item, type Key, s} from '../../schema/attribute-value.js'
import type {MigrationContext} from '../records/finding.js'

/** Items read at once; also how much is done again after a crash. */
const ITEMS_PER_PAGE = 500

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
  /** Read the next page while this one is worked on; it may be out of date by then. */
  readonly ahead?: boolean
}

/** The whole table, page by page. */
export async function* tablePages(stage: MigrationContext, options: ScanOptions = {}): AsyncGenerator<TablePage, void> {
  const {table, signal} = stage
  const e = new ExpressionBuilder()
  for (const prefix of options.leaveOut ?? []) e.filter(`NOT begins_with(${e.name('SK')}, ${e.value(s(prefix))})`)
  const input = {TableName: table.name, ConsistentRead: true, Limit: ITEMS_PER_PAGE, ...e.read()}
  const read = async (position: Key | undefined): Promise<TablePage> => {
    const request = position ? {...input, ExclusiveStartKey: wireKey(position)} : input
    const send = () => table.transport.send('Scan', request, {signal})
    const {Items = [], ScannedCount = Items.length, LastEvaluatedKey} = await retrying(send, {...table.backoff, signal})
    return {items: Items, scanned: ScannedCount, next: LastEvaluatedKey && keyOf(LastEvaluatedKey)}
  }
  let page = await read(options.position)
  for (;;) {
    const following = options.ahead && page.next ? read(page.next) : undefined
    // A failure is heard when its page is wanted; whoever stops before does not want it.
    following?.catch(() => {})
    yield page
    if (!page.next) return
    page = await (following ?? read(page.next))
  }
}
