import type {Item} from '../../../src/lib/schema/attribute-value.js'
import type {Units} from './capacity.js'
import type {Path} from './expression.js'
import {projection} from './projection.js'
import {checkCondition, type ExpressionFields, readExpressions} from './request.js'
import {attributesOf, checkItem, checkKey} from './schema.js'
import {invalid} from './service-error.js'
import type {Change, MemoryTable} from './table.js'
import {pathsIn, refuseOverlaps, updatedItem} from './update.js'
import {copyItem, itemSize} from './values.js'

/** Bytes of the largest item. */
const MOST_BYTES = 400 * 1024

/** An allowed write, before it is applied. */
export interface PlannedWrite {
  readonly table: MemoryTable
  readonly before: Item | undefined
  readonly after: Item | undefined
  /** Places that an update names. */
  readonly updated: readonly Path[]
}

interface WriteFields extends ExpressionFields {
  readonly Item?: Item | undefined
  readonly Key?: Item | undefined
  readonly ReturnValuesOnConditionCheckFailure?: string | undefined
}

export function planPut(table: MemoryTable, input: WriteFields): PlannedWrite {
  const expressions = readExpressions(input)
  const after = copyItem(input.Item ?? {})
  checkStored(table, after)
  const before = table.items.get(after)
  checkCondition(expressions, before, input.ReturnValuesOnConditionCheckFailure)
  return {table, before, after, updated: []}
}

export function planDelete(table: MemoryTable, input: WriteFields): PlannedWrite {
  const expressions = readExpressions(input)
  const before = table.items.get(checkKey(input.Key, table.schema))
  checkCondition(expressions, before, input.ReturnValuesOnConditionCheckFailure)
  return {table, before, after: undefined, updated: []}
}

export function planUpdate(table: MemoryTable, input: WriteFields): PlannedWrite {
  const expressions = readExpressions(input)
  const key = checkKey(input.Key, table.schema)
  const {update, placeholders} = expressions
  const updated = update ? pathsIn(update, placeholders) : []
  refuseOverlaps(updated)
  for (const name of attributesOf(table.schema)) {
    if (!updated.some(([first]) => first === name)) continue
    const what = `Cannot update attribute ${name}. This attribute is part of the key`
    throw invalid(`One or more parameter values were invalid: ${what}`)
  }
  const before = table.items.get(key)
  checkCondition(expressions, before, input.ReturnValuesOnConditionCheckFailure)
  const start = before ?? copyItem(key)
  const after = update ? updatedItem(start, update, placeholders) : start
  checkStored(table, after)
  return {table, before, after, updated}
}

/** Only checks: nothing is written or numbered. */
export function checkOnly(table: MemoryTable, input: WriteFields): PlannedWrite {
  const expressions = readExpressions(input)
  const before = table.items.get(checkKey(input.Key, table.schema))
  checkCondition(expressions, before, input.ReturnValuesOnConditionCheckFailure)
  return {table, before, after: before, updated: []}
}

export function carryOut(
  {table, before, after}: PlannedWrite,
  atMs: number,
): {units: Units; change: Change | undefined} {
  return {units: table.write(before, after), change: table.change(before, after, atMs)}
}

/** The part of the item in the response to a write. */
export function returnedItem({before, after, updated}: PlannedWrite, wanted: string | undefined): Item | undefined {
  if (wanted === undefined || wanted === 'NONE') return undefined
  const item = wanted.endsWith('_OLD') ? before : after
  if (!item) return undefined
  if (wanted.startsWith('ALL')) return copyItem(item)
  const parts = projection(item, updated)
  return Object.keys(parts).length > 0 ? parts : undefined
}

function checkStored(table: MemoryTable, item: Item): void {
  checkItem(item, table.schema)
  if (itemSize(item) > MOST_BYTES) throw invalid('Item size has exceeded the maximum allowed size')
}
