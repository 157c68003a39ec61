import {ExpressionBuilder} from '../../dynamo/expression.js'
import {type ItemPage, queryPages} from '../../dynamo/paging.js'
import {type Item, readString} from '../../schema/attribute-value.js'
import {keyNames} from '../../schema/attributes.js'
import {countingAt, decodeConfig} from '../../schema/config-record.js'
import {decodeEntity, type EntityRecord, encodeEntity} from '../../schema/entity-record.js'
import {keys, parseItemKey} from '../../schema/keys.js'
import {type KeyRange, rangeAfter, ranges, wireStartKey} from '../../schema/ranges.js'
import {badCursor, decodeCursor} from '../table/cursor.js'
import {checkPageLimit, cursorAfter, type PageRequest, queryInput, type RecordPage} from '../table/query.js'
import {getItems, type NamespaceTable} from '../table/table.js'

// The maximum of one BatchGetItem.
const ENTITIES_PER_READ = 100
/** Four concurrent requests for a hundred keys each. */
const MOST_PER_STEP = 400

// A suggestion costs three requests. The first letters are rarely mistyped.
const SIMILAR_LETTERS = 2
const SIMILAR_ITEMS = 1000
const MOST_VARIANTS = 100

function entityQuery(namespace: string) {
  return {kind: 'entities', ...ranges.entities(namespace)} as const
}

/** Selects entities; all given conditions must match. */
export interface EntityFilter {
  /** Beginning of the id; no other entities are read. */
  readonly prefix?: string | undefined
  /** Part of the id or the name, case-insensitive. */
  readonly text?: string | undefined
  readonly parent?: string | undefined
  /** Metadata values; values that are not strings are compared as JSON. */
  readonly metadata?: Readonly<Record<string, string>> | undefined
}

function matches({prefix = '', text = '', parent, metadata = {}}: EntityFilter, record: EntityRecord): boolean {
  const wanted = text.toLowerCase()
  // Some engines ignore case in key ranges.
  if (!record.entity.startsWith(prefix)) return false
  if (parent !== undefined && record.parent !== parent) return false
  if (![record.entity, record.name].some(each => each.toLowerCase().includes(wanted))) return false
  return Object.entries(metadata).every(([key, value]) => {
    const stored = Object.hasOwn(record.metadata, key) ? record.metadata[key] : undefined
    return stored !== undefined && (typeof stored === 'string' ? stored : JSON.stringify(stored)) === value
  })
}

/** Progress of a search. */
export interface SearchProgress {
  /** Entities read. */
  readonly read: number
  /** Entities that match. */
  readonly found: number
}

/** A deleted entity whose id stays blocked. */
export interface DeletedEntity {
  readonly entity: string
  /** ISO 8601. */
  readonly deletedAt: string
}

/** Progress and cancellation of a search. */
export interface SearchOptions {
  /** Called after each step. */
  readonly onProgress?: ((progress: SearchProgress) => void) | undefined
  /** Called for every deleted entity that stays blocked, if its id matches. Costs a read per id without a record. */
  readonly onDeleted?: ((deleted: DeletedEntity) => void) | undefined
  readonly signal?: AbortSignal | undefined
}

/** The index has only ids, so the records are read. */
export async function* entitiesWanted(
  table: NamespaceTable,
  filter: EntityFilter,
  after: string | undefined,
  wanted: number | undefined,
  {onProgress, onDeleted, signal}: SearchOptions,
): AsyncGenerator<EntityRecord[], void> {
  const {parent, prefix, text = '', metadata} = filter
  const noteDeleted = (deleted: DeletedEntity) => {
    const {entity} = deleted
    if (entity.startsWith(prefix ?? '') && entity.toLowerCase().includes(text.toLowerCase())) onDeleted?.(deleted)
  }
  const isLooking = onDeleted !== undefined && metadata === undefined
  const steps: TakeStep =
    parent === undefined ? stepsOfNamespace(table, isLooking ? noteDeleted : undefined) : stepsOfParent(table, parent)
  let [read, found] = [0, 0]
  for await (const {records} of walkEntities(steps, {after, prefix, signal}, wanted)) {
    const matching = records.filter(record => matches(filter, record))
    read += records.length
    found += matching.length
    yield matching
    onProgress?.({read, found})
  }
}

export interface FoundId {
  readonly id: string
  readonly record: EntityRecord | undefined
}

/** By id, including entities that have only limits or usage. */
export async function* everyId(table: NamespaceTable): AsyncGenerator<FoundId, void> {
  for await (const {ids, records} of walkEntities(stepsOfNamespace(table))) {
    const known = new Map(records.map(record => [record.entity, record]))
    for (const id of ids) yield {id, record: known.get(id)}
  }
}

