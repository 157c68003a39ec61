import {DEFAULT_RESOURCE} from '../../core/names.js'
import {batchGet, batchWrite} from '../../dynamo/batch.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import type {Key} from '../../schema/attribute-value.js'
import {type ConfigRecord, decodeConfig} from '../../schema/config-record.js'
import {decodeEntity} from '../../schema/entity-record.js'
import {keys, parseKey, sortPrefix} from '../../schema/keys.js'
import type {Audit, AuditEvent} from '../audit/audit.js'
import {unregisterConfig} from '../limits/registry.js'
import {deleteConfig} from '../limits/writes.js'
import {type CountsByKind, KindCounter, type Removed} from '../table/kind-counter.js'
import {keyOf, readAll} from '../table/query.js'
import {type NamespaceTable, wireKey} from '../table/table.js'
import {transact} from '../table/transact.js'
import {isRefused} from '../table/transact-items.js'
import {findBuckets} from './buckets.js'
import {entityMissing, hasChildren} from './errors.js'
import {readChildren} from './lineage.js'

const CONFIG_ATTEMPTS = 5

/**
 * Deletes everything of an entity but its audit events. The record goes last and together with the event, so that a
 * deletion that was interrupted can be run again.
 */
export async function removeEntity(table: NamespaceTable, audit: Audit, entity: string): Promise<Removed> {
  const {found, buckets} = await findDoomed(table, entity)
  const meta = keys.entity(table.namespace, entity)
  const counter = new KindCounter()
  await removeConfigs(table, entity, counter)
  const isConfig = (key: Key) => parseKey(key)?.record === 'entity-config'
  const data = [...buckets, ...found.filter(key => key.SK !== meta.SK && !isConfig(key))]
  const requests = data.map(key => ({delete: key}))
  await batchWrite(table.transport, table.name, requests, {backoff: table.backoff})
  counter.add(data)

  const hasRecord = found.some(key => key.SK === meta.SK)
  if (hasRecord) counter.add([meta])
  const event = {entity, action: 'entity_deleted', details: {records_deleted: counter.total}}
  // Entities need no record to be limited.
  if (hasRecord) await removeRecord(table, audit, entity, event)
  else await audit.record(event)
  return counter.removed()
}

/** How many records of each kind would be deleted; throws where the deletion would refuse. */
export async function countRemoval(table: NamespaceTable, entity: string): Promise<CountsByKind> {
  const {found, buckets} = await findDoomed(table, entity)
  const counter = new KindCounter()
  counter.add([...found, ...buckets])
  return counter.byKind
}

/** The keys in the entity's partition, and those of its buckets. */
async function findDoomed(table: NamespaceTable, entity: string): Promise<{found: Key[]; buckets: Key[]}> {
  await refuseWithChildren(table, entity)
  const {PK: partition} = keys.entity(table.namespace, entity)
  const found: Key[] = []
  const keysOnly = new ExpressionBuilder().project('PK', 'SK')
  for await (const item of readAll(table, {partition}, keysOnly)) found.push(keyOf(item))
  const buckets = (await findBuckets(table, entity, resourcesOf(found), [])).map(keyOf)
  if (found.length + buckets.length === 0) throw entityMissing(entity)
  return {found, buckets}
}

/** Each in one transaction with the registry that counts it (D-47). */
async function removeConfigs(table: NamespaceTable, entity: string, counter: KindCounter): Promise<void> {
  const {PK} = keys.entity(table.namespace, entity)
  for (let attempt = 1; ; attempt++) {
    let isChanged = false
    for await (const item of readAll(table, {partition: PK, prefix: sortPrefix.entityConfigs})) {
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
  e.condition(`attribute_exists(${e.name('PK')})`)
  const Key = wireKey(keys.entity(table.namespace, entity))
  try {
    await transact(table, [{Delete: {TableName: table.name, Key, ...e.write()}}, await audit.put(event)])
  } catch (error) {
    // Gone since it was seen: whoever deleted it has also written the event.
    if (!isRefused(error, 0)) throw error
  }
}

/** The index lags behind: a child that has just been deleted or got another parent does not count. */
async function refuseWithChildren(table: NamespaceTable, entity: string): Promise<void> {
  const indexed = (await readChildren(table, entity)).map(child => keys.entity(table.namespace, child.entity))
  const options = {backoff: table.backoff, consistent: true}
  const items = await batchGet(table.transport, table.name, indexed, options)
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

/** Resources that records in the entity's partition speak of: their buckets may not be in the index yet. */
function resourcesOf(found: readonly Key[]): Set<string> {
  const resources = found.flatMap(each => {
    const key = parseKey(each)
    return key?.record === 'usage' || key?.record === 'entity-config' ? [key.resource] : []
  })
  return new Set(resources.filter(resource => resource !== DEFAULT_RESOURCE))
}
