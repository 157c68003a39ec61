import {formatWindows} from '../../core/calendar/stored-schedule.js'
import type {Limit, ReplacedWindow} from '../../core/limits/limit.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {type BoostRecord, boostKey, decodeBoosts, encodeBoosts, type StoredBoost} from '../../schema/boost-record.js'
import type {ConfigScope} from '../../schema/config-record.js'
import {keyId, wireKey} from '../../schema/keys.js'
import {ranges} from '../../schema/ranges.js'
import {decodeRange} from '../table/query.js'
import {getItems, type NamespaceTable} from '../table/table.js'
import type {TransactItem} from '../table/transact.js'

export interface ScopedLimits {
  readonly scope: ConfigScope
  readonly limits: readonly Limit[]
  /** Copied from another level for boosts; they count only before this instant, in epoch ms. */
  readonly copiedUntilMs?: number | undefined
}

export function allBoosts(table: NamespaceTable): Promise<BoostRecord[]> {
  return decodeRange(table, ranges.boosts(table.namespace), decodeBoosts)
}

/** Marks the windows that are boosts. Reads only for limits with windows. */
export async function withBoosts<T extends ScopedLimits>(table: NamespaceTable, many: readonly T[]): Promise<T[]> {
  const {namespace} = table
  const wanted = many.filter(({limits}) => limits.some(({schedule}) => schedule)).map(each => each.scope)
  if (wanted.length === 0) return [...many]
  const items = await getItems(
    table,
    wanted.map(scope => boostKey(namespace, scope)),
  )
  return many.map(each => {
    const item = items.get(keyId(boostKey(namespace, each.scope)))
    return described(each, item && decodeBoosts(item), table.clock())
  })
}

/** The record applies only while a limit begins with exactly its windows: replacing a configuration ends its boosts. */
export function described<T extends ScopedLimits>(scoped: T, record: BoostRecord | undefined, nowMs: number): T {
  if (!record) return scoped
  const limits = scoped.limits.map(limit => {
    const stored = record.boosts.get(limit.name)
    const windows = stored && leadingWindows(limit, stored)
    if (!windows) return limit
    return {...limit, boost: {untilMs: stored.untilMs, windows, isEnded: stored.untilMs <= nowMs}}
  })
  return withCopyEnd({...scoped, limits})
}

export function withCopyEnd<T extends ScopedLimits>(scoped: T): T {
  const {limits, copiedUntilMs} = scoped
  const marked = (limit: Limit): Limit => {
    const {endsCopy = false, ...boost} = limit.boost ?? {untilMs: undefined}
    if (boost.untilMs === undefined || endsCopy === (boost.untilMs === copiedUntilMs)) return limit
    return {...limit, boost: endsCopy ? boost : {...boost, endsCopy: true}}
  }
  return {...scoped, limits: limits.map(marked)}
}

/** The number of the boost's windows; `undefined` if the limit does not begin with them. */
function leadingWindows({schedule = [], timeZone}: Limit, {windows, zone}: StoredBoost): number | undefined {
  const count = windows.split(';').length
  const leading = schedule.slice(0, count).filter((entry): entry is ReplacedWindow => !('scale' in entry))
  return timeZone === zone && leading.length === count && formatWindows(leading) === windows ? count : undefined
}

export interface BoostsAfter {
  readonly scope: ConfigScope
  readonly limits: readonly Limit[]
  readonly accessUntilMs?: number | undefined
  readonly by: string | undefined
}

export function boostWrites(
  table: NamespaceTable,
  before: BoostRecord | undefined,
  {scope, limits, accessUntilMs, by}: BoostsAfter,
): TransactItem[] {
  const boosted = limits.filter(({boost}) => boost)
  const isEmpty = boosted.length === 0 && accessUntilMs === undefined
  if (isEmpty && !before) return []
  const e = new ExpressionBuilder()
  const {revision} = attributes.boost
  if (before) e.require(revision, before.revision)
  else e.absent()
  if (isEmpty) {
    const Key = wireKey(boostKey(table.namespace, scope))
    return [{Delete: {TableName: table.name, Key, ...e.write()}}]
  }
  const since = isoSeconds(table.clock())
  const boosts = boosted.map(limit => {
    const boost = storedBoost(limit, {since, by})
    const known = before?.boosts.get(limit.name)
    const isKept = known?.windows === boost.windows && known.zone === boost.zone
    return [limit.name, isKept ? known : boost] as const
  })
  const record: BoostRecord = {
    namespace: table.namespace,
    scope,
    boosts: new Map(boosts),
    accessUntilMs,
    revision: Buffer.from(table.randomBytes(8)).toString('base64url'),
  }
  return [{Put: {TableName: table.name, Item: encodeBoosts(record), ...e.write()}}]
}

function storedBoost(
  {schedule = [], boost, timeZone = ''}: Limit,
  set: Pick<StoredBoost, 'since' | 'by'>,
): StoredBoost {
  const windows = formatWindows(schedule.slice(0, boost?.windows) as ReplacedWindow[])
  return {windows, zone: timeZone, untilMs: boost?.untilMs ?? 0, ...set}
}