export async function searchEntities(
  table: NamespaceTable,
  filter: EntityFilter,
  {limit, cursor}: PageRequest,
  options: SearchOptions = {},
): Promise<RecordPage<EntityRecord>> {
  const atMost = checkPageLimit(limit)
  const found: EntityRecord[] = []
  const after = cursor === undefined ? undefined : entityIn(table, cursor)
  // One more than wanted shows that there is a next page.
  const perStep = isFilter(filter) ? ENTITIES_PER_READ : Math.min(MOST_PER_STEP, atMost + 1)
  const deleted: DeletedEntity[] = []
  const onDeleted = options.onDeleted && ((each: DeletedEntity) => void deleted.push(each))
  for await (const records of entitiesWanted(table, filter, after, perStep, {...options, onDeleted})) {
    for (const record of records) {
      const last = found.at(-1)
      if (found.length === atMost && last) {
        // Later ones belong to the next page.
        for (const each of deleted) if (each.entity < last.entity) options.onDeleted?.(each)
        return {records: found, next: cursorAfterEntity(table, last)}
      }
      found.push(record)
    }
  }
  for (const each of deleted) options.onDeleted?.(each)
  return {records: found, next: undefined}
}

const isFilter = ({text, metadata}: EntityFilter): boolean => text !== undefined || metadata !== undefined

function entityIn({namespace}: NamespaceTable, cursor: string): string {
  const last = parseItemKey(wireStartKey(decodeCursor('entities', cursor), undefined))
  if (last?.record !== 'entity' || last.namespace !== namespace) throw badCursor(cursor)
  return last.entity
}

/** Ids with a record, limits, usage or buckets. */
export async function similarIds(table: NamespaceTable, id: string): Promise<string[]> {
  const beginning = id.slice(0, Math.min(SIMILAR_LETTERS, id.length - 1))
  const rowsIn = async (range: Required<KeyRange>): Promise<Item[]> => {
    const e = new ExpressionBuilder().project(...keyNames())
    const query = queryInput(table, {...range, prefix: range.prefix + beginning}, e)
    return (await table.transport.send('Query', {...query, Limit: SIMILAR_ITEMS})).Items ?? []
  }
  const variants = variantsOf(id).map(each => keys.entity(table.namespace, each))
  // The rows of a few busy entities may fill a page, so likely ids are also read directly.
  const [likely, ...rows] = await Promise.all([
    getItems(table, variants, {projection: [], consistent: false}),
    rowsIn(ranges.entities(table.namespace)),
    rowsIn(ranges.buckets(table.namespace)),
  ])
  const found = [...likely.values(), ...rows.flat()].flatMap(item => {
    const key = parseItemKey(item)
    return key && 'entity' in key && key.namespace === table.namespace ? [key.entity] : []
  })
  return [...new Set(found)]
}

/** Ids with other separators, in lower case, with one character less, or with two swapped. */
function variantsOf(id: string): string[] {
  const separated = ['-', '_', '.', ':', ''].map(separator => id.replaceAll(/[-_.:/]+/g, separator))
  const shorter = Array.from(id, (_, at) => id.slice(0, at) + id.slice(at + 1))
  const swapped = Array.from(id, (letter, at) => id.slice(0, at) + (id[at + 1] ?? '') + letter + id.slice(at + 2))
  const variants = new Set([...separated, id.toLowerCase(), ...shorter, ...swapped])
  variants.delete(id)
  variants.delete('')
  return [...variants].slice(0, MOST_VARIANTS)
}

function cursorAfterEntity({namespace}: NamespaceTable, last: EntityRecord): string {
  return cursorAfter(encodeEntity(last), entityQuery(namespace))
}

interface EntityWalk {
  readonly after?: string | undefined
  readonly prefix?: string | undefined
  readonly signal?: AbortSignal | undefined
}

interface EntityStep {
  readonly records: readonly EntityRecord[]
  /** The last id considered; `undefined` at the end. */
  readonly last: string | undefined
}

/** Returns about `wanted` entities. May return none although more follow. */
type TakeStep<Step = EntityStep> = (walk: EntityWalk, wanted: number) => Promise<Step>

/** Rows (~150 bytes) in one eventually consistent 4 KB read. Beyond that, restarting after the entity is cheaper. */
const ROWS_PER_UNIT = 25
const MOST_ROWS = 1000
/** Initial guess: an entity's record and its own limits. */
const LIKELY_ROWS = 2
/** Four concurrent requests for a hundred keys each. */
const ENTITIES_PER_STEP = 400
/** Bytes; DynamoDB refuses a query for more. */
const LONGEST_SORT_KEY = 1024

/** By id; eventually consistent. Holds one step in memory. */
async function* walkEntities<Step extends EntityStep>(
  take: TakeStep<Step>,
  {after, ...walk}: EntityWalk = {},
  wanted = ENTITIES_PER_STEP,
): AsyncGenerator<Step, void> {
  let last = after
  do {
    const step = await take({...walk, after: last}, wanted)
    yield step
    last = step.last
  } while (last !== undefined)
}

