import {formatLimit} from '../../core/limits/limit-text.js'
import {formatTokens} from '../../core/text/text.js'
import type {UnitsByLimit} from '../../repository/limits/units.js'
import {type AuditRecord, limitBoostOfDetails, limitOfDetails} from '../../schema/audit-record.js'
import {policiesInDetails} from '../../schema/config-record.js'
import type {Json} from '../../schema/json-attribute.js'
import {paint} from '../output/lines.js'
import type {Listing} from '../output/listing.js'
import {factLines} from '../output/text-table.js'
import type {AuditEventJson} from './results.js'

export function auditListing(
  records: readonly AuditRecord[],
  isOfOne: boolean,
  units: UnitsByLimit,
): Listing<AuditRecord> {
  return {
    rows: records,
    columns: [
      {name: 'time', header: 'TIME (UTC)', fit: 'whole', value: ({timestamp}) => timestamp},
      {name: 'action', fit: 'key', value: ({action}) => action},
      {name: 'entity', fit: 'key', value: ({entity}) => entity, isExtra: isOfOne},
      {name: 'resource', fit: 'key', value: ({resource}) => resource},
      {name: 'principal', header: 'BY', fit: 'text', value: ({principal}) => principal},
      {name: 'details', fit: 'text', value: record => detailsText(record, units)},
      {name: 'id', value: ({eventId}) => eventId, isExtra: true},
    ],
    empty: 'No audit events in that time.',
  }
}

export function auditLine(record: AuditRecord, units: UnitsByLimit): string {
  const {timestamp, action, entity, resource, principal} = record
  const about = [entity, resource].filter(name => name !== undefined).join(' ')
  const by = principal === undefined ? [] : [`by ${principal}`]
  return [paint('dim', timestamp), action, about, ...by, paint('dim', detailsText(record, units))].join('  ').trimEnd()
}

export function auditFacts(record: AuditRecord, units: UnitsByLimit): string[] {
  const {eventId, timestamp, action, entity, resource, principal, ttlSeconds} = record
  return factLines(`Event ${eventId}`, {
    time: timestamp,
    action,
    entity,
    resource,
    by: principal,
    'kept until': ttlSeconds === undefined ? undefined : new Date(ttlSeconds * 1000).toISOString(),
    details: detailsText(record, units) || undefined,
  })
}

export function auditEventJson(record: AuditRecord): AuditEventJson {
  const {eventId: id, timestamp: time, action, entity, resource = null, principal = null, details, ttlSeconds} = record
  const expiresAt = ttlSeconds === undefined ? null : new Date(ttlSeconds * 1000).toISOString()
  return {id, time, action, entity, resource, principal, details, expiresAt}
}

/** Sorted by name: the table keeps no order. */
function detailsText({action, details}: AuditRecord, units: UnitsByLimit): string {
  const {policies, others} = action === 'limits_set' ? policiesInDetails(details) : {policies: [], others: details}
  const entries = Object.entries(others).sort(([a], [b]) => (a < b ? -1 : 1))
  return [
    ...policies.map(({name, before, after}) => `${name}: ${[before, after].flatMap(policyWord).join(' → ')}`),
    ...entries.map(([name, value]) => `${name}: ${name === 'amounts' ? amountsText(value, units) : valueText(value)}`),
  ].join('; ')
}

function amountsText(value: Json, units: UnitsByLimit): string {
  const amounts = Object.entries(value ?? {}).sort(([a], [b]) => (a < b ? -1 : 1))
  const texts = amounts.flatMap(([name, tokens]) =>
    typeof tokens === 'number' ? [`${name} ${formatTokens(tokens, units.get(name))}`] : [],
  )
  return texts.length === 0 || texts.length < amounts.length ? valueText(value) : texts.join(', ')
}

function policyWord(value: Json | undefined): string[] {
  if (value === undefined) return []
  if (value === null) return ['not set']
  return [typeof value === 'boolean' ? (value ? 'yes' : 'no') : valueText(value)]
}

function valueText(value: Json): string {
  if (typeof value === 'string') return value
  if (!Array.isArray(value)) return JSON.stringify(value)
  const limits = value.flatMap(each => limitOfDetails(each) ?? [])
  if (limits.length !== value.length) return JSON.stringify(value)
  return limits.map((limit, at) => `${formatLimit(limit)}${boostText(value[at])}`).join(', ') || 'none'
}

function boostText(details: Json | undefined): string {
  const boost = details && limitBoostOfDetails(details)
  return boost ? ` (${formatLimit(boost.limit)} until ${boost.until})` : ''
}
