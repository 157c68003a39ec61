import {ExpressionBuilder} from '../../dynamo/expression.js'
import {tidyScope} from '../../repository/limits/limit-sync.js'
import {readAll} from '../../repository/table/query.js'
import {getItem} from '../../repository/table/table.js'
import {isApplied, transact} from '../../repository/table/transact.js'
import {type Item, isoSeconds, n} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {decodeBoosts} from '../../schema/boost-record.js'
import {hasCapacity, limitAttributesIn, limitOfAttribute} from '../../schema/config-limits.js'
import {hasKey, keys, type ParsedKey, wireKey} from '../../schema/keys.js'
import {ranges} from '../../schema/ranges.js'
import {decodeEntityConfigRegistry, decodeResourceRegistry, registryIndexKeys} from '../../schema/registry-records.js'
import {repairAttributes, type VerifyContext} from './context.js'
import type {ItemFinding} from './finding.js'

type ConfigKey = Extract<ParsedKey, {record: 'entity-config' | 'resource-config' | 'system-config'}>
type RegistryKey = Extract<ParsedKey, {record: 'resource-registry' | 'entity-config-registry'}>

export async function checkConfig(context: VerifyContext, item: Item, key: ConfigKey): Promise<ItemFinding[]> {
  const findings = [...new Set(limitAttributesIn(item).map(limitOfAttribute))]
    .filter(name => !hasCapacity(item, name))
    .map((name): ItemFinding => {
      return {kind: 'malformed', subject: name, reason: `The limit ${name} has no capacity and does not apply.`}
    })
  if (key.record !== 'resource-config') return findings
  const registry = await getItem(context.table, keys.resourceRegistry(key.namespace), {signal: context.signal})
  if (registry && decodeResourceRegistry(registry)?.resources.includes(key.resource)) return findings
  const reason = `The registry does not list ${key.resource}: listings and exports omit its limits.`
  const repair = () => changeRegistry(context, key, 'listed')
  return [...findings, {kind: 'registry', subject: key.resource, reason, repair}]
}

export async function checkRegistry(context: VerifyContext, item: Item, key: RegistryKey): Promise<ItemFinding[]> {
  const {namespace} = key
  const findings: ItemFinding[] = []
  if (key.record === 'resource-registry') {
    for (const resource of decodeResourceRegistry(item)?.resources ?? []) {
      if (await getItem(context.table, keys.resourceConfig(namespace, resource), {signal: context.signal})) continue
      const reason = `The registry lists ${resource}, which has no limits.`
      const repair = () => changeRegistry(context, {namespace, resource}, 'removed')
      findings.push({kind: 'registry', subject: resource, resource, reason, repair})
    }
    return findings
  }
  for (const [resource, count] of decodeEntityConfigRegistry(item)?.counts ?? []) {
    const real = await countEntityConfigs(context, namespace, resource)
    if (real === count) continue
    const reason = `The registry counts ${count} entities with limits for ${resource}; there ${real === 1 ? 'is' : 'are'} ${real}.`
    const repair = () => repairAttributes(context.table, item, {[resource]: real === 0 ? undefined : n(real)})
    findings.push({kind: 'registry', subject: resource, resource, reason, repair})
  }
  return findings
}

/** Ms that a boost may remain after its end. With traffic, it is removed within minutes. */
const BOOST_GRACE_MS = 3_600_000

const AGAIN = 'It would apply again next year.'
const OBEYED = 'Clients of zae-limiter still obey it.'

/** An ended boost must be removed before its windows reopen a year later. */
export function checkBoosts(context: VerifyContext, item: Item): ItemFinding[] {
  const record = decodeBoosts(item)
  if (!record) return []
  const {namespace, scope, boosts, accessUntilMs} = record
  const ends = [
    ...Array.from(boosts, ([name, {untilMs}]) => ({name, untilMs, what: `temporary limit ${name}`, effect: AGAIN})),
    ...(accessUntilMs === undefined
      ? []
      : [{name: 'switch', untilMs: accessUntilMs, what: 'temporary switch', effect: OBEYED}]),
  ]
  const ended = ends.filter(({untilMs}) => untilMs + BOOST_GRACE_MS <= context.nowMs)
  return ended.map(({name, untilMs, what, effect}) => ({
    kind: 'boost',
    subject: name,
    entity: scope.level === 'entity' ? scope.entity : undefined,
    resource: scope.level === 'system' ? undefined : scope.resource,
    reason: `The ${what} expired at ${isoSeconds(untilMs)} but is still configured. ${effect}`,
    since: isoSeconds(untilMs),
    repair: async principal => {
      await tidyScope(context.in(namespace), record, {principal, signal: context.signal})
      return true
    },
  }))
}

async function countEntityConfigs(context: VerifyContext, namespace: string, resource: string): Promise<number> {
  let count = 0
  const range = ranges.entityConfigsOfResource(namespace, resource)
  for await (const item of readAll(context.table, range, undefined, context.signal)) if (hasKey(item)) count++
  return count
}

async function changeRegistry(
  context: VerifyContext,
  {namespace, resource}: {readonly namespace: string; readonly resource: string},
  to: 'listed' | 'removed',
): Promise<boolean> {
  const {table} = context
  const check = new ExpressionBuilder()
  const pk = check.name(attributes.key.partition)
  check.condition(to === 'listed' ? `attribute_exists(${pk})` : `attribute_not_exists(${pk})`)
  const config = wireKey(keys.resourceConfig(namespace, resource))
  const change = new ExpressionBuilder()
  if (to === 'listed') change.add(attributes.registry.resources, {SS: [resource]})
  else change.delete(attributes.registry.resources, {SS: [resource]})
  for (const [name, value] of Object.entries(registryIndexKeys(namespace))) change.setIfMissing(name, value)
  const registry = wireKey(keys.resourceRegistry(namespace))
  const writes = [
    {ConditionCheck: {TableName: table.name, Key: config, ...check.write()}},
    {Update: {TableName: table.name, Key: registry, ...change.update()}},
  ]
  return isApplied(transact(table, writes))
}
