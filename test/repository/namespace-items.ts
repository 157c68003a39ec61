import {LATEST_ULID_MS, ulid} from '../../src/lib/core/ulid.js'
import {batchWrite} from '../../src/lib/dynamo/batch.js'
import {scanPages} from '../../src/lib/dynamo/paging.js'
import type {Table} from '../../src/lib/repository/table/table.js'
import {type Item, s} from '../../src/lib/schema/attribute-value.js'
import {encodeAudit} from '../../src/lib/schema/audit-record.js'
import {encodeBucket} from '../../src/lib/schema/bucket-record.js'
import {type ConfigScope, encodeConfig} from '../../src/lib/schema/config-record.js'
import {encodeEntity} from '../../src/lib/schema/entity-record.js'
import {keys} from '../../src/lib/schema/keys.js'
import {encodeProvisioner} from '../../src/lib/schema/provisioner-record.js'
import {encodeUsage} from '../../src/lib/schema/usage-record.js'
import {encodeEntityConfigRegistry, encodeResourceRegistry, firstAcquire} from '../schema/samples.js'

const range = (count: number) => Array.from({length: count}, (_, i) => i)

export const bucketItem = (namespace: string, entity: string, resource: string, shard = 0, shardCount = 1): Item =>
  encodeBucket({...firstAcquire, namespace, entity, resource, shard, shardCount})

function configItem(namespace: string, scope: ConfigScope): Item {
  const limits = [{name: 'rpm', capacity: 10, refillAmount: 10, refillPeriodSeconds: 60}]
  return encodeConfig({namespace, scope, limits, onUnavailable: undefined, auditRetentionDays: undefined})
}

export const entityConfigItem = (namespace: string, entity: string, resource: string): Item =>
  configItem(namespace, {level: 'entity', entity, resource})

export const usageItem = (namespace: string, entity: string, resource: string, hour: number): Item =>
  encodeUsage({
    namespace,
    entity,
    resource,
    window: 'hourly',
    start: `${new Date(hour * 3_600_000).toISOString().slice(0, 19)}Z`,
    tokens: new Map([['rpm', 5]]),
    totalEvents: 5,
    ttlSeconds: undefined,
  })

export const entityItem = (namespace: string, entity: string, parent?: string): Item =>
  encodeEntity({namespace, entity, name: entity, parent, cascade: false, metadata: {}, createdAt: '', version: 0})

const auditItem = (namespace: string, entity: string, i: number): Item =>
  encodeAudit({
    namespace,
    entity,
    eventId: ulid(LATEST_ULID_MS - i, new Uint8Array(10)),
    timestamp: '',
    action: 'entity_created',
    principal: undefined,
    resource: undefined,
    details: {},
    ttlSeconds: undefined,
  })

/** 300 items, every kind of record that a namespace can hold. */
export function indexedItems(namespace: string): Item[] {
  const resources = range(16).map(i => `r${i}`)
  return [
    configItem(namespace, {level: 'system'}),
    ...resources.map(resource => configItem(namespace, {level: 'resource', resource})),
    encodeResourceRegistry({namespace, resources}),
    encodeEntityConfigRegistry({namespace, counts: new Map(resources.map(resource => [resource, 3]))}),
    ...range(31).map(i => entityItem(namespace, `e${i}`)),
    ...range(50).map(i => entityConfigItem(namespace, `e${i % 10}`, `r${Math.floor(i / 10)}`)),
    ...range(100).map(i => usageItem(namespace, `e${i % 10}`, 'r1', Math.floor(i / 10))),
    ...range(60).map(i => bucketItem(namespace, `e${i % 15}`, 'r1', Math.floor(i / 15), 4)),
    ...range(40).map(i => auditItem(namespace, `e${i % 10}`, i)),
  ]
}

/** Seven items as other clients leave them, without one or both keys of the index over the namespace. */
export function strayItems(namespace: string): Item[] {
  const {GSI4SK: _, ...provisioner} = encodeProvisioner({
    namespace,
    managesSystem: true,
    resources: ['r1'],
    entities: new Map(),
    lastApplied: undefined,
    appliedHash: undefined,
  })
  const configs = ['s0', 's1', 's2'].map(entity => {
    const {GSI3PK, GSI3SK, GSI4SK, ...item} = entityConfigItem(namespace, entity, 'r1')
    return item
  })
  const {PK, SK} = keys.bucket(namespace, 'ghost', 'r1', 0)
  const ghost = {PK: s(PK), SK: s(SK), b_rpm_tk: {N: '1000'}, b_rpm_tc: {N: '-1000'}}
  const {GSI4PK: _pk, GSI4SK: _sk, ...resource} = configItem(namespace, {level: 'resource', resource: 'stray'})
  const oldBucket = {PK: s(`${namespace}/ENTITY#old`), SK: s('#BUCKET#r1'), b_rpm_tk: {N: '1000'}}
  return [provisioner, ...configs, ghost, resource, oldBucket]
}

export async function putAll(table: Table, items: Item[]): Promise<void> {
  const requests = items.map(put => ({put}))
  await batchWrite(table.transport, table.name, requests, {backoff: table.backoff})
}

/** Every item of the table whose partition key passes, in a fixed order. */
export async function scanWhere(table: Table, passes: (PK: string) => boolean): Promise<Item[]> {
  const found: Item[] = []
  const input = {TableName: table.name, ConsistentRead: true}
  for await (const {items} of scanPages(table.transport, input, {backoff: table.backoff})) {
    found.push(...items.filter(item => passes((item.PK as {S: string}).S)))
  }
  const id = (item: Item) => JSON.stringify([item.PK, item.SK])
  return found.sort((a, b) => (id(a) < id(b) ? -1 : 1))
}

/** Every item of one namespace. */
export const scanNamespace = (table: Table, id: string): Promise<Item[]> =>
  scanWhere(table, PK => PK.startsWith(`${id}/`))
