import {InvalidInput} from '../../core/errors.js'
import {isNamespaceId} from '../../core/names.js'
import {batchWrite} from '../../dynamo/batch.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import {Aborted, ConditionFailed} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {isoSeconds, type Key, s} from '../../schema/attribute-value.js'
import {attributes, keyNames} from '../../schema/attributes.js'
import {isKeyIn, keyOf, keys, namespacePrefix, wireKey} from '../../schema/keys.js'
import {
  type ChargedLevels,
  decodeNamespace,
  encodeNamespaceById,
  type NamespaceRecord,
  type NamespaceStatus,
} from '../../schema/namespace-record.js'
import {ranges} from '../../schema/ranges.js'
import {type CountsByKind, KindCounter, type Removed} from '../table/kind-counter.js'
import {readAll, scanTable} from '../table/query.js'
import {sendRepeatable, type Table} from '../table/table.js'
import {isRefused, putNew, type TransactItem, transact} from '../table/transact.js'
import {namespaceChanged, namespaceNameTaken, namespaceState} from './errors.js'

// Four concurrent requests of 25 per progress report.
const DELETES_PER_REPORT = 100

/** Clients look a namespace up every 30 s by default; the aggregator counts their writes some seconds later. */
const CLIENTS_NOTICE_MS = 60_000

/** Progress and cancellation of a purge. */
export interface PurgeOptions {
  /** Called after every hundred deletions and at the end. */
  readonly onProgress?: (removed: Removed) => void
  /** Called with the time in ms when the purge has to wait. */
  readonly onWait?: (ms: number) => void
  /** Stops between two requests; the next run deletes the rest. */
  readonly signal?: AbortSignal | undefined
}

/** Irreversible. Scans the table only once all clients must have noticed the deletion: later writes would stay. */
export async function purgeNamespace(table: Table, seen: Namespace, options: PurgeOptions): Promise<Removed> {
  const {signal} = options
  const {deletedAt} = await begin(table, seen)
  const counter = new KindCounter()
  await remove(indexedKeys(table, seen.id, signal))
  await untilNoticed(table, deletedAt, options)
  await remove(allKeys(table, seen.id, signal))
  await finish(table, seen, signal)
  return counter.removed()

  async function remove(source: AsyncIterable<Key>): Promise<void> {
    for await (const chunk of chunksOf(source, DELETES_PER_REPORT)) {
      const requests = chunk.map(key => ({delete: key}))
      await batchWrite(table.transport, table.name, requests, {backoff: table.backoff, signal})
      counter.add(chunk)
      options.onProgress?.(counter.removed())
    }
  }
}

async function untilNoticed(table: Table, deletedAt: string | undefined, options: PurgeOptions): Promise<void> {
  const {onWait, signal} = options
  const waitMs = Math.min(Date.parse(deletedAt ?? '') + CLIENTS_NOTICE_MS - table.clock(), CLIENTS_NOTICE_MS)
  if (!(waitMs > 0)) return
  onWait?.(waitMs)
  await table.backoff.sleep(waitMs, signal)
  if (signal?.aborted) throw new Aborted('Waiting until clients have noticed', false, signal.reason)
}

export async function countNamespace(table: Table, id: string, signal?: AbortSignal): Promise<CountsByKind> {
  const counter = new KindCounter()
  for await (const key of allKeys(table, id, signal)) counter.add([key])
  return counter.byKind
}

export async function countIndexed(table: Table, id: string, signal?: AbortSignal): Promise<CountsByKind> {
  const counter = new KindCounter()
  for await (const key of indexedKeys(table, id, signal)) counter.add([key])
  return counter.byKind
}

/** Searches the namespace index. Scans the whole table for ids in the format that zael generates. */
export async function hasRecords(table: Table, id: string): Promise<boolean> {
  for await (const _ of indexedKeys(table, id)) return true
  if (!/^[\w-]{11}$/.test(id)) return false
  for await (const _ of allKeys(table, id)) return true
  return false
}

export function refuseActive(seen: Namespace): void {
  if (seen.status === 'active' && !seen.halfDeleted) {
    throw namespaceState(seen, 'is active', 'delete')
  }
}

async function begin(table: Table, seen: Namespace): Promise<Namespace> {
  if (seen.isUnregistered) return registerForPurge(table, seen)
  if (seen.status === 'purging') return seen
  refuseActive(seen)
  return changeState(table, seen, 'purging', seen.halfDeleted ? nameElsewhere(table, seen) : undefined)
}

/** Lets a later run find an interrupted purge of an unregistered id. */
async function registerForPurge(table: Table, {id, name}: Namespace): Promise<Namespace> {
  const now = isoSeconds(table.clock())
  const record: NamespaceRecord = {id, name, status: 'purging', createdAt: now, deletedAt: now}
  const {Put} = putNew(table, encodeNamespaceById(record))
  try {
    await sendRepeatable(table, 'PutItem', Put)
  } catch (error) {
    const found = error instanceof ConditionFailed && error.oldItem ? decodeNamespace(error.oldItem) : undefined
    // A lost response explains zael's own record; any other record is an earlier registration.
    if (found?.status !== 'purging' || found.createdAt !== now) throw error
  }
  return {...record, halfDeleted: false}
}

