import {
  baseOf,
  boostedOf,
  isCalendarReset,
  isSessionReset,
  type Limit,
  type LimitInput,
  makeLimit,
  type ScheduleEntry,
} from '../core/limits/limit.js'
import {type Item, isoSeconds, type Key, NULL, n, readNumber, readString, s, texts} from './attribute-value.js'
import {attributes} from './attributes.js'
import {fromJson, type Json, readMap} from './json-attribute.js'
import {indexKeys, keyParts, keys, parseItemKey, wireKey} from './keys.js'

/** One audit event: who changed what, and when. */
export interface AuditRecord {
  readonly namespace: string
  /** The entity, or {@link SYSTEM_SUBJECT}, or a {@link resourceSubject}. */
  readonly entity: string
  /** A ULID; sorts by time. */
  readonly eventId: string
  readonly timestamp: string
  readonly action: string
  readonly principal: string | undefined
  readonly resource: string | undefined
  readonly details: {readonly [key: string]: Json}
  /** Expiry, in epoch seconds. */
  readonly ttlSeconds: number | undefined
}

export const SYSTEM_SUBJECT = '$SYSTEM'

export const resourceSubject = (resource: string): string => `$RESOURCE:${resource}`

/** Entity ids never begin with `$`. */
export const isSubject = (entity: string): boolean => entity.startsWith('$')

const names = attributes.audit

export function encodeAudit(record: AuditRecord): Item {
  const key = keys.audit(record.namespace, record.entity, record.eventId)
  const item: Item = {
    ...wireKey(key),
    [names.entity]: s(record.entity),
    [names.eventId]: s(record.eventId),
    [names.timestamp]: s(record.timestamp),
    [names.action]: s(record.action),
    [names.principal]: record.principal === undefined ? NULL : s(record.principal),
    [names.resource]: record.resource === undefined ? NULL : s(record.resource),
    [names.details]: fromJson(record.details),
    ...texts(indexKeys.inNamespace(record.namespace, key.PK)),
  }
  if (record.ttlSeconds !== undefined) item[names.expiresAt] = n(record.ttlSeconds)
  return item
}

export const isAuditKey = ({SK}: Key): boolean => SK.startsWith(keyParts.sort.audit)

export function decodeAudit(item: Item): AuditRecord | undefined {
  const key = parseItemKey(item)
  if (key?.record !== 'audit') return undefined
  return {
    namespace: key.namespace,
    entity: key.entity,
    eventId: key.eventId,
    timestamp: readString(item, names.timestamp) ?? '',
    action: readString(item, names.action) ?? '',
    principal: readString(item, names.principal),
    resource: readString(item, names.resource),
    details: readMap(item, names.details),
    ttlSeconds: readNumber(item, names.expiresAt),
  }
}

export function auditJson(record: AuditRecord): Record<string, Json> {
  return {
    [names.eventId]: record.eventId,
    [names.entity]: record.entity,
    [names.action]: record.action,
    [names.timestamp]: record.timestamp,
    [names.principal]: record.principal ?? null,
    [names.resource]: record.resource ?? null,
    [names.details]: record.details,
  }
}

type Form = {[key: string]: Json}

/** With the field names that other clients use. */
export function limitDetails(limits: readonly Limit[]): Json[] {
  return limits.map(described => {
    const {name, capacity, refillAmount, refillPeriodSeconds, ...limit} = baseOf(described)
    return {
      name,
      capacity,
      refill_amount: refillAmount,
      refill_period_seconds: refillPeriodSeconds,
      ...kindForm(limit),
      ...(limit.unit !== undefined && {unit: limit.unit}),
      ...boostForm(described),
    }
  })
}

function boostForm(limit: Limit): Form {
  const values = boostedOf(limit)
  if (!limit.boost || !values) return {}
  const {capacity, refillAmount, refillPeriodSeconds, reset} = values
  const rate = reset ? {} : {refill_amount: refillAmount, refill_period_seconds: refillPeriodSeconds}
  return {boost: {capacity, ...rate, until: isoSeconds(limit.boost.untilMs)}}
}

export function limitBoostOfDetails(value: Json): {readonly limit: Limit; readonly until: string} | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const {boost, schedule: _, ...base} = value
  if (typeof boost !== 'object' || boost === null || Array.isArray(boost)) return undefined
  const {until, ...values} = boost
  const limit = limitOfDetails({...base, ...values})
  return limit && typeof until === 'string' ? {limit, until} : undefined
}

/** The form that manifests and audit events of all clients use. */
export function kindForm({
  reset,
  inFlight,
  schedule,
  timeZone,
  soft,
}: Pick<Limit, 'reset' | 'inFlight' | 'schedule' | 'timeZone' | 'soft'>): Form {
  const zone = timeZone === undefined ? {} : {tz: timeZone}
  return {
    ...(schedule && {schedule: schedule.map(entry => ({cron: entry.cron, ...zone, ...entryForm(entry)}))}),
    ...(isCalendarReset(reset) && {reset_schedule: reset.crons.map(cron => ({cron, ...zone}))}),
    ...(isSessionReset(reset) && {reset_after_seconds: reset.afterSeconds}),
    ...(inFlight && {in_flight: inFlight}),
    ...(soft && {soft}),
  }
}

function entryForm(entry: ScheduleEntry): Form {
  if ('scale' in entry) return {scale: entry.scale}
  const {capacity, refillAmount, refillPeriodSeconds} = entry
  return {
    ...(capacity !== undefined && {capacity}),
    ...(refillAmount !== undefined && {refill_amount: refillAmount}),
    ...(refillPeriodSeconds !== undefined && {refill_period_seconds: refillPeriodSeconds}),
  }
}

export interface EntryForm {
  readonly cron: string
  readonly tz?: string | undefined
  readonly scale?: number | undefined
  readonly capacity?: number | undefined
  readonly refill_amount?: number | undefined
  readonly refill_period_seconds?: number | undefined
}

export function entryOfForm({cron, scale, capacity, ...rest}: EntryForm): ScheduleEntry {
  if (scale !== undefined) return {cron, scale}
  const {refill_amount: refillAmount, refill_period_seconds: refillPeriodSeconds} = rest
  return {
    cron,
    ...(capacity !== undefined && {capacity}),
    ...(refillAmount !== undefined && {refillAmount}),
    ...(refillPeriodSeconds !== undefined && {refillPeriodSeconds}),
  }
}

export function limitOfDetails(value: Json): Limit | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const {schedule, reset_schedule: resets} = value
  const entries = [...(Array.isArray(schedule) ? schedule : []), ...(Array.isArray(resets) ? resets : [])]
  const forms = entries as unknown as readonly EntryForm[]
  const crons = Array.isArray(resets) ? (resets as unknown as readonly EntryForm[]).map(({cron}) => cron) : []
  const afterSeconds = value.reset_after_seconds
  try {
    return makeLimit({
      name: value.name,
      capacity: value.capacity,
      refillAmount: value.refill_amount,
      refillPeriodSeconds: value.refill_period_seconds,
      ...(crons.length > 0 && {reset: {crons}}),
      ...(afterSeconds !== undefined && {reset: {afterSeconds}}),
      inFlight: value.in_flight === true,
      schedule: Array.isArray(schedule) ? (schedule as unknown as readonly EntryForm[]).map(entryOfForm) : undefined,
      timeZone: forms[0]?.tz,
      soft: value.soft === true,
      unit: value.unit,
    } as LimitInput)
  } catch {
    return undefined
  }
}
