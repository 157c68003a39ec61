import {rateText} from '../../core/limits/boost-text.js'
import type {Level} from '../../core/limits/limit.js'
import {inFlightLevels, storedSlots} from '../../insight/holders/in-flight.js'
import {refusedTotal} from '../../insight/usage/refused.js'
import {Buckets} from '../../repository/buckets/buckets.js'
import {HolderRecords} from '../../repository/buckets/holders.js'
import {withBoosts} from '../../repository/limits/boost-records.js'
import {ConfigCache} from '../../repository/limits/cache.js'
import {ConfigResolver} from '../../repository/limits/resolver.js'
import {readLimitUnits, type UnitsByLimit, withUnits} from '../../repository/limits/units.js'
import {Audit} from '../../repository/table/audit.js'
import {type NamespaceTable, untilAborted} from '../../repository/table/table.js'
import {Usage} from '../../repository/usage/usage.js'
import {recordsOf} from '../model/levels.js'
import {type Detail, type Reading, USAGE_HOURS} from '../model/model.js'
import {bucketId, nextReading} from './reading.js'

const EVENTS = 5

const LEVEL_WORDS: Readonly<Record<Level, string>> = {
  entity: 'entity',
  entity_default: 'entity, all resources',
  resource: 'resource',
  system: 'system',
}

interface DetailSource {
  readonly table: NamespaceTable
  readonly known: (id: string) => Reading | undefined
}

export async function loadDetail(source: DetailSource, reading: Reading, signal: AbortSignal): Promise<Detail> {
  const {entity, resource} = reading.bucket
  const table = untilAborted(source.table, signal)
  const problems: string[] = []
  const part = async <T>(what: string, work: () => Promise<T>, fallback: T): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      signal.throwIfAborted()
      problems.push(`${what}: ${error instanceof Error ? error.message : String(error)}`)
      return fallback
    }
  }
  const noUnits: UnitsByLimit = new Map()
  const unitsRead = part('units', () => readLimitUnits(table), noUnits)
  const [units, parents, limits, inFlight, usage, audit] = await Promise.all([
    unitsRead,
    part('parent', () => loadParents({...source, table}, reading), []),
    part('limits', () => loadLimits(table, entity, resource, unitsRead), []),
    part('slots', () => loadSlots(table, reading), []),
    part('usage', () => loadUsage(table, entity, resource), []),
    part('audit', async () => (await new Audit(table).list({entity, limit: EVENTS})).records, []),
  ])
  return {id: reading.id, loadedAtMs: table.clock(), parents, limits, inFlight, units, usage, audit, problems}
}

async function loadParents({table, known}: DetailSource, reading: Reading): Promise<Reading[]> {
  const {resource} = reading.bucket
  const path = [reading]
  for (let at: Reading | undefined = reading; at; ) {
    const [record] = recordsOf(at.bucket)
    const parent = record?.parent
    const isShown = path.length < 2 || (at.chargedTo !== undefined && path.length < reading.mostLevels)
    if (parent === undefined || !isShown || path.some(({bucket}) => bucket.entity === parent)) break
    const found = await new Buckets(table).find(parent, resource)
    at = found && nextReading(known(bucketId(found)), found, table.clock(), undefined, reading.mostLevels)
    if (at) path.push(at)
  }
  return path.slice(1)
}

/** Readings omit who holds slots. */
async function loadSlots(table: NamespaceTable, {bucket}: Reading): Promise<Detail['inFlight']> {
  if (storedSlots(bucket) === undefined) return []
  const stored = await new Buckets(table).find(bucket.entity, bucket.resource)
  return inFlightLevels({holders: new HolderRecords(table)}, storedSlots(stored))
}

/** With an empty cache: the user may just have changed the limits. */
async function loadLimits(
  table: NamespaceTable,
  entity: string,
  resource: string,
  units: Promise<UnitsByLimit>,
): Promise<Detail['limits']> {
  const resolver = new ConfigResolver(table, new ConfigCache({clock: table.clock}))
  const {source, trace} = await resolver.resolve({entity, resource})
  const [applied] = await withBoosts(
    table,
    trace.filter(({level}) => level === source),
  )
  return withUnits(applied?.limits ?? [], await units).map(limit => ({
    name: limit.name,
    text: rateText(limit),
    source: source === undefined ? '' : LEVEL_WORDS[source],
  }))
}

async function loadUsage(table: NamespaceTable, entity: string, resource: string): Promise<Detail['usage']> {
  const {records} = await new Usage(table).ofEntity(entity, {resource, window: 'hourly', limit: USAGE_HOURS})
  return records.map(({start, tokens, totalEvents, refused}) => ({
    start,
    counters: Object.fromEntries(tokens),
    requests: totalEvents,
    refused: refused ? refusedTotal(refused) : 0,
  }))
}
