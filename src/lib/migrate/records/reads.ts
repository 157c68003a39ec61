import {batchGet} from '../../dynamo/batch.js'
import {type RangeQuery, readAll} from '../../repository/table/query.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {MIGRATION_MARK} from '../../schema/migration-marks.js'
import type {MigrationContext, OldItem} from './finding.js'

/** Reads items by key, strongly consistent; the result is by `keyId`. */
export function readItems({table, signal}: MigrationContext, wanted: Iterable<Key>): Promise<Map<string, Item>> {
  return batchGet(table.transport, table.name, wanted, {backoff: table.backoff, consistent: true, signal})
}

/** The same, of each item its key and its migration mark only, which is faster where the mark decides. */
export function readMarks({table, signal}: MigrationContext, wanted: Iterable<Key>): Promise<Map<string, Item>> {
  const projection = [MIGRATION_MARK]
  return batchGet(table.transport, table.name, wanted, {backoff: table.backoff, consistent: true, projection, signal})
}

export async function* queryOldItems(context: MigrationContext, range: RangeQuery): AsyncGenerator<OldItem, void> {
  for await (const item of readAll(context.table, range, undefined, context.signal)) {
    const old = oldItemOf(context, item)
    if (old) yield old
  }
}

export function oldItemOf(context: MigrationContext, item: Item): OldItem | undefined {
  const record = context.classify(item)
  return record.kind === 'old' ? {item, record} : undefined
}

export const isOfType =
  <T extends OldItem['record']['type']>(type: T) =>
  (old: OldItem): old is OldItem<T> =>
    old.record.type === type
