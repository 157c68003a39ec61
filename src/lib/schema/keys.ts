import {REGISTRY_NAMESPACE} from '../core/names.js'
import {parseWindowKey, type Window, windowKey} from '../core/window.js'
import type {Item, Key} from './attribute-value.js'
import {readString} from './read.js'

/**
 * Every key of the table. A partition key is `{namespace}/` and then the kind of record; names cannot contain `#`, and
 * namespace ids cannot contain `/`, so each key reads back in one way only.
 */

const inNamespace = (namespace: string, rest: string): string => `${namespace}/${rest}`
const entityPk = (namespace: string, entity: string) => inNamespace(namespace, `ENTITY#${entity}`)
const systemPk = (namespace: string) => inNamespace(namespace, 'SYSTEM#')

/** Primary keys by kind of record. */
export const keys = {
  namespaceByName: (name: string): Key => ({PK: systemPk(REGISTRY_NAMESPACE), SK: `#NAMESPACE#${name}`}),
  namespaceById: (id: string): Key => ({PK: systemPk(REGISTRY_NAMESPACE), SK: `#NSID#${id}`}),
  version: (): Key => ({PK: systemPk(REGISTRY_NAMESPACE), SK: '#VERSION'}),
  entity: (namespace: string, entity: string): Key => ({PK: entityPk(namespace, entity), SK: '#META'}),
  bucket: (namespace: string, entity: string, resource: string, shard: number): Key => ({
    PK: inNamespace(namespace, `BUCKET#${entity}#${resource}#${shard}`),
    SK: '#STATE',
  }),
  entityConfig: (namespace: string, entity: string, resource: string): Key => ({
    PK: entityPk(namespace, entity),
    SK: `#CONFIG#${resource}`,
  }),
  resourceConfig: (namespace: string, resource: string): Key => ({
    PK: inNamespace(namespace, `RESOURCE#${resource}`),
    SK: '#CONFIG',
  }),
  systemConfig: (namespace: string): Key => ({PK: systemPk(namespace), SK: '#CONFIG'}),
  resourceRegistry: (namespace: string): Key => ({PK: systemPk(namespace), SK: '#RESOURCES'}),
  entityConfigRegistry: (namespace: string): Key => ({PK: systemPk(namespace), SK: '#ENTITY_CONFIG_RESOURCES'}),
  provisioner: (namespace: string): Key => ({PK: systemPk(namespace), SK: '#PROVISIONER'}),
  audit: (namespace: string, entity: string, eventId: string): Key => ({
    PK: inNamespace(namespace, `AUDIT#${entity}`),
    SK: `#AUDIT#${eventId}`,
  }),
  usage: (namespace: string, entity: string, resource: string, window: Window, start: string): Key => ({
    PK: entityPk(namespace, entity),
    SK: `#USAGE#${resource}#${windowKey(window, start)}`,
  }),
}

/** Sort-key prefixes for range queries within one partition. */
export const sortPrefix = {
  namespacesByName: '#NAMESPACE#',
  namespacesById: '#NSID#',
  entityConfigs: '#CONFIG#',
  audit: '#AUDIT#',
  usage: (resource?: string) => (resource === undefined ? '#USAGE#' : `#USAGE#${resource}#`),
}

/** Keys of the global secondary indexes, as attributes of the records that appear there. */
export const indexKeys = {
  /** GSI1: children of a parent. */
  child: (namespace: string, parent: string, child: string) => ({
    GSI1PK: inNamespace(namespace, `PARENT#${parent}`),
    GSI1SK: `CHILD#${child}`,
  }),
  /** GSI2: buckets and usage of a resource. */
  bucketOfResource: (namespace: string, resource: string, entity: string, shard: number) => ({
    GSI2PK: inNamespace(namespace, `RESOURCE#${resource}`),
    GSI2SK: `BUCKET#${entity}#${shard}`,
  }),
  usageOfResource: (namespace: string, resource: string, start: string, entity: string) => ({
    GSI2PK: inNamespace(namespace, `RESOURCE#${resource}`),
    GSI2SK: `USAGE#${start}#${entity}`,
  }),
  /** GSI3: buckets of an entity, and entity-level configurations of a resource. */
  bucketOfEntity: (namespace: string, entity: string, resource: string, shard: number) => ({
    GSI3PK: entityPk(namespace, entity),
    GSI3SK: `BUCKET#${resource}#${shard}`,
  }),
  configOfResource: (namespace: string, resource: string, entity: string) => ({
    GSI3PK: inNamespace(namespace, `ENTITY_CONFIG#${resource}`),
    GSI3SK: entity,
  }),
  /** GSI4: everything in a namespace. An item without both keys is invisible to a purge. */
  inNamespace: (namespace: string, sortKey: string) => ({GSI4PK: namespace, GSI4SK: sortKey}),
  bucketInNamespace: (namespace: string, entity: string, resource: string, shard: number) => ({
    GSI4PK: namespace,
    GSI4SK: `BUCKET#${entity}#${resource}#${shard}`,
  }),
}

