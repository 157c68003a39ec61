import {batchGet} from '../../dynamo/batch.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {type ConfigRecord, decodeConfig} from '../../schema/config-record.js'
import {indexKeys, keys, parseItemKey, sortPrefix} from '../../schema/keys.js'
import {decodeProvisioner} from '../../schema/provisioner-record.js'
import {decodeEntityConfigRegistry, decodeResourceRegistry} from '../../schema/registry-records.js'
import {type RecordPage, type PageRequest, readAll, readPage} from '../table/query.js'
import {getItem, type NamespaceTable} from '../table/table.js'

/**
 * Every resource with limits of its own, by name. The registry may miss some: the Python client writes it in a second
 * step, its declarative tool not at all, and that tool's items are not in the namespace index either (D-44).
 */
export async function resourceConfigs(space: NamespaceTable): Promise<ConfigRecord[]> {
  const {namespace} = space
  const names = new Set<string>()
  const registry = await getItem(space, keys.resourceRegistry(namespace))
  for (const name of (registry && decodeResourceRegistry(registry)?.resources) ?? []) names.add(name)
  const prefix = keys.resourceConfig(namespace, '').PK
  for await (const item of readAll(space, {index: 'GSI4', partition: namespace, prefix})) {
    const key = parseItemKey(item)
    if (key?.record === 'resource-config') names.add(key.resource)
  }
  for (const name of (await provisioner(space))?.resources ?? []) names.add(name)
  const items = await readKeys(
    space,
    [...names].sort().map(name => keys.resourceConfig(namespace, name)),
  )
  return items.flatMap(decoded)
}

/** The limits of one entity, its default included. */
export async function configsOfEntity(space: NamespaceTable, entity: string): Promise<ConfigRecord[]> {
  const {PK: partition} = keys.entity(space.namespace, entity)
  const records: ConfigRecord[] = []
  for await (const item of readAll(space, {partition, prefix: sortPrefix.entityConfigs})) records.push(...decoded(item))
  return records
}

/** Entities with limits for a resource (or `_default_`). Those in no index come before all others, on the first page. */
export async function entityConfigs(
  space: NamespaceTable,
  resource: string,
  request: PageRequest = {},
): Promise<RecordPage<ConfigRecord>> {
  const {namespace} = space
  const stretch = {index: 'GSI3', partition: indexKeys.configOfResource(namespace, resource, '').GSI3PK} as const
  const {records: rows, next} = await readPage(space, stretch, request)
  const wanted = rows.flatMap(row => {
    const key = parseItemKey(row)
    return key?.record === 'entity-config' ? [keys.entityConfig(namespace, key.entity, key.resource)] : []
  })
  const unlisted = request.cursor === undefined ? await unlistedConfigs(space, resource) : []
  return {records: [...unlisted, ...(await readKeys(space, wanted)).flatMap(decoded)], next}
}

/** How many entities have limits of their own, by resource; `_default_` stands for all resources of an entity. */
export async function entityConfigCounts(space: NamespaceTable): Promise<Map<string, number>> {
  const registry = await getItem(space, keys.entityConfigRegistry(space.namespace))
  const counts = new Map(registry && decodeEntityConfigRegistry(registry)?.counts)
  for (const {scope} of await unlistedConfigs(space)) {
    if (scope.level === 'entity') counts.set(scope.resource, (counts.get(scope.resource) ?? 0) + 1)
  }
  return new Map([...counts].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** Entity configurations that only the state of the Python system's declarative tool tells of. */
async function unlistedConfigs(space: NamespaceTable, resource?: string): Promise<ConfigRecord[]> {
  const wanted: Key[] = []
  for (const [entity, resources] of (await provisioner(space))?.entities ?? []) {
    for (const name of resources) {
      if (resource === undefined || name === resource) wanted.push(keys.entityConfig(space.namespace, entity, name))
    }
  }
  const items = await readKeys(space, wanted)
  return items.filter(item => item.GSI3PK === undefined).flatMap(decoded)
}

async function provisioner(space: NamespaceTable) {
  const item = await getItem(space, keys.provisioner(space.namespace))
  return item && decodeProvisioner(item)
}

async function readKeys(space: NamespaceTable, wanted: readonly Key[]): Promise<Item[]> {
  const items = await batchGet(space.transport, space.name, wanted, {backoff: space.backoff, consistent: true})
  return [...items.values()]
}

function decoded(item: Item): ConfigRecord[] {
  const record = decodeConfig(item)
  return record ? [record] : []
}
