import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import type {Item} from './attribute-value.js'
import {attributes, indexes, keyNames} from './attributes.js'
import {parseItemKey} from './keys.js'
import {KIND_SUFFIXES} from './kind-attributes.js'
import {readBigInt, readString} from './read.js'
import {isRefusalAttribute} from './refusal-counts.js'

/**
 * What zae-limiter stores since 0.11 and clients of 0.10 do not know. Its schema version has stayed the same, so only the
 * attributes tell. `since` is the release that stores a feature first; `isHonoured` says whether zael does what it means:
 * a record with another feature is refused, and all its attributes are kept.
 */
export const PEER_FEATURES = {
  disabled: {since: '0.12', what: 'is disabled', isHonoured: true},
  schedule: {since: '0.14', what: 'has a schedule', isHonoured: true},
  'calendar-quota': {since: '0.14', what: 'has a calendar quota', isHonoured: true},
  'session-quota': {since: '0.15', what: 'has a session quota', isHonoured: true},
  grants: {since: '0.15', what: 'has the grants of a quota', isHonoured: true},
  'cascade-policy': {since: '0.16', what: 'has a cascade policy', isHonoured: true},
  bypass: {since: '0.17', what: 'bypasses its limits', isHonoured: true},
  soft: {since: '0.17', what: 'has a soft limit', isHonoured: true},
  'top-up': {since: '0.17', what: 'has a quota that was topped up or reset', isHonoured: true},
  'parent-generation': {since: '0.17', what: 'counts moves between parents', isHonoured: true},
} as const satisfies Record<string, {since: string; what: string; isHonoured: boolean}>

export type PeerFeature = keyof typeof PEER_FEATURES

/** A feature that a record carries, and the limit that has it; without a limit it concerns the whole record. */
export interface CarriedFeature {
  readonly feature: PeerFeature
  readonly limit?: string
}

/** The features that make zael refuse a record. */
export function unsupportedOf(features: readonly CarriedFeature[]): CarriedFeature[] {
  return features.filter(({feature}) => !PEER_FEATURES[feature].isHonoured)
}

const {bucket, config} = attributes

const BUCKET_FEATURES: ReadonlyMap<string, PeerFeature> = new Map([
  [bucket.disabled, 'disabled'],
  [bucket.bypass, 'bypass'],
  [bucket.schedule, 'schedule'],
  [bucket.resets, 'calendar-quota'],
  [bucket.parentGeneration, 'parent-generation'],
])

/** By what the names of a limit's attributes end with, in buckets and configurations. */
const LIMIT_FEATURES: ReadonlyMap<string, PeerFeature> = new Map([
  ['sched', 'schedule'],
  ['rsched', 'calendar-quota'],
  ['rsa', 'session-quota'],
  ['ws', 'session-quota'],
  ['wa', 'session-quota'],
  ['wtc', 'session-quota'],
  ['gc', 'grants'],
  ['tu', 'top-up'],
  ['rn', 'top-up'],
  ['soft', 'soft'],
])

/** In place of a schedule: the limit has none, whatever the item's default is. */
const NO_SCHEDULE = '-'

/** The features of a bucket item. Leftovers of a limit that is gone are none. */
export function bucketFeatures(item: Item): CarriedFeature[] {
  const found: CarriedFeature[] = []
  for (const name of Object.keys(item)) {
    const feature = BUCKET_FEATURES.get(name)
    if (feature) found.push({feature})
  }
  return [...found, ...limitFeatures(item, ['b_'])]
}

/** The features of a configuration item. Whether a switch counts, all levels together decide: `ConfigRecord.access`. */
export function configFeatures(item: Item): CarriedFeature[] {
  const found: CarriedFeature[] = config.cascade in item ? [{feature: 'cascade-policy'}] : []
  return [...found, ...limitFeatures(item, ['l_', 'w_'])]
}

/** The features that any record of the table carries, each once. */
export function featuresIn(item: Item): Set<PeerFeature> {
  const record = parseItemKey(item)?.record
  if (record === 'bucket') return new Set(bucketFeatures(item).map(({feature}) => feature))
  if (record === 'operation') return new Set(['top-up'])
  if (record === 'entity') return new Set(bucket.parentGeneration in item ? ['parent-generation'] : [])
  if (record !== 'entity-config' && record !== 'resource-config' && record !== 'system-config') return new Set()
  const features = new Set(configFeatures(item).map(({feature}) => feature))
  if (config.disabled in item) features.add(readString(item, config.disabled) === undefined ? 'disabled' : 'bypass')
  return features
}

/** Whether a level with these features has limits, even if zael reads none of them. */
export const hasLimitFeature = (features: readonly CarriedFeature[] = []): boolean =>
  features.some(({limit}) => limit !== undefined)

function limitFeatures(item: Item, prefixes: readonly string[]): CarriedFeature[] {
  const found = new Map<string, CarriedFeature>()
  for (const attribute of Object.keys(item)) {
    const prefix = prefixes.find(each => attribute.startsWith(each))
    const end = attribute.lastIndexOf('_')
    if (prefix === undefined || end <= prefix.length) continue
    const limit = attribute.slice(prefix.length, end)
    const exists = `${prefix}${limit}_cp` in item && limit !== WRITE_PRESSURE_LIMIT
    const feature = exists ? featureOf(item, prefix, limit, attribute) : undefined
    if (feature) found.set(`${feature} ${limit}`, {feature, limit})
  }
  return [...found.values()]
}

function featureOf(item: Item, prefix: string, limit: string, attribute: string): PeerFeature | undefined {
  // Under this prefix, which older clients do not read, is nothing else.
  if (prefix === 'w_') return 'session-quota'
  const field = attribute.slice(prefix.length + limit.length + 1)
  if (field === 'ra' && readBigInt(item, attribute) === 0n)
    return `${prefix}${limit}_rsa` in item ? 'session-quota' : 'calendar-quota'
  const feature = LIMIT_FEATURES.get(field)
  return feature !== undefined && readString(item, attribute) !== NO_SCHEDULE ? feature : undefined
}

const {disabled: _, ...ownNames} = bucket

/** What zael writes itself, besides the attributes of limits and the marks of writes. */
const OWN: ReadonlySet<string> = new Set([
  ...[undefined, ...Object.values(indexes)].flatMap(index => keyNames(index)),
  ...Object.values(ownNames),
  attributes.migration.mark,
])

/** What the attributes of marks begin with, and what those of limits end with. */
const MARK_PREFIX = 'wn_'
const OWN_FIELDS: ReadonlySet<string> = new Set(['tk', 'cp', 'ra', 'rp', 'tc', ...KIND_SUFFIXES])

/** The attributes of a bucket item that zael does not write: those of newer clients. `undefined` when there are none. */
export function foreignAttributes(item: Item): Item | undefined {
  let foreign: Item | undefined
  for (const name of Object.keys(item)) {
    if (OWN.has(name) || name.startsWith(MARK_PREFIX) || isRefusalAttribute(name)) continue
    if (name.startsWith('b_') && OWN_FIELDS.has(name.slice(name.lastIndexOf('_') + 1))) continue
    foreign ??= {}
    foreign[name] = item[name] as Item[string]
  }
  return foreign
}