/** What a primary key says about its record. */
export type ParsedKey =
  | {record: 'namespace-by-name'; name: string}
  | {record: 'namespace-by-id'; id: string}
  | {record: 'version'}
  | {record: 'entity'; namespace: string; entity: string}
  | {record: 'bucket'; namespace: string; entity: string; resource: string; shard: number}
  | {record: 'entity-config'; namespace: string; entity: string; resource: string}
  | {record: 'resource-config'; namespace: string; resource: string}
  | {record: 'system-config'; namespace: string}
  | {record: 'resource-registry'; namespace: string}
  | {record: 'entity-config-registry'; namespace: string}
  | {record: 'provisioner'; namespace: string}
  | {record: 'audit'; namespace: string; entity: string; eventId: string}
  | {record: 'usage'; namespace: string; entity: string; resource: string; window: Window; start: string}

/** What the primary key of a stored item says about it. */
export function parseItemKey(item: Item): ParsedKey | undefined {
  return parseKey({PK: readString(item, 'PK') ?? '', SK: readString(item, 'SK') ?? ''})
}

/** Reads a primary key back; `undefined` for keys of no current record. */
export function parseKey({PK, SK}: Key): ParsedKey | undefined {
  const slash = PK.indexOf('/')
  const hash = PK.indexOf('#', slash)
  if (slash < 1 || hash < 0) return undefined
  const namespace = PK.slice(0, slash)
  const name = PK.slice(hash + 1)
  switch (PK.slice(slash + 1, hash)) {
    case 'ENTITY':
      return parseEntitySk(namespace, name, SK)
    case 'BUCKET':
      return SK === '#STATE' ? parseBucketName(namespace, name) : undefined
    case 'RESOURCE':
      return SK === '#CONFIG' ? {record: 'resource-config', namespace, resource: name} : undefined
    case 'AUDIT':
      return SK.startsWith('#AUDIT#') ? {record: 'audit', namespace, entity: name, eventId: SK.slice(7)} : undefined
    case 'SYSTEM':
      return parseSystemSk(namespace, SK)
    default:
      return undefined
  }
}

function parseEntitySk(namespace: string, entity: string, SK: string): ParsedKey | undefined {
  if (SK === '#META') return {record: 'entity', namespace, entity}
  if (SK.startsWith('#CONFIG#')) return {record: 'entity-config', namespace, entity, resource: SK.slice(8)}
  const usage = /^#USAGE#([^#]+)#(.+)$/.exec(SK)
  if (!usage) return undefined
  return {record: 'usage', namespace, entity, resource: usage[1] as string, ...parseWindowKey(usage[2] as string)}
}

function parseBucketName(namespace: string, name: string): ParsedKey | undefined {
  const parts = /^([^#]+)#(.+)#(\d+)$/.exec(name)
  if (!parts) return undefined
  return {
    record: 'bucket',
    namespace,
    entity: parts[1] as string,
    resource: parts[2] as string,
    shard: Number(parts[3]),
  }
}

function parseSystemSk(namespace: string, SK: string): ParsedKey | undefined {
  if (namespace === REGISTRY_NAMESPACE) {
    if (SK.startsWith('#NAMESPACE#')) return {record: 'namespace-by-name', name: SK.slice(11)}
    if (SK.startsWith('#NSID#')) return {record: 'namespace-by-id', id: SK.slice(6)}
    return SK === '#VERSION' ? {record: 'version'} : undefined
  }
  switch (SK) {
    case '#CONFIG':
      return {record: 'system-config', namespace}
    case '#RESOURCES':
      return {record: 'resource-registry', namespace}
    case '#ENTITY_CONFIG_RESOURCES':
      return {record: 'entity-config-registry', namespace}
    case '#PROVISIONER':
      return {record: 'provisioner', namespace}
    default:
      return undefined
  }
}

/** Names of the two attributes of the primary key. */
export const PARTITION_KEY = 'PK'
export const SORT_KEY = 'SK'

export const isKeyAttribute = (name: string): boolean => name === PARTITION_KEY || name === SORT_KEY
