import type {Key} from '../attribute-value.js'
import type {ConfigScope} from '../config-record.js'
import {type ParsedKey, parseKey} from '../keys.js'

/**
 * Keys of older layouts. Before namespaces, partition keys had no `{namespace}/` prefix; buckets lay in their entity's
 * partition, at first one item per limit; each limit of a configuration was an item of its own.
 */
export type LegacyKey =
  | {record: 'per-limit-bucket'; namespace: string | undefined; entity: string; resource: string; limit: string}
  | {record: 'composite-bucket'; namespace: string | undefined; entity: string; resource: string}
  | {record: 'limit-config'; namespace: string | undefined; scope: ConfigScope; limit: string}
  | {record: 'version'; namespace: undefined}
  /** As today, but for the missing prefix: `current` is what the key would be in namespace `?`. */
  | {record: 'unprefixed'; namespace: undefined; current: ParsedKey}

/** Where the version record lay before namespaces. */
export const legacyVersionKey: Key = {PK: 'SYSTEM#', SK: '#VERSION'}

/** Names a namespace in which a key without one is parsed; never a real namespace. */
const NOWHERE = '?'

/** `undefined` for keys of the current layout and for keys nobody ever wrote. */
export function parseLegacyKey(key: Key): LegacyKey | undefined {
  const {namespace, rest} = splitNamespace(key.PK)
  const hash = rest.indexOf('#')
  if (hash < 0) return undefined
  const kind = rest.slice(0, hash)
  const name = rest.slice(hash + 1)
  if (kind === 'ENTITY' && key.SK.startsWith('#BUCKET#')) {
    const [resource = '', limit, ...more] = key.SK.slice(8).split('#')
    if (more.length > 0) return undefined
    if (limit === undefined) return {record: 'composite-bucket', namespace, entity: name, resource}
    return {record: 'per-limit-bucket', namespace, entity: name, resource, limit}
  }
  if (key.SK.startsWith('#LIMIT#')) return parseLimitConfig(namespace, kind, name, key.SK.slice(7))
  if (namespace !== undefined) return undefined
  if (kind === 'SYSTEM' && key.SK === '#VERSION') return {record: 'version', namespace}
  const current = parseKey({PK: `${NOWHERE}/${key.PK}`, SK: key.SK})
  // Buckets on partitions of their own came with namespaces; without one they are nobody's.
  return current && current.record !== 'bucket' ? {record: 'unprefixed', namespace, current} : undefined
}

/** A `/` may also be part of a resource name; namespace ids have no `#` before it. */
export function splitNamespace(PK: string): {namespace: string | undefined; rest: string} {
  const slash = PK.indexOf('/')
  if (slash < 0 || PK.slice(0, slash).includes('#')) return {namespace: undefined, rest: PK}
  return {namespace: PK.slice(0, slash), rest: PK.slice(slash + 1)}
}

function parseLimitConfig(
  namespace: string | undefined,
  kind: string,
  name: string,
  rest: string,
): LegacyKey | undefined {
  const config = (scope: ConfigScope, limit: string): LegacyKey => ({record: 'limit-config', namespace, scope, limit})
  if (kind !== 'ENTITY' && rest.includes('#')) return undefined
  if (kind === 'SYSTEM') return config({level: 'system'}, rest)
  if (kind === 'RESOURCE') return config({level: 'resource', resource: name}, rest)
  const [resource, limit, ...more] = rest.split('#')
  if (kind !== 'ENTITY' || resource === undefined || limit === undefined || more.length > 0) return undefined
  return config({level: 'entity', entity: name, resource}, limit)
}
