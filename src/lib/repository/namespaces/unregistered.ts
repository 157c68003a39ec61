import {isNamespaceId} from '../../core/names.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {scanPages} from '../../dynamo/paging.js'
import type {Key} from '../../schema/attribute-value.js'
import {attributes, keyNames} from '../../schema/attributes.js'
import {keyOf} from '../../schema/keys.js'
import {splitNamespace} from '../../schema/legacy-key.js'
import {readString} from '../../schema/read.js'
import {getItem, type Table} from '../table/table.js'
import type {Namespace} from './states.js'

const SCAN_SEGMENTS = 4

/**
 * Namespace ids that only records know, by a scan of the whole table. The registry is read after the scan, and one record
 * of each id once more after that: a namespace that is registered or purged meanwhile is not reported.
 */
export async function findUnregistered(
  table: Table,
  registeredIds: () => Promise<ReadonlySet<string>>,
  signal?: AbortSignal,
): Promise<Namespace[]> {
  const found = new Map<string, Key>()
  const {KeyConditionExpression: _, ...fields} = new ExpressionBuilder().project(...keyNames()).read()
  const input = {TableName: table.name, ConsistentRead: true, ...fields}
  for await (const {items} of scanPages(table.transport, input, {
    backoff: table.backoff,
    signal,
    segments: SCAN_SEGMENTS,
  })) {
    for (const item of items) {
      const {namespace} = splitNamespace(readString(item, attributes.key.partition) ?? '')
      if (namespace !== undefined && isNamespaceId(namespace)) found.set(namespace, keyOf(item))
    }
  }
  const registered = await registeredIds()
  const unregistered: Namespace[] = []
  for (const [id, key] of [...found].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (!registered.has(id) && (await getItem(table, key, {signal}))) unregistered.push(unregisteredNamespace(id))
  }
  return unregistered
}

export function unregisteredNamespace(id: string): Namespace {
  const dates = {createdAt: '', deletedAt: undefined}
  return {id, name: '', status: 'deleted', ...dates, halfDeleted: false, isUnregistered: true}
}
