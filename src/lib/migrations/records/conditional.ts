import {createHash} from 'node:crypto'
import {ConditionFailed, isRetryableWhenIdempotent} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {retrying} from '../../dynamo/retry.js'
import type {OperationInput} from '../../dynamo/transport.js'
import {keyOf} from '../../repository/table/query.js'
import {wireKey} from '../../repository/table/table.js'
import {isRefused, putNew, type TransactItem, transact} from '../../repository/table/transact.js'
import {type AttributeValue, type Item, s} from '../../schema/attribute-value.js'
import {MIGRATION_MARK} from '../../schema/migration-marks.js'
import {type MigrationContext, NOWHERE} from './finding.js'

/** Demands that an item is there and has these attributes as they were seen; without names, all of them. */
export function demandUnchanged(e: ExpressionBuilder, seen: Item, names?: readonly string[]): void {
  for (const [name, value] of Object.entries(seen)) {
    const isKey = name === 'PK' || name === 'SK'
    if (!isKey && (names?.includes(name) ?? true)) e.condition(`${e.name(name)} = ${e.value(value)}`)
  }
  e.condition(`attribute_exists(${e.name('PK')})`)
  if (!(MIGRATION_MARK in seen)) e.condition(`attribute_not_exists(${e.name(MIGRATION_MARK)})`)
}

/**
 * Sends one conditional write; `false` when its condition does not hold. A lost answer is asked for again: the condition
 * of every write here no longer holds once it was applied, and whoever looks again sees that nothing is left to do.
 */
export async function sendConditional<O extends 'PutItem' | 'UpdateItem' | 'DeleteItem'>(
  {table, signal}: MigrationContext,
  operation: O,
  input: Omit<OperationInput<O>, 'TableName'>,
): Promise<boolean> {
  const request = {...input, TableName: table.name} as OperationInput<O>
  refuseNowhere(request)
  try {
    const options = {...table.backoff, signal, retryable: isRetryableWhenIdempotent}
    await retrying(() => table.transport.send(operation, request, {signal}), options)
    return true
  } catch (error) {
    if (error instanceof ConditionFailed) return false
    throw error
  }
}

/** All or nothing; `false` when a condition does not hold. */
export async function transactConditional({table, signal}: MigrationContext, items: TransactItem[]): Promise<boolean> {
  for (const {Put, Update, Delete} of items) refuseNowhere(Put ?? Update ?? Delete ?? {})
  try {
    await transact(table, items, signal)
    return true
  } catch (error) {
    if (isRefused(error)) return false
    throw error
  }
}

/** Whoever does not know where a record belongs must not have come this far. */
function refuseNowhere(request: {readonly Item?: Item | undefined; readonly Key?: Item | undefined}): void {
  const {PK} = request.Item ?? request.Key ?? {}
  if (PK && 'S' in PK && PK.S?.startsWith(`${NOWHERE}/`)) throw new Error(`there is no namespace yet for ${PK.S}`)
}

/** Writes a new item where there is none. */
export async function putAbsent(stage: MigrationContext, item: Item): Promise<boolean> {
  const {TableName: _, ...input} = putNew(stage.table, item).Put as OperationInput<'PutItem'>
  return sendConditional(stage, 'PutItem', input)
}

/** Puts an item in the place of one that is as it was seen. */
export async function replaceSeen(stage: MigrationContext, seen: Item, item: Item): Promise<boolean> {
  const e = new ExpressionBuilder()
  demandUnchanged(e, seen)
  return sendConditional(stage, 'PutItem', {Item: item, ...e.write()})
}

/** Sets the mark of a new item that is as it was seen. */
export async function setMark(stage: MigrationContext, seen: Item, mark: AttributeValue): Promise<boolean> {
  const e = new ExpressionBuilder()
  demandUnchanged(e, seen)
  return sendConditional(stage, 'UpdateItem', {Key: wireKey(keyOf(seen)), ...e.set(MIGRATION_MARK, mark).update()})
}

/** Takes the mark off a new item, or leaves what is left of it, if it still is the one that was seen. */
export function removeMark(stage: MigrationContext, seen: Item, left?: string): TransactItem {
  const e = new ExpressionBuilder()
  const mark = seen[MIGRATION_MARK]
  if (mark) e.condition(`${e.name(MIGRATION_MARK)} = ${e.value(mark)}`)
  const change = left === undefined ? e.remove(MIGRATION_MARK) : e.set(MIGRATION_MARK, s(left))
  const {UpdateExpression = '', ...rest} = change.update()
  return {Update: {TableName: stage.table.name, Key: wireKey(keyOf(seen)), UpdateExpression, ...rest}}
}

/** A short name for the content of items; the order of attributes and set elements does not matter. */
export function digest(items: readonly Item[]): string {
  const hash = createHash('sha256')
  for (const text of items.map(canonical).sort()) hash.update(text)
  return hash.digest('base64url').slice(0, 16)
}

/** The content of a new item without our own mark. */
export function contentOf({[MIGRATION_MARK]: _, ...content}: Item): Item {
  return content
}

function canonical(value: unknown): string {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64')
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const isSet = 'SS' in value || 'NS' in value
  const parts = Object.entries(value).map(([name, inner]) => {
    const ordered = isSet && Array.isArray(inner) ? [...inner].sort() : inner
    return `${JSON.stringify(name)}:${canonical(ordered)}`
  })
  return `{${parts.sort().join(',')}}`
}
