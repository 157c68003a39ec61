import type {OperationInput} from '../../../src/lib/dynamo/transport.js'
import type {AttributeValue, Item} from '../../../src/lib/schema/attribute-value.js'
import {readUnits, type Units} from './capacity.js'
import {holds, nameOf, placedValue} from './evaluate.js'
import type {Condition, Operand} from './expression.js'
import type {OrderedItems} from './ordered-items.js'
import {type Expressions, projected, readExpressions} from './request.js'
import {attributesOf, type KeySchema} from './schema.js'
import {invalid} from './service-error.js'
import type {MemoryTable} from './table.js'
import {copyItem, itemSize} from './values.js'

/** Maximum bytes of items behind one response. */
const PAGE_BYTES = 1024 * 1024

/** A page of items, and its read cost. */
export interface Page {
  readonly Items: Item[] | undefined
  readonly Count: number
  readonly ScannedCount: number
  readonly LastEvaluatedKey: Item | undefined
  readonly units: Units
}

interface Source {
  readonly items: OrderedItems
  readonly schema: KeySchema
  readonly index: string | undefined
}

export function query(table: MemoryTable, input: OperationInput<'Query'>): Page {
  const expressions = readExpressions(input as never)
  const source = sourceOf(table, input.IndexName)
  if (source.index !== undefined && input.ConsistentRead) {
    throw invalid('Consistent reads are not supported on global secondary indexes')
  }
  const {partition, range} = keyConditionOf(expressions, source.schema)
  const items = source.items.partition(partition)
  const found = range ? items.filter(item => holds(range, item, expressions.placeholders)) : [...items]
  const isForward = input.ScanIndexForward !== false
  const compare = isForward ? source.items.compare : (a: Item, b: Item) => source.items.compare(b, a)
  return page(table, source, input, expressions, isForward ? found : found.reverse(), compare)
}

export function scan(table: MemoryTable, input: OperationInput<'Scan'>): Page {
  const expressions = readExpressions(input as never)
  const source = sourceOf(table, input.IndexName)
  const {Segment: segment = 0, TotalSegments: segments = 1} = input
  return page(table, source, input, expressions, source.items.all({segment, segments}), source.items.compareAll)
}

function sourceOf(table: MemoryTable, name: string | undefined): Source {
  if (name === undefined) return {items: table.items, schema: table.schema, index: undefined}
  const index = table.index(name)
  if (!index) throw invalid(`The table does not have the specified index: ${name}`)
  return {items: index.items, schema: index.schema, index: name}
}

function page(
  table: MemoryTable,
  {schema, index}: Source,
  input: Pick<OperationInput<'Scan'>, 'ExclusiveStartKey' | 'Limit' | 'Select' | 'ConsistentRead'>,
  expressions: Expressions,
  items: readonly Item[],
  compare: (a: Item, b: Item) => number,
): Page {
  const {ExclusiveStartKey: start, Limit: limit = Number.POSITIVE_INFINITY, Select, ConsistentRead} = input
  if (limit < 1) throw invalid('Limit must be greater than or equal to 1')
  const rest = start ? items.filter(item => compare(item, start as Item) > 0) : items
  let [bytes, scanned] = [0, 0]
  const found: Item[] = []
  for (const item of rest) {
    if (scanned >= limit || bytes >= PAGE_BYTES) break
    bytes += itemSize(item)
    scanned++
    if (!expressions.filter || holds(expressions.filter, item, expressions.placeholders)) found.push(item)
  }
  const isCut = scanned < rest.length || scanned === limit
  const units = readUnits(bytes, ConsistentRead)
  return {
    Items: Select === 'COUNT' ? undefined : found.map(item => projected(item, expressions)),
    Count: found.length,
    ScannedCount: scanned,
    LastEvaluatedKey: isCut && scanned > 0 ? startAfter(rest[scanned - 1] as Item, table, schema) : undefined,
    units: index === undefined ? {table: units, indexes: {}} : {table: 0, indexes: {[index]: units}},
  }
}

/** Where the next page begins. */
function startAfter(item: Item, table: MemoryTable, schema: KeySchema): Item {
  const names = new Set([...attributesOf(table.schema), ...attributesOf(schema)])
  return copyItem(Object.fromEntries([...names].map(name => [name, item[name] as AttributeValue])))
}

/** The partition and its key condition. */
function keyConditionOf(
  {keyCondition, placeholders}: Expressions,
  {hash, range}: KeySchema,
): {partition: AttributeValue; range: Condition | undefined} {
  if (!keyCondition) throw invalid('Either the KeyConditions or KeyConditionExpression parameter must be specified')
  const terms = keyCondition.kind === 'and' ? keyCondition.terms : [keyCondition]
  const isOn = (operand: Operand | undefined, name: string | undefined) =>
    operand?.kind === 'path' && operand.path.length === 1 && nameOf(operand.path[0] as string, placeholders) === name
  const first = terms.find(
    term => term.kind === 'compare' && term.operator === '=' && isOn(term.left, hash) && term.right.kind === 'value',
  )
  if (first?.kind !== 'compare' || first.right.kind !== 'value') {
    throw invalid(`Query condition missed key schema element: ${hash}`)
  }
  const others = terms.filter(term => term !== first)
  if (others.some(term => !isOn(subjectOf(term), range)) || others.length > 1) {
    throw invalid('Query key condition not supported')
  }
  return {partition: placedValue(first.right.placeholder, placeholders), range: others[0]}
}

function subjectOf(term: Condition): Operand | undefined {
  if (term.kind === 'compare') return term.operator === '<>' ? undefined : term.left
  if (term.kind === 'between') return term.operand
  return term.kind === 'function' && term.name === 'begins_with' ? term.args[0] : undefined
}
