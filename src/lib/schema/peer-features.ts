import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import type {Item} from './attribute-value.js'
import {attributes, indexes, keyNames} from './attributes.js'
import {parseItemKey} from './keys.js'
import {isLessonAttribute, KIND_SUFFIXES} from './kind-attributes.js'
import {readBigInt, readString} from './read.js'
import {isRefusalAttribute} from './refusal-counts.js'

/**
 * What zae-limiter stores since 0.11 and clients of 0.10 do not know. Its schema version has stayed the same, so only the
 * attributes tell. `since` is the release that stores a feature first. zael does what they mean, but for `unknown`: a limit
 * with an attribute that no release up to 0.17 has. Its record is refused, and all its attributes are kept.
 */
export const PEER_FEATURES = {
  disabled: {since: '0.12', what: 'is disabled'},
  schedule: {since: '0.14', what: 'has a schedule'},
  'calendar-quota': {since: '0.14', what: 'has a calendar quota'},
  'session-quota': {since: '0.15', what: 'has a session quota'},
  grants: {since: '0.15', what: 'has the grants of a quota'},
  'cascade-policy': {since: '0.16', what: 'has a cascade policy'},
  bypass: {since: '0.17', what: 'bypasses its limits'},
  soft: {since: '0.17', what: 'has a soft limit'},
  'top-up': {since: '0.17', what: 'has a quota that was topped up or reset'},
  'parent-generation': {since: '0.17', what: 'counts moves between parents'},
  unknown: {since: '0.18', what: 'has an attribute that zael does not know'},
} as const satisfies Record<string, {since: string; what: string}>

export type PeerFeature = keyof typeof PEER_FEATURES

/** A feature that a record carries, and the limit that has it; without a limit it concerns the whole record. */
export interface CarriedFeature {
  readonly feature: PeerFeature
  readonly limit?: string
  /** The attribute that is not known. */
  readonly attribute?: string
}

export const isSupported = (feature: PeerFeature): boolean => feature !== 'unknown'

export function unsupportedOf(features: readonly CarriedFeature[]): CarriedFeature[] {
  return features.filter(({feature}) => !isSupported(feature))
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

/** What the names of the attributes of limits end with that zael writes to buckets; those of configurations are among them. */
const OWN_FIELDS: ReadonlySet<string> = new Set(['tk', 'cp', 'ra', 'rp', 'tc', ...KIND_SUFFIXES])

/** The burst that releases before 0.10 stored means nothing since. */
const KNOWN_FIELDS: ReadonlySet<string> = new Set([...OWN_FIELDS, 'bx'])

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
    if (!KNOWN_FIELDS.has(attribute.slice(end + 1))) {
      const owner = ownerOf(item, prefix, attribute)
      if (owner !== undefined) found.set(attribute, {feature: 'unknown', limit: owner, attribute})
      continue
    }
    const exists = `${prefix}${limit}_cp` in item && limit !== WRITE_PRESSURE_LIMIT
    const feature = exists ? featureOf(item, prefix, limit, attribute) : undefined
    if (feature) found.set(`${feature} ${limit}`, {feature, limit})
  }
  return [...found.values()]
}

/** The limit that an attribute of an unknown field belongs to, if it exists; the name of a field may have a `_` too. */
function ownerOf(item: Item, prefix: string, attribute: string): string | undefined {
  for (let end = attribute.lastIndexOf('_'); end > prefix.length; end = attribute.lastIndexOf('_', end - 1)) {
    const limit = attribute.slice(prefix.length, end)
    if (`${prefix}${limit}_cp` in item && limit !== WRITE_PRESSURE_LIMIT) return limit
  }
  return undefined
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

const MARK_PREFIX = 'wn_'

/** Whether an attribute of a bucket item is one that zael does not write: that of a newer client. */
export function isForeign(name: string): boolean {
  const isOwn =
    OWN.has(name) ||
    name.startsWith(MARK_PREFIX) ||
    isRefusalAttribute(name) ||
    isLessonAttribute(name) ||
    (name.startsWith('b_') && OWN_FIELDS.has(name.slice(name.lastIndexOf('_') + 1)))
  return !isOwn
}
