import {chunksOf} from '../../dynamo/concurrency.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {type ConfigRecord, decodeConfig, isIndexedConfig} from '../../schema/config-record.js'
import {keys, parseItemKey} from '../../schema/keys.js'
import {ranges} from '../../schema/ranges.js'
import {decodeEntityConfigRegistry, decodeResourceRegistry} from '../../schema/registry-records.js'
import {decodeRange, type PageRequest, type RecordPage, readAll, readPage} from '../table/query.js'
import {getItem, getItems, type NamespaceTable} from '../table/table.js'
import {Provisioner} from './provisioner.js'

/** Four concurrent requests for a hundred keys each. */
const CONFIGS_PER_STEP = 400

/** By name. The registry may lack resources: Python writes it in a second step, its declarative tool never (D-44). */
export async function resourceConfigs(table: NamespaceTable): Promise<ConfigRecord[]> {
  const {namespace} = table
  const names = new Set<string>()
  const registry = await getItem(table, keys.resourceRegistry(namespace))
  for (const name of (registry && decodeResourceRegistry(registry)?.resources) ?? []) names.add(name)
  for await (const item of readAll(table, ranges.resourceConfigs(namespace))) {
    const key = parseItemKey(item)
    if (key?.record === 'resource-config') names.add(key.resource)
  }
  const {record} = await new Provisioner(table).get()
  for (const name of record.resources) names.add(name)
  const items = await readKeys(
    table,
    [...names].sort().map(name => keys.resourceConfig(namespace, name)),
  )
  return items.flatMap(decoded)
}

export function configsOfEntity(table: NamespaceTable, entity: string): Promise<ConfigRecord[]> {
  return decodeRange(table, ranges.configsOfEntity(table.namespace, entity), item => decodeConfig(item))
}

/** `resource` may be `_default_`. Entities in no index come first, on the first page. */
export async function entityConfigs(
  table: NamespaceTable,
  resource: string,
  request: PageRequest = {},
  options: ReadOptions = {},
): Promise<RecordPage<ConfigRecord>> {
  const unlisted = request.cursor === undefined ? await unlistedConfigs(table, resource) : []
  const {records, next} = await indexedConfigs(table, resource, request, options)
  return {records: [...unlisted, ...records], next}
}

export async function* walkEntityConfigs(
  table: NamespaceTable,
  resource: string,
  signal?: AbortSignal,
): AsyncGenerator<readonly ConfigRecord[], void> {
  const unlisted = (await unlistedConfigs(table, resource)).sort((a, b) => (entityOf(a) < entityOf(b) ? -1 : 1))
  let cursor: string | undefined
  do {
    const page = await indexedConfigs(table, resource, {limit: CONFIGS_PER_STEP, cursor}, {isEventual: true, signal})
    const last = page.next === undefined ? undefined : page.records.at(-1)
    const due = unlisted.findIndex(record => last !== undefined && entityOf(record) > entityOf(last))
    const before = unlisted.splice(0, due < 0 ? unlisted.length : due)
    const merged = [...before, ...page.records]
    yield before.length === 0 ? merged : merged.sort((a, b) => (entityOf(a) < entityOf(b) ? -1 : 1))
    cursor = page.next
  } while (cursor !== undefined)
}

const entityOf = ({scope}: ConfigRecord): string => (scope.level === 'entity' ? scope.entity : '')

interface ReadOptions {
  /** Eventually consistent reads, at half the price. */
  readonly isEventual?: boolean
  readonly signal?: AbortSignal | undefined
}

async function indexedConfigs(
  table: NamespaceTable,
  resource: string,
  request: PageRequest,
  options: ReadOptions,
): Promise<RecordPage<ConfigRecord>> {
  const {namespace} = table
  const query = {kind: 'entity-configs', ...ranges.entityConfigsOfResource(namespace, resource)} as const
  const {records: rows, next} = await readPage(table, query, request)
  const wanted = rows.flatMap(row => {
    const key = parseItemKey(row)
    return key?.record === 'entity-config' ? [keys.entityConfig(namespace, key.entity, key.resource)] : []
  })
  return {records: (await readKeys(table, wanted, options)).flatMap(decoded), next}
}

/** By name, including `_default_`. Limits listed by a manifest's record may have been deleted since. */
export async function resourcesOfEntities(table: NamespaceTable): Promise<string[]> {
  const [registry, {record}] = await Promise.all([
    getItem(table, keys.entityConfigRegistry(table.namespace)),
    new Provisioner(table).get(),
  ])
  const names = new Set(registry && decodeEntityConfigRegistry(registry)?.counts.keys())
  for (const [, managed] of record.entities) for (const name of managed) names.add(name)
  return [...names].sort()
}

/** Python's declarative tool writes no index keys. If it manages very many limits, indexed ones are skipped first. */
async function unlistedConfigs(table: NamespaceTable, resource: string): Promise<ConfigRecord[]> {
  const {record} = await new Provisioner(table).get()
  const wanted = new Set<string>()
  for (const [entity, resources] of record.entities) if (resources.includes(resource)) wanted.add(entity)
  if (wanted.size > CONFIGS_PER_STEP) {
    for await (const entity of indexedEntities(table, resource)) wanted.delete(entity)
  }
  const unlisted: ConfigRecord[] = []
  for await (const some of chunksOf(wanted, CONFIGS_PER_STEP)) {
    const items = await readKeys(
      table,
      some.map(entity => keys.entityConfig(table.namespace, entity, resource)),
    )
    unlisted.push(...items.filter(item => !isIndexedConfig(item)).flatMap(decoded))
  }
  return unlisted
}

async function* indexedEntities(table: NamespaceTable, resource: string): AsyncGenerator<string, void> {
  for await (const row of readAll(table, ranges.entityConfigsOfResource(table.namespace, resource))) {
    const key = parseItemKey(row)
    if (key?.record === 'entity-config') yield key.entity
  }
}

async function readKeys(table: NamespaceTable, wanted: readonly Key[], options: ReadOptions = {}): Promise<Item[]> {
  const items = await getItems(table, wanted, {consistent: !options.isEventual, signal: options.signal})
  return [...items.values()]
}

const decoded = (item: Item): ConfigRecord | [] => decodeConfig(item) ?? []