async function* indexedKeys(table: Table, id: string, signal?: AbortSignal): AsyncGenerator<Key, void> {
  for await (const item of readAll(table, ranges.namespace(id), undefined, signal)) {
    const key = keyOf(item)
    // Skip an item of another namespace that has a wrong index key (S11).
    if (isKeyIn(key, id)) yield key
  }
}

/** A scan: the index lacks some items from other clients (provisioner, audit retention, ghosts; D-31, D-33). */
async function* allKeys(table: Table, id: string, signal?: AbortSignal): AsyncGenerator<Key, void> {
  if (!isNamespaceId(id)) throw new InvalidInput('namespace.id', `${JSON.stringify(id)} is not a namespace id.`)
  const e = new ExpressionBuilder()
  e.filter(`begins_with(${e.name(attributes.key.partition)}, ${e.value(s(namespacePrefix(id)))})`)
  e.project(...keyNames())
  for await (const item of scanTable(table, e, signal)) yield keyOf(item)
}

async function finish(table: Table, seen: Namespace, signal: AbortSignal | undefined): Promise<void> {
  const e = new ExpressionBuilder()
  // Already deleted is fine: another purge has finished, or a response was lost.
  const isPurging = `${e.name(attributes.namespace.status)} = ${e.value(s('purging'))}`
  e.condition(`attribute_not_exists(${e.name(attributes.key.partition)}) OR ${isPurging}`)
  const request = {TableName: table.name, Key: wireKey(keys.namespaceById(seen.id)), ...e.write()}
  try {
    await sendRepeatable(table, 'DeleteItem', request, {signal})
  } catch (error) {
    throw error instanceof ConditionFailed ? namespaceChanged(seen, error) : error
  }
}

const names = attributes.namespace

/** A namespace in the registry. */
export interface Namespace extends NamespaceRecord {
  /** Active by id, without its name: a client crashed deleting it (D-31). Can be recovered, deleted or purged. */
  readonly halfDeleted: boolean
  /** Records without a registration: a client wrote them after a purge, or with an id that was never registered. */
  readonly isUnregistered?: true
}

/** One transaction with the change of the name, so a crash cannot separate them. Refused if changed since the read. */
export async function changeState(
  table: Table,
  seen: Namespace,
  status: NamespaceStatus,
  ofName?: TransactItem,
): Promise<Namespace> {
  const deletedAt = status === 'active' ? undefined : (seen.deletedAt ?? isoSeconds(table.clock()))
  const after = {...seen, status, deletedAt, halfDeleted: false}
  try {
    await transact(table, [...(ofName ? [ofName] : []), byIdUpdate(table, seen, after)])
    return after
  } catch (error) {
    if (!isRefused(error)) throw error
    if (!ofName?.Put || !isRefused(error, 0)) throw namespaceChanged(seen, error)
    const takenBy = error.reasons[0]?.oldItem
    throw namespaceNameTaken(seen, takenBy && decodeNamespace(takenBy)?.id)
  }
}

/** In both records: limiters look a namespace up by name or by id. */
export async function storeLevels(table: Table, seen: Namespace, levels: ChargedLevels): Promise<void> {
  const {id, name} = seen
  const update = (key: Key) => {
    const e = new ExpressionBuilder().require(names.id, id).require(names.status, 'active')
    e.store(names.levels, levels === 'all' ? s(levels) : undefined)
    return {Update: {TableName: table.name, Key: wireKey(key), ...e.update()}}
  }
  try {
    await transact(table, [keys.namespaceByName(name), keys.namespaceById(id)].map(update))
  } catch (error) {
    throw isRefused(error) ? namespaceChanged(seen, error) : error
  }
}

export function nameDelete(table: Table, {id, name}: Namespace): TransactItem {
  const e = new ExpressionBuilder().require(names.id, id).require(names.status, 'active')
  return {Delete: {TableName: table.name, Key: wireKey(keys.namespaceByName(name)), ...e.write()}}
}

export function nameElsewhere(table: Table, {id, name}: Namespace): TransactItem {
  const e = new ExpressionBuilder()
  e.condition(`attribute_not_exists(${e.name(attributes.key.partition)}) OR ${e.name(names.id)} <> ${e.value(s(id))}`)
  return {ConditionCheck: {TableName: table.name, Key: wireKey(keys.namespaceByName(name)), ...e.write()}}
}

function byIdUpdate(table: Table, seen: Namespace, {id, status, deletedAt}: Namespace): TransactItem {
  const e = new ExpressionBuilder().set(names.status, s(status)).require(names.status, seen.status)
  e.store(names.deletedAt, deletedAt === undefined ? undefined : s(deletedAt))
  return {Update: {TableName: table.name, Key: wireKey(keys.namespaceById(id)), ...e.update()}}
}
