import {WINDOWS, type Window} from '../../core/window.js'
import type {Item} from '../../schema/attribute-value.js'
import {type ConfigScope, decodeConfigLimits} from '../../schema/config-record.js'
import type {ParsedKey} from '../../schema/keys.js'
import {readNumber, readString} from '../../schema/read.js'

/** What kind of record an item is, and which one of its kind. */
export type RecordIdentity =
  | {readonly type: 'entity'; readonly entity: string}
  /** `limit` is `undefined` when the item holds all limits; `shard` when it lies in its entity's partition. */
  | {
      readonly type: 'bucket'
      readonly entity: string
      readonly resource: string
      readonly limit: string | undefined
      readonly shard: number | undefined
    }
  /** `limit` is `undefined` when the item holds all limits of the scope. */
  | {readonly type: 'limits'; readonly scope: ConfigScope; readonly limit: string | undefined}
  /** `window` is what the record calls itself; around midnight it also counts other windows (D-11). */
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
  /** `system` is a system configuration without limits. */
  | {readonly type: 'settings'; readonly settings: 'system' | 'provisioner'}

/** `undefined` when the attributes are not those of the record that the key names. */
export function identify(item: Item, key: ParsedKey): RecordIdentity | undefined {
  switch (key.record) {
    case 'entity':
      return readString(item, 'entity_id') === key.entity && hasStrings(item, 'name', 'created_at')
        ? {type: 'entity', entity: key.entity}
        : undefined
    case 'bucket': {
      const {entity, resource, shard} = key
      return hasLimitState(item) ? {type: 'bucket', entity, resource, limit: undefined, shard} : undefined
    }
    case 'entity-config':
      return limitsOf(item, {level: 'entity', entity: key.entity, resource: key.resource})
    case 'resource-config':
      return limitsOf(item, {level: 'resource', resource: key.resource})
    case 'system-config':
      if (decodeConfigLimits(item).length > 0) return limitsOf(item, {level: 'system'})
      return hasSettings(item) ? {type: 'settings', settings: 'system'} : undefined
    case 'usage':
      return usageOf(item, key)
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

function usageOf(item: Item, key: Extract<ParsedKey, {record: 'usage'}>): RecordIdentity | undefined {
  const window = WINDOWS.find(known => known === readString(item, 'window'))
  if (!window || Number.isNaN(Date.parse(key.start))) return undefined
  return {type: 'usage', entity: key.entity, resource: key.resource, window, start: key.start}
}

/** All limits may have been taken away; `config_version` then still tells a configuration from something else. */
function limitsOf(item: Item, scope: ConfigScope): RecordIdentity | undefined {
  const isConfig = 'config_version' in item || decodeConfigLimits(item).length > 0
  return isConfig ? {type: 'limits', scope, limit: undefined} : undefined
}

const hasSettings = (item: Item): boolean =>
  ['config_version', 'on_unavailable', 'audit_retention_days'].some(name => name in item)

/** Balances suffice: an adjustment after the item was gone left nothing else. */
export function hasLimitState(item: Item): boolean {
  return Object.keys(item).some(name => /^b_.+_tk$/.test(name) && readNumber(item, name) !== undefined)
}

const hasStrings = (item: Item, ...names: string[]): boolean =>
  names.every(name => readString(item, name) !== undefined)

export const hasNumbers = (item: Item, ...names: string[]): boolean =>
  names.every(name => readNumber(item, name) !== undefined)
