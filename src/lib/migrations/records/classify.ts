import {isNamespaceId, REGISTRY_NAMESPACE} from '../../core/names.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {configKey} from '../../schema/config-record.js'
import {keys, type ParsedKey, parseKey} from '../../schema/keys.js'
import {type LegacyKey, parseLegacyKey} from '../../schema/legacy/key.js'
import {flatten} from '../../schema/legacy/modernise.js'
import {migrationRecordKey} from '../../schema/migration-record.js'
import {readString} from '../../schema/read.js'
import {hasLimitState, hasNumbers, identify, type RecordIdentity} from './record-shapes.js'

/**
 * The layouts in the order in which releases of the Python system brought them: 1 nested maps (0.1 to 0.5), 2 the same
 * flat (0.6), 3 composite buckets (0.7), 4 composite configurations (0.8, 0.9), 5 namespaces (0.10.0), 6 today's.
 */
export type Generation = 1 | 2 | 3 | 4 | 5 | 6

export type OldGeneration = Exclude<Generation, 6>

/** What identifies a record of an older layout; records whose shape stayed have the generation that brought the shape. */
export type OldRecord = {
  readonly kind: 'old'
  readonly generation: OldGeneration
  /** The id in the key; `undefined` before namespaces. */
  readonly namespace: string | undefined
} & RecordIdentity

export type OldRecordType = RecordIdentity['type']

/** Records of today's layout; `migration` is the progress of `zael migrate` itself. */
export type CurrentRecordType = OldRecordType | 'namespace' | 'migration'

export interface CurrentRecord {
  readonly kind: 'current'
  readonly type: CurrentRecordType
  readonly namespace: string
}

export interface UnknownRecord {
  readonly kind: 'unknown'
  readonly key: Key
}

export type Classified = OldRecord | CurrentRecord | UnknownRecord

export interface ClassifyOptions {
  /** Whether what lies under the id `default`, which no registry gave out, is to be moved to the namespace `default`. */
  readonly literalDefaultMoves?: boolean
}

/** The id that clients without a registry used for the namespace `default`. */
export const LITERAL_DEFAULT = 'default'

/** What an item is, by its key and its shape; the version record is not asked, because it lied in some releases (C-8). */
export function classifyItem(item: Item, options: ClassifyOptions = {}): Classified {
  const key = {PK: readString(item, 'PK') ?? '', SK: readString(item, 'SK') ?? ''}
  if (key.PK === migrationRecordKey.PK && key.SK === migrationRecordKey.SK) {
    return {kind: 'current', type: 'migration', namespace: REGISTRY_NAMESPACE}
  }
  const current = parseKey(key)
  if (current) return classifyCurrent(item, key, current, options)
  const legacy = parseLegacyKey(key)
  const old = legacy && classifyLegacy(item, legacy)
  return old ?? {kind: 'unknown', key}
}

/** Where a record of an older layout belongs in the namespace with that id. */
export function targetKey(record: OldRecord, namespace: string): Key {
  switch (record.type) {
    case 'entity':
      return keys.entity(namespace, record.entity)
    case 'bucket':
      return keys.bucket(namespace, record.entity, record.resource, record.shard ?? 0)
    case 'limits':
      return configKey(namespace, record.scope)
    case 'usage':
      return keys.usage(namespace, record.entity, record.resource, record.window, record.start)
    case 'audit':
      return keys.audit(namespace, record.entity, record.eventId)
    case 'version':
      return keys.version()
    case 'registry':
      return record.registry === 'resources' ? keys.resourceRegistry(namespace) : keys.entityConfigRegistry(namespace)
    case 'settings':
      return record.settings === 'system' ? keys.systemConfig(namespace) : keys.provisioner(namespace)
  }
}

function classifyCurrent(item: Item, key: Key, current: ParsedKey, options: ClassifyOptions): Classified {
  const namespace = 'namespace' in current ? current.namespace : REGISTRY_NAMESPACE
  const isRegistry = namespace === REGISTRY_NAMESPACE
  if (isRegistry ? 'namespace' in current : !isNamespaceId(namespace)) return {kind: 'unknown', key}
  if (current.record === 'namespace-by-name' || current.record === 'namespace-by-id') {
    return {kind: 'current', type: 'namespace', namespace}
  }
  const identity = identify(item, current)
  if (!identity) return {kind: 'unknown', key}
  if (namespace === LITERAL_DEFAULT && options.literalDefaultMoves) {
    return {kind: 'old', generation: 5, namespace, ...identity}
  }
  return {kind: 'current', type: identity.type, namespace}
}

function classifyLegacy(stored: Item, legacy: LegacyKey): OldRecord | undefined {
  const {namespace} = legacy
  if (namespace !== undefined && !isNamespaceId(namespace)) return undefined
  const item = flatten(stored)
  const nested = stored.data !== undefined && 'M' in stored.data
  const old = (generation: OldGeneration, identity: RecordIdentity): OldRecord => ({
    kind: 'old',
    generation: namespace === undefined ? generation : 5,
    namespace,
    ...identity,
  })
  switch (legacy.record) {
    case 'per-limit-bucket': {
      const {entity, resource, limit} = legacy
      const isBucket = hasNumbers(item, 'tokens_milli', 'last_refill_ms', 'refill_amount_milli', 'refill_period_ms')
      return isBucket ? old(nested ? 1 : 2, {type: 'bucket', entity, resource, limit, shard: undefined}) : undefined
    }
    case 'composite-bucket': {
      const {entity, resource} = legacy
      const isBucket = resource !== '' && hasLimitState(item)
      // The last releases with such buckets copied the entity's cascade into them.
      const generation = 'cascade' in item ? 4 : 3
      const identity = {type: 'bucket', entity, resource, limit: undefined, shard: undefined} as const
      return isBucket ? old(generation, identity) : undefined
    }
    case 'limit-config': {
      const {scope, limit} = legacy
      const isLimit = limit !== '' && hasNumbers(item, 'capacity', 'refill_amount', 'refill_period_seconds')
      return isLimit ? old(nested ? 1 : 2, {type: 'limits', scope, limit}) : undefined
    }
    case 'version': {
      const version = readString(item, 'schema_version')
      return version === undefined ? undefined : old(nested ? 1 : generationOfSchema(version), {type: 'version'})
    }
    case 'unprefixed': {
      const identity = identify(item, legacy.current)
      // State of declarative limits, and window types in the keys of usage, are younger than namespaces.
      if (legacy.current.record === 'provisioner' || isTypedUsage(stored)) return undefined
      return identity && old(nested ? 1 : firstGenerationOf(identity), identity)
    }
  }
}

/** The generation that brought the flat shape which a record without namespace has. */
function firstGenerationOf(identity: RecordIdentity): OldGeneration {
  if (identity.type === 'usage') return 1
  if (identity.type === 'limits') return 4
  return identity.type === 'registry' && identity.registry === 'entity-configs' ? 4 : 2
}

/** What releases before namespaces wrote into the version record; 1.0.0 is the oldest, not the newest. */
function generationOfSchema(version: string): OldGeneration {
  if (version === '0.7.0') return 3
  return version === '1.0.0' ? 2 : 4
}

const isTypedUsage = (item: Item): boolean => /#(daily|monthly)$/.test(readString(item, 'SK') ?? '')
