import {isNamespaceId, REGISTRY_NAMESPACE} from '../../core/names.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {configKey} from '../../schema/config-record.js'
import {keyOf, keys, type ParsedKey, parseKey, spellKey} from '../../schema/keys.js'
import {flatten, isNested} from '../../schema/legacy-item.js'
import {type LegacyKey, LITERAL_DEFAULT, parseLegacyKey} from '../../schema/legacy-key.js'
import {migrationRecordKey} from '../../schema/migration-record.js'
import {
  hasBalance,
  hasWindowInKey,
  identifyRecord,
  isLimitConfig,
  isPerLimitBucket,
  knowsCascade,
  type RecordIdentity,
  readSchemaVersion,
} from '../layouts/record-shapes.js'

/** Layouts: 1 nested (0.1–0.5), 2 flat (0.6), 3 composite buckets (0.7), 4 configs (0.8–0.9), 5 namespaces (0.10.0). */
export type Generation = 1 | 2 | 3 | 4 | 5 | 6

export type OldGeneration = Exclude<Generation, 6>

/** If later layouts kept its format, `generation` is the layout that introduced it. */
export type OldRecord = {
  readonly kind: 'old'
  readonly generation: OldGeneration
  /** The id in the key. `undefined` before namespaces. */
  readonly namespace: string | undefined
} & RecordIdentity

export type OldRecordType = RecordIdentity['type']

/** `migration`: progress of `zael migrate`. `operation`: resets, top-ups and manifests applied by zae-limiter 0.17. */
export type CurrentRecordType = OldRecordType | 'namespace' | 'migration' | 'operation'

export type ClassifiedRecord =
  | OldRecord
  | {readonly kind: 'current'; readonly type: CurrentRecordType; readonly namespace: string}
  | {readonly kind: 'unknown'; readonly key: Key}

interface ClassifyOptions {
  /** Whether items under the unregistered id `default` move to the namespace `default`. */
  readonly literalDefaultMoves?: boolean
}

/** By key and attributes. Ignores the version record: some releases wrote it wrong (C-8). */
export function classifyItem(item: Item, options: ClassifyOptions = {}): ClassifiedRecord {
  const key = keyOf(item)
  if (spellKey(key) === spellKey(migrationRecordKey)) {
    return {kind: 'current', type: 'migration', namespace: REGISTRY_NAMESPACE}
  }
  const current = parseKey(key)
  if (current) return classifyCurrent(item, key, current, options)
  const legacy = parseLegacyKey(key)
  const old = legacy && classifyLegacy(item, legacy)
  return old ?? {kind: 'unknown', key}
}

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

function classifyCurrent(item: Item, key: Key, current: ParsedKey, options: ClassifyOptions): ClassifiedRecord {
  const namespace = 'namespace' in current ? current.namespace : REGISTRY_NAMESPACE
  const isRegistry = namespace === REGISTRY_NAMESPACE
  if (isRegistry ? 'namespace' in current : !isNamespaceId(namespace)) return {kind: 'unknown', key}
  if (current.record === 'namespace-by-name' || current.record === 'namespace-by-id') {
    return {kind: 'current', type: 'namespace', namespace}
  }
  if (current.record === 'rollups' || current.record === 'rollup-agenda') {
    return {kind: 'current', type: 'operation', namespace}
  }
  if (current.record === 'units' || current.record === 'boost' || current.record === 'provisioner-part') {
    return {kind: 'current', type: 'settings', namespace}
  }
  if (
    current.record === 'operation' ||
    current.record === 'holder' ||
    current.record === 'reservation' ||
    current.record === 'pending-apply' ||
    current.record === 'apply-lock'
  ) {
    return {kind: 'current', type: 'operation', namespace}
  }
  const identity = identifyRecord(item, current)
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
  const nested = isNested(stored)
  const old = (generation: OldGeneration, identity: RecordIdentity): OldRecord => ({
    kind: 'old',
    generation: namespace === undefined ? generation : 5,
    namespace,
    ...identity,
  })
  switch (legacy.record) {
    case 'per-limit-bucket': {
      if (!isPerLimitBucket(item)) return undefined
      const {entity, resource, limit} = legacy
      return old(nested ? 1 : 2, {type: 'bucket', entity, resource, limit, shard: undefined})
    }
    case 'composite-bucket': {
      const {entity, resource} = legacy
      if (resource === '' || !hasBalance(item)) return undefined
      return old(knowsCascade(item) ? 4 : 3, {type: 'bucket', entity, resource, limit: undefined, shard: undefined})
    }
    case 'limit-config': {
      const {scope, limit} = legacy
      if (limit === '' || !isLimitConfig(item)) return undefined
      return old(nested ? 1 : 2, {type: 'limits', scope, limit})
    }
    case 'version': {
      const version = readSchemaVersion(item)
      return version === undefined ? undefined : old(nested ? 1 : generationOfSchema(version), {type: 'version'})
    }
    case 'unprefixed': {
      // No release wrote provisioner records, or window types in usage keys, without a namespace.
      if (legacy.current.record === 'provisioner' || hasWindowInKey(stored)) return undefined
      const identity = identifyRecord(item, legacy.current)
      return identity && old(nested ? 1 : firstGenerationOf(identity), identity)
    }
  }
}

function firstGenerationOf(identity: RecordIdentity): OldGeneration {
  if (identity.type === 'usage') return 1
  if (identity.type === 'limits') return 4
  return identity.type === 'registry' && identity.registry === 'entity-configs' ? 4 : 2
}

/** Before namespaces, 1.0.0 was the oldest version, not the newest. */
function generationOfSchema(version: string): OldGeneration {
  if (version === '0.7.0') return 3
  return version === '1.0.0' ? 2 : 4
}
