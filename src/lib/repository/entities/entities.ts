import {isDeepStrictEqual} from 'node:util'
import {checkEntityId, DEFAULT_RESOURCE} from '../../core/names.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {pause} from '../../dynamo/retry.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import type {ConfigScope} from '../../schema/config-record.js'
import {
  decodeEntity,
  type EntityDetails,
  type EntityRecord,
  encodeEntity,
  entityDetails,
} from '../../schema/entity-record.js'
import type {Json} from '../../schema/json-attribute.js'
import {keys, wireKey} from '../../schema/keys.js'
import {familySync, type SyncResult, switchSync, syncBuckets} from '../limits/bucket-sync.js'
import type {Audit, AuditEvent} from '../table/audit.js'
import type {CountsByKind} from '../table/kind-counter.js'
import type {PageRequest, RecordPage} from '../table/query.js'
import {getItems, type NamespaceTable} from '../table/table.js'
import {isRefused, putNew, type TransactItem, transact} from '../table/transact.js'
import {checkParent, climb, entityChanged, entityExists, entityMissing, readChildren, readEntity} from './lineage.js'
import {countRemoval, type RemovedEntity, removeEntity} from './removal.js'
import {
  type EntityFilter,
  entitiesWanted,
  everyId,
  type FoundId,
  type SearchOptions,
  searchEntities,
  similarIds,
} from './search.js'

// Each concurrent change costs the others one attempt.
const ATTEMPTS = 10

/** An entity to create. */
export interface NewEntity {
  readonly id: string
  /** Display name. @default the id, for a new entity */
  readonly name?: string | undefined
  readonly parent?: string | undefined
  /** Charge every admitted request to the parent too. @default false, for a new entity */
  readonly cascade?: boolean | undefined
  readonly metadata?: {readonly [key: string]: Json} | undefined
}

/** A change of an entity; absent fields are kept. */
export interface EntityChange extends Omit<NewEntity, 'id' | 'parent'>, MetadataChange {
  /** `null`: no parent. */
  readonly parent?: string | null | undefined
  /** Fail unless the entity has this version. */
  readonly expectedVersion?: number | undefined
}

/** An entity before and after a change. */
export interface ChangedEntity {
  readonly before: EntityRecord
  readonly after: EntityRecord
  /** Its live buckets, updated to the new parent. A later request updates those that failed. */
  readonly buckets: SyncResult
}

export interface EntitiesOptions {
  readonly audit: Audit
  /** Called with the id of every entity created, changed or deleted here, so that caches can drop it. */
  readonly onChanged?: (entity: string) => void
}

/** The entities of one namespace. */
export class Entities {
  readonly #table: NamespaceTable
  readonly #audit: Audit
  readonly #onChanged: (entity: string) => void

  /** @internal */
  constructor(table: NamespaceTable, {audit, onChanged = () => {}}: EntitiesOptions) {
    this.#table = table
    this.#audit = audit
    this.#onChanged = onChanged
  }

