import type {ConfigRecord, ConfigScope} from '../../schema/config-record.js'
import {badCursor, decodeCursor, encodeCursor} from '../table/cursor.js'
import {checkPageLimit, type PageRequest, type RecordPage} from '../table/query.js'
import {missing} from './checks.js'
import type {Configs} from './configs.js'

/** Default: the whole configuration of a namespace. */
export interface ConfigSelection {
  readonly system?: boolean | undefined
  readonly resource?: string | undefined
  readonly entity?: string | undefined
}

/** Start of a page: among the resources by name, or among the entities of one resource. */
type Place = readonly ['resource', after: string] | readonly ['entity', resource: string, cursor: string]

/** Throws when nothing is configured for exactly this scope. */
export async function getConfigured(configs: Configs, scope: ConfigScope): Promise<ConfigRecord> {
  const [record] = whole([await configs.get(scope)]).records
  if (record) return record
  throw missing(scope)
}

/** Ignores a switch, which `limits unset --all` keeps. */
export async function getRemovable(configs: Configs, scope: ConfigScope): Promise<ConfigRecord> {
  const record = await getConfigured(configs, scope)
  if (record.limits.length === 0 && record.onUnavailable === undefined) throw missing(scope)
  return record
}

/** Order: the system, resources by name, then entities by resource. */
export async function configPage(
  configs: Configs,
  {system, resource, entity}: ConfigSelection,
  request: PageRequest,
): Promise<RecordPage<ConfigRecord>> {
  if (entity !== undefined && resource !== undefined)
    return whole([await configs.get({level: 'entity', entity, resource})])
  if (entity !== undefined) return whole(await configs.ofEntity(entity))
  if (system) return whole([await configs.get({level: 'system'})])
  return resource === undefined ? everything(configs, request) : ofResource(configs, resource, request)
}

export async function* walkConfigs(configs: Configs, selection: ConfigSelection): AsyncGenerator<ConfigRecord, void> {
  const {system, resource, entity} = selection
  if (system || entity !== undefined) {
    yield* (await configPage(configs, selection, {})).records
    return
  }
  if (resource !== undefined) {
    yield* whole([await configs.get({level: 'resource', resource})]).records
    yield* configs.walkEntities(resource)
    return
  }
  yield* whole([await configs.get({level: 'system'})]).records
  yield* await configs.resources()
  for (const each of await configs.resourcesOfEntities()) yield* configs.walkEntities(each)
}

async function ofResource(
  configs: Configs,
  resource: string,
  {limit, cursor}: PageRequest,
): Promise<RecordPage<ConfigRecord>> {
  const most = checkPageLimit(limit)
  const place = cursor === undefined ? undefined : decodePlace(cursor)
  const isHere = place?.[0] === 'entity' && place[1] === resource
  if (cursor !== undefined && !isHere) throw badCursor(cursor)
  const {records} = whole(place ? [] : [await configs.get({level: 'resource', resource})])
  if (records.length < most) return withEntities(configs, resource, records, most, place?.[2])
  const isMore = (await configs.resourcesOfEntities()).includes(resource)
  return {records, next: isMore ? encodeCursor('configs', ['entity', resource, '']) : undefined}
}

/** An empty `cursor` is the beginning of the resource's entities. */
async function withEntities(
  configs: Configs,
  resource: string,
  before: readonly ConfigRecord[],
  most: number,
  cursor = '',
): Promise<RecordPage<ConfigRecord>> {
  const limit = most === Infinity ? undefined : most - before.length
  const {records, next} = await configs.entities(resource, {limit, cursor: cursor === '' ? undefined : cursor})
  return {
    records: [...before, ...records],
    next: next === undefined ? undefined : encodeCursor('configs', ['entity', resource, next]),
  }
}

async function everything(configs: Configs, {limit, cursor}: PageRequest): Promise<RecordPage<ConfigRecord>> {
  const most = checkPageLimit(limit)
  const place = cursor === undefined ? undefined : decodePlace(cursor)
  const records: ConfigRecord[] = []
  if (!place) records.push(...whole([await configs.get({level: 'system'})]).records)
  if (place?.[0] !== 'entity') {
    for (const record of await configs.resources()) {
      const name = record.scope.level === 'resource' ? record.scope.resource : ''
      if (place && name <= place[1]) continue
      if (records.length >= most) return {records, next: encodeCursor('configs', ['resource', nameOfLast(records)])}
      records.push(record)
    }
  }
  const from = place?.[0] === 'entity' ? place : undefined
  let page: RecordPage<ConfigRecord> = {records, next: undefined}
  for (const resource of await configs.resourcesOfEntities()) {
    if (from && resource < from[1]) continue
    if (page.records.length >= most) return {...page, next: encodeCursor('configs', ['entity', resource, ''])}
    page = await withEntities(configs, resource, page.records, most, from?.[1] === resource ? from[2] : '')
    if (page.next !== undefined) return page
  }
  return page
}

/** Skips empty records, such as that of a system whose limits were deleted. */
function whole(found: readonly (ConfigRecord | undefined)[]): RecordPage<ConfigRecord> {
  const records = found.flatMap(record => (record && !isEmpty(record) ? [record] : []))
  return {records, next: undefined}
}

function isEmpty({limits, onUnavailable, access, cascade}: ConfigRecord): boolean {
  return limits.length === 0 && onUnavailable === undefined && access === undefined && cascade === undefined
}

function nameOfLast(records: readonly ConfigRecord[]): string {
  const scope = records.at(-1)?.scope
  return scope?.level === 'resource' ? scope.resource : ''
}

function decodePlace(cursor: string): Place {
  const place = decodeCursor('configs', cursor)
  const [level] = place
  if (level !== (place.length === 2 ? 'resource' : 'entity')) throw badCursor(cursor)
  return place as unknown as Place
}
