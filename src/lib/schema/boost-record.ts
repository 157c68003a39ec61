import {type Item, isoSeconds, type Key, n, readNumber, readString, s} from './attribute-value.js'
import {attributes} from './attributes.js'
import type {ConfigScope} from './config-record.js'
import {type Json, readMap} from './json-attribute.js'
import {keys, parseItemKey, wireKey} from './keys.js'
import {registryIndexKeys} from './registry-records.js'

export interface StoredBoost {
  /** The limit has this boost while its stored schedule begins with these windows. */
  readonly windows: string
  readonly zone: string
  readonly untilMs: number
  readonly since: string
  readonly by: string | undefined
}

/** Distinguishes temporary windows in a configuration from windows that recur every year. Limiters do not read it. */
export interface BoostRecord {
  readonly namespace: string
  readonly scope: ConfigScope
  readonly boosts: ReadonlyMap<string, StoredBoost>
  /** Epoch ms at which the scope's switch expires. */
  readonly accessUntilMs?: number | undefined
  readonly revision: string
}

const names = attributes.boost

export function boostKey(namespace: string, scope: ConfigScope): Key {
  if (scope.level === 'system') return keys.boost(namespace, '', '')
  return keys.boost(namespace, scope.level === 'entity' ? scope.entity : '', scope.resource)
}

export function encodeBoosts({namespace, scope, boosts, accessUntilMs, revision}: BoostRecord): Item {
  const forms = [...boosts].map(([limit, {windows, zone, untilMs, since, by}]) => {
    const form: Item = {windows: s(windows), zone: s(zone), until: n(untilMs), since: s(since)}
    return [limit, {M: by === undefined ? form : {...form, by: s(by)}}] as const
  })
  return {
    ...wireKey(boostKey(namespace, scope)),
    ...registryIndexKeys(namespace),
    [names.boosts]: {M: Object.fromEntries(forms)},
    ...(accessUntilMs !== undefined && {[names.accessUntil]: n(accessUntilMs)}),
    [names.revision]: s(revision),
  }
}

export function decodeBoosts(item: Item): BoostRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'boost') return undefined
  const {namespace, entity, resource} = key
  const boosts = new Map<string, StoredBoost>()
  for (const [limit, form] of Object.entries(readMap(item, names.boosts))) {
    const boost = boostOf(form)
    if (boost) boosts.set(limit, boost)
  }
  const accessUntilMs = readNumber(item, names.accessUntil)
  const revision = readString(item, names.revision) ?? ''
  return {namespace, scope: scopeOf(entity, resource), boosts, accessUntilMs, revision}
}

function scopeOf(entity: string, resource: string): ConfigScope {
  if (entity !== '') return {level: 'entity', entity, resource}
  return resource === '' ? {level: 'system'} : {level: 'resource', resource}
}

function boostOf(form: Json): StoredBoost | undefined {
  if (typeof form !== 'object' || form === null || Array.isArray(form)) return undefined
  const {windows, zone, until, since, by} = form
  if (typeof windows !== 'string' || typeof zone !== 'string' || typeof until !== 'number') return undefined
  return {
    windows,
    zone,
    untilMs: until,
    since: typeof since === 'string' ? since : isoSeconds(0),
    by: typeof by === 'string' ? by : undefined,
  }
}
