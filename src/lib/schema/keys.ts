import {REGISTRY_NAMESPACE} from '../core/names.js'
import {parseWindowKey, WINDOWS, type Window, windowKey} from '../core/window.js'
import {type Item, type Key, readString, s} from './attribute-value.js'
import {attributes, keyNames} from './attributes.js'

/** Names cannot contain `#` and namespace ids cannot contain `/`, so every key parses in one way only. */

export const keyParts = {
  partition: {
    entity: 'ENTITY#',
    bucket: 'BUCKET#',
    resource: 'RESOURCE#',
    system: 'SYSTEM#',
    audit: 'AUDIT#',
    holder: 'HOLDER#',
    parent: 'PARENT#',
    entityConfig: 'ENTITY_CONFIG#',
  },
  sort: {
    namespaceByName: '#NAMESPACE#',
    namespaceById: '#NSID#',
    version: '#VERSION',
    migration: '#MIGRATION',
    rollups: '#ROLLUPS',
    rollupAgenda: '#ROLLUP#',
    entity: '#META',
    bucket: '#STATE',
    entityConfig: '#CONFIG#',
    config: '#CONFIG',
    resourceRegistry: '#RESOURCES',
    entityConfigRegistry: '#ENTITY_CONFIG_RESOURCES',
    provisioner: '#PROVISIONER',
    units: '#UNITS',
    boost: '#BOOST#',
    pendingApply: '#PROVISIONER#PENDING#',
    provisionerPart: '#PROVISIONER#PART#',
    applyLock: '#PROVISIONER#LOCK',
    operation: '#OP#',
    holder: '#HOLDER',
    reservation: '#RESERVED#',
    audit: '#AUDIT#',
    usage: '#USAGE#',
  },
  indexSort: {
    child: 'CHILD#',
    bucket: 'BUCKET#',
    usage: 'USAGE#',
    operation: 'OP#',
    holder: 'HOLDER#',
    openRun: 'RUN#',
    endedRun: 'RUN_ENDED#',
  },
} as const

const {partition: kind, sort, indexSort} = keyParts

/** Zero-padded, so that parts sort. */
const PART_DIGITS = 5

/** The slash keeps an id from being a prefix of another one. */
const inNamespace = (namespace: string, rest: string): string => `${namespace}/${rest}`

export const namespacePrefix = (namespace: string): string => inNamespace(namespace, '')

const entityPk = (namespace: string, entity: string) => inNamespace(namespace, `${kind.entity}${entity}`)
const resourcePk = (namespace: string, resource: string) => inNamespace(namespace, `${kind.resource}${resource}`)
const systemPk = (namespace: string) => inNamespace(namespace, kind.system)
const registryKey = (SK: string): Key => ({PK: systemPk(REGISTRY_NAMESPACE), SK})

