import {ExpressionBuilder} from '../../dynamo/expression.js'
import {keyNames} from '../../schema/attributes.js'
import {type EntityRecord, encodeEntity} from '../../schema/entity-record.js'
import {parseItemKey} from '../../schema/keys.js'
import {ranges, wireStartKey} from '../../schema/ranges.js'
import {badCursor, decodeCursor} from '../table/cursor.js'
import {checkPageLimit, cursorAfter, type PageRequest, queryInput, type RecordPage} from '../table/query.js'
import type {NamespaceTable} from '../table/table.js'

// The maximum of one BatchGetItem.
const ENTITIES_PER_READ = 100

// A suggestion costs one request: ids with the same first letters, which are rarely mistyped, up to a number of items.
const SIMILAR_LETTERS = 2
const SIMILAR_ITEMS = 1000

/** The listing of the entities of a namespace, by id. */
export function entityQuery(namespace: string) {
  return {kind: 'entities', ...ranges.entities(namespace)} as const
}

/** Which entities are wanted; all that is given must be true of them. */
export interface EntityFilter {
  /** Part of the id or the name, in any case. */
  readonly text?: string | undefined
  readonly parent?: string | undefined
  /** Values of their metadata; what is no text counts as its JSON. */
  readonly metadata?: Readonly<Record<string, string>> | undefined
}

/** Whether an entity is wanted. */
function matches({text = '', parent, metadata = {}}: EntityFilter, record: EntityRecord): boolean {
  const wanted = text.toLowerCase()
  if (parent !== undefined && record.parent !== parent) return false
  if (![record.entity, record.name].some(each => each.toLowerCase().includes(wanted))) return false
  return Object.entries(metadata).every(([key, value]) => {
    const stored = Object.hasOwn(record.metadata, key) ? record.metadata[key] : undefined
    return stored !== undefined && (typeof stored === 'string' ? stored : JSON.stringify(stored)) === value
  })
}

/** One page of the entities that are wanted. The index has ids only, so the records are read. */
export async function searchEntities(
  table: NamespaceTable,
  list: (request: PageRequest) => Promise<RecordPage<EntityRecord>>,
  filter: EntityFilter,
  {limit, cursor}: PageRequest,
): Promise<RecordPage<EntityRecord>> {
  const atMost = checkPageLimit(limit)
  const found: EntityRecord[] = []
  let from = cursor
  do {
    const page = await list({limit: ENTITIES_PER_READ, cursor: from})
    for (const record of page.records) {
      if (!matches(filter, record)) continue
      // One more than wanted shows that there is a next page.
      if (found.length === atMost) return {records: found, next: cursorAfterEntity(table, found.at(-1))}
      found.push(record)
    }
    from = page.next
  } while (from !== undefined)
  return {records: found, next: undefined}
}

/** Children from where a page before ended; they are read all at once. */
export function childrenAfter(
  {namespace}: NamespaceTable,
  children: readonly EntityRecord[],
  cursor: string | undefined,
): RecordPage<EntityRecord> {
  if (cursor === undefined) return {records: children, next: undefined}
  const last = parseItemKey(wireStartKey(decodeCursor('entities', cursor), undefined))
  if (last?.record !== 'entity' || last.namespace !== namespace) throw badCursor(cursor)
  return {records: children.filter(({entity}) => entity > last.entity), next: undefined}
}

/** Ids of entities with the same first letters. */
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
