import type {Limit} from '../../core/limits/limit.js'
import {DEFAULT_RESOURCE} from '../../core/names.js'
import {
  type ConfigRecord,
  type ConfigScope,
  configKey,
  countingAt,
  decodeConfig,
  levelOf,
} from '../../schema/config-record.js'
import {keyId} from '../../schema/keys.js'
import {hasLimitFeature} from '../../schema/peer-features.js'
import {getItems, type NamespaceTable} from '../table/table.js'
import type {TransactItem} from '../table/transact.js'
import {UnsupportedFeature} from '../table/unsupported-feature.js'
import {withBoosts} from './boost-records.js'
import {boosted, checkUntil, inOneZone, lastEndMs, rebased, tidied} from './boosted-limits.js'
import type {InheritedLimits, SetOptions, StoredConfig} from './change-options.js'
import {checkLimitsTogether, nameOf} from './checks.js'
import {unchangedCheck} from './config-writes.js'
import {withUnits} from './units.js'

interface MergedConfig {
  readonly record: ConfigRecord
  readonly copied: InheritedLimits | undefined
  /** Require that copied limits still apply. */
  readonly checks: readonly TransactItem[]
}

export async function mergeConfig(
  table: NamespaceTable,
  scope: ConfigScope,
  limits: readonly Limit[],
  options: SetOptions,
  stored: StoredConfig,
): Promise<MergedConfig> {
  const {replace = false, until, keepsBoosts = false, onUnavailable, auditRetentionDays, policies} = options
  const {before} = stored
  const {inherited, checks} = await readCopied(table, scope, limits, options, stored)
  const names = new Set(limits.map(({name}) => name))
  const others = inherited?.limits.filter(({name}) => !names.has(name)) ?? []
  const nowMs = table.clock()
  const present = before?.limits ?? []
  const wasCopy = before?.copiedUntilMs !== undefined
  // A configuration without limits does not end a copy: the copy ends with its boosts.
  const isLeft = keepsBoosts && wasCopy && limits.length === 0
  const kept = replace && !isLeft ? [] : present.filter(limit => !names.has(limit.name))
  const given = keepsBoosts ? rebased(limits, present) : limits
  const merged =
    until === undefined
      ? [...kept, ...others, ...given]
      : boosted(scope, inherited?.limits ?? present, limits, {untilMs: checkUntil(until, nowMs), nowMs})
  const after = inOneZone(merged, nowMs).sort((a, b) => (a.name < b.name ? -1 : 1))
  const copied =
    wasCopy && until === undefined && limits.length > 0
      ? await keptCopy(table, scope, kept)
      : inherited && others.length > 0
        ? {scope: inherited.scope, limits: others}
        : undefined
  checkLimitsTogether(after, copied && {names: copied.limits.map(({name}) => name), from: nameOf(copied.scope)})
  const isCopy = wasCopy ? until !== undefined || limits.length === 0 : until !== undefined && inherited !== undefined
  const record = {
    namespace: table.namespace,
    scope,
    limits: after,
    onUnavailable: onUnavailable ?? before?.onUnavailable,
    auditRetentionDays: auditRetentionDays ?? before?.auditRetentionDays,
    access: before?.access,
    accessUntilMs: before?.accessUntilMs,
    accessReason: before?.accessReason,
    cascade: before?.cascade,
    ...policies,
    ...(isCopy && {copiedUntilMs: lastEndMs(after)}),
  }
  return {record, copied, checks}
}

/** Limits that were copied for a boost and become permanent; they no longer follow the returned scope. */
export async function keptCopy(
  table: NamespaceTable,
  scope: ConfigScope,
  limits: readonly Limit[],
): Promise<InheritedLimits | undefined> {
  const {inherited} = limits.length === 0 ? {} : await readInherited(table, scope)
  return inherited && {scope: inherited.scope, limits}
}

async function readCopied(
  table: NamespaceTable,
  scope: ConfigScope,
  given: readonly Limit[],
  {replace = false}: SetOptions,
  {hasLimits, units}: Pick<StoredConfig, 'hasLimits' | 'units'>,
): Promise<{readonly inherited: InheritedLimits | undefined; readonly checks: readonly TransactItem[]}> {
  if (replace || hasLimits || given.length === 0) return {inherited: undefined, checks: []}
  const {inherited, checks} = await readInherited(table, scope)
  if (!inherited) return {inherited, checks}
  const {limits} = tidied(inherited, table.clock())
  return {inherited: {...inherited, limits: withUnits(limits, units)}, checks}
}

/** Most specific first. An entity's default inherits only from the system, because the limits of resources differ. */
export function scopesBelow(scope: ConfigScope): ConfigScope[] {
  const system = {level: 'system'} as const
  if (scope.level === 'system') return []
  if (levelOf(scope) !== 'entity') return [system]
  const {resource} = scope
  const ofEntity = {...scope, resource: DEFAULT_RESOURCE} as ConfigScope
  return [ofEntity, {level: 'resource', resource}, system]
}

/** `checks` require that the limits still apply. Throws on an unsupported feature, because a copy would lose it. */
async function readInherited(
  table: NamespaceTable,
  scope: ConfigScope,
): Promise<{readonly inherited: InheritedLimits | undefined; readonly checks: readonly TransactItem[]}> {
  const below = scopesBelow(scope)
  const keys = below.map(each => configKey(table.namespace, each))
  const items = await getItems(table, keys)
  const checks: TransactItem[] = []
  for (const [at, each] of below.entries()) {
    const key = keys[at] as (typeof keys)[number]
    const item = items.get(keyId(key))
    checks.push(unchangedCheck(table, key, item))
    const record = countingAt(item && decodeConfig(item), table.clock())
    if (!record) continue
    const {limits, unsupported} = record
    if (unsupported && hasLimitFeature(unsupported))
      throw new UnsupportedFeature(`The configuration of ${nameOf(each)}, which applies here now,`, unsupported, {})
    if (limits.length === 0) continue
    const [inherited] = await withBoosts(table, [{scope: each, limits}])
    return {inherited, checks}
  }
  return {inherited: undefined, checks}
}
