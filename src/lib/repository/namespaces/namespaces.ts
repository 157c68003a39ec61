import {ZaelError} from '../../core/errors.js'
import {checkNamespaceName, isNamespaceId} from '../../core/names.js'
import {chunksOf, forEachConcurrently} from '../../dynamo/concurrency.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {isoSeconds, type Key} from '../../schema/attribute-value.js'
import {keyNames} from '../../schema/attributes.js'
import {keyOf, keys, partitionOf, wireKey} from '../../schema/keys.js'
import {splitNamespace} from '../../schema/legacy-key.js'
import {
  type ChargedLevels,
  decodeNamespace,
  encodeNamespaceById,
  encodeNamespaceByName,
  type NamespaceRecord,
} from '../../schema/namespace-record.js'
import {type KeyRange, ranges} from '../../schema/ranges.js'
import type {CountsByKind, Removed} from '../table/kind-counter.js'
import {decodeRange, scanTable} from '../table/query.js'
import {getItem, sendRepeatable, type Table} from '../table/table.js'
import {checkMissing, isRefused, putNew, transact} from '../table/transact.js'
import {nameIsId, namespaceAmbiguous, namespaceMissing, namespaceProtected, namespaceState} from './errors.js'
import {activeNamespace} from './open-namespace.js'
import {
  changeState,
  countIndexed,
  countNamespace,
  hasRecords,
  type Namespace,
  nameDelete,
  nameElsewhere,
  type PurgeOptions,
  purgeNamespace,
  refuseActive,
  storeLevels,
} from './purge.js'

export const DEFAULT_NAMESPACE = 'default'

const CONCURRENT_REGISTRATIONS = 4
const REGISTER_ATTEMPTS = 5
/** Index of the check in the transaction. */
const NAME_AS_ID = 2

/** The result of a registration. */
export interface Registration {
  readonly namespace: Namespace
  /** False if the name was already registered. */
  readonly created: boolean
}

/** The namespaces of a table: names, ids and states. */
export class Namespaces {
  readonly #table: Table

  /** @internal */
  constructor(table: Table) {
    this.#table = table
  }

  /** Registers a name. Later and concurrent registrations of the name get the same id. */
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
      // A name that is also an id would mean different namespaces to different commands.
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
        // The name was deleted meanwhile, or the id is taken: try again with a new id.
        if (attempt === REGISTER_ATTEMPTS) throw error
      }
    }
  }

  /** Registers several names, with results in that order. Writes nothing if a name is invalid. */
  async registerMany(names: readonly string[]): Promise<Registration[]> {
    for (const name of names) checkNamespaceName(name)
    const done = new Map<string, Registration>()
    await forEachConcurrently(chunksOf(new Set(names), 1), CONCURRENT_REGISTRATIONS, async ([name = '']) => {
      done.set(name, await this.register(name))
    })
    return names.map(name => done.get(name) as Registration)
  }

  /** The active namespace with this name; `undefined` if there is none. */
  async resolve(name: string): Promise<Namespace | undefined> {
    const record = await activeNamespace(this.#table, name)
    return record && whole(record)
  }

  /** A namespace by name, or else by id, in any state. */
  async show(nameOrId: string): Promise<Namespace> {
    const found = (await this.resolve(nameOrId)) ?? (await this.#byId(nameOrId))
    if (!found) throw namespaceMissing(nameOrId)
    return found
  }

  /** A namespace by id, or by a name it has or had. Throws if several have had the name. */
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
      // The listings are from different moments: reread both records of an active namespace at once.
      const found = record.status === 'active' ? await this.#byId(record.id) : whole(record)
      if (found && (found.halfDeleted || found.status !== 'active')) orphans.push(found)
    }
    return orphans
  }

  /** Namespaces that have records but no registration; scans the whole table. */
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

  /** Frees the name and keeps the data until `recover` or `purge`. */
  async delete(nameOrId: string): Promise<Namespace> {
    const found = await this.deletable(nameOrId)
    const ofName = found.halfDeleted ? nameElsewhere(this.#table, found) : nameDelete(this.#table, found)
    return changeState(this.#table, found, 'deleted', ofName)
  }

  /** Restores a deleted namespace under its name. */
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

  /** Sets which ancestors requests charge. Limiters follow when they next look the namespace up: within 30 s by default. */
  async setLevels(nameOrId: string, levels: ChargedLevels): Promise<Namespace> {
    const found = await this.show(nameOrId)
    if (found.status !== 'active' || found.halfDeleted) throw namespaceState(found, 'is deleted', 'recover')
    await storeLevels(this.#table, found, levels)
    return {...found, levels}
  }

  /** The namespace that `purge` would purge: deleted (by id or old name) or unregistered (by id); else throws. */
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

  /** Permanently deletes a deleted namespace and its data. After an interruption, run it again to continue. */
  async purge(id: string, options: PurgeOptions = {}): Promise<Removed> {
    const known = await this.#byId(id)
    const found = known ?? ((await this.#hasRecords(id)) ? unregisteredNamespace(id) : undefined)
    if (!found) throw namespaceMissing(id)
    return purgeNamespace(this.#table, found, options)
  }

  /** Counts what a purge would delete, by kind. Scans the whole table, as a purge does. */
  async countItems(id: string, signal?: AbortSignal): Promise<CountsByKind> {
    return countNamespace(this.#table, id, signal)
  }

  /** Counts items in the namespace index (nearly all), by kind; reads no other namespaces. */
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
    // Read both at one moment: the namespace might be deleted between two reads.
    const TransactItems = [byId, keys.namespaceByName(record.name)].map(key => ({
      Get: {TableName: this.#table.name, Key: wireKey(key)},
    }))
    const answer = await sendRepeatable(this.#table, 'TransactGetItems', {TransactItems})
    const [now, named] = (answer.Responses ?? []).map(({Item}) => Item && decodeNamespace(Item))
    return now && {...now, halfDeleted: now.status === 'active' && named?.id !== id}
  }

  #registered(range: KeyRange): Promise<NamespaceRecord[]> {
    return decodeRange(this.#table, range, decodeNamespace)
  }
}

/** A half-deleted `default` may be deleted: another one has its name. */
const isProtected = ({name, status, halfDeleted}: Namespace): boolean =>
  name === DEFAULT_NAMESPACE && status === 'active' && !halfDeleted

const whole = (record: NamespaceRecord): Namespace => ({...record, halfDeleted: false})

/** Eleven characters. An id that starts with a dash would look like a flag on the command line. */
function drawId({randomBytes}: Table): string {
  for (;;) {
    const id = Buffer.from(randomBytes(8)).toString('base64url')
    if (isNamespaceId(id)) return id
  }
}

/** Reads the registry, and one record per id, after the scan: ignores ids registered or purged meanwhile. */
async function findUnregistered(
  table: Table,
  registeredIds: () => Promise<ReadonlySet<string>>,
  signal?: AbortSignal,
): Promise<Namespace[]> {
  const found = new Map<string, Key>()
  for await (const item of scanTable(table, new ExpressionBuilder().project(...keyNames()), signal)) {
    const {namespace} = splitNamespace(partitionOf(keyOf(item)))
    if (namespace !== undefined && isNamespaceId(namespace)) found.set(namespace, keyOf(item))
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
