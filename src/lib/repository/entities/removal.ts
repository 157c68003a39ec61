import {valueIf} from '../../core/errors.js'
import {DEFAULT_RESOURCE} from '../../core/names.js'
import {batchWrite} from '../../dynamo/batch.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {type Item, type Key, n} from '../../schema/attribute-value.js'
import {attributes, keyNames} from '../../schema/attributes.js'
import {readShardCount} from '../../schema/bucket-record.js'
import {type ConfigRecord, type ConfigScope, decodeConfig, isBareBlock, isBlock} from '../../schema/config-record.js'
import {decodeEntity} from '../../schema/entity-record.js'
import {keyOf, keys, type ParsedKey, parseItemKey, parseKey, wireKey} from '../../schema/keys.js'
import {ranges} from '../../schema/ranges.js'
import {deleteConfig, keepBlock, unregisterConfig} from '../limits/config-writes.js'
import type {Audit, AuditEvent} from '../table/audit.js'
import {type CountsByKind, KindCounter, type Removed} from '../table/kind-counter.js'
import {decodeRange, readAll} from '../table/query.js'
import {getItems, type NamespaceTable} from '../table/table.js'
import {isApplied, isRefused, transact, updateItem} from '../table/transact.js'
import {entityDeleted, entityMissing, hasChildren, readChildren} from './lineage.js'

const CONFIG_ATTEMPTS = 5

/** Marked buckets expire after this time. Until then they stop clients that cached the configuration before the block. */
const MARKED_SECONDS = 600

/** Items deleted with an entity, and the blocks that stay. */
export interface RemovedEntity extends Removed {
  /** Scopes whose requests stay refused. */
  readonly blocks: readonly ConfigScope[]
}

/**
 * Keeps audit events, and the switch of a disabled entity: its id stays blocked. Deletes the record last, with the
 * event, so that an interrupted deletion can be run again.
 */
export async function removeEntity(table: NamespaceTable, audit: Audit, entity: string): Promise<RemovedEntity> {
  const {found, buckets, marked} = await findItems(table, entity)
  const meta = keys.entity(table.namespace, entity)
  const counter = new KindCounter()
  const blocks = await removeConfigs(table, entity, counter)
  const unmarked: Key[] = []
  for (const key of marked) if (!(await expireMarked(table, key))) unmarked.push(key)
  const data = [
    ...buckets,
    ...unmarked,
    ...found.filter(key => !isKeyOf(key, 'entity') && !isKeyOf(key, 'entity-config')),
  ]
  const requests = data.map(key => ({delete: key}))
  await batchWrite(table.transport, table.name, requests, {backoff: table.backoff})
  counter.add(data)

  const hasRecord = found.some(key => isKeyOf(key, 'entity'))
  if (hasRecord) counter.add([meta])
  const details = {records_deleted: counter.total, ...(blocks.length > 0 && {blocked: true})}
  const event = {entity, action: 'entity_deleted', details}
  // An entity can be limited without a record.
  if (hasRecord) await removeRecord(table, audit, entity, event)
  else await audit.record(event)
  return {...counter.removed(), blocks}
}

export async function countRemoval(table: NamespaceTable, entity: string): Promise<CountsByKind> {
  const {found, buckets} = await findItems(table, entity)
  const counter = new KindCounter()
  counter.add([...found, ...buckets])
  return counter.byKind
}

interface FoundItems {
  readonly found: readonly Key[]
  readonly buckets: readonly Key[]
  /** Buckets that carry the mark of a block that stays. */
  readonly marked: readonly Key[]
}

async function findItems(table: NamespaceTable, entity: string): Promise<FoundItems> {
  await refuseWithChildren(table, entity)
  const {namespace} = table
  const e = new ExpressionBuilder().project(...keyNames())
  const all = await decodeRange(table, ranges.entity(namespace, entity), keyOf, {e})
  const configs = await decodeRange(table, ranges.configsOfEntity(namespace, entity), item => item)
  const blocked = new Set(
    configs.filter(item => isBlock(item, table.clock())).map(item => resourceIn(keyOf(item), 'entity-config')),
  )
  const found = all.filter(key => !isKeyOf(key, 'entity-config') || !blocked.has(resourceIn(key, 'entity-config')))
  const items = await findBuckets(table, entity, resourcesOf(all))
  const isMarked = (item: Item) =>
    names.disabled in item && [DEFAULT_RESOURCE, resourceIn(keyOf(item), 'bucket')].some(name => blocked.has(name))
  const buckets = items.filter(item => !isMarked(item)).map(keyOf)
  buckets.push(...(await decodeRange(table, ranges.operationsOfEntity(namespace, entity), keyOf)))
  if (found.length + buckets.length === 0 && configs.every(item => isBareBlock(item, table.clock())))
    throw configs.length > 0 ? entityDeleted(entity) : entityMissing(entity)
  return {found, buckets, marked: items.filter(isMarked).map(keyOf)}
}

