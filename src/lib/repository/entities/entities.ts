import {checkEntityId} from '../../core/names.js'
import {batchGet} from '../../dynamo/batch.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {pause} from '../../dynamo/retry.js'
import {type Item, type Key, s} from '../../schema/attribute-value.js'
import {decodeEntity, type EntityRecord, encodeEntity} from '../../schema/entity-record.js'
import {isoSeconds} from '../../schema/instant.js'
import type {Json} from '../../schema/json-attribute.js'
import {keys, parseItemKey} from '../../schema/keys.js'
import type {Audit} from '../audit/audit.js'
import type {CountsByKind, Removed} from '../table/kind-counter.js'
import {type PageRequest, type RecordPage, readPage} from '../table/query.js'
import type {NamespaceTable} from '../table/table.js'
import {transact} from '../table/transact.js'
import {isRefused, putNew} from '../table/transact-items.js'
import {alignBuckets} from './buckets.js'
import {entityChanged, entityExists, entityMissing} from './errors.js'
import {checkParent, climb, readChildren} from './lineage.js'
import {readEntity} from './read.js'
import {countRemoval, removeEntity} from './removal.js'
import {entityStretch, searchEntities, similarIds} from './search.js'
import {changedMetadata, entityDetails, entityUpdate, entityUpdated, type MetadataChange} from './update.js'

// Each of several changes at once costs the others one try.
const ATTEMPTS = 10

/** A new entity. */
export interface NewEntity {
  readonly id: string
  /** For people; the id when absent. */
  readonly name?: string | undefined
  readonly parent?: string | undefined
  /** Whether every admitted request is charged to the parent too. */
  readonly cascade?: boolean | undefined
  readonly metadata?: {readonly [key: string]: Json} | undefined
}

/** What to change of an entity; what is absent stays. */
export interface EntityChange extends Omit<NewEntity, 'id' | 'parent'>, MetadataChange {
  /** `null` for no parent. */
  readonly parent?: string | null | undefined
  /** Change it only in this version. */
  readonly expectedVersion?: number | undefined
}

/** An entity before and after a change. */
export interface ChangedEntity {
  readonly before: EntityRecord
  readonly after: EntityRecord
}

/** What entities work with besides the table. */
export interface EntitiesOptions {
  readonly audit: Audit
  /** Told the id of every entity that was created, changed or deleted here, for caches to drop it. */
  readonly onChanged?: (entity: string) => void
}

/** Who is limited, in one namespace. */
export class Entities {
  readonly #table: NamespaceTable
  readonly #audit: Audit
  readonly #onChanged: (entity: string) => void

  constructor(table: NamespaceTable, {audit, onChanged = () => {}}: EntitiesOptions) {
    this.#table = table
    this.#audit = audit
    this.#onChanged = onChanged
  }

