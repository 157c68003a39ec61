import type {Limit} from '../../core/limits/limit.js'
import type {ConfigRecord, ConfigScope} from '../../schema/config-record.js'
import type {NamespaceTable} from '../table/table.js'
import type {TransactItem} from '../table/transact.js'
import {boosted, checkUntil, inOneZone, lastEndMs, rebased, tidied} from './boosted-limits.js'
import type {SetOptions, StoredConfig} from './change-options.js'
import {checkLimitsTogether, nameOf} from './checks.js'
import {type InheritedLimits, readInherited} from './inherited.js'
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
  // A configuration without limits does not end a copy, which ends with its boosts.
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
    cascade: before?.cascade,
    ...policies,
    ...(isCopy && {copiedUntilMs: lastEndMs(after)}),
  }
  return {record, copied, checks}
}

/** Limits that were copied for a boost and now stay; they no longer follow the returned scope. */
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