/** Deletes each in one transaction with the registry that counts it (D-47). Returns the scopes of kept blocks. */
async function removeConfigs(table: NamespaceTable, entity: string, counter: KindCounter): Promise<ConfigScope[]> {
  for (let attempt = 1; ; attempt++) {
    const blocks: ConfigScope[] = []
    let isChanged = false
    for await (const item of readAll(table, ranges.configsOfEntity(table.namespace, entity))) {
      const record = decodeConfig(item, () => []) as ConfigRecord
      const isKept = isBlock(item, table.clock())
      if (isKept) blocks.push(record.scope)
      if (isBareBlock(item, table.clock())) continue
      try {
        const writes = isKept
          ? [keepBlock(table, item, record)]
          : [deleteConfig(table, item, record), ...(await unregisterConfig(table, record.scope, item))]
        await transact(table, writes)
        if (!isKept) counter.add([keyOf(item)])
      } catch (error) {
        if (!isRefused(error) || attempt === CONFIG_ATTEMPTS) throw error
        isChanged = true
      }
    }
    if (!isChanged) return blocks
  }
}

/** `false`: the mark was removed meanwhile. */
function expireMarked(table: NamespaceTable, key: Key): Promise<boolean> {
  const e = new ExpressionBuilder().exists(names.disabled)
  e.set(names.expiresAt, n(Math.floor(table.clock() / 1000) + MARKED_SECONDS))
  return isApplied(transact(table, [updateItem({TableName: table.name, Key: wireKey(key), ...e.update()})]))
}

async function removeRecord(table: NamespaceTable, audit: Audit, entity: string, event: AuditEvent): Promise<void> {
  const e = new ExpressionBuilder().exists()
  const Key = wireKey(keys.entity(table.namespace, entity))
  const removal = transact(table, [{Delete: {TableName: table.name, Key, ...e.write()}}, await audit.put(event)])
  // Deleted meanwhile: that deletion wrote the event.
  await removal.catch(valueIf(error => isRefused(error, 0), undefined))
}

/** The index is eventually consistent: a child that was just deleted or moved does not count. */
async function refuseWithChildren(table: NamespaceTable, entity: string): Promise<void> {
  const indexed = (await readChildren(table, entity)).map(child => keys.entity(table.namespace, child.entity))
  const items = await getItems(table, indexed)
  const children = [...items.values()]
    .flatMap(item => decodeEntity(item) ?? [])
    .filter(child => child.parent === entity)
  if (children.length > 0) {
    throw hasChildren(
      entity,
      children.map(child => child.entity),
    )
  }
}

/** Resources in the entity's partition: the index may lack their buckets. */
function resourcesOf(found: readonly Key[]): Set<string> {
  const resources = found.flatMap(key => resourceIn(key, 'usage') ?? resourceIn(key, 'entity-config') ?? [])
  return new Set(resources.filter(resource => resource !== DEFAULT_RESOURCE))
}

function resourceIn(key: Key, record: 'usage' | 'entity-config' | 'bucket'): string | undefined {
  const parsed = parseKey(key)
  return parsed?.record === record ? parsed.resource : undefined
}

function isKeyOf(key: Key, record: ParsedKey['record']): boolean {
  return parseKey(key)?.record === record
}

const names = attributes.bucket

/** The index is eventually consistent and lacks ghosts, so it only gives resources; items show the existing shards. */
async function findBuckets(table: NamespaceTable, entity: string, resources: Iterable<string>): Promise<Item[]> {
  const shards = new Map<string, number>()
  const atLeast = (resource: string, count: number) => shards.set(resource, Math.max(count, shards.get(resource) ?? 0))
  for (const resource of resources) atLeast(resource, 1)
  const {index, partition} = ranges.bucketsOfEntity(table.namespace, entity)
  for await (const item of readAll(table, {index, partition})) {
    const key = parseItemKey(item)
    if (key?.record === 'bucket') atLeast(key.resource, key.shard + 1)
  }

  const bucketKey = (resource: string, shard: number): Key => keys.bucket(table.namespace, entity, resource, shard)
  const read = async (wanted: Key[], attributes: readonly string[]): Promise<Item[]> => {
    return [...(await getItems(table, wanted, {projection: attributes})).values()]
  }
  const first = [...shards.keys()].map(resource => bucketKey(resource, 0))
  for (const item of await read(first, [names.shardCount])) {
    const key = parseItemKey(item)
    if (key?.record === 'bucket') atLeast(key.resource, readShardCount(item))
  }
  const all = [...shards].flatMap(([resource, count]) =>
    Array.from({length: count}, (_, shard) => bucketKey(resource, shard)),
  )
  return read(all, [names.disabled])
}