export const keys = {
  namespaceByName: (name: string) => registryKey(`${sort.namespaceByName}${name}`),
  namespaceById: (id: string) => registryKey(`${sort.namespaceById}${id}`),
  version: () => registryKey(sort.version),
  migration: () => registryKey(sort.migration),
  rollups: () => registryKey(sort.rollups),
  rollupAgenda: (window: Window, start: string, namespace: string, resource: string) =>
    registryKey(`${sortPrefix.rollupAgenda(window, start)}#${namespace}#${resource}`),
  entity: (namespace: string, entity: string): Key => ({PK: entityPk(namespace, entity), SK: sort.entity}),
  bucket: (namespace: string, entity: string, resource: string, shard: number): Key => ({
    PK: inNamespace(namespace, `${kind.bucket}${entity}#${resource}#${shard}`),
    SK: sort.bucket,
  }),
  operation: (namespace: string, entity: string, resource: string, id: string): Key => ({
    PK: keys.bucket(namespace, entity, resource, 0).PK,
    SK: `${sort.operation}${id}`,
  }),
  entityConfig: (namespace: string, entity: string, resource: string): Key => ({
    PK: entityPk(namespace, entity),
    SK: `${sort.entityConfig}${resource}`,
  }),
  resourceConfig: (namespace: string, resource: string): Key => ({
    PK: resourcePk(namespace, resource),
    SK: sort.config,
  }),
  systemConfig: (namespace: string): Key => ({PK: systemPk(namespace), SK: sort.config}),
  resourceRegistry: (namespace: string): Key => ({PK: systemPk(namespace), SK: sort.resourceRegistry}),
  entityConfigRegistry: (namespace: string): Key => ({PK: systemPk(namespace), SK: sort.entityConfigRegistry}),
  provisioner: (namespace: string): Key => ({PK: systemPk(namespace), SK: sort.provisioner}),
  provisionerPart: (namespace: string, set: string, number: number): Key => ({
    PK: systemPk(namespace),
    SK: `${sort.provisionerPart}${set}#${String(number).padStart(PART_DIGITS, '0')}`,
  }),
  applyLock: (namespace: string): Key => ({PK: systemPk(namespace), SK: sort.applyLock}),
  units: (namespace: string): Key => ({PK: systemPk(namespace), SK: sort.units}),
  /** Names are empty if the scope has none. */
  boost: (namespace: string, entity: string, resource: string): Key => ({
    PK: systemPk(namespace),
    SK: `${sort.boost}${entity}#${resource}`,
  }),
  holder: (namespace: string, id: string): Key => ({
    PK: inNamespace(namespace, `${kind.holder}${id}`),
    SK: sort.holder,
  }),
  reservation: (namespace: string, holder: string, id: string): Key => ({
    PK: keys.holder(namespace, holder).PK,
    SK: `${sort.reservation}${id}`,
  }),
  audit: (namespace: string, entity: string, eventId: string): Key => ({
    PK: inNamespace(namespace, `${kind.audit}${entity}`),
    SK: sortKeys.audit(eventId),
  }),
  usage: (namespace: string, entity: string, resource: string, window: Window, start: string): Key => ({
    PK: entityPk(namespace, entity),
    SK: `${sortPrefix.usage(resource)}${windowKey(window, start)}`,
  }),
}

export const sortKeys = {
  entity: sort.entity,
  audit: (eventId: string): string => `${sort.audit}${eventId}`,
}

export const sortPrefix = {
  rollupAgenda: (window: Window, start: string): string => `${sort.rollupAgenda}${window}#${start}`,
  usage: (resource?: string): string => (resource === undefined ? sort.usage : `${sort.usage}${resource}#`),
}

export const indexKeys = {
  child: (namespace: string, parent: string, child: string) => ({
    GSI1PK: inNamespace(namespace, `${kind.parent}${parent}`),
    GSI1SK: `${indexSort.child}${child}`,
  }),
  bucketOfResource: (namespace: string, resource: string, entity: string, shard: number) => ({
    GSI2PK: resourcePk(namespace, resource),
    GSI2SK: `${indexSort.bucket}${entity}#${shard}`,
  }),
  usageOfResource: (namespace: string, resource: string, start: string, entity: string) => ({
    GSI2PK: resourcePk(namespace, resource),
    GSI2SK: `${indexSort.usage}${start}#${entity}`,
  }),
  bucketOfEntity: (namespace: string, entity: string, resource: string, shard: number) => ({
    GSI3PK: entityPk(namespace, entity),
    GSI3SK: `${indexSort.bucket}${resource}#${shard}`,
  }),
  configOfResource: (namespace: string, resource: string, entity: string) => ({
    GSI3PK: inNamespace(namespace, `${kind.entityConfig}${resource}`),
    GSI3SK: entity,
  }),
  inNamespace: (namespace: string, sortKey: string) => ({GSI4PK: namespace, GSI4SK: sortKey}),
  bucketInNamespace: (namespace: string, entity: string, resource: string, shard: number) => ({
    GSI4PK: namespace,
    GSI4SK: `${indexSort.bucket}${entity}#${resource}#${shard}`,
  }),
  holderInNamespace: (namespace: string, id: string) => ({GSI4PK: namespace, GSI4SK: `${indexSort.holder}${id}`}),
  openRun: (namespace: string, endsAt: string, id: string) => ({
    GSI4PK: namespace,
    GSI4SK: `${indexSort.openRun}${endsAt}#${id}`,
  }),
  endedRun: (namespace: string, endedAt: string, id: string) => ({
    GSI4PK: namespace,
    GSI4SK: `${indexSort.endedRun}${endedAt}#${id}`,
  }),
  operationInNamespace: (namespace: string, entity: string, resource: string, id: string) => ({
    GSI4PK: namespace,
    GSI4SK: `${indexSort.operation}${entity}#${resource}#${id}`,
  }),
}

