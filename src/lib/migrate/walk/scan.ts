import {ExpressionBuilder} from '../../dynamo/expression.js'
import {retrying} from '../../dynamo/retry.js'
import {type Item, type Key, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {keyOf, partitionOf, wireKey} from '../../schema/keys.js'
import type {MigrationContext} from '../records/finding.js'

/** At most this many are processed again after a crash. */
const ITEMS_PER_PAGE = 500

export interface TablePage {
  readonly items: readonly Item[]
  /** Includes items filtered out. */
  readonly scanned: number
  readonly next: Key | undefined
  /** Whether the page has all items of a partition that are not filtered out. */
  readonly isWhole: (partition: string) => boolean
}

interface ScanOptions {
  readonly position?: Key | undefined
  /** Sort key prefixes. */
  readonly leaveOut?: readonly string[]
  /** Read the next page early. It may be stale when it is processed. */
  readonly ahead?: boolean
}

export async function* tablePages(
  {table, signal}: MigrationContext,
  {position, leaveOut = [], ahead}: ScanOptions = {},
): AsyncGenerator<TablePage, void> {
  const e = new ExpressionBuilder()
  for (const prefix of leaveOut) e.filter(`NOT begins_with(${e.name(attributes.key.sort)}, ${e.value(s(prefix))})`)
  const input = {TableName: table.name, ConsistentRead: true, Limit: ITEMS_PER_PAGE, ...e.read()}
  const read = async (from: Key | undefined): Promise<TablePage> => {
    const request = from ? {...input, ExclusiveStartKey: wireKey(from)} : input
    const send = () => table.transport.send('Scan', request, {signal})
    const {Items = [], ScannedCount = Items.length, LastEvaluatedKey} = await retrying(send, {...table.backoff, signal})
    const next = LastEvaluatedKey && keyOf(LastEvaluatedKey)
    return {items: Items, scanned: ScannedCount, next, isWhole: wholePartitions(Items, from, next)}
  }
  let page = await read(position)
  for (;;) {
    const following = ahead && page.next ? read(page.next) : undefined
    // Requesting the page throws this error. A caller that stops earlier must not get an unhandled rejection.
    following?.catch(() => {})
    yield page
    if (!page.next) return
    page = await (following ?? read(page.next))
  }
}

/** A scan returns partitions one by one, so only those at page ends may continue. In another order, none is whole. */
function wholePartitions(
  items: readonly Item[],
  from: Key | undefined,
  next: Key | undefined,
): (partition: string) => boolean {
  const partitions = items.map(item => partitionOf(keyOf(item)))
  const runs = partitions.filter((partition, at) => partition !== partitions[at - 1])
  const whole = new Set(runs)
  if (whole.size < runs.length) return () => false
  for (const end of [from, next]) if (end) whole.delete(partitionOf(end))
  return partition => whole.has(partition)
}
