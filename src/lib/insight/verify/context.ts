import type {RollupSchedule} from '../../core/window.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {readAll} from '../../repository/table/query.js'
import {type NamespaceTable, sendRepeatable, type Table} from '../../repository/table/table.js'
import {isApplied} from '../../repository/table/transact.js'
import {readRollups} from '../../repository/usage/sum.js'
import type {Item} from '../../schema/attribute-value.js'
import {hasKey, keyOf, wireKey} from '../../schema/keys.js'
import {decodeNamespace, type NamespaceRecord} from '../../schema/namespace-record.js'
import {ranges} from '../../schema/ranges.js'
import {Referred} from './referred.js'

/** One look at the table. Records that others refer to are read once per look. */
export class VerifyContext {
  readonly table: Table
  /** Start of the look, epoch ms. Fixed, so that the records in scope do not change meanwhile. */
  readonly nowMs: number
  readonly sinceMs: number
  readonly namespaces: ReadonlyMap<string, NamespaceRecord>
  readonly referred: Referred
  readonly signal: AbortSignal | undefined
  readonly isMigrated: boolean
  #rollups: Promise<RollupSchedule> | undefined

  private constructor(table: Table, nowMs: number, referred: Referred, options: LookOptions) {
    const {namespaces, sinceMs, signal, isMigrated} = options
    this.table = table
    this.nowMs = nowMs
    this.referred = referred
    this.namespaces = namespaces
    this.sinceMs = sinceMs
    this.signal = signal
    this.isMigrated = isMigrated
  }

  static async of(items: readonly Item[], table: Table, options: LookOptions): Promise<VerifyContext> {
    const nowMs = table.clock()
    return new VerifyContext(table, nowMs, await Referred.by(items, table, {...options, nowMs}), options)
  }

  in(namespace: string): NamespaceTable {
    return {...this.table, namespace}
  }

  rollups(): Promise<RollupSchedule> {
    this.#rollups ??= readRollups(this.table, this.signal)
    return this.#rollups
  }
}

export async function readNamespaces(
  table: Table,
  signal: AbortSignal | undefined,
): Promise<Map<string, NamespaceRecord>> {
  const namespaces = new Map<string, NamespaceRecord>()
  for await (const item of readAll(table, ranges.namespacesById(), undefined, signal)) {
    const record = decodeNamespace(item)
    if (record) namespaces.set(record.id, record)
  }
  return namespaces
}

export type LookOptions = Pick<VerifyContext, 'namespaces' | 'sinceMs' | 'signal' | 'isMigrated'>

/** `undefined` removes an attribute. Resolves to false if one of them changed since it was read. */
export async function repairAttributes(
  table: Table,
  item: Item,
  changes: {readonly [name: string]: Item[string] | undefined},
): Promise<boolean> {
  const e = new ExpressionBuilder()
  e.condition(`attribute_exists(${e.name(Object.keys(wireKey(keyOf(item)))[0] as string)})`)
  for (const [name, value] of Object.entries(changes)) {
    const before = item[name]
    if (before) e.condition(`${e.name(name)} = ${e.value(before)}`)
    else e.condition(`attribute_not_exists(${e.name(name)})`)
    if (value) e.set(name, value)
    else e.remove(name)
  }
  const request = {TableName: table.name, Key: wireKey(keyOf(item)), ...e.update()}
  return isApplied(sendRepeatable(table, 'UpdateItem', request))
}

/** Resolves to false if the item has the attribute by now. */
export async function deleteWithout(table: Table, item: Item, missing: string): Promise<boolean> {
  if (!hasKey(item)) return false
  const e = new ExpressionBuilder()
  e.condition(`attribute_not_exists(${e.name(missing)})`)
  const request = {TableName: table.name, Key: wireKey(keyOf(item)), ...e.write()}
  return isApplied(sendRepeatable(table, 'DeleteItem', request))
}
