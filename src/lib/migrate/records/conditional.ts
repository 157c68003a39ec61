import {createHash} from 'node:crypto'
import {batchWrite} from '../../dynamo/batch.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import type {OperationInput} from '../../dynamo/transport.js'
import {type RangeQuery, readAll} from '../../repository/table/query.js'
import {getItems, sendRepeatable} from '../../repository/table/table.js'
import {isApplied, putNew, type TransactItem, transact, updateItem} from '../../repository/table/transact.js'
import {type AttributeValue, type Item, type Key, s} from '../../schema/attribute-value.js'
import {isKeyAttribute, keyOf, partitionOf, wireKey} from '../../schema/keys.js'
import {PLACEHOLDER_NAMESPACE, splitNamespace} from '../../schema/legacy-key.js'
import {MIGRATION_MARK} from '../../schema/migration-marks.js'
import type {MigrationContext, OldItem} from './finding.js'

/** The item must exist, and the named attributes must be as they were read. Default: all attributes. */
export function requireUnchanged(e: ExpressionBuilder, seen: Item, names?: readonly string[]): void {
  for (const [name, value] of Object.entries(seen)) {
    if (isKeyAttribute(name)) continue
    if (names?.includes(name) ?? true) e.require(name, value)
  }
  e.exists()
  if (!(MIGRATION_MARK in seen)) e.absent(MIGRATION_MARK)
}

/** `false`: the condition failed. A repeat after a lost response is safe: no condition holds once its write applied. */
export async function sendConditional<O extends 'PutItem' | 'UpdateItem' | 'DeleteItem'>(
  {table, signal}: MigrationContext,
  operation: O,
  input: Omit<OperationInput<O>, 'TableName'>,
): Promise<boolean> {
  const request = {...input, TableName: table.name} as OperationInput<O>
  refusePlaceholder(request)
  return isApplied(sendRepeatable(table, operation, request, {signal}))
}

export async function transactConditional({table, signal}: MigrationContext, items: TransactItem[]): Promise<boolean> {
  for (const {Put, Update, Delete} of items) refusePlaceholder(Put ?? Update ?? Delete ?? {})
  return isApplied(transact(table, items, {signal}))
}

function refusePlaceholder({Item, Key}: {readonly Item?: Item | undefined; readonly Key?: Item | undefined}): void {
  const partition = partitionOf(keyOf(Item ?? Key ?? {}))
  if (splitNamespace(partition).namespace === PLACEHOLDER_NAMESPACE)
    throw new Error(`no namespace is registered yet for ${partition}`)
}

export async function putAbsent(context: MigrationContext, item: Item): Promise<boolean> {
  const {TableName: _, ...input} = putNew(context.table, item).Put as OperationInput<'PutItem'>
  return sendConditional(context, 'PutItem', input)
}

/** Unconditional: only for items that no other client writes differently. */
export async function putAll({table, signal}: MigrationContext, items: readonly Item[]): Promise<void> {
  for (const Item of items) refusePlaceholder({Item})
  const requests = items.map(put => ({put}))
  await batchWrite(table.transport, table.name, requests, {backoff: table.backoff, signal})
}

export async function replaceSeen(context: MigrationContext, seen: Item, item: Item): Promise<boolean> {
  const e = new ExpressionBuilder()
  requireUnchanged(e, seen)
  return sendConditional(context, 'PutItem', {Item: item, ...e.write()})
}

export async function setMark(context: MigrationContext, seen: Item, mark: AttributeValue): Promise<boolean> {
  const e = new ExpressionBuilder()
  requireUnchanged(e, seen)
  return sendConditional(context, 'UpdateItem', {Key: wireKey(keyOf(seen)), ...e.set(MIGRATION_MARK, mark).update()})
}

/** Fails if the mark changed since it was read. `rest` replaces it. */
export function removeMark(context: MigrationContext, seen: Item, rest?: string): TransactItem {
  const e = new ExpressionBuilder().store(MIGRATION_MARK, rest === undefined ? undefined : s(rest))
  const mark = seen[MIGRATION_MARK]
  if (mark) e.require(MIGRATION_MARK, mark)
  return updateItem({TableName: context.table.name, Key: wireKey(keyOf(seen)), ...e.update()})
}

/** The order of attributes and set elements does not matter. */
export function digest(items: readonly Item[]): string {
  const hash = createHash('sha256')
  for (const text of items.map(canonical).sort()) hash.update(text)
  return hash.digest('base64url').slice(0, 16)
}

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

export function readItems({table, signal}: MigrationContext, wanted: Iterable<Key>): Promise<Map<string, Item>> {
  return getItems(table, wanted, {signal})
}

export function readMarks({table, signal}: MigrationContext, wanted: Iterable<Key>): Promise<Map<string, Item>> {
  return getItems(table, wanted, {projection: [MIGRATION_MARK], signal})
}

export async function* queryOldItems(context: MigrationContext, range: RangeQuery): AsyncGenerator<OldItem, void> {
  for await (const item of readAll(context.table, range, undefined, context.signal)) {
    const old = oldItemOf(context, item)
    if (old) yield old
  }
}

export function oldItemOf(context: MigrationContext, item: Item): OldItem | undefined {
  const record = context.classify(item)
  return record.kind === 'old' ? {item, record} : undefined
}

export const isOfType =
  <T extends OldItem['record']['type']>(type: T) =>
  (old: OldItem): old is OldItem<T> =>
    old.record.type === type
