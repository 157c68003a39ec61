import type {RollupSchedule} from '../core/window.js'
import {ConditionFailed, isRetryableWhenIdempotent} from '../dynamo/errors.js'
import {ExpressionBuilder} from '../dynamo/expression.js'
import {retrying} from '../dynamo/retry.js'
import {ConfigCache} from '../repository/limits/cache.js'
import {ConfigResolver, type Resolution} from '../repository/limits/resolver.js'
import {readAll} from '../repository/table/query.js'
import {getItem, type NamespaceTable, type Table} from '../repository/table/table.js'
import {readRollups} from '../repository/usage/rollups.js'
import type {Item} from '../schema/attribute-value.js'
import {decodeEntity, type EntityRecord} from '../schema/entity-record.js'
import {hasKey, keyOf, keys, wireKey} from '../schema/keys.js'
import {decodeNamespace, type NamespaceRecord} from '../schema/namespace-record.js'
import {ranges} from '../schema/ranges.js'

/** Ms that limits are cached during a verification: a change is seen by the second look. */
const CONFIG_TTL_MS = 500

/** What one look at the table knows. Records that many others refer to are read once per look. */
export class VerifyContext {
  readonly table: Table
  /** Skip usage before this instant, and buckets not written since; epoch ms. */
  readonly sinceMs: number
  readonly namespaces: ReadonlyMap<string, NamespaceRecord>
  readonly signal: AbortSignal | undefined
  /** Whether the table had an older layout. */
  readonly isMigrated: boolean
  readonly #entities = new Map<string, Promise<EntityRecord | undefined>>()
  readonly #resolvers = new Map<string, ConfigResolver>()
  #rollups: Promise<RollupSchedule> | undefined

  constructor(table: Table, namespaces: ReadonlyMap<string, NamespaceRecord>, options: ContextOptions) {
    this.table = table
    this.namespaces = namespaces
    this.sinceMs = options.sinceMs ?? Number.NEGATIVE_INFINITY
    this.signal = options.signal
    this.isMigrated = options.isMigrated ?? false
  }

  in(namespace: string): NamespaceTable {
    return {...this.table, namespace}
  }

  entity(namespace: string, entity: string): Promise<EntityRecord | undefined> {
    const id = `${namespace}/${entity}`
    let record = this.#entities.get(id)
    if (!record) {
      record = getItem(this.table, keys.entity(namespace, entity), {signal: this.signal}).then(
        item => item && decodeEntity(item),
      )
      this.#entities.set(id, record)
    }
    return record
  }

  /** Which windows are rolled up. */
  rollups(): Promise<RollupSchedule> {
    this.#rollups ??= readRollups(this.table, this.signal)
    return this.#rollups
  }

  limits(namespace: string, entity: string, resource: string): Promise<Resolution> {
    let resolver = this.#resolvers.get(namespace)
    if (!resolver) {
      const {clock} = this.table
      resolver = new ConfigResolver(this.in(namespace), new ConfigCache({clock, ttlMs: CONFIG_TTL_MS}))
      this.#resolvers.set(namespace, resolver)
    }
    return resolver.resolve(entity, resource, {signal: this.signal})
  }
}

/** The namespaces of a table, by id. */
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

export interface ContextOptions {
  readonly isMigrated?: boolean | undefined
  readonly sinceMs?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/**
 * Gives an item other attributes, `undefined` removes one, on condition that those attributes are as they were read;
 * false when they are not any more.
 */
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
  return applied(
    () => table.transport.send('UpdateItem', {TableName: table.name, Key: wireKey(keyOf(item)), ...e.update()}),
    table,
  )
}

/** Deletes an item on condition that it still lacks an attribute. */
export async function deleteWithout(table: Table, item: Item, missing: string): Promise<boolean> {
  if (!hasKey(item)) return false
  const e = new ExpressionBuilder()
  e.condition(`attribute_not_exists(${e.name(missing)})`)
  return applied(
    () => table.transport.send('DeleteItem', {TableName: table.name, Key: wireKey(keyOf(item)), ...e.write()}),
    table,
  )
}

async function applied(send: () => Promise<unknown>, table: Table): Promise<boolean> {
  try {
    await retrying(send, {...table.backoff, retryable: isRetryableWhenIdempotent})
    return true
  } catch (error) {
    if (error instanceof ConditionFailed) return false
    throw error
  }
}