/** The index has all records of an entity, in any order: after its first rows, restart behind the entity. */
function stepsOfNamespace(
  table: NamespaceTable,
  onDeleted?: (deleted: DeletedEntity) => void,
): TakeStep<EntityStep & {readonly ids: readonly string[]}> {
  let rowsPerEntity = LIKELY_ROWS
  let mostRows = MOST_ROWS
  return async ({after, prefix = '', signal}, wanted) => {
    const limit = Math.max(ROWS_PER_UNIT, Math.min(mostRows, Math.ceil((wanted + 1) * rowsPerEntity)))
    const range = ranges.entities(table.namespace)
    const page = await readRows(table, range, {after, prefix, signal}, limit)
    const found = entitiesIn(page, range)
    if (found.length > 0) rowsPerEntity = page.items.length / found.length
    // Grow slowly: after entities with few rows, the next one may have very many.
    mostRows = rowsPerEntity >= ROWS_PER_UNIT ? ROWS_PER_UNIT : Math.min(MOST_ROWS, 2 * limit)
    const taken = found.slice(0, wanted)
    const isCut = taken.length < found.length
    const read = taken.flatMap(({id, mayExist, configured}) => [
      ...(mayExist ? [keys.entity(table.namespace, id)] : []),
      ...(onDeleted ? configured.map(resource => keys.entityConfig(table.namespace, id, resource)) : []),
    ])
    const items = [...(await getItems(table, read, {consistent: false, signal})).values()]
    const records = items.flatMap(item => decodeEntity(item) ?? [])
    if (onDeleted) deletedIn(items, records, table.clock()).forEach(onDeleted)
    return {
      ids: taken.map(({id}) => id),
      records,
      last: isCut || page.next !== undefined ? taken.at(-1)?.id : undefined,
    }
  }
}

/** The index of children has whole records. */
function stepsOfParent(table: NamespaceTable, parent: string): TakeStep {
  return async ({after, prefix = '', signal}, wanted) => {
    const range = ranges.children(table.namespace, parent)
    const {items, next} = await readRows(table, range, {after, prefix, signal}, wanted)
    const records = items.flatMap(item => decodeEntity(item) ?? [])
    return {records, last: next === undefined ? undefined : idIn(items.at(-1), range)}
  }
}

async function readRows(
  table: NamespaceTable,
  range: Required<KeyRange>,
  {after, prefix = '', signal}: EntityWalk,
  limit: number,
): Promise<ItemPage> {
  const nothing = {items: [], next: undefined}
  const isBehind = after !== undefined && after >= prefix
  if (isBehind && !after.startsWith(prefix)) return nothing
  const query = {...range, prefix: range.prefix + prefix}
  if (Buffer.byteLength(query.prefix) > LONGEST_SORT_KEY) return nothing
  const input = queryInput(table, isBehind ? rangeAfter(query, range.prefix + after) : query)
  for await (const page of queryPages(table.transport, input, {backoff: table.backoff, signal, limit})) {
    // A page may be empty before the end; at the end nothing follows.
    if (page.items.length > 0 || page.next === undefined) return page
  }
  return nothing
}

interface FoundEntity {
  readonly id: string
  /** False if all its rows were read and none is its record. */
  readonly mayExist: boolean
  /** Resources with a configuration, if no row is its record. */
  readonly configured: readonly string[]
}

function entitiesIn({items, next}: ItemPage, range: Required<KeyRange>): FoundEntity[] {
  const found = new Map<string, {hasRecord: boolean; configured: string[]}>()
  for (const item of items) {
    const id = idIn(item, range)
    const key = parseItemKey(item)
    const seen = found.get(id) ?? {hasRecord: false, configured: []}
    found.set(id, seen)
    // Skip an item of another namespace with a wrong index key (S11).
    if (key?.record !== 'entity' && key?.record !== 'entity-config') continue
    if (key.namespace !== range.partition || key.entity !== id) continue
    if (key.record === 'entity') seen.hasRecord = true
    else seen.configured.push(key.resource)
  }
  const last = [...found.keys()].at(-1)
  return Array.from(found, ([id, {hasRecord, configured}]) => ({
    id,
    mayExist: hasRecord || (id === last && next !== undefined),
    configured: hasRecord ? [] : configured,
  }))
}

/** One per id, unless it was created again. */
function deletedIn(items: readonly Item[], records: readonly EntityRecord[], nowMs: number): DeletedEntity[] {
  const known = new Set(records.map(({entity}) => entity))
  return items.flatMap(item => {
    const config = decodeConfig(item, () => [])
    const {scope, access, deletedAt} = countingAt(config, nowMs) ?? {}
    if (scope?.level !== 'entity' || access !== 'disabled' || deletedAt === undefined || known.has(scope.entity))
      return []
    known.add(scope.entity)
    return [{entity: scope.entity, deletedAt}]
  })
}

function idIn(item: Item | undefined, {index, prefix}: Required<KeyRange>): string {
  return (item && readString(item, keyNames(index)[1]))?.slice(prefix.length) ?? ''
}
