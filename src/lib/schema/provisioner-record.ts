import {bool, type Item, s} from './attribute-value.js'
import {fromJson, toJson} from './json-attribute.js'
import {keys, parseItemKey} from './keys.js'
import {readBoolean, readMap, readString} from './read.js'

/** Which configurations a declarative manifest owns in a namespace, and therefore may delete. */
export interface ProvisionerRecord {
  readonly namespace: string
  readonly managesSystem: boolean
  readonly resources: readonly string[]
  /** Entity to the resources whose limits are managed. */
  readonly entities: ReadonlyMap<string, readonly string[]>
  readonly lastApplied: string | undefined
  readonly appliedHash: string | undefined
}

export function encodeProvisioner(record: ProvisionerRecord): Item {
  const {PK, SK} = keys.provisioner(record.namespace)
  const entities = Object.fromEntries(
    [...record.entities].map(([entity, resources]) => [entity, [...resources].sort()]),
  )
  const item: Item = {
    PK: s(PK),
    SK: s(SK),
    managed_system: bool(record.managesSystem),
    managed_resources: fromJson([...record.resources].sort()),
    managed_entities: fromJson(entities),
    GSI4PK: s(record.namespace),
    GSI4SK: s(PK),
  }
  if (record.lastApplied !== undefined) item.last_applied = s(record.lastApplied)
  if (record.appliedHash !== undefined) item.applied_hash = s(record.appliedHash)
  return item
}

/** `undefined` when the key is not the provisioner's. */
export function decodeProvisioner(item: Item): ProvisionerRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'provisioner') return undefined
  const resources = item.managed_resources
  return {
    namespace: key.namespace,
    managesSystem: readBoolean(item, 'managed_system') ?? false,
    resources: resources ? strings(toJson(resources)) : [],
    entities: new Map(
      Object.entries(readMap(item, 'managed_entities')).map(([entity, list]) => [entity, strings(list)]),
    ),
    lastApplied: readString(item, 'last_applied'),
    appliedHash: readString(item, 'applied_hash'),
  }
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter(each => typeof each === 'string').sort() : []
}
