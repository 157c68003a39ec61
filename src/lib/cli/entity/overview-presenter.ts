import {boostField, limitText} from '../../core/limits/boost-text.js'
import {baseOf} from '../../core/limits/limit.js'
import type {Level} from '../../core/limits/resolve.js'
import type {EntityOverview} from '../../insight/lookup/entity-overview.js'
import {textTable} from '../output/text-table.js'
import {entityJson, entityLines} from './presenter.js'
import type {EntityShowResult} from './results.js'

const SOURCES: Readonly<Record<Level | 'record', string>> = {
  entity: 'entity + resource',
  entity_default: 'entity',
  resource: 'resource',
  system: 'system',
  record: 'record',
}

/** An entity with the limits that apply to it, in JSON; empty values for an entity without a record. */
export function overviewJson({id, record, parents, resources}: EntityOverview): EntityShowResult {
  const unregistered = {id, name: null, parent: null, cascade: false, metadata: {}, createdAt: null, version: null}
  return {
    registered: record !== undefined,
    ...(record ? entityJson(record) : unregistered),
    parents: parents.map(parent => ({id: parent.entity, name: parent.name, cascade: parent.cascade})),
    resources: resources.map(({resource, source, cascade, limits, shards}) => ({
      resource: resource ?? null,
      source: source ?? null,
      cascade: cascade ? {charged: cascade.charged, level: cascade.level} : null,
      limits: limits.map(limit => {
        const {available = null} = limit
        const {boost: _, ...base} = baseOf(limit)
        return {...base, available, ...boostField(limit)}
      }),
      shards,
    })),
  }
}

export async function entityOverviewLines(overview: EntityOverview, width: number | undefined): Promise<string[]> {
  const {id, record, resources} = overview
  const head = record
    ? entityLines(`Entity "${id}"`, record, parentChain(overview))
    : [`Entity "${id}" has no record; it has limits or buckets`]
  const hasPolicies = resources.some(({cascade}) => cascade && cascade.level !== 'record')
  const rows = resources.flatMap(({resource = '(any other)', source, cascade, limits, shards}) =>
    limits.map(limit => [
      resource,
      limitText(limit),
      source && SOURCES[source],
      ...(hasPolicies ? [cascade && `${cascade.charged ? 'on' : 'off'}, ${SOURCES[cascade.level]}`] : []),
      limit.available,
      limit.capacity,
      shards === 0 ? undefined : shards,
    ]),
  )
  if (rows.length === 0) return [...head, '', 'No limits apply to it.']
  const columns = [
    {header: 'RESOURCE'},
    {header: 'LIMIT'},
    {header: 'SET FOR'},
    ...(hasPolicies ? [{header: 'CASCADE'}] : []),
    {header: 'AVAILABLE', align: 'right'},
    {header: 'OF', align: 'right'},
    {header: 'SHARDS', align: 'right'},
  ] as const
  return [...head, '', ...(await textTable(columns, rows, {header: true, width}))]
}

/** The ancestors, nearest first. Other clients do not check parents: one may be missing, or be its own descendant. */
function parentChain({id, record, parents}: EntityOverview): string | undefined {
  if (record?.parent === undefined) return undefined
  const names = parents.map(parent => parent.entity)
  const end = (parents.at(-1) ?? record).parent
  if (end === undefined) return names.join(' → ')
  if ([id, ...names].includes(end)) return `${[...names, end].join(' → ')}, a cycle`
  return [...names, `${end} (does not exist)`].join(' → ')
}
