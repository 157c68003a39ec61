import {ZaelError} from '../../core/errors.js'
import {checkNamespaceName, isNamespaceId} from '../../core/names.js'
import {chunksOf, forEachConcurrently} from '../../dynamo/concurrency.js'
import {isRetryableWhenIdempotent} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {scanPages} from '../../dynamo/paging.js'
import {retrying} from '../../dynamo/retry.js'
import type {Key} from '../../schema/attribute-value.js'
import {attributes, keyNames} from '../../schema/attributes.js'
import {keyOf, keys, wireKey} from '../../schema/keys.js'
import {splitNamespace} from '../../schema/legacy-key.js'
import {
  decodeNamespace,
  encodeNamespaceById,
  encodeNamespaceByName,
  type NamespaceRecord,
} from '../../schema/namespace-record.js'
import {type KeyRange, ranges} from '../../schema/ranges.js'
import {isoSeconds, readString} from '../../schema/read.js'
import type {CountsByKind, Removed} from '../table/kind-counter.js'
import {readAll} from '../table/query.js'
import {getItem, type Table} from '../table/table.js'
import {checkMissing, isRefused, putNew, transact} from '../table/transact.js'
import {nameIsId, namespaceAmbiguous, namespaceMissing, namespaceProtected, namespaceState} from './errors.js'
import {countIndexed, countNamespace, hasRecords, type PurgeOptions, purgeNamespace, refuseActive} from './purge.js'
import {changeState, type Namespace, nameDelete, nameElsewhere} from './states.js'

export const DEFAULT_NAMESPACE = 'default'

const CONCURRENT_REGISTRATIONS = 4
const REGISTER_ATTEMPTS = 5
// All requests of a process share one lookup: an answer that hangs must soon make room for the next attempt.
export const LOOKUP_TIMEOUT_MS = 2_000
/** Place of the check in the transaction. */
const NAME_AS_ID = 2

/** The result of a registration. */
export interface Registration {
  readonly namespace: Namespace
  /** False when the name was registered before. */
  readonly created: boolean
}

/** The tenants of a table: their names, ids and states. */
export class Namespaces {
  readonly #table: Table

  /** @internal */
  constructor(table: Table) {
    this.#table = table
  }

