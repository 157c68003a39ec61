import type {Limit} from '../../core/limits/limit.js'
import {DEFAULT_RESOURCE} from '../../core/names.js'
import {type ConfigScope, configKey, countingAt, decodeConfig, levelOf} from '../../schema/config-record.js'
import {keyId} from '../../schema/keys.js'
import {hasLimitFeature} from '../../schema/peer-features.js'
import {getItems, type NamespaceTable} from '../table/table.js'
import type {TransactItem} from '../table/transact.js'
import {UnsupportedFeature} from '../table/unsupported-feature.js'
import {withBoosts} from './boost-records.js'
import {nameOf} from './checks.js'
import {unchangedCheck} from './config-writes.js'

/** The limits that apply to a scope without limits of its own. */
export interface InheritedLimits {
  /** Where they are set. */
  readonly scope: ConfigScope
  /** With their boosts. */
  readonly limits: readonly Limit[]
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

/** `checks` require that the limits still apply. Throws on an unsupported feature, which a copy would lose. */
export async function readInherited(
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
