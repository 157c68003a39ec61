import type {RollupSchedule} from '../../core/window.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {ConfigCache} from '../../repository/limits/cache.js'
import {
  ConfigResolver,
  type KnownResolutions,
  type Resolution,
  type ResolvedPair,
} from '../../repository/limits/resolver.js'
import {readAll} from '../../repository/table/query.js'
import {getItems, type NamespaceTable, sendRepeatable, type Table} from '../../repository/table/table.js'
import {isApplied} from '../../repository/table/transact.js'
import {readRollups} from '../../repository/usage/sum.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {type BucketRecord, decodeBucket} from '../../schema/bucket-record.js'
import {decodeEntity, type EntityRecord} from '../../schema/entity-record.js'
import {decodeHolder, type HolderRecord} from '../../schema/holder-record.js'
import {hasKey, keyId, keyOf, keys, parseItemKey, wireKey} from '../../schema/keys.js'
import {decodeNamespace, type NamespaceRecord} from '../../schema/namespace-record.js'
import {ranges} from '../../schema/ranges.js'

export interface LookOptions {
  /** By id. Records of other namespaces are not judged. */
  readonly namespaces: ReadonlyMap<string, NamespaceRecord>
  readonly sinceMs: number
  readonly signal: AbortSignal | undefined
  readonly isMigrated: boolean
}

/** One scan of a page. Referenced records are read once per scan. */
export interface VerifyContext extends LookOptions {
  readonly table: Table
  /** Start of the scan, epoch ms. Fixed, so that the records in scope do not change meanwhile. */
  readonly nowMs: number
  readonly referred: Awaited<ReturnType<typeof readReferred>>
  in(namespace: string): NamespaceTable
  rollups(): Promise<RollupSchedule>
}

export async function beginLook(items: readonly Item[], table: Table, options: LookOptions): Promise<VerifyContext> {
  const nowMs = table.clock()
  let rollups: Promise<RollupSchedule> | undefined
  return {
    ...options,
    table,
    nowMs,
    referred: await readReferred(items, table, {...options, nowMs}),
    in: namespace => ({...table, namespace}),
    rollups() {
      rollups ??= readRollups(table, options.signal)
      return rollups
    },
  }
}

async function readReferred(items: readonly Item[], table: Table, look: LookOptions & {nowMs: number}) {
  const {namespaces, sinceMs, nowMs, signal} = look
  const wanted: Key[] = []
  const pairs = new Map<string, ResolvedPair[]>()
  for (const item of items) {
    // Undecodable records are separate findings.
    const [stored, child] = [unlessMalformed(() => decodeBucket(item)), unlessMalformed(() => decodeEntity(item))]
    if (stored?.kind === 'bucket' && isJudged(stored.record, sinceMs, nowMs)) {
      const {namespace, entity, resource} = stored.record
      if (!namespaces.has(namespace)) continue
      wanted.push(keys.entity(namespace, entity))
      const asked = pairs.get(namespace) ?? []
      pairs.set(namespace, asked)
      asked.push({entity, resource})
    }
    if (child?.parent !== undefined && namespaces.has(child.namespace))
      wanted.push(keys.entity(child.namespace, child.parent))
    const key = parseItemKey(item)
    if (key?.record === 'reservation') wanted.push(keys.holder(key.namespace, key.holder))
  }
  const limits = new Map<string, KnownResolutions>()
  for (const [namespace, each] of pairs) {
    const resolver = new ConfigResolver({...table, namespace}, new ConfigCache({clock: table.clock, ttlMs: 0}))
    limits.set(namespace, await resolver.resolveMany(each, {signal}))
  }
  const found = await getItems(table, wanted, {signal})
  return {
    entity(namespace: string, entity: string): EntityRecord | undefined {
      const item = found.get(keyId(keys.entity(namespace, entity)))
      return item && decodeEntity(item)
    },
    holder(namespace: string, id: string): HolderRecord | undefined {
      const item = found.get(keyId(keys.holder(namespace, id)))
      return item && decodeHolder(item)
    },
    limits({namespace, entity, resource}: Pick<BucketRecord, 'namespace' | 'entity' | 'resource'>): Resolution {
      const known = limits.get(namespace)
      if (!known) throw new Error(`no limits of namespace ${namespace} were read`)
      return known({entity, resource})
    },
  }
}

function unlessMalformed<T>(decode: () => T): T | undefined {
  try {
    return decode()
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** Skips expired buckets: the table may delete them, and their shards, at any time. */
export function isJudged({ttlSeconds, state}: BucketRecord, sinceMs: number, nowMs: number): boolean {
  const isExpired = ttlSeconds !== undefined && ttlSeconds * 1000 <= nowMs
  return !isExpired && state.refilledAtMs >= sinceMs
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