export type ParsedKey =
  | {record: 'namespace-by-name'; name: string}
  | {record: 'namespace-by-id'; id: string}
  | {record: 'version'}
  | {record: 'rollups'}
  | {record: 'rollup-agenda'; window: Window; start: string; of: {namespace: string; resource: string}}
  | {record: 'entity'; namespace: string; entity: string}
  | {record: 'bucket'; namespace: string; entity: string; resource: string; shard: number}
  | {record: 'entity-config'; namespace: string; entity: string; resource: string}
  | {record: 'resource-config'; namespace: string; resource: string}
  | {record: 'system-config'; namespace: string}
  | {record: 'resource-registry'; namespace: string}
  | {record: 'entity-config-registry'; namespace: string}
  | {record: 'provisioner'; namespace: string}
  | {record: 'provisioner-part'; namespace: string; set: string; number: number}
  | {record: 'apply-lock'; namespace: string}
  | {record: 'units'; namespace: string}
  | {record: 'boost'; namespace: string; entity: string; resource: string}
  /** zae-limiter 0.17: a part of a manifest that its provisioner has not applied to buckets yet. */
  | {record: 'pending-apply'; namespace: string}
  /** Kept for three days, so that it is not repeated. */
  | {record: 'operation'; namespace: string; entity: string; resource: string; id: string}
  | {record: 'holder'; namespace: string; id: string}
  | {record: 'reservation'; namespace: string; holder: string; id: string}
  | {record: 'audit'; namespace: string; entity: string; eventId: string}
  | {record: 'usage'; namespace: string; entity: string; resource: string; window: Window; start: string}

export function keyOf(item: Item): Key {
  const {partition, sort: sortName} = attributes.key
  return {PK: readString(item, partition) ?? '', SK: readString(item, sortName) ?? ''}
}

export function hasKey(item: Item | undefined): boolean {
  return keyNames().every(name => item?.[name])
}

export function wireKey({PK, SK}: Key): {PK: {S: string}; SK: {S: string}} {
  return {PK: s(PK), SK: s(SK)}
}

export function keyId({PK, SK}: Key): string {
  return `${PK}\u0000${SK}`
}

export function withoutKey(item: Item): Item {
  const {partition, sort: sortName} = attributes.key
  const {[partition]: _, [sortName]: __, ...rest} = item
  return rest
}

export function isKeyIn({PK}: Key, namespace: string): boolean {
  return PK.startsWith(namespacePrefix(namespace))
}

export function parseItemKey(item: Item): ParsedKey | undefined {
  return parseKey(keyOf(item))
}

export function parseKey({PK, SK}: Key): ParsedKey | undefined {
  const slash = PK.indexOf('/')
  const hash = PK.indexOf('#', slash)
  if (slash < 1 || hash < 0) return undefined
  const namespace = PK.slice(0, slash)
  const name = PK.slice(hash + 1)
  switch (PK.slice(slash + 1, hash + 1)) {
    case kind.entity:
      return parseEntitySk(namespace, name, SK)
    case kind.bucket:
      return parseBucket(namespace, name, SK)
    case kind.resource:
      return SK === sort.config ? {record: 'resource-config', namespace, resource: name} : undefined
    case kind.audit: {
      const eventId = after(sort.audit, SK)
      return eventId === undefined ? undefined : {record: 'audit', namespace, entity: name, eventId}
    }
    case kind.holder: {
      if (SK === sort.holder) return {record: 'holder', namespace, id: name}
      const id = after(sort.reservation, SK)
      return id === undefined ? undefined : {record: 'reservation', namespace, holder: name, id}
    }
    case kind.system:
      return parseSystemSk(namespace, SK)
    default:
      return undefined
  }
}

