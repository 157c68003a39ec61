import {groupBy} from '../../core/group-by.js'
import type {Limit} from '../../core/limit.js'
import {keyId} from '../../dynamo/batch.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {registerConfig} from '../../repository/limits/registry.js'
import {keyOf, readAll} from '../../repository/table/query.js'
import {wireKey} from '../../repository/table/table.js'
import {putNew} from '../../repository/table/transact.js'
import {type Item, type Key, n, s} from '../../schema/attribute-value.js'
import {
  type ConfigRecord,
  type ConfigScope,
  configKey,
  decodeConfig,
  decodeConfigLimits,
  encodeConfig,
} from '../../schema/config-record.js'
import {decodeLimitConfig} from '../../schema/legacy/config.js'
import {classifyItem} from './classify.js'
import {sendConditional, transactConditional} from './conditional.js'
import {readItems, spelledIn} from './copied-records.js'
import {compareCopy} from './copy.js'
import {
  beginningIn,
  eachOf,
  type Found,
  homeOf,
  isOneItem,
  type MigrationContext,
  type MigrationFinding,
  oldPrefixes,
} from './finding.js'

/** Configured limits, with the settings of the system level. */
type FoundLimits = Found<'limits'> | Found<'settings'>

/** The limits of one scope, as the old items give them. */
interface OldConfig {
  readonly home: string
  readonly scope: ConfigScope
  readonly items: readonly Item[]
}

/** Limits of one scope become one item, whether each had its own or not. */
export async function lookAtLimits(
  stage: MigrationContext,
  found: readonly FoundLimits[],
): Promise<MigrationFinding[]> {
  const groups = groupBy(found, ({record}) => keyId(configKey(homeOf(stage, record), scopeOf(record))))
  const begins = beginningIn(found)
  const scopes = [...groups.values()].map(members => {
    const {record} = members[0] as FoundLimits
    return {home: homeOf(stage, record), scope: scopeOf(record), items: members.map(({item}) => item)}
  })
  const wanted = scopes.flatMap(({home, scope}) => [
    configKey(home, scope),
    ...(isOneItem(stage, 'limits', home) ? [] : oldPlacesOf(stage, home, scope)),
  ])
  const seen = await readItems(stage, wanted)
  const configs = await eachOf(scopes, config => gather(stage, config, seen))
  return configs
    .filter(({items}) => begins(items))
    .map(config => compare(stage, config, seen.get(keyId(configKey(config.home, config.scope)))))
}

const scopeOf = (record: FoundLimits['record']): ConfigScope =>
  record.type === 'limits' ? record.scope : {level: 'system'}

/** Where old items with all limits of a scope may be; in today's place an item is today's. */
function oldPlacesOf(stage: MigrationContext, home: string, scope: ConfigScope): Key[] {
  const {PK, SK} = configKey('', scope)
  const elsewhere = oldPrefixes(stage, 'limits', home).filter(prefix => prefix !== `${home}/`)
  return elsewhere.map(prefix => ({PK: `${prefix}${PK.slice(1)}`, SK}))
}

/** All old items of a scope: those of single limits first, then the others, the newest last. */
async function gather(stage: MigrationContext, found: OldConfig, seen: ReadonlyMap<string, Item>): Promise<OldConfig> {
  const {home, scope} = found
  if (isOneItem(stage, 'limits', home)) return found
  const under = scope.level === 'entity' ? `#LIMIT#${scope.resource}#` : '#LIMIT#'
  const single: Item[] = []
  for (const prefix of oldPrefixes(stage, 'limits', home)) {
    const stretch = {partition: `${prefix}${configKey('', scope).PK.slice(1)}`, prefix: under}
    for await (const item of readAll(stage.table, stretch, undefined, stage.signal)) single.push(item)
  }
  const whole = oldPlacesOf(stage, home, scope).flatMap(key => {
    const item = seen.get(keyId(key))
    return item ? [item] : []
  })
  const known = [...single, ...whole].filter(item => classifyItem(item, stage).kind === 'old')
  return {home, scope, items: known}
}