  /** Gives a name an id, once: later and concurrent registrations of the name get the same id. */
  async register(name: string): Promise<Registration> {
    checkNamespaceName(name)
    for (let attempt = 1; ; attempt++) {
      const record: NamespaceRecord = {
        id: drawId(this.#table),
        name,
        status: 'active',
        createdAt: isoSeconds(this.#table.clock()),
        deletedAt: undefined,
      }
      const puts = [encodeNamespaceByName(record), encodeNamespaceById(record)].map(item => putNew(this.#table, item))
      // A name that is also an id would mean one namespace to some commands and another to others.
      const otherwiseUnused = [keys.namespaceById(name), keys.namespaceByName(record.id)]
      const checks = otherwiseUnused.map(key => checkMissing(this.#table, key))
      try {
        await transact(this.#table, [...puts, ...checks])
        return {namespace: whole(record), created: true}
      } catch (error) {
        if (!isRefused(error)) throw error
        const existing = await this.resolve(name)
        if (existing) return {namespace: existing, created: false}
        if (isRefused(error, NAME_AS_ID)) throw nameIsId(name)
        // The name was deleted in between, or the id is taken: try again with a new id.
        if (attempt === REGISTER_ATTEMPTS) throw error
      }
    }
  }

  /** Registers several names; nothing is written when one of them is not valid. Answers are in the order asked. */
  async registerMany(names: readonly string[]): Promise<Registration[]> {
    for (const name of names) checkNamespaceName(name)
    const done = new Map<string, Registration>()
    await forEachConcurrently(chunksOf(new Set(names), 1), CONCURRENT_REGISTRATIONS, async ([name = '']) => {
      done.set(name, await this.register(name))
    })
    return names.map(name => done.get(name) as Registration)
  }

  /** The namespace of a name; `undefined` when the name is not registered. */
  async resolve(name: string): Promise<Namespace | undefined> {
    const item = await getItem(this.#table, keys.namespaceByName(name), {timeoutMs: LOOKUP_TIMEOUT_MS})
    const record = item && decodeNamespace(item)
    return record?.status === 'active' ? whole(record) : undefined
  }

  /** A namespace by name or else by id, in any state. */
  async show(nameOrId: string): Promise<Namespace> {
    const found = (await this.resolve(nameOrId)) ?? (await this.#byId(nameOrId))
    if (!found) throw namespaceMissing(nameOrId)
    return found
  }

  /** A namespace by id, or by a name that it has or had; an error when several have had the name. */
  async find(nameOrId: string): Promise<Namespace> {
    const byId = await this.#byId(nameOrId)
    if (byId) return byId
    const active = await this.resolve(nameOrId)
    const orphans = (await this.orphans()).filter(({name}) => name === nameOrId)
    const [found, another] = active ? [active, ...orphans] : orphans
    if (!found) throw namespaceMissing(nameOrId)
    if (another) throw namespaceAmbiguous(nameOrId, active, orphans)
    return found
  }

  /** All active namespaces by name. */
  async list(): Promise<Namespace[]> {
    const records = await this.#registered(ranges.namespacesByName())
    return records.filter(({status}) => status === 'active').map(whole)
  }

  /** Namespaces without a name whose data still exists: deleted, being purged, or half deleted. */
  async orphans(): Promise<Namespace[]> {
    const reachable = new Set((await this.list()).map(({id}) => id))
    const orphans: Namespace[] = []
    for (const record of await this.#registered(ranges.namespacesById())) {
      if (record.status === 'active' && reachable.has(record.id)) continue
      // The two listings are of different moments, so both records of an active one are read again, at once.
      const found = record.status === 'active' ? await this.#byId(record.id) : whole(record)
      if (found && (found.halfDeleted || found.status !== 'active')) orphans.push(found)
    }
    return orphans
  }

  /** Namespaces that only records know; reads the whole table. */
  async unregistered(signal?: AbortSignal): Promise<Namespace[]> {
    const registeredIds = async () => {
      const byId = await this.#registered(ranges.namespacesById())
      const byName = await this.#registered(ranges.namespacesByName())
      return new Set([...byId, ...byName].map(({id}) => id))
    }
    return findUnregistered(this.#table, registeredIds, signal)
  }

  /** The namespace that `delete` would delete; throws where it would refuse. */
  async deletable(nameOrId: string): Promise<Namespace> {
    const found = await this.show(nameOrId)
    if (found.status !== 'active') {
      throw namespaceState(found, 'is already deleted', 'purge')
    }
    if (isProtected(found)) throw namespaceProtected(found)
    return found
  }

  /** Frees the name and keeps the data, until `recover` or `purge`. */
  async delete(nameOrId: string): Promise<Namespace> {
    const found = await this.deletable(nameOrId)
    const ofName = found.halfDeleted ? nameElsewhere(this.#table, found) : nameDelete(this.#table, found)
    return changeState(this.#table, found, 'deleted', ofName)
  }

  /** Gives a deleted namespace its name back. */
  async recover(id: string): Promise<Namespace> {
    const found = await this.#byId(id)
    if (!found) throw namespaceMissing(id)
    if (found.status === 'purging') {
      throw namespaceState(found, 'is being purged', 'finish purge')
    }
    if (found.status === 'active' && !found.halfDeleted) {
      throw namespaceState(found, 'is active', 'none')
    }
    return changeState(this.#table, found, 'active', putNew(this.#table, encodeNamespaceByName(found)))
  }

  /**
   * The deleted namespace that `purge` would purge, by id or by the name it had, or one that only records in the namespace
   * index know, by id; throws where it would refuse.
   */
  async purgeable(nameOrId: string): Promise<Namespace> {
    const found = await this.find(nameOrId).catch(async error => {
      if (error instanceof ZaelError && error.code === 'namespace.missing' && (await this.#hasRecords(nameOrId))) {
        return unregisteredNamespace(nameOrId)
      }
      throw error
    })
    if (isProtected(found)) throw namespaceProtected(found)
    refuseActive(found)
    return found
  }

  /** Deletes a deleted namespace with everything in it, permanently. After an interruption, run it again to continue. */
  async purge(id: string, options: PurgeOptions = {}): Promise<Removed> {
    const known = await this.#byId(id)
    const found = known ?? ((await this.#hasRecords(id)) ? unregisteredNamespace(id) : undefined)
    if (!found) throw namespaceMissing(id)
    return purgeNamespace(this.#table, found, options)
  }

  /** How many items of each kind a purge would delete. Reads the whole table, as a purge does. */
  async countItems(id: string, signal?: AbortSignal): Promise<CountsByKind> {
    return countNamespace(this.#table, id, signal)
  }

  /** How many items of each kind are in the namespace index, which is nearly all; reads nothing of other namespaces. */
  async countIndexed(id: string, signal?: AbortSignal): Promise<CountsByKind> {
    return countIndexed(this.#table, id, signal)
  }

  async #hasRecords(id: string): Promise<boolean> {
    if (!isNamespaceId(id)) return false
    return hasRecords(this.#table, id)
  }

  async #byId(id: string): Promise<Namespace | undefined> {
    const byId = keys.namespaceById(id)
    const item = await getItem(this.#table, byId)
    const record = item && decodeNamespace(item)
    if (record?.status !== 'active') return record && whole(record)
    // Both records at one moment: between two reads the namespace might be deleted.
    const TransactItems = [byId, keys.namespaceByName(record.name)].map(key => ({
      Get: {TableName: this.#table.name, Key: wireKey(key)},
    }))
    const send = () => this.#table.transport.send('TransactGetItems', {TransactItems})
    const answer = await retrying(send, {...this.#table.backoff, retryable: isRetryableWhenIdempotent})
    const [now, named] = (answer.Responses ?? []).map(({Item}) => Item && decodeNamespace(Item))
    return now && {...now, halfDeleted: now.status === 'active' && named?.id !== id}
  }

  async #registered(range: KeyRange): Promise<NamespaceRecord[]> {
    const records: NamespaceRecord[] = []
    for await (const item of readAll(this.#table, range)) {
      const record = decodeNamespace(item)
      if (record) records.push(record)
    }
    return records
  }
}

/** A half-deleted `default` may be deleted: another one has its name. */
const isProtected = ({name, status, halfDeleted}: Namespace): boolean =>
  name === DEFAULT_NAMESPACE && status === 'active' && !halfDeleted

const whole = (record: NamespaceRecord): Namespace => ({...record, halfDeleted: false})

/** Eleven characters; an id that starts with a dash would look like a flag on the command line. */
function drawId({randomBytes}: Table): string {
  for (;;) {
    const id = Buffer.from(randomBytes(8)).toString('base64url')
    if (isNamespaceId(id)) return id
  }
}

const SCAN_SEGMENTS = 4

/**
 * Namespace ids that only records know, by a scan of the whole table. The registry is read after the scan, and one record
 * of each id once more after that: a namespace that is registered or purged meanwhile is not reported.
 */
async function findUnregistered(
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

function unregisteredNamespace(id: string): Namespace {
  const dates = {createdAt: '', deletedAt: undefined}
  return {id, name: '', status: 'deleted', ...dates, halfDeleted: false, isUnregistered: true}
}