  /** Creates an entity. Buckets that are older than it learn its parent. */
  async create(input: NewEntity): Promise<EntityRecord> {
    const {id, name = id, parent, cascade = false, metadata = {}} = input
    checkEntityId(id)
    if (parent !== undefined) checkEntityId(parent)
    const createdAt = isoSeconds(this.#table.clock())
    const {namespace} = this.#table
    const record = {namespace, entity: id, name, parent, cascade, metadata, createdAt, version: 1}
    const event = {entity: id, action: 'entity_created', details: entityDetails(record)}
    await this.#repeat(async () => {
      const ancestors = parent === undefined ? [] : await checkParent(this.#table, id, parent)
      const items = [putNew(this.#table, encodeEntity(record)), await this.#audit.put(event), ...ancestors]
      await transact(this.#table, items).catch(error => {
        throw isRefused(error, 0) ? entityExists(id) : error
      })
    })
    await this.#settle(record)
    return record
  }

  /** An entity as it is now; `undefined` when there is none. */
  async get(id: string): Promise<EntityRecord | undefined> {
    return readEntity(this.#table, id)
  }

  /** An entity as it is now; throws when there is none. */
  async need(id: string): Promise<EntityRecord> {
    const record = await readEntity(this.#table, id)
    if (!record) throw entityMissing(id)
    return record
  }

  /** The entities that exist among those asked for, in that order; a hundred to a request. */
  async getMany(ids: readonly string[], signal?: AbortSignal): Promise<EntityRecord[]> {
    const {namespace, transport, name, backoff} = this.#table
    const wanted = ids.map(id => keys.entity(namespace, id))
    const items = await batchGet(transport, name, wanted, {backoff, consistent: true, signal})
    return [...items.values()].flatMap(item => decodeEntity(item) ?? [])
  }

  /** The entities of the namespace, by id. */
  async list(request: PageRequest = {}): Promise<RecordPage<EntityRecord>> {
    const {namespace, transport, name, backoff} = this.#table
    const e = new ExpressionBuilder()
    const {SK} = keys.entity(namespace, '')
    e.filter(`${e.name('SK')} = ${e.value(s(SK))}`)
    const page = await readPage(this.#table, entityStretch(namespace), request, e)
    const wanted = page.records.flatMap(metaKey)
    const items = await batchGet(transport, name, wanted, {backoff, consistent: true})
    return {records: [...items.values()].flatMap(item => decodeEntity(item) ?? []), next: page.next}
  }

  /** The entities whose id or name contains the text, in whatever case, by id. Reads all of the namespace up to there. */
  async search(text: string, request: PageRequest = {}): Promise<RecordPage<EntityRecord>> {
    return searchEntities(this.#table, page => this.list(page), text, request)
  }

  /** Ids that begin like one, for suggestions: what a single request finds. */
  async similar(id: string): Promise<string[]> {
    return similarIds(this.#table, id)
  }

  /** Changes an entity and gives it the next version; buckets follow. Without a change nothing is written. */
  async update(id: string, change: EntityChange): Promise<EntityRecord> {
    return (await this.change(id, change)).after
  }

  /** Like `update`; tells what was there before, too. Without a change the two are the same. */
  async change(id: string, change: EntityChange): Promise<ChangedEntity> {
    if (typeof change.parent === 'string') checkEntityId(change.parent)
    const changed = await this.#repeat(() => this.#changeOnce(id, change))
    await this.#settle(changed.after)
    return changed
  }

  /** The direct children of an entity, by id. A change is seen here a moment later. */
  async children(parent: string): Promise<EntityRecord[]> {
    return readChildren(this.#table, parent)
  }

  /** The parent of an entity, its parent, and so on, as far as they exist. */
  async parents(id: string): Promise<EntityRecord[]> {
    const [self, ...ancestors] = await climb(this.#table, id)
    if (!self?.record) throw entityMissing(id)
    return ancestors.flatMap(({record}) => record ?? [])
  }

  /** How many records of each kind `delete` would delete; throws where it would refuse. */
  async countRemoval(id: string): Promise<CountsByKind> {
    return countRemoval(this.#table, id)
  }

  /** Deletes an entity with its limits, usage and buckets; its audit events stay. Not while it is somebody's parent. */
  async delete(id: string): Promise<Removed> {
    const removed = await removeEntity(this.#table, this.#audit, id)
    this.#onChanged(id)
    return removed
  }

  async #changeOnce(id: string, change: EntityChange): Promise<ChangedEntity> {
    const {expectedVersion} = change
    const before = await this.need(id)
    if (expectedVersion !== undefined && before.version !== expectedVersion) {
      throw entityChanged(id, expectedVersion, before.version)
    }
    const after: EntityRecord = {
      ...before,
      name: change.name ?? before.name,
      parent: change.parent === null ? undefined : (change.parent ?? before.parent),
      cascade: change.cascade ?? before.cascade,
      metadata: changedMetadata(before, change),
      version: before.version + 1,
    }
    const event = entityUpdated(before, after)
    if (!event) return {before, after: before}
    const isMoved = after.parent !== undefined && after.parent !== before.parent
    const ancestors = isMoved ? await checkParent(this.#table, id, after.parent) : []
    await transact(this.#table, [entityUpdate(this.#table, before, after), await this.#audit.put(event), ...ancestors])
    return {before, after}
  }

  /** Decides anew while others change what the decision was made from. */
  async #repeat<T>(decide: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await decide()
      } catch (error) {
        if (!isRefused(error) || attempt === ATTEMPTS) throw error
        await pause(attempt, this.#table.backoff)
      }
    }
  }

  async #settle(record: EntityRecord): Promise<void> {
    // Before the buckets: the record is what caches hold, and it is written.
    this.#onChanged(record.entity)
    await alignBuckets(this.#table, record)
  }
}

function metaKey(item: Item): Key[] {
  const key = parseItemKey(item)
  return key?.record === 'entity' ? [keys.entity(key.namespace, key.entity)] : []
}