function parseEntitySk(namespace: string, entity: string, SK: string): ParsedKey | undefined {
  if (SK === sort.entity) return {record: 'entity', namespace, entity}
  const resource = after(sort.entityConfig, SK)
  if (resource !== undefined) return {record: 'entity-config', namespace, entity, resource}
  const usage = /^([^#]+)#(.+)$/.exec(after(sort.usage, SK) ?? '')
  if (!usage) return undefined
  return {record: 'usage', namespace, entity, resource: usage[1] as string, ...parseWindowKey(usage[2] as string)}
}

function parseBucket(namespace: string, name: string, SK: string): ParsedKey | undefined {
  const parts = /^([^#]+)#(.+)#(\d{1,9})$/.exec(name)
  if (!parts) return undefined
  const [, entity, resource, shard] = parts as unknown as [string, string, string, string]
  if (SK === sort.bucket) return {record: 'bucket', namespace, entity, resource, shard: Number(shard)}
  const id = after(sort.operation, SK)
  return id === undefined ? undefined : {record: 'operation', namespace, entity, resource, id}
}

function parseSystemSk(namespace: string, SK: string): ParsedKey | undefined {
  if (namespace === REGISTRY_NAMESPACE) {
    const name = after(sort.namespaceByName, SK)
    if (name !== undefined) return {record: 'namespace-by-name', name}
    const id = after(sort.namespaceById, SK)
    if (id !== undefined) return {record: 'namespace-by-id', id}
    if (SK === sort.version) return {record: 'version'}
    return SK === sort.rollups ? {record: 'rollups'} : parseAgenda(after(sort.rollupAgenda, SK) ?? '')
  }
  if (SK.startsWith(sort.pendingApply)) return {record: 'pending-apply', namespace}
  const [, set, number] = /^([^#]+)#(\d+)$/.exec(after(sort.provisionerPart, SK) ?? '') ?? []
  if (set !== undefined) return {record: 'provisioner-part', namespace, set, number: Number(number)}
  const [, boosted, resource] = /^([^#]*)#([^#]*)$/.exec(after(sort.boost, SK) ?? '') ?? []
  if (boosted !== undefined && resource !== undefined) return {record: 'boost', namespace, entity: boosted, resource}
  switch (SK) {
    case sort.config:
      return {record: 'system-config', namespace}
    case sort.resourceRegistry:
      return {record: 'resource-registry', namespace}
    case sort.entityConfigRegistry:
      return {record: 'entity-config-registry', namespace}
    case sort.provisioner:
      return {record: 'provisioner', namespace}
    case sort.applyLock:
      return {record: 'apply-lock', namespace}
    case sort.units:
      return {record: 'units', namespace}
    default:
      return undefined
  }
}

function parseAgenda(text: string): ParsedKey | undefined {
  const [, type, start, namespace, resource] = /^(\w+)#([^#]+)#([^#]+)#(.+)$/.exec(text) ?? []
  const window = WINDOWS.find(each => each === type)
  if (!window || start === undefined || namespace === undefined || resource === undefined) return undefined
  return {record: 'rollup-agenda', window, start, of: {namespace, resource}}
}

function after(prefix: string, text: string): string | undefined {
  return text.startsWith(prefix) ? text.slice(prefix.length) : undefined
}

export const partitionOf = ({PK}: Key): string => PK

export const spellKey = ({PK, SK}: Key): string => `${PK} ${SK}`

/** Returns every possible split: a sort key begins with `#`, but names may contain a space. */
export function parseSpelledKey(text: string): Key[] {
  return [...text.matchAll(/ (?=#)/g)]
    .filter(({index}) => index > 0)
    .map(({index}) => ({PK: text.slice(0, index), SK: text.slice(index + 1)}))
}

export const isKeyAttribute = (name: string): boolean => keyNames().includes(name)
