import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {WINDOWS, type Window} from '../../core/window.js'
import {type Item, readNumber, readString} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {type ConfigScope, decodeConfigLimits, hasConfigVersion, hasSettings} from '../../schema/config-record.js'
import {isKeyAttribute, type ParsedKey} from '../../schema/keys.js'
import {flatten} from '../../schema/legacy-item.js'
import {parseLegacyKey} from '../../schema/legacy-key.js'

export type RecordIdentity =
  | {readonly type: 'entity'; readonly entity: string}
  /** `limit` is `undefined` if the item holds all limits, `shard` if it is in its entity's partition. */
  | {
      readonly type: 'bucket'
      readonly entity: string
      readonly resource: string
      readonly limit: string | undefined
      readonly shard: number | undefined
    }
  | {readonly type: 'limits'; readonly scope: ConfigScope; readonly limit: string | undefined}
  /** `window` is the label. A record of midnight also counts other windows (D-11). */
  | {
      readonly type: 'usage'
      readonly entity: string
      readonly resource: string
      readonly window: Window
      readonly start: string
    }
  | {readonly type: 'audit'; readonly entity: string; readonly eventId: string}
  | {readonly type: 'version'}
  | {readonly type: 'registry'; readonly registry: 'resources' | 'entity-configs'}
  /** `system`: a system configuration without limits. */
  | {readonly type: 'settings'; readonly settings: 'system' | 'provisioner'}

/** `undefined`: the item lacks the attributes that its key implies. */
export function identifyRecord(item: Item, key: ParsedKey): RecordIdentity | undefined {
  switch (key.record) {
    case 'entity':
      return readString(item, 'entity_id') === key.entity && hasStrings(item, 'name', 'created_at')
        ? {type: 'entity', entity: key.entity}
        : undefined
    case 'bucket': {
      const {entity, resource, shard} = key
      return hasBalance(item) ? {type: 'bucket', entity, resource, limit: undefined, shard} : undefined
    }
    case 'entity-config':
      return identifyConfig(item, {level: 'entity', entity: key.entity, resource: key.resource})
    case 'resource-config':
      return identifyConfig(item, {level: 'resource', resource: key.resource})
    case 'system-config':
      if (decodeConfigLimits(item).length > 0) return identifyConfig(item, {level: 'system'})
      return hasConfigVersion(item) || hasSettings(item) ? {type: 'settings', settings: 'system'} : undefined
    case 'usage':
      return identifyUsage(item, key)
    case 'audit':
      return hasStrings(item, 'action', 'timestamp')
        ? {type: 'audit', entity: key.entity, eventId: key.eventId}
        : undefined
    case 'version':
      return hasStrings(item, 'schema_version') ? {type: 'version'} : undefined
    case 'resource-registry':
      return !item.resources || 'SS' in item.resources ? {type: 'registry', registry: 'resources'} : undefined
    case 'entity-config-registry':
      return {type: 'registry', registry: 'entity-configs'}
    case 'provisioner':
      return {type: 'settings', settings: 'provisioner'}
    default:
      return undefined
  }
}

function identifyUsage(item: Item, key: Extract<ParsedKey, {record: 'usage'}>): RecordIdentity | undefined {
  const window = WINDOWS.find(known => known === readString(item, 'window'))
  if (!window || Number.isNaN(Date.parse(key.start))) return undefined
  return {type: 'usage', entity: key.entity, resource: key.resource, window, start: key.start}
}

/** Without limits, the configuration version still marks a configuration. */
function identifyConfig(item: Item, scope: ConfigScope): RecordIdentity | undefined {
  const isConfig = hasConfigVersion(item) || decodeConfigLimits(item).length > 0
  return isConfig ? {type: 'limits', scope, limit: undefined} : undefined
}

/** An adjustment of a deleted item leaves only a balance. */
export function hasBalance(item: Item): boolean {
  return Object.keys(item).some(name => /^b_.+_tk$/.test(name) && readNumber(item, name) !== undefined)
}

export const isPerLimitBucket = (item: Item): boolean =>
  hasNumbers(item, 'tokens_milli', 'last_refill_ms', 'refill_amount_milli', 'refill_period_ms')

export const isLimitConfig = (item: Item): boolean =>
  hasNumbers(item, 'capacity', 'refill_amount', 'refill_period_seconds')

/** Since 0.9, clients copy it from the entity. */
export const knowsCascade = (item: Item): boolean => 'cascade' in item

export const hasWindowInKey = (item: Item): boolean => /#(daily|monthly)$/.test(readString(item, 'SK') ?? '')

export const readSchemaVersion = (item: Item): string | undefined => readString(flatten(item), 'schema_version')

const hasStrings = (item: Item, ...names: string[]): boolean =>
  names.every(name => readString(item, name) !== undefined)

const hasNumbers = (item: Item, ...names: string[]): boolean =>
  names.every(name => readNumber(item, name) !== undefined)

/**
 * Attributes that clients change and that the copy contains. A condition on all attributes could exceed DynamoDB's
 * limits.
 */
export function changingAttributes(item: Item, type: RecordIdentity['type']): readonly string[] {
  const names = Object.keys(item).filter(name => !isKeyAttribute(name))
  switch (type) {
    // Never changed, or not copied: existence is enough.
    case 'audit':
    case 'registry':
    case 'version':
      return []
    case 'bucket':
      return names.filter(name => isBucketState(item, name))
    case 'usage':
      // Every change also counts an event.
      return attributes.usage.totalEvents in item ? [attributes.usage.totalEvents] : names
    case 'limits':
      return names.filter(name => !isReplacedByBurst(item, name) && !/^GSI\d[PS]K$/.test(name))
    default:
      return names
  }
}

const PER_LIMIT_STATE = ['tokens_milli', 'last_refill_ms', 'total_consumed_milli']

/** Refill instant and consumption, or the balance if consumption is not counted. `data` may hold them all. */
function isBucketState(item: Item, name: string): boolean {
  if (name === 'rf' || name === 'data' || PER_LIMIT_STATE.includes(name)) return true
  const [, limit, field] = /^b_(.+)_(tk|tc)$/.exec(name) ?? []
  if (limit === undefined || limit === WRITE_PRESSURE_LIMIT) return false
  return field === 'tc' || !(`b_${limit}_tc` in item)
}

/** A burst replaces the capacity of its limit in the copy. */
const isReplacedByBurst = (item: Item, name: string): boolean =>
  name.endsWith('_cp') && name.replace(/cp$/, 'bx') in item

/**
 * From releases that stored each limit as an item. The burst was the ceiling, so it becomes the capacity. `undefined`:
 * another kind of record.
 */
export function decodeLimitConfig(stored: Item) {
  const key = parseLegacyKey({PK: readString(stored, 'PK') ?? '', SK: readString(stored, 'SK') ?? ''})
  if (key?.record !== 'limit-config') return undefined
  const item = flatten(stored)
  const rate = readNumber(item, 'capacity') ?? 0
  return {
    namespace: key.namespace,
    scope: key.scope,
    limit: {
      name: key.limit,
      capacity: readNumber(item, 'burst') ?? rate,
      refillAmount: readNumber(item, 'refill_amount') ?? rate,
      refillPeriodSeconds: readNumber(item, 'refill_period_seconds') ?? 60,
    },
  }
}
