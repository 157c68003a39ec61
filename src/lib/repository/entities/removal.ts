import {DEFAULT_RESOURCE} from '../../core/names.js'
import {batchWrite} from '../../dynamo/batch.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {attributes, keyNames} from '../../schema/attributes.js'
import {readShardCount} from '../../schema/bucket-record.js'
import {type ConfigRecord, decodeConfig} from '../../schema/config-record.js'
import {decodeEntity} from '../../schema/entity-record.js'
import {keyOf, keys, type ParsedKey, parseItemKey, parseKey, wireKey} from '../../schema/keys.js'
import {ranges} from '../../schema/ranges.js'
import {deleteConfig, unregisterConfig} from '../limits/config-writes.js'
import type {Audit, AuditEvent} from '../table/audit.js'
import {type CountsByKind, KindCounter, type Removed} from '../table/kind-counter.js'
import {decodeRange, readAll} from '../table/query.js'
import {getItems, type NamespaceTable} from '../table/table.js'
import {isRefused, transact} from '../table/transact.js'
import {entityMissing, hasChildren, readChildren} from './lineage.js'

const CONFIG_ATTEMPTS = 5

/** Keeps audit events. Deletes the record last, with the event, so that an interrupted deletion can be run again. */
export async function removeEntity(table: NamespaceTable, audit: Audit, entity: string): Promise<Removed> {
  const {found, buckets} = await findItems(table, entity)
  const meta = keys.entity(table.namespace, entity)
  const counter = new KindCounter()
  await removeConfigs(table, entity, counter)
  const data = [...buckets, ...found.filter(key => !isKeyOf(key, 'entity') && !isKeyOf(key, 'entity-config'))]
  const requests = data.map(key => ({delete: key}))
  await batchWrite(table.transport, table.name, requests, {backoff: table.backoff})
  counter.add(data)

  const hasRecord = found.some(key => isKeyOf(key, 'entity'))
  if (hasRecord) counter.add([meta])
  const event = {entity, action: 'entity_deleted', details: {records_deleted: counter.total}}
  // An entity can be limited without a record.
  if (hasRecord) await removeRecord(table, audit, entity, event)
  else await audit.record(event)
  return counter.removed()
}

export async function countRemoval(table: NamespaceTable, entity: string): Promise<CountsByKind> {
  const {found, buckets} = await findItems(table, entity)
  const counter = new KindCounter()
  counter.add([...found, ...buckets])
  return counter.byKind
}

async function findItems(table: NamespaceTable, entity: string): Promise<{found: Key[]; buckets: Key[]}> {
  await refuseWithChildren(table, entity)
  const e = new ExpressionBuilder().project(...keyNames())
  const found = await decodeRange(table, ranges.entity(table.namespace, entity), keyOf, {e})
  const buckets = await findBucketKeys(table, entity, resourcesOf(found))
  buckets.push(...(await decodeRange(table, ranges.operationsOfEntity(table.namespace, entity), keyOf)))
  if (found.length + buckets.length === 0) throw entityMissing(entity)
  return {found, buckets}
}

/** Deletes each in one transaction with the registry that counts it (D-47). */
async function removeConfigs(table: NamespaceTable, entity: string, counter: KindCounter): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    let isChanged = false
    for await (const item of readAll(table, ranges.configsOfEntity(table.namespace, entity))) {
      const record = decodeConfig(item) as ConfigRecord
      try {
        await transact(table, [
          deleteConfig(table, item, record),
          ...(await unregisterConfig(table, record.scope, item)),
        ])
        counter.add([keyOf(item)])
      } catch (error) {
        if (!isRefused(error) || attempt === CONFIG_ATTEMPTS) throw error
        isChanged = true
      }
    }
    if (!isChanged) return
  }
}

async function removeRecord(table: NamespaceTable, audit: Audit, entity: string, event: AuditEvent): Promise<void> {
  const e = new ExpressionBuilder()
  e.condition(`attribute_exists(${e.name(attributes.key.partition)})`)
  const Key = wireKey(keys.entity(table.namespace, entity))
  try {
    await transact(table, [{Delete: {TableName: table.name, Key, ...e.write()}}, await audit.put(event)])
  } catch (error) {
    // Deleted meanwhile: that deletion wrote the event.
    if (!isRefused(error, 0)) throw error
  }
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
  const resources = found.flatMap(each => {
    const key = parseKey(each)
    return key?.record === 'usage' || key?.record === 'entity-config' ? [key.resource] : []
  })
  return new Set(resources.filter(resource => resource !== DEFAULT_RESOURCE))
}

function isKeyOf(key: Key, record: ParsedKey['record']): boolean {
  return parseKey(key)?.record === record
}

const names = attributes.bucket

/** The index is eventually consistent and lacks ghosts, so it only gives resources; items show the existing shards. */
async function findBucketKeys(table: NamespaceTable, entity: string, resources: Iterable<string>): Promise<Key[]> {
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
  return (await read(all, [])).map(keyOf)
}
