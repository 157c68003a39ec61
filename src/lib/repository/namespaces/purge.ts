import {InvalidInput} from '../../core/errors.js'
import {isNamespaceId} from '../../core/names.js'
import {batchWrite} from '../../dynamo/batch.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import {ConditionFailed, isRetryableWhenIdempotent} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {scanPages} from '../../dynamo/paging.js'
import {retrying} from '../../dynamo/retry.js'
import {type Key, s} from '../../schema/attribute-value.js'
import {keys} from '../../schema/keys.js'
import {type CountsByKind, KindCounter, type Removed} from '../table/kind-counter.js'
import {keyOf, readAll} from '../table/query.js'
import {type Table, wireKey} from '../table/table.js'
import {namespaceChanged, namespaceState} from './errors.js'
import {changeState, type Namespace, nameElsewhere} from './states.js'

// Four requests of 25 side by side, then a report.
const DELETES_PER_REPORT = 100
const SCAN_SEGMENTS = 4

/** Whom to tell how far it is, and when to stop. */
export interface PurgeOptions {
  /** Called after every hundred deletions and at the end. */
  readonly onProgress?: (removed: Removed) => void
  /** Stops between two requests; what is left waits for the next run. */
  readonly signal?: AbortSignal | undefined
}

/** Marks a namespace as being purged, which cannot be taken back, deletes its items, and last its registration. */
export async function purgeNamespace(table: Table, seen: Namespace, options: PurgeOptions): Promise<Removed> {
  await begin(table, seen)
  const counter = new KindCounter()
  for (const source of [indexedKeys(table, seen.id, options.signal), allKeys(table, seen.id, options.signal)]) {
    for await (const chunk of chunksOf(source, DELETES_PER_REPORT)) {
      const requests = chunk.map(key => ({delete: key}))
      await batchWrite(table.transport, table.name, requests, {backoff: table.backoff, signal: options.signal})
      counter.add(chunk)
      options.onProgress?.(counter.removed())
    }
  }
  await finish(table, seen, options.signal)
  return counter.removed()
}

/** Items of a namespace by kind, those in no index included. */
export async function countNamespace(table: Table, id: string, signal?: AbortSignal): Promise<CountsByKind> {
  const counter = new KindCounter()
  for await (const key of allKeys(table, id, signal)) counter.add([key])
  return counter.byKind
}

/** Items of a namespace by kind, as far as the index over the namespace knows them. */
export async function countIndexed(table: Table, id: string, signal?: AbortSignal): Promise<CountsByKind> {
  const counter = new KindCounter()
  for await (const key of indexedKeys(table, id, signal)) counter.add([key])
  return counter.byKind
}

/** What is in use is not purged. */
export function refuseActive(seen: Namespace): void {
  if (seen.status === 'active' && !seen.halfDeleted) {
    throw namespaceState(seen, 'is active', `Delete it first with \`zael namespace delete ${seen.name}\`.`)
  }
}

async function begin(table: Table, seen: Namespace): Promise<void> {
  if (seen.status === 'purging') return
  refuseActive(seen)
  await changeState(table, seen, 'purging', seen.halfDeleted ? nameElsewhere(table, seen) : undefined)
}

/** What the index over the namespace knows: nearly everything, without a look at other namespaces. */
async function* indexedKeys(table: Table, id: string, signal?: AbortSignal): AsyncGenerator<Key, void> {
  for await (const item of readAll(table, {index: 'GSI4', partition: id}, undefined, signal)) {
    const key = keyOf(item)
    // An item of another namespace with a wrong index key stays where it is (S11).
    if (key.PK.startsWith(`${id}/`)) yield key
  }
}

/**
 * Everything, by a scan of the whole table. The index misses items that lack one of its keys, and other clients write
 * such items: the provisioner's state and configurations, the audit retention, the remains of buckets (D-31, D-33).
 */
async function* allKeys(table: Table, id: string, signal?: AbortSignal): AsyncGenerator<Key, void> {
  if (!isNamespaceId(id)) throw new InvalidInput('namespace.id', `${JSON.stringify(id)} is not a namespace id.`)
  const e = new ExpressionBuilder()
  // With the slash, so that the id is no prefix of another one.
  e.filter(`begins_with(${e.name('PK')}, ${e.value(s(`${id}/`))})`)
  e.project('PK', 'SK')
  const {KeyConditionExpression: _, ...fields} = e.read()
  const input = {TableName: table.name, ConsistentRead: true, ...fields}
  const options = {backoff: table.backoff, signal, segments: SCAN_SEGMENTS}
  for await (const {items} of scanPages(table.transport, input, options)) yield* items.map(keyOf)
}

async function finish(table: Table, seen: Namespace, signal: AbortSignal | undefined): Promise<void> {
  const e = new ExpressionBuilder()
  // Gone already is fine: another purge of it has finished, or an answer was lost.
  e.condition(`attribute_not_exists(${e.name('PK')}) OR ${e.name('status')} = ${e.value(s('purging'))}`)
  const request = {TableName: table.name, Key: wireKey(keys.namespaceById(seen.id)), ...e.write()}
  try {
    await retrying(() => table.transport.send('DeleteItem', request, {signal}), {
      ...table.backoff,
      signal,
      retryable: isRetryableWhenIdempotent,
    })
  } catch (error) {
    throw error instanceof ConditionFailed ? namespaceChanged(seen, error) : error
  }
}
