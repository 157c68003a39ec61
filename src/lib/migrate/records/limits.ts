import {groupBy} from '../../core/group-by.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {registerConfig} from '../../repository/limits/config-writes.js'
import {putNew} from '../../repository/table/transact.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {withoutLimits} from '../../schema/config-limits.js'
import {
  type ConfigRecord,
  type ConfigScope,
  configKey,
  decodeConfig,
  decodeConfigLimits,
  encodeConfig,
  hasConfigVersion,
  settingsAttributes,
} from '../../schema/config-record.js'
import {keyId, keyOf, partitionOf, wireKey} from '../../schema/keys.js'
import {moderniseInto} from '../../schema/legacy-item.js'
import {legacyKeys, legacySortKeys, partitionPrefix} from '../../schema/legacy-key.js'
import {decodeLimitConfig} from '../layouts/record-shapes.js'
import {oldItemOf, queryOldItems, readItems, sendConditional, transactConditional} from './conditional.js'
import {compareCopy} from './copied-records.js'
import {
  type Compare,
  isSingleItem,
  type MigrationContext,
  type MigrationFinding,
  mapConcurrently,
  type OldItem,
  oldPrefixes,
  startsAmong,
  targetNamespace,
} from './finding.js'

type OldConfigItem = OldItem<'limits'> | OldItem<'settings'>

interface OldConfig {
  readonly namespace: string
  readonly scope: ConfigScope
  readonly sources: readonly OldItem[]
}

export const compareLimits: Compare<'limits' | 'settings'> = async (context, items) => {
  const groups = groupBy(items, ({record}) => keyId(configKey(targetNamespace(context, record), scopeOf(record))))
  const scopes = [...groups.values()].map((sources): OldConfig => {
    const {record} = sources[0] as OldConfigItem
    return {namespace: targetNamespace(context, record), scope: scopeOf(record), sources}
  })
  const wanted = scopes.flatMap(({namespace, scope}) => [
    configKey(namespace, scope),
    ...(isSingleItem(context, 'limits', namespace) ? [] : compositeKeys(context, namespace, scope)),
  ])
  const seen = await readItems(context, wanted)
  const configs = await mapConcurrently(scopes, config => gatherSources(context, config, seen))
  const startsHere = startsAmong(items)
  return configs
    .filter(({sources}) => startsHere(sources))
    .map(config => compareConfig(context, config, seen.get(keyId(configKey(config.namespace, config.scope)))))
}

export async function hasOldLimits(context: MigrationContext, namespace: string, scope: ConfigScope): Promise<boolean> {
  const anywhere = {...context, locations: undefined}
  const seen = await readItems(anywhere, compositeKeys(anywhere, namespace, scope))
  const {sources} = await gatherSources(anywhere, {namespace, scope, sources: []}, seen)
  const items = sources.map(({item}) => item)
  return mergeConfig(namespace, scope, items).limits.length > 0
}

const scopeOf = (record: OldConfigItem['record']): ConfigScope =>
  record.type === 'limits' ? record.scope : {level: 'system'}

function compositeKeys(context: MigrationContext, namespace: string, scope: ConfigScope): Key[] {
  const elsewhere = oldPrefixes(context, 'limits', namespace).filter(prefix => prefix !== partitionPrefix(namespace))
  return elsewhere.map(prefix => legacyKeys.config(prefix, scope))
}

/** Items of single limits first, then those with all limits, newest last. */
async function gatherSources(
  context: MigrationContext,
  config: OldConfig,
  seen: ReadonlyMap<string, Item>,
): Promise<OldConfig> {
  const {namespace, scope} = config
  if (isSingleItem(context, 'limits', namespace)) return config
  const sources: OldItem[] = []
  for (const prefix of oldPrefixes(context, 'limits', namespace)) {
    const stretch = {partition: partitionOf(legacyKeys.config(prefix, scope)), prefix: legacySortKeys.limits(scope)}
    for await (const single of queryOldItems(context, stretch)) sources.push(single)
  }
  for (const key of compositeKeys(context, namespace, scope)) {
    const item = seen.get(keyId(key))
    const composite = item && oldItemOf(context, item)
    if (composite) sources.push(composite)
  }
  return {namespace, scope, sources}
}

