import type {Key} from './attribute-value.js'
import {type ConfigScope, configKey} from './config-record.js'
import {keys, type ParsedKey, parseKey} from './keys.js'

/** Before namespaces, keys had no prefix. Buckets were in their entity's partition, at first one item per limit. */
export type LegacyKey =
  | {record: 'per-limit-bucket'; namespace: string | undefined; entity: string; resource: string; limit: string}
  | {record: 'composite-bucket'; namespace: string | undefined; entity: string; resource: string}
  | {record: 'limit-config'; namespace: string | undefined; scope: ConfigScope; limit: string}
  | {record: 'version'; namespace: undefined}
  /** `current` is the key parsed in {@link PLACEHOLDER_NAMESPACE}. */
  | {record: 'unprefixed'; namespace: undefined; current: ParsedKey}

export const legacyVersionKey: Key = {PK: 'SYSTEM#', SK: '#VERSION'}

/** Not a valid id, so no item is ever stored under it. */
export const PLACEHOLDER_NAMESPACE = '?'

/** Clients without a namespace registry used it for the namespace `default`. */
export const LITERAL_DEFAULT = 'default'

const BUCKET = '#BUCKET#'
const LIMIT = '#LIMIT#'

export const partitionPrefix = (namespace: string | undefined): string =>
  namespace === undefined ? '' : `${namespace}/`

export const withPrefix = (prefix: string, PK: string): string => `${prefix}${splitNamespace(PK).rest}`

/** Same key in all layouts, except for the prefix of the partition key. */
export const legacyKeys = {
  entity: (prefix: string, entity: string): Key => moved(prefix, keys.entity(PLACEHOLDER_NAMESPACE, entity)),
  config: (prefix: string, scope: ConfigScope): Key => moved(prefix, configKey(PLACEHOLDER_NAMESPACE, scope)),
}

export const legacySortKeys = {
  limits: (scope: ConfigScope): string => (scope.level === 'entity' ? `${LIMIT}${scope.resource}#` : LIMIT),
  /** Includes buckets with an item per limit. */
  buckets: (resources: Iterable<string>): [first: string, last: string] => {
    // `$` follows the `#` between resource and limit. With `a` and `a-b`, the last key may belong to either.
    const names = [...resources].map(resource => `${BUCKET}${resource}`)
    return [
      names.toSorted(byBytes)[0] as string,
      names
        .map(name => `${name}$`)
        .toSorted(byBytes)
        .at(-1) as string,
    ]
  },
  ofRecord: {
    entity: [keys.entity('', '').SK],
    limits: [LIMIT, keys.systemConfig('').SK],
    settings: [LIMIT, keys.systemConfig('').SK],
  },
} as const

/** DynamoDB sorts strings by their UTF-8 bytes. */
const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))

const moved = (prefix: string, {PK, SK}: Key): Key => ({PK: withPrefix(prefix, PK), SK})

/** `undefined` for keys of the current layout and for keys that no release ever wrote. */
export function parseLegacyKey(key: Key): LegacyKey | undefined {
  const {namespace, rest} = splitNamespace(key.PK)
  const hash = rest.indexOf('#')
  if (hash < 0) return undefined
  const kind = rest.slice(0, hash)
  const name = rest.slice(hash + 1)
  if (kind === 'ENTITY' && key.SK.startsWith(BUCKET)) {
    const [resource = '', limit, ...more] = key.SK.slice(BUCKET.length).split('#')
    if (more.length > 0) return undefined
    if (limit === undefined) return {record: 'composite-bucket', namespace, entity: name, resource}
    return {record: 'per-limit-bucket', namespace, entity: name, resource, limit}
  }
  if (key.SK.startsWith(LIMIT)) return parseLimitConfig(namespace, kind, name, key.SK.slice(LIMIT.length))
  if (namespace !== undefined) return undefined
  if (kind === 'SYSTEM' && key.SK === legacyVersionKey.SK) return {record: 'version', namespace}
  const current = parseKey({PK: `${PLACEHOLDER_NAMESPACE}/${key.PK}`, SK: key.SK})
  // No release wrote buckets with their own partition but without a namespace.
  return current && current.record !== 'bucket' ? {record: 'unprefixed', namespace, current} : undefined
}

/** A resource name may contain a `/`, but a namespace id has no `#` before its `/`. */
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
