import {
  type AttributeValue,
  bool,
  type Item,
  n,
  readBoolean,
  readNumber,
  readString,
  s,
  texts,
} from './attribute-value.js'
import {attributes} from './attributes.js'
import {itemBytes, MAX_ITEM_BYTES} from './item-size.js'
import {fromJson, readMap, toJson} from './json-attribute.js'
import {indexKeys, keys, parseItemKey, wireKey} from './keys.js'

/** The scopes that a manifest owns, and therefore may delete. */
export interface Managed {
  readonly managesSystem: boolean
  readonly resources: readonly string[]
  readonly entities: ManagedEntities
}

/** Map-like: there may be a hundred thousand entities. */
export interface ManagedEntities extends Iterable<[entity: string, resources: readonly string[]]> {
  get(entity: string): readonly string[] | undefined
}

export interface ProvisionerRecord extends Managed {
  readonly namespace: string
  readonly lastApplied: string | undefined
  readonly appliedHash: string | undefined
}

/** For revision or base, hash, time, and attributes of other tools. */
const RESERVED_BYTES = 1024

const names = attributes.provisioner

export function encodeProvisioner(record: ProvisionerRecord): Item {
  const key = keys.provisioner(record.namespace)
  const item: Item = {
    ...wireKey(key),
    ...encodeManaged(record),
    ...texts(indexKeys.inNamespace(record.namespace, key.PK)),
  }
  if (record.lastApplied !== undefined) item[names.lastApplied] = s(record.lastApplied)
  if (record.appliedHash !== undefined) item[names.appliedHash] = s(record.appliedHash)
  return item
}

/** Lists nothing for a divided record; see `partSetOf`. */
export function decodeProvisioner(item: Item): ProvisionerRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'provisioner') return undefined
  return {
    namespace: key.namespace,
    ...decodeManaged(item),
    lastApplied: readString(item, names.lastApplied),
    appliedHash: readString(item, names.appliedHash),
  }
}

function encodeManaged({managesSystem, resources, entities}: Managed): Item {
  return {
    [names.managesSystem]: bool(managesSystem),
    [names.resources]: fromJson([...resources].sort()),
    [names.entities]: {M: Object.fromEntries(encodeEntities(entities))},
  }
}

function* encodeEntities(entities: ManagedEntities): Generator<[string, AttributeValue], void> {
  for (const [entity, resources] of entities) yield [entity, fromJson([...resources].sort())]
}

export function decodeManaged(item: Item): Managed {
  const resources = item[names.resources]
  return {
    managesSystem: readBoolean(item, names.managesSystem) ?? false,
    resources: resources ? strings(toJson(resources)) : [],
    entities: new Map(Object.entries(readMap(item, names.entities)).map(([entity, list]) => [entity, strings(list)])),
  }
}

export function isSameManaged(a: Managed, b: Managed): boolean {
  const isSameList = (one: readonly string[], other: readonly string[]) => hasAll(one, other) && hasAll(other, one)
  const isSameSystem = a.managesSystem === b.managesSystem
  return isSameSystem && isSameList(a.resources, b.resources) && listsAll(a, b) && listsAll(b, a)
}

function listsAll({entities}: Managed, others: Managed): boolean {
  for (const [entity, resources] of others.entities) if (!hasAll(entities.get(entity) ?? [], resources)) return false
  return true
}

function hasAll(texts: readonly string[], others: readonly string[]): boolean {
  if (texts === others) return true
  // For short lists, searching is faster than building a set.
  const known = others.length > 20 ? new Set(texts) : {has: (text: string) => texts.includes(text)}
  return others.every(text => known.has(text))
}

/** Measures entity by entity: encoding a huge item would take too much memory. */
export function fitsIntoItem({entities, ...rest}: Managed, record: ProvisionerRecord): boolean {
  let bytes = itemBytes(encodeProvisioner({...record, ...rest, entities: new Map()})) + RESERVED_BYTES
  for (const [entity, resources] of entities) {
    bytes += managedBytes({entities: new Map([[entity, resources]])})
    if (bytes > MAX_ITEM_BYTES) return false
  }
  return bytes <= MAX_ITEM_BYTES
}

const NOTHING: Managed = {managesSystem: false, resources: [], entities: new Map()}

function managedBytes(managed: Partial<Managed>): number {
  return itemBytes(encodeManaged({...NOTHING, ...managed})) - itemBytes(encodeManaged(NOTHING))
}

function strings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter(each => typeof each === 'string').sort() : []
}

/** The parts of a divided record: all written before it, and never changed (decision 39). */
export interface PartSet {
  readonly set: string
  readonly count: number
}

export interface PartIdentity extends Pick<PartSet, 'set'> {
  readonly number: number
  /** The revision of the record that this part may replace, if any. */
  readonly base: string
}

/**
 * Makes older clients fail instead of reading "manages nothing": on a resource that is not text, or on the revision.
 */
export function encodeDividedProvisioner(record: ProvisionerRecord, {set, count}: PartSet, revision: string): Item {
  return {
    ...encodeProvisioner({...record, ...NOTHING}),
    [names.resources]: {L: [n(count)]},
    [names.revision]: {M: {[names.revisionId]: s(revision), [names.set]: s(set), [names.parts]: n(count)}},
  }
}

export function partSetOf(record: Item): PartSet | undefined {
  const revision = record[names.revision]
  if (!revision || !('M' in revision)) return undefined
  const set = readString(revision.M, names.set)
  const count = readNumber(revision.M, names.parts)
  // Neither is ever missing. An unreadable set must not look like a whole record.
  return {set: set ?? '', count: count ?? 1}
}

export function revisionOf(record: Item): string | undefined {
  const revision = record[names.revision]
  return revision && 'M' in revision ? readString(revision.M, names.revisionId) : readString(record, names.revision)
}

export function encodePart(namespace: string, {set, number, base}: PartIdentity, managed: Managed): Item {
  const key = keys.provisionerPart(namespace, set, number)
  return {
    ...wireKey(key),
    ...encodeManaged(managed),
    [names.base]: s(base),
    ...texts(indexKeys.inNamespace(namespace, key.PK)),
  }
}

export function decodePartIdentity(item: Item): PartIdentity | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'provisioner-part') return undefined
  return {set: key.set, number: key.number, base: readString(item, names.base) ?? ''}
}

/** Each part fits into an item. The resources of one entity may span parts. */
export function* divide({managesSystem, resources, entities}: Managed): Generator<Managed, void> {
  let part = newPart(managesSystem)
  for (const resource of resources) {
    const bytes = managedBytes({resources: [resource]})
    if (!hasRoom(part, bytes)) {
      yield part
      part = newPart(false)
    }
    part.resources.push(resource)
    part.bytes += bytes
  }
  for (const [entity, own] of entities) {
    for (const resource of own) {
      const bytes = managedBytes({entities: new Map([[entity, [resource]]])})
      if (!hasRoom(part, bytes)) {
        yield part
        part = newPart(false)
      }
      const known = part.entities.get(entity)
      if (known) known.push(resource)
      else part.entities.set(entity, [resource])
      part.bytes += bytes
    }
  }
  yield part
}

const newPart = (managesSystem: boolean) => ({
  managesSystem,
  resources: [] as string[],
  entities: new Map<string, string[]>(),
  bytes: 2 * RESERVED_BYTES,
})

const hasRoom = ({bytes}: {bytes: number}, more: number): boolean => bytes + more <= MAX_ITEM_BYTES
