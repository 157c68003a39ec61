import {ExpressionBuilder} from '../../dynamo/expression.js'
import {keyNames} from '../../schema/attributes.js'
import {type EntityRecord, encodeEntity} from '../../schema/entity-record.js'
import {parseItemKey} from '../../schema/keys.js'
import {ranges, wireStartKey} from '../../schema/ranges.js'
import {badCursor, decodeCursor} from '../table/cursor.js'
import {checkPageLimit, cursorAfter, type PageRequest, queryInput, type RecordPage} from '../table/query.js'
import type {NamespaceTable} from '../table/table.js'
import {stepsOfNamespace, stepsOfParent, walkEntities} from './walk.js'

// The maximum of one BatchGetItem.
const ENTITIES_PER_READ = 100
/** Four such requests at once. */
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
  /** Matching entities. */
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

/** Whether entities may be read that don't match. */
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
