import {NO_SCHEDULE} from '../core/calendar/stored-schedule.js'
import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import {type Item, readBigInt, readString} from './attribute-value.js'
import {attributes, indexes, keyNames} from './attributes.js'
import {parseItemKey} from './keys.js'
import {isFeedbackAttribute, KIND_SUFFIXES} from './kind-attributes.js'
import {isRefusalAttribute} from './refusal-counts.js'
import {isSlotAttribute} from './slot-attributes.js'

/**
 * zae-limiter added these without changing its schema version, so only attributes show them. `since` is the feature's
 * first release. zael refuses records with `unknown`, an attribute that no release up to 0.17 has, but keeps their
 * attributes.
 */
export const PEER_FEATURES = {
  disabled: {since: '0.12', what: 'is disabled'},
  schedule: {since: '0.14', what: 'has a schedule'},
  'calendar-quota': {since: '0.14', what: 'has a calendar quota'},
  'session-quota': {since: '0.15', what: 'has a session quota'},
  grants: {since: '0.15', what: 'has grants of a quota'},
  'cascade-policy': {since: '0.16', what: 'has a cascade policy'},
  bypass: {since: '0.17', what: 'bypasses its limits'},
  soft: {since: '0.17', what: 'has a soft limit'},
  'top-up': {since: '0.17', what: 'has a quota that was topped up or reset'},
  'parent-generation': {since: '0.17', what: 'counts moves between parents'},
  unknown: {since: '0.18', what: 'has an attribute that zael does not support'},
} as const satisfies Record<string, {since: string; what: string}>

export type PeerFeature = keyof typeof PEER_FEATURES

/** A feature of a record; without `limit` it concerns the whole record. */
export interface CarriedFeature {
  readonly feature: PeerFeature
  readonly limit?: string
  /** The unknown attribute. */
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

/** By the suffix of a limit's attributes, in buckets and configurations. */
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

/** Suffixes of the attributes that zael writes; a superset of those in configurations. */
const OWN_FIELDS: ReadonlySet<string> = new Set(['tk', 'cp', 'ra', 'rp', 'tc', ...KIND_SUFFIXES])

/** The burst, which has no meaning since 0.10. */
const KNOWN_FIELDS: ReadonlySet<string> = new Set([...OWN_FIELDS, 'bx'])

export function bucketFeatures(item: Item): CarriedFeature[] {
  const found: CarriedFeature[] = []
  for (const name of Object.keys(item)) {
    const feature = BUCKET_FEATURES.get(name)
    if (feature) found.push({feature})
  }
  return [...found, ...limitFeatures(item, ['b_'])]
}

/** Without the access switch, because all levels together decide it: `ConfigRecord.access`. */
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

/** `undefined` if the limit does not exist. A field name may contain `_` too. */
function ownerOf(item: Item, prefix: string, attribute: string): string | undefined {
  for (let end = attribute.lastIndexOf('_'); end > prefix.length; end = attribute.lastIndexOf('_', end - 1)) {
    const limit = attribute.slice(prefix.length, end)
    if (`${prefix}${limit}_cp` in item && limit !== WRITE_PRESSURE_LIMIT) return limit
  }
  return undefined
}

function featureOf(item: Item, prefix: string, limit: string, attribute: string): PeerFeature | undefined {
  // Older clients do not read this prefix, and only session quotas use it.
  if (prefix === 'w_') return 'session-quota'
  const field = attribute.slice(prefix.length + limit.length + 1)
  if (field === 'ra' && readBigInt(item, attribute) === 0n)
    return `${prefix}${limit}_rsa` in item ? 'session-quota' : 'calendar-quota'
  const feature = LIMIT_FEATURES.get(field)
  return feature !== undefined && readString(item, attribute) !== NO_SCHEDULE ? feature : undefined
}

const {disabled: _, ...ownNames} = bucket

const OWN: ReadonlySet<string> = new Set([
  ...[undefined, ...Object.values(indexes)].flatMap(index => keyNames(index)),
  ...Object.values(ownNames),
  attributes.migration.mark,
])

const MARK_PREFIX = 'wn_'

export function isForeign(name: string): boolean {
  const isOwn =
    OWN.has(name) ||
    name.startsWith(MARK_PREFIX) ||
    isRefusalAttribute(name) ||
    isFeedbackAttribute(name) ||
    isSlotAttribute(name) ||
    (name.startsWith('b_') && OWN_FIELDS.has(name.slice(name.lastIndexOf('_') + 1)))
  return !isOwn
}