  /** Creates an entity and stores its parent in existing buckets. */
  async create(input: NewEntity): Promise<EntityRecord> {
    const {id, name = id, parent, cascade = false, metadata = {}} = input
    checkEntityId(id)
    if (parent !== undefined) checkEntityId(parent)
    const {namespace, clock, randomBytes} = this.#table
    const nowMs = clock()
    // Later than all moves of a deleted entity with this id, and distinct from it.
    const parentGeneration = {moves: nowMs, incarnation: Buffer.from(randomBytes(8)).toString('hex')}
    const own = {name, parent, cascade, metadata, createdAt: isoSeconds(nowMs), version: 1, parentGeneration}
    const record = {namespace, entity: id, ...own}
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

  /** An entity; `undefined` if it does not exist. */
  async get(id: string): Promise<EntityRecord | undefined> {
    return readEntity(this.#table, id)
  }

  /** An entity; throws if it does not exist. */
  async need(id: string): Promise<EntityRecord> {
    const record = await readEntity(this.#table, id)
    if (!record) throw entityMissing(id)
    return record
  }

  /** The existing entities among `ids`, in that order; one request per hundred. */
  async getMany(ids: readonly string[], signal?: AbortSignal): Promise<EntityRecord[]> {
    const wanted = ids.map(id => keys.entity(this.#table.namespace, id))
    const items = await getItems(this.#table, wanted, {signal})
    return [...items.values()].flatMap(item => decodeEntity(item) ?? [])
  }

  /** The entities of the namespace by id; eventually consistent. */
  async list(request: PageRequest = {}): Promise<RecordPage<EntityRecord>> {
    return searchEntities(this.#table, {}, request)
  }

  /**
   * Matching entities by id; eventually consistent. Reads all entities up to the end of the page, or fewer with `parent`
   * or `prefix`.
   */
  async search(
    filter: EntityFilter,
    request: PageRequest = {},
    options: SearchOptions = {},
  ): Promise<RecordPage<EntityRecord>> {
    return searchEntities(this.#table, filter, request, options)
  }

  /** Like `search` without pages; holds only some hundreds in memory. */
  async *walk(filter: EntityFilter = {}, options: SearchOptions = {}): AsyncGenerator<EntityRecord, void> {
    for await (const records of entitiesWanted(this.#table, filter, undefined, undefined, options)) yield* records
  }

  /** @internal By id, including entities without a record. */
  everyId(): AsyncGenerator<FoundId, void> {
    return everyId(this.#table)
  }

  /** Ids with the same beginning, for suggestions; as many as one request finds. */
  async similar(id: string): Promise<string[]> {
    return similarIds(this.#table, id)
  }

  /** Changes an entity and its buckets, and increments its version. Writes nothing if nothing differs. */
  async update(id: string, change: EntityChange): Promise<EntityRecord> {
    return (await this.change(id, change)).after
  }

  /** Like `update`, but also returns the previous record, which is the same if nothing differs. */
  async change(id: string, change: EntityChange): Promise<ChangedEntity> {
    if (typeof change.parent === 'string') checkEntityId(change.parent)
    const changed = await this.#repeat(() => this.#changeOnce(id, change))
    return {...changed, buckets: await this.#settle(changed.after)}
  }

  /** The direct children of an entity by id; eventually consistent. */
  async children(parent: string): Promise<EntityRecord[]> {
    return readChildren(this.#table, parent)
  }

  /** The existing ancestors of an entity, nearest first. */
  async parents(id: string): Promise<EntityRecord[]> {
    const [self, ...ancestors] = await climb(this.#table, id)
    if (!self?.record) throw entityMissing(id)
    return ancestors.flatMap(({record}) => record ?? [])
  }

  /** Counts what `delete` would delete, by kind; throws where it would refuse. */
  async countRemoval(id: string): Promise<CountsByKind> {
    return countRemoval(this.#table, id)
  }

  /**
   * Deletes an entity with its limits, usage and buckets, but not its audit events. Refused while it has children. A
   * disabled entity stays blocked. Otherwise, later requests with its id use the limits of the resource or the system,
   * and charge no parent.
   */
  async delete(id: string): Promise<RemovedEntity> {
    const removed = await removeEntity(this.#table, this.#audit, id)
    this.#onChanged(id)
    // Blocked buckets stay and lose their parent. Also marks buckets that were created during the deletion.
    if (removed.blocks.length > 0) await syncBuckets(this.#table, everyResource(id), [familySync, switchSync])
    return removed
  }

  async #changeOnce(id: string, change: EntityChange): Promise<Omit<ChangedEntity, 'buckets'>> {
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
    const moved = after.parent === before.parent ? after : nextGeneration(after)
    const event = entityUpdated(before, after)
    if (!event) return {before, after: before}
    const isMoved = after.parent !== undefined && after.parent !== before.parent
    const ancestors = isMoved ? await checkParent(this.#table, id, after.parent) : []
    await transact(this.#table, [entityUpdate(this.#table, before, moved), await this.#audit.put(event), ...ancestors])
    return {before, after: moved}
  }

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

  async #settle({entity}: EntityRecord): Promise<SyncResult> {
    // Before the buckets: caches hold the old record, which is already replaced.
    this.#onChanged(entity)
    return syncBuckets(this.#table, everyResource(entity), [familySync])
  }
}

const everyResource = (entity: string): ConfigScope => ({level: 'entity', entity, resource: DEFAULT_RESOURCE})

/** A client that read the entity before the move must not undo it. */
function nextGeneration(record: EntityRecord): EntityRecord {
  const {moves = 0, incarnation} = record.parentGeneration ?? {}
  return {...record, parentGeneration: {moves: moves + 1, incarnation}}
}

/** A change of an entity's metadata. */
export interface MetadataChange {
  /** Replace all metadata. */
  readonly metadata?: {readonly [key: string]: Json} | undefined
  /** Set these keys; others are kept. */
  readonly setMetadata?: {readonly [key: string]: Json} | undefined
  /** Remove these keys if present. */
  readonly unsetMetadata?: readonly string[] | undefined
}

export function changedMetadata(before: EntityRecord, change: MetadataChange): EntityRecord['metadata'] {
  const {metadata = before.metadata, setMetadata = {}, unsetMetadata = []} = change
  const gone = new Set(unsetMetadata)
  return Object.fromEntries(Object.entries({...metadata, ...setMetadata}).filter(([key]) => !gone.has(key)))
}

/** Requires the version and the move count of `before`: clients of zae-limiter count only moves, not versions. */
function entityUpdate(table: NamespaceTable, before: EntityRecord, after: EntityRecord): TransactItem {
  const e = new ExpressionBuilder().exists()
  e.require(attributes.entity.version, before.version || undefined)
  e.require(attributes.entity.parentGeneration, before.parentGeneration?.moves)
  const from = encodeEntity(before)
  const to = encodeEntity(after)
  for (const [name, value] of Object.entries(to)) if (!isDeepStrictEqual(value, from[name])) e.set(name, value)
  for (const name of Object.keys(from)) if (!(name in to)) e.remove(name)
  const Key = wireKey(keys.entity(table.namespace, before.entity))
  return {Update: {TableName: table.name, Key, ...e.update()}}
}

function entityUpdated(before: EntityRecord, after: EntityRecord): AuditEvent | undefined {
  const from = entityDetails(before)
  const to = entityDetails(after)
  const changed = (Object.keys(to) as Array<keyof EntityDetails>).filter(key => !isDeepStrictEqual(from[key], to[key]))
  if (changed.length === 0) return undefined
  const only = (details: EntityDetails) =>
    Object.fromEntries(changed.map(key => [key, details[key]])) as {[key: string]: Json}
  return {
    entity: before.entity,
    action: 'entity_updated',
    details: {before: only(from), after: only(to), version: after.version},
  }
}