function compareConfig(
  context: MigrationContext,
  {namespace, scope, sources}: OldConfig,
  current: Item | undefined,
): MigrationFinding {
  const items = sources.map(({item}) => item)
  const record = mergeConfig(namespace, scope, items)
  const composites = items.filter(item => !decodeLimitConfig(item)).map(item => moderniseInto(namespace, item))
  const copy = {...Object.assign({}, ...composites.map(withoutLimits)), ...encodeConfig(record)}
  const existing = current && decodeConfig(current)
  if (existing && scope.level === 'system' && record.limits.length === 0) {
    return compareSystemSettings(context, sources, record, existing, current)
  }
  return compareCopy(context, {
    type: 'limits',
    sources,
    copy,
    current,
    isEquivalent: item => isSameConfig(decodeConfig(item), record),
    create: marked =>
      transactConditional(context, [
        putNew(context.table, marked),
        ...registerConfig({...context.table, namespace}, scope, undefined),
      ]),
  })
}

/** The newest item with all limits decides: a limit it lacks was removed. Settings stay until a newer one is set. */
function mergeConfig(namespace: string, scope: ConfigScope, items: readonly Item[]): ConfigRecord {
  const singles = items.flatMap(item => decodeLimitConfig(item)?.limit ?? [])
  const composites = items.filter(item => !decodeLimitConfig(item)).map(item => moderniseInto(namespace, item))
  const settings = composites.flatMap(item => decodeConfig(item) ?? [])
  const newest = composites.findLast(item => definesLimits(item, scope))
  const limits = newest ? decodeConfigLimits(newest) : [...new Map(singles.map(limit => [limit.name, limit])).values()]
  return {
    namespace,
    scope,
    limits: limits.sort((a, b) => (a.name < b.name ? -1 : 1)),
    onUnavailable: settings.findLast(({onUnavailable}) => onUnavailable !== undefined)?.onUnavailable,
    auditRetentionDays: settings.findLast(({auditRetentionDays}) => auditRetentionDays !== undefined)
      ?.auditRetentionDays,
  }
}

/** Items without limits count too, except at system level, where settings and deployments created some (D-30). */
const definesLimits = (item: Item, {level}: ConfigScope): boolean =>
  decodeConfigLimits(item).length > 0 || (level !== 'system' && hasConfigVersion(item))

function isSameConfig(one: ConfigRecord | undefined, other: ConfigRecord): boolean {
  const content = (record: ConfigRecord) => [record.limits, record.onUnavailable, record.auditRetentionDays]
  return one !== undefined && JSON.stringify(content(one)) === JSON.stringify(content(other))
}

/** Adds old settings to the current system configuration. Values already set there win (D-30). */
function compareSystemSettings(
  context: MigrationContext,
  sources: readonly OldItem[],
  old: ConfigRecord,
  existing: ConfigRecord,
  current: Item,
): MigrationFinding {
  const missing = settingsAttributes({
    onUnavailable: existing.onUnavailable === undefined ? old.onUnavailable : undefined,
    auditRetentionDays: existing.auditRetentionDays === undefined ? old.auditRetentionDays : undefined,
  })
  if (Object.keys(missing).length === 0) return {type: 'settings', sources, state: 'same'}
  const e = new ExpressionBuilder()
  for (const [name, value] of Object.entries(missing)) {
    e.set(name, value).condition(`attribute_not_exists(${e.name(name)})`)
  }
  e.exists()
  const write = () => sendConditional(context, 'UpdateItem', {Key: wireKey(keyOf(current)), ...e.update()})
  return {type: 'settings', sources, state: 'behind', reason: 'is not applied yet', write}
}
