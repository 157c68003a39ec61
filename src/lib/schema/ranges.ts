import {type Item, readString, s} from './attribute-value.js'
import {type IndexName, indexes, keyNames} from './attributes.js'
import {indexKeys, keyParts, keys, type ParsedKey, sortPrefix} from './keys.js'

export interface KeyRange {
  readonly index?: IndexName
  readonly partition: string
  readonly prefix?: string
}

const ofNamespace = (namespace: string) => ({index: indexes.namespace, partition: namespace})
const ofRegistry = () => ({partition: keys.version().PK})
const ofEntity = (namespace: string, entity: string) => ({partition: keys.entity(namespace, entity).PK})

export const ranges = {
  namespacesByName: () => ({...ofRegistry(), prefix: keyParts.sort.namespaceByName}),
  namespacesById: () => ({...ofRegistry(), prefix: keyParts.sort.namespaceById}),
  rollupAgenda: () => ofRegistry(),

  namespace: ofNamespace,
  /** Also returns the configurations and usage of entities. */
  entities: (namespace: string) => ({...ofNamespace(namespace), prefix: keys.entity(namespace, '').PK}),
  resourceConfigs: (namespace: string) => ({...ofNamespace(namespace), prefix: keys.resourceConfig(namespace, '').PK}),
  audit: (namespace: string) => ({...ofNamespace(namespace), prefix: keys.audit(namespace, '', '').PK}),
  holders: (namespace: string) => ({...ofNamespace(namespace), prefix: keyParts.indexSort.holder}),
  openRuns: (namespace: string) => ({...ofNamespace(namespace), prefix: keyParts.indexSort.openRun}),
  /** Open runs that end up to an instant, as in the sort key. */
  dueRuns: (namespace: string, upTo: string) => {
    const {openRun} = keyParts.indexSort
    return {...ofNamespace(namespace), between: [openRun, `${openRun}${upTo}#\u{10ffff}`] as const}
  },
  endedRuns: (namespace: string) => ({...ofNamespace(namespace), prefix: keyParts.indexSort.endedRun}),
  reservations: (namespace: string, holder: string) => ({
    partition: keys.holder(namespace, holder).PK,
    prefix: keyParts.sort.reservation,
  }),
  buckets: (namespace: string) => ({...ofNamespace(namespace), prefix: keyParts.indexSort.bucket}),
  operationsOfEntity: (namespace: string, entity: string) => ({
    ...ofNamespace(namespace),
    prefix: `${keyParts.indexSort.operation}${entity}#`,
  }),

  boosts: (namespace: string) => ({
    partition: keys.systemConfig(namespace).PK,
    prefix: keyParts.sort.boost,
  }),

  provisionerParts: (namespace: string) => ({
    partition: keys.provisioner(namespace).PK,
    prefix: keyParts.sort.provisionerPart,
  }),

  entity: ofEntity,
  configsOfEntity: (namespace: string, entity: string) => ({
    ...ofEntity(namespace, entity),
    prefix: keyParts.sort.entityConfig,
  }),
  usageOfEntity: (namespace: string, entity: string, resource?: string) => ({
    ...ofEntity(namespace, entity),
    prefix: sortPrefix.usage(resource),
  }),
  auditOfEntity: (namespace: string, entity: string) => ({partition: keys.audit(namespace, entity, '').PK}),
  children: (namespace: string, parent: string) => ({
    index: indexes.parent,
    partition: indexKeys.child(namespace, parent, '').GSI1PK,
    prefix: keyParts.indexSort.child,
  }),
  bucketsOfEntity: (namespace: string, entity: string, resource?: string) => ({
    index: indexes.entity,
    partition: indexKeys.bucketOfEntity(namespace, entity, '', 0).GSI3PK,
    prefix: resource === undefined ? keyParts.indexSort.bucket : `${keyParts.indexSort.bucket}${resource}#`,
  }),

  entityConfigsOfResource: (namespace: string, resource: string) => ({
    index: indexes.entity,
    partition: indexKeys.configOfResource(namespace, resource, '').GSI3PK,
  }),
  bucketsOfResource: (namespace: string, resource: string) => ({
    index: indexes.resource,
    partition: indexKeys.bucketOfResource(namespace, resource, '', 0).GSI2PK,
    prefix: keyParts.indexSort.bucket,
  }),
  usageOfResource: (namespace: string, resource: string) => ({
    index: indexes.resource,
    partition: indexKeys.usageOfResource(namespace, resource, '', '').GSI2PK,
    prefix: keyParts.indexSort.usage,
  }),
}

/** The rest of a range after a sort key. No text lies between a key and the key followed by U+0001. */
export function rangeAfter({prefix, ...range}: Required<KeyRange>, last: string) {
  return {...range, between: [`${last}\u0001`, `${prefix}\u{10ffff}`] as const}
}

function startKeyNames(index: IndexName | undefined): string[] {
  return [...keyNames(), ...(index === undefined ? [] : keyNames(index))]
}

export function startKeyOf(item: Item, index: IndexName | undefined): string[] {
  return startKeyNames(index).map(name => readString(item, name) ?? '')
}

export function wireStartKey(values: readonly string[], index: IndexName | undefined): Item {
  return Object.fromEntries(startKeyNames(index).map((name, at) => [name, s(values[at] ?? '')]))
}

/** The sort key in the index of the resource, then the primary key. */
export function usagePlace({namespace, entity, resource, window, start}: Omit<UsageKey, 'record'>): string[] {
  const {PK, SK} = keys.usage(namespace, entity, resource, window, start)
  return [usageSortKey(start, entity), PK, SK]
}

export const usageSortKey = (start: string, entity: string): string =>
  indexKeys.usageOfResource('', '', start, entity).GSI2SK

type UsageKey = Extract<ParsedKey, {record: 'usage'}>