function compare(
  stage: MigrationContext,
  {home, scope, items}: OldConfig,
  current: Item | undefined,
): MigrationFinding {
  const record = merge(home, scope, items)
  const foreign = items.filter(item => !decodeLimitConfig(item)).map(item => withoutLimits(spelledIn(home, item)))
  const copy = {...Object.assign({}, ...foreign), ...encodeConfig(record)}
  const existing = current && decodeConfig(current)
  if (existing && scope.level === 'system' && record.limits.length === 0) {
    return settingsFinding(stage, items, record, existing, current)
  }
  return compareCopy(stage, {
    type: 'limits',
    sources: items,
    copy,
    current,
    saysTheSame: item => sameMeaning(decodeConfig(item), record),
    create: marked => {
      const namespaceTable = {...stage.table, namespace: home}
      return transactConditional(stage, [
        putNew(stage.table, marked),
        ...registerConfig(namespaceTable, scope, undefined),
      ])
    },
  })
}

/**
 * Clients of a layout with one item for all limits read that item only, so where there is one the newest of them has the
 * last word: a limit that it lacks was taken away. Settings that nobody took away stay.
 */
function merge(namespace: string, scope: ConfigScope, items: readonly Item[]): ConfigRecord {
  const wholes = items.flatMap(item =>
    decodeLimitConfig(item) ? [] : (decodeConfig(spelledIn(namespace, item)) ?? []),
  )
  const newest = items.findLast(item => !decodeLimitConfig(item) && holdsLimits(spelledIn(namespace, item), scope))
  const limits = newest
    ? decodeConfigLimits(spelledIn(namespace, newest))
    : [...new Map(items.flatMap(item => singleLimit(item) ?? []).map(limit => [limit.name, limit])).values()]
  return {
    namespace,
    scope,
    limits: limits.sort((a, b) => (a.name < b.name ? -1 : 1)),
    onUnavailable: wholes.findLast(({onUnavailable}) => onUnavailable !== undefined)?.onUnavailable,
    auditRetentionDays: wholes.findLast(whole => whole.auditRetentionDays !== undefined)?.auditRetentionDays,
  }
}

const singleLimit = (item: Item): Limit | undefined => decodeLimitConfig(item)?.limit

/**
 * Whether an item is where its clients look for limits, also when all were taken away. The system level had an item for its
 * settings before limits went there, and deploying left one too (D-30): without limits it says nothing about them.
 */
const holdsLimits = (item: Item, {level}: ConfigScope): boolean =>
  decodeConfigLimits(item).length > 0 || (level !== 'system' && 'config_version' in item)

function withoutLimits(item: Item): Item {
  return Object.fromEntries(Object.entries(item).filter(([name]) => !/^l_.+_(cp|ra|rp)$/.test(name)))
}

function sameMeaning(one: ConfigRecord | undefined, other: ConfigRecord): boolean {
  const meaning = (record: ConfigRecord) => [record.limits, record.onUnavailable, record.auditRetentionDays]
  return one !== undefined && JSON.stringify(meaning(one)) === JSON.stringify(meaning(other))
}

/** Settings without limits join what the system level has by now; what is set there already counts (D-30). */
function settingsFinding(
  stage: MigrationContext,
  sources: readonly Item[],
  old: ConfigRecord,
  existing: ConfigRecord,
  current: Item,
): MigrationFinding {
  const e = new ExpressionBuilder()
  let isMissing = false
  const join = (attribute: string, value: Item[string]) => {
    e.set(attribute, value).condition(`attribute_not_exists(${e.name(attribute)})`)
    isMissing = true
  }
  const {auditRetentionDays: days, onUnavailable} = old
  if (days !== undefined && existing.auditRetentionDays === undefined) join('audit_retention_days', n(days))
  if (onUnavailable !== undefined && existing.onUnavailable === undefined) join('on_unavailable', s(onUnavailable))
  if (!isMissing) return {type: 'settings', sources, state: 'same'}
  e.condition(`attribute_exists(${e.name('PK')})`)
  const write = () => sendConditional(stage, 'UpdateItem', {Key: wireKey(keyOf(current)), ...e.update()})
  return {type: 'settings', sources, state: 'behind', says: 'is not in force yet', write}
}
