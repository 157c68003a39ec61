import {RollupSchedule} from '../core/window.js'
import {type Item, readNumber, readString, s, texts} from './attribute-value.js'
import {attributes} from './attributes.js'
import {indexKeys, keys, parseItemKey, wireKey} from './keys.js'

export interface ResourceRegistry {
  readonly namespace: string
  readonly resources: readonly string[]
}

/** Entity configurations per resource, including `_default_`: one number named after it, and no other number. */
export interface EntityConfigRegistry {
  readonly namespace: string
  readonly counts: ReadonlyMap<string, number>
}

export function decodeResourceRegistry(item: Item): ResourceRegistry | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'resource-registry') return undefined
  const resources = item[attributes.registry.resources]
  return {namespace: key.namespace, resources: resources && 'SS' in resources ? [...resources.SS].sort() : []}
}

export function decodeEntityConfigRegistry(item: Item): EntityConfigRegistry | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'entity-config-registry') return undefined
  const counts = new Map<string, number>()
  for (const name of Object.keys(item).sort()) {
    const count = readNumber(item, name)
    if (count !== undefined && count > 0) counts.set(name, count)
  }
  return {namespace: key.namespace, counts}
}

export function registryIndexKeys(namespace: string): Item {
  return texts(indexKeys.inNamespace(namespace, keys.resourceRegistry(namespace).PK))
}

/** Currencies by limit name. Separate from configurations, which other clients replace as a whole. */
export interface UnitsRecord {
  readonly namespace: string
  readonly units: ReadonlyMap<string, string>
}

const UNIT_PREFIX = 'u_'

export const unitAttribute = (limit: string): string => `${UNIT_PREFIX}${limit}`

export function decodeUnits(item: Item): UnitsRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'units') return undefined
  const units = new Map<string, string>()
  for (const name of Object.keys(item)
    .filter(each => each.startsWith(UNIT_PREFIX))
    .sort()) {
    const unit = readString(item, name)
    if (unit !== undefined) units.set(name.slice(UNIT_PREFIX.length), unit)
  }
  return {namespace: key.namespace, units}
}

export function decodeRollups(item: Item | undefined): RollupSchedule {
  const read = (name: string) => (item && readString(item, name)?.split(',')) ?? []
  return new RollupSchedule({daily: read(attributes.rollups.daily), monthly: read(attributes.rollups.monthly)})
}

export function encodeRollups({switches}: RollupSchedule): Item {
  const item: Item = wireKey(keys.rollups())
  for (const window of ['daily', 'monthly'] as const) {
    if (switches[window].length > 0) item[attributes.rollups[window]] = s(switches[window].join(','))
  }
  return item
}
