import {InvalidInput} from '../../core/errors.js'
import {quotesText} from '../../core/limits/amount-text.js'
import type {Limit} from '../../core/limits/limit.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {type Item, s} from '../../schema/attribute-value.js'
import {type ConfigRecord, decodeConfig} from '../../schema/config-record.js'
import {keys, wireKey} from '../../schema/keys.js'
import {decodeUnits, registryIndexKeys, unitAttribute} from '../../schema/registry-records.js'
import {getItem, type NamespaceTable} from '../table/table.js'
import {type TransactItem, updateItem} from '../table/transact.js'
import {entityConfigs, resourceConfigs, resourcesOfEntities} from './listing.js'

/** Currency by limit name; other limits are counted in tokens. */
export type UnitsByLimit = ReadonlyMap<string, string>

export async function readLimitUnits(table: NamespaceTable): Promise<UnitsByLimit> {
  return unitsIn(await getItem(table, keys.units(table.namespace)))
}

export function unitsIn(item: Item | undefined): UnitsByLimit {
  return (item && decodeUnits(item)?.units) ?? new Map()
}

/** The unit only decides how amounts are displayed. */
export function withUnits<T extends Limit>(limits: readonly T[], units: UnitsByLimit): T[] {
  return limits.map(limit => {
    const unit = units.get(limit.name)
    return unit === undefined ? limit : {...limit, unit}
  })
}

/** Keeps one unit per limit name in a namespace. It may change only while no configuration has a limit of that name. */
export async function unitWrites(
  table: NamespaceTable,
  units: UnitsByLimit,
  given: readonly Limit[],
): Promise<TransactItem[]> {
  const concerned = given.filter(({name, unit}) => unit !== undefined || units.has(name))
  if (concerned.length === 0) return []
  const changed = concerned.filter(({name, unit}) => units.get(name) !== unit)
  if (changed.length > 0) await requireUnused(table, changed, units)
  const e = new ExpressionBuilder()
  for (const {name, unit} of concerned) {
    const attribute = unitAttribute(name)
    const before = units.get(name)
    e.require(attribute, before)
    if (before === unit) continue
    if (unit === undefined) e.remove(attribute)
    else e.set(attribute, s(unit))
  }
  const Key = wireKey(keys.units(table.namespace))
  if (changed.length === 0) return [{ConditionCheck: {TableName: table.name, Key, ...e.write()}}]
  for (const [name, value] of Object.entries(registryIndexKeys(table.namespace))) e.set(name, value)
  return [updateItem({TableName: table.name, Key, ...e.update()})]
}

async function requireUnused(table: NamespaceTable, changed: readonly Limit[], units: UnitsByLimit): Promise<void> {
  const system = await getItem(table, keys.systemConfig(table.namespace))
  const inUse = new Set((system && decodeConfig(system))?.limits.map(({name}) => name))
  for (const {limits} of await resourceConfigs(table)) for (const {name} of limits) inUse.add(name)
  for (const resource of await resourcesOfEntities(table)) {
    for (const {limits} of (await entityConfigs(table, resource)).records) for (const {name} of limits) inUse.add(name)
  }
  const used = changed.filter(({name}) => inUse.has(name))
  if (used.length === 0) return
  // The unit may just have been set with that limit: then the write's condition fails and the change is decided again.
  const now = await readLimitUnits(table)
  for (const {name, unit} of used) {
    if (now.get(name) !== units.get(name)) continue
    const [was, is] = [units.get(name) ?? 'tokens', unit ?? 'tokens']
    throw new InvalidInput(
      'limit.unit',
      `The limit "${name}" is counted in ${was} in this namespace, so it cannot use ${is}.`,
      {
        hint:
          was === 'tokens'
            ? 'Use another name for the limit in money, or first remove this one at every level.'
            : `Give an amount of money, such as 5${was}. ${quotesText(`${name}=$5`)} To change the unit, first remove the limit at every level.`,
        details: {limit: name, was, is},
      },
    )
  }
}

export function inUnits(record: ConfigRecord | undefined, units: UnitsByLimit): ConfigRecord | undefined {
  return record && {...record, limits: withUnits(record.limits, units)}
}
