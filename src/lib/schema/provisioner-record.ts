import {bool, type Item, s, texts} from './attribute-value.js'
import {attributes} from './attributes.js'
import {itemBytes} from './item-size.js'
import {fromJson, toJson} from './json-attribute.js'
import {indexKeys, keys, parseItemKey, wireKey} from './keys.js'
import {readBoolean, readMap, readString} from './read.js'

/** Which configurations of a namespace a manifest owns, and therefore may delete. */
export interface ProvisionerRecord {
  readonly namespace: string
  readonly managesSystem: boolean
  readonly resources: readonly string[]
  /** Entity to the resources whose limits are managed. */
  readonly entities: ReadonlyMap<string, readonly string[]>
  readonly lastApplied: string | undefined
  readonly appliedHash: string | undefined
}

const names = attributes.provisioner

export function encodeProvisioner(record: ProvisionerRecord): Item {
  const key = keys.provisioner(record.namespace)
  const entities = Object.fromEntries(
    [...record.entities].map(([entity, resources]) => [entity, [...resources].sort()]),
  )
  const item: Item = {
    ...wireKey(key),
    [names.managesSystem]: bool(record.managesSystem),
    [names.resources]: fromJson([...record.resources].sort()),
    [names.entities]: fromJson(entities),
    ...texts(indexKeys.inNamespace(record.namespace, key.PK)),
  }
  if (record.lastApplied !== undefined) item[names.lastApplied] = s(record.lastApplied)
  if (record.appliedHash !== undefined) item[names.appliedHash] = s(record.appliedHash)
  return item
}

/** Bytes that one entity adds to the item; see `itemBytes`. */
export function managedEntityBytes(entity: string, resources: Iterable<string>): number {
  const bytes = (managed: {[entity: string]: string[]}) => itemBytes({[names.entities]: fromJson(managed)})
  return bytes({[entity]: [...resources]}) - bytes({})
}

/** `undefined` when the key is not the provisioner's. */
export function decodeProvisioner(item: Item): ProvisionerRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'provisioner') return undefined
  const resources = item[names.resources]
  return {
    namespace: key.namespace,
    managesSystem: readBoolean(item, names.managesSystem) ?? false,
    resources: resources ? strings(toJson(resources)) : [],
    entities: new Map(Object.entries(readMap(item, names.entities)).map(([entity, list]) => [entity, strings(list)])),
    lastApplied: readString(item, names.lastApplied),
    appliedHash: readString(item, names.appliedHash),
  }
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter(each => typeof each === 'string').sort() : []
}
