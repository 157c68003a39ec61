import {windowOfEntry} from '../core/calendar/kind-definition.js'
import type {LimitWindow} from '../core/calendar/schedule.js'
import {formatResets, formatWindows, parseResets, parseWindows} from '../core/calendar/stored-schedule.js'
import {
  DEFAULT_ZONE,
  isCalendarReset,
  isSessionReset,
  type Limit,
  QUOTA_PERIOD_SECONDS,
  type ScheduleEntry,
} from '../core/limits/limit.js'
import {bool, type Item, n, readBoolean, readNumber, readString, s} from './attribute-value.js'
import {attributes} from './attributes.js'

const FIELDS = {
  capacity: 'cp',
  refillAmount: 'ra',
  refillPeriod: 'rp',
  schedule: 'sched',
  resets: 'rsched',
  sessionSeconds: 'rsa',
  soft: 'soft',
} as const

const LIMIT_PREFIX = 'l_'

/** For session quotas: clients that don't know them find nothing. */
const SESSION_PREFIX = 'w_'

/** For in-flight limits: one number, the slots. Clients that don't know it find nothing. */
const SLOTS_PREFIX = 'if_'

/** A limit uses only one of them. */
const PREFIXES = [LIMIT_PREFIX, SESSION_PREFIX, SLOTS_PREFIX] as const

type Field = keyof typeof FIELDS

const attributeOf = (prefix: string, limit: string, field: Field): string => `${prefix}${limit}_${FIELDS[field]}`

export const configAttribute = (limit: string, field: Field): string => attributeOf(LIMIT_PREFIX, limit, field)

export const slotsAttribute = (limit: string): string => SLOTS_PREFIX + limit

const capacityAttribute = (prefix: string, limit: string): string =>
  prefix === SLOTS_PREFIX ? slotsAttribute(limit) : attributeOf(prefix, limit, 'capacity')

const prefixIn = (attribute: string): string | undefined => PREFIXES.find(prefix => attribute.startsWith(prefix))

/** Includes fields that only older or newer clients know. */
export function limitAttributesIn(item: Item = {}): string[] {
  return Object.keys(item).filter(name => prefixIn(name) !== undefined && limitOfAttribute(name) !== '')
}

export function limitOfAttribute(attribute: string): string {
  if (attribute.startsWith(SLOTS_PREFIX)) return attribute.slice(SLOTS_PREFIX.length)
  return attribute.slice(LIMIT_PREFIX.length, attribute.lastIndexOf('_'))
}

/** Whether the limit is now stored under another prefix. No client can read both. */
export function isOtherForm(attribute: string, written: Item): boolean {
  const limit = limitOfAttribute(attribute)
  return PREFIXES.some(prefix => !attribute.startsWith(prefix) && capacityAttribute(prefix, limit) in written)
}

export function staleTimeZone(item: Item, removed: readonly string[], written: Item = {}): string[] {
  const {timeZone} = attributes.config
  const isSchedule = (name: string): boolean =>
    [FIELDS.schedule, FIELDS.resets].some(field => name.endsWith(`_${field}`))
  const isUsed = limitAttributesIn(item).some(name => isSchedule(name) && !removed.includes(name))
  return timeZone in item && !(timeZone in written) && !isUsed ? [timeZone] : []
}

export function encodeConfigLimits(limits: readonly Limit[]): Item {
  const item: Item = {}
  for (const {name, capacity, refillAmount, refillPeriodSeconds, reset, inFlight, schedule, soft} of limits) {
    if (inFlight) {
      item[slotsAttribute(name)] = n(capacity)
      continue
    }
    const at = (field: Field): string => attributeOf(isSessionReset(reset) ? SESSION_PREFIX : LIMIT_PREFIX, name, field)
    item[at('capacity')] = n(capacity)
    item[at('refillAmount')] = n(refillAmount)
    item[at('refillPeriod')] = n(refillPeriodSeconds)
    if (schedule) item[at('schedule')] = s(formatWindows(schedule.map(windowOfEntry)))
    if (isCalendarReset(reset)) item[at('resets')] = s(formatResets(reset.crons))
    if (isSessionReset(reset)) item[at('sessionSeconds')] = n(reset.afterSeconds)
    if (soft) item[at('soft')] = bool(true)
  }
  const zone = limits.find(({timeZone}) => timeZone !== undefined)?.timeZone
  if (zone !== undefined) item[attributes.config.timeZone] = s(zone)
  return item
}

export function configAttributeCount({reset, inFlight, schedule, soft}: Limit): number {
  if (inFlight) return 1
  return 3 + [reset, schedule, soft].filter(each => each !== undefined).length
}

/** Sorted by name. Calls `refuse` for limits whose schedule cannot be evaluated. */
export function readConfigLimits(item: Item, refuse: (limit: string, error: unknown) => void): Limit[] {
  const zone = readString(item, attributes.config.timeZone) || DEFAULT_ZONE
  const limits: Limit[] = []
  for (const attribute of limitAttributesIn(item)) {
    const name = limitOfAttribute(attribute)
    const prefix = prefixIn(attribute) as string
    if (attribute !== capacityAttribute(prefix, name)) continue
    try {
      const limit = readLimit(item, prefix, name, zone)
      if (limit) limits.push(limit)
    } catch (error) {
      refuse(name, error)
    }
  }
  return limits.sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** Defaults of declarative limits: refill = capacity, every minute. */
function readLimit(item: Item, prefix: string, name: string, zone: string): Limit | undefined {
  const at = (field: Field): string => attributeOf(prefix, name, field)
  const capacity = readNumber(item, capacityAttribute(prefix, name))
  if (capacity === undefined) return undefined
  if (prefix === SLOTS_PREFIX) {
    // A client that does not know the slots stored another form of the limit later.
    if (isOtherForm(slotsAttribute(name), item)) return undefined
    return {name, capacity, refillAmount: 0, refillPeriodSeconds: QUOTA_PERIOD_SECONDS, inFlight: true}
  }
  const crons = parseResets(readString(item, at('resets')) ?? '')
  const afterSeconds = readNumber(item, at('sessionSeconds'))
  const schedule = parseWindows(readString(item, at('schedule')) ?? '').map(entryOf)
  const reset = crons.length > 0 ? {crons} : afterSeconds === undefined ? undefined : {afterSeconds}
  return {
    name,
    capacity,
    refillAmount: readNumber(item, at('refillAmount')) ?? (reset ? 0 : capacity),
    // Some clients store another period for a quota, where it has no meaning.
    refillPeriodSeconds: reset ? QUOTA_PERIOD_SECONDS : (readNumber(item, at('refillPeriod')) ?? 60),
    ...(reset && {reset}),
    ...(schedule.length > 0 && {schedule}),
    ...((schedule.length > 0 || crons.length > 0) && {timeZone: zone}),
    ...(readBoolean(item, at('soft')) && {soft: true}),
  }
}

function entryOf({scalePerMille, ...window}: LimitWindow): ScheduleEntry {
  return scalePerMille === undefined ? window : {cron: window.cron, scale: scalePerMille / 1000}
}

export function hasCapacity(item: Item, limit: string): boolean {
  return PREFIXES.some(prefix => (readNumber(item, capacityAttribute(prefix, limit)) ?? 0) > 0)
}

export function withoutLimits(item: Item): Item {
  const fields = Object.values(FIELDS)
  const own = new Set(
    limitAttributesIn(item).filter(
      name => name.startsWith(SLOTS_PREFIX) || fields.some(field => name.endsWith(`_${field}`)),
    ),
  )
  return Object.fromEntries(Object.entries(item).filter(([name]) => !own.has(name)))
}
