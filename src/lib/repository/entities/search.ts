import {ExpressionBuilder} from '../../dynamo/expression.js'
import {type EntityRecord, encodeEntity} from '../../schema/entity-record.js'
import {keys, parseItemKey} from '../../schema/keys.js'
import {checkPageLimit, cursorAfter, type PageRequest, type RecordPage, stretchQuery} from '../table/query.js'
import type {NamespaceTable} from '../table/table.js'

// As many records as one BatchGetItem reads.
const ENTITIES_PER_READ = 100

// A suggestion is worth one request: ids with the same beginning, which is rarely mistyped, and at most so many items.
const SIMILAR_LETTERS = 2
const SIMILAR_ITEMS = 1000

/** Where entities of a namespace are listed, by id. */
export function entityStretch(namespace: string) {
  return {kind: 'entities', index: 'GSI4', partition: namespace, prefix: keys.entity(namespace, '').PK} as const
}

/** One page of the entities whose id or name contains the text. The index has no names, so records are read to tell. */
export async function searchEntities(
  table: NamespaceTable,
  list: (request: PageRequest) => Promise<RecordPage<EntityRecord>>,
  text: string,
  {limit, cursor}: PageRequest,
): Promise<RecordPage<EntityRecord>> {
  const wanted = text.toLowerCase()
  const atMost = checkPageLimit(limit)
  const found: EntityRecord[] = []
  let from = cursor
  do {
    const page = await list({limit: ENTITIES_PER_READ, cursor: from})
    for (const record of page.records) {
      if (![record.entity, record.name].some(each => each.toLowerCase().includes(wanted))) continue
      // One more than wanted tells that there is a next page.
      if (found.length === atMost) return {records: found, next: cursorAfterEntity(table, found.at(-1))}
      found.push(record)
    }
    from = page.next
  } while (from !== undefined)
  return {records: found, next: undefined}
}

/** Ids of entities that begin like one. */
export async function similarIds(table: NamespaceTable, id: string): Promise<string[]> {
  const {prefix, ...stretch} = entityStretch(table.namespace)
  const e = new ExpressionBuilder().project('PK', 'SK')
  const beginning = id.slice(0, Math.min(SIMILAR_LETTERS, id.length - 1))
  const query = stretchQuery(table, {...stretch, prefix: prefix + beginning}, e)
  const {Items = []} = await table.transport.send('Query', {...query, Limit: SIMILAR_ITEMS})
  return Items.flatMap(item => {
    const key = parseItemKey(item)
    return key?.record === 'entity' ? [key.entity] : []
  })
}

function cursorAfterEntity({namespace}: NamespaceTable, last: EntityRecord | undefined): string {
  return cursorAfter(encodeEntity(last as EntityRecord), entityStretch(namespace))
}
