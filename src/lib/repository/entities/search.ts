import {ExpressionBuilder} from '../../dynamo/expression.js'
import {type ItemPage, queryPages} from '../../dynamo/paging.js'
import {type Item, readString} from '../../schema/attribute-value.js'
import {keyNames} from '../../schema/attributes.js'
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

// A suggestion costs one request; the first letters are rarely mistyped.
const SIMILAR_LETTERS = 2
const SIMILAR_ITEMS = 1000

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

/** Progress and cancellation of a search. */
export interface SearchOptions {
  /** Called after each step. */
  readonly onProgress?: ((progress: SearchProgress) => void) | undefined
  readonly signal?: AbortSignal | undefined
}

/** The index has only ids, so the records are read. */
export async function* entitiesWanted(
  table: NamespaceTable,
  filter: EntityFilter,
  after: string | undefined,
  wanted: number | undefined,
  {onProgress, signal}: SearchOptions,
): AsyncGenerator<EntityRecord[], void> {
  const {parent, prefix} = filter
  const steps = parent === undefined ? stepsOfNamespace(table) : stepsOfParent(table, parent)
  let [read, found] = [0, 0]
  for await (const records of walkEntities(steps, {after, prefix, signal}, wanted)) {
    const matching = records.filter(record => matches(filter, record))
    read += records.length
    found += matching.length
    yield matching
    onProgress?.({read, found})
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
  for await (const records of entitiesWanted(table, filter, after, perStep, options)) {
    for (const record of records) {
      if (found.length === atMost) return {records: found, next: cursorAfterEntity(table, found.at(-1))}
      found.push(record)
    }
  }
  return {records: found, next: undefined}
}

const isFilter = ({text, metadata}: EntityFilter): boolean => text !== undefined || metadata !== undefined

function entityIn({namespace}: NamespaceTable, cursor: string): string {
  const last = parseItemKey(wireStartKey(decodeCursor('entities', cursor), undefined))
  if (last?.record !== 'entity' || last.namespace !== namespace) throw badCursor(cursor)
  return last.entity
}

export async function similarIds(table: NamespaceTable, id: string): Promise<string[]> {
  const range = ranges.entities(table.namespace)
  const e = new ExpressionBuilder().project(...keyNames())
  const beginning = id.slice(0, Math.min(SIMILAR_LETTERS, id.length - 1))
  const query = queryInput(table, {...range, prefix: range.prefix + beginning}, e)
  const {Items = []} = await table.transport.send('Query', {...query, Limit: SIMILAR_ITEMS})
  return Items.flatMap(item => {
    const key = parseItemKey(item)
    return key?.record === 'entity' ? [key.entity] : []
  })
}

function cursorAfterEntity({namespace}: NamespaceTable, last: EntityRecord | undefined): string {
  return cursorAfter(encodeEntity(last as EntityRecord), entityQuery(namespace))
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
type TakeStep = (walk: EntityWalk, wanted: number) => Promise<EntityStep>

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
async function* walkEntities(
  take: TakeStep,
  {after, ...walk}: EntityWalk = {},
  wanted = ENTITIES_PER_STEP,
): AsyncGenerator<readonly EntityRecord[], void> {
  let last = after
  do {
    const step = await take({...walk, after: last}, wanted)
    yield step.records
    last = step.last
  } while (last !== undefined)
}

/** The index has all records of an entity, in any order: after its first rows, restart behind the entity. */
function stepsOfNamespace(table: NamespaceTable): TakeStep {
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
    const records = taken.flatMap(({id, mayExist}) => (mayExist ? [keys.entity(table.namespace, id)] : []))
    const items = await getItems(table, records, {consistent: false, signal})
    return {
      records: [...items.values()].flatMap(item => decodeEntity(item) ?? []),
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

/** An entity has no record if all its rows were read and none is its record. */
function entitiesIn({items, next}: ItemPage, range: Required<KeyRange>): {id: string; mayExist: boolean}[] {
  const withRecord = new Map<string, boolean>()
  for (const item of items) {
    const id = idIn(item, range)
    const key = parseItemKey(item)
    // Skip an item of another namespace with a wrong index key (S11).
    const hasRecord = key?.record === 'entity' && key.entity === id && key.namespace === range.partition
    withRecord.set(id, withRecord.get(id) === true || hasRecord)
  }
  const found = Array.from(withRecord, ([id, mayExist]) => ({id, mayExist}))
  const last = found.at(-1)
  if (last && next !== undefined) last.mayExist = true
  return found
}

function idIn(item: Item | undefined, {index, prefix}: Required<KeyRange>): string {
  return (item && readString(item, keyNames(index)[1]))?.slice(prefix.length) ?? ''
}
