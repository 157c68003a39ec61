import type {Limit} from '../../core/limit.js'
import {resourceSubject, SYSTEM_SUBJECT} from '../../schema/audit-record.js'
import type {ConfigRecord, ConfigScope} from '../../schema/config-record.js'
import type {Json} from '../../schema/json-attribute.js'
import type {AuditEvent} from '../audit/audit.js'

/** The event of limits being set: what applies now, and what did before. */
export function setEvent(after: ConfigRecord, before: ConfigRecord | undefined): AuditEvent {
  const policy = after.scope.level === 'system' ? {on_unavailable: after.onUnavailable ?? null} : {}
  const details = {limits: after.limits.map(limitJson), before: (before?.limits ?? []).map(limitJson), ...policy}
  return {...subjectOf(after.scope), action: 'limits_set', details}
}

/** The event of all limits of a scope being deleted. */
export function deletedEvent(before: ConfigRecord): AuditEvent {
  const system =
    before.scope.level === 'system'
      ? {limits: before.limits.map(limit => limit.name), on_unavailable: before.onUnavailable ?? null}
      : {}
  const details = {...system, before: before.limits.map(limitJson)}
  return {...subjectOf(before.scope), action: 'limits_deleted', details}
}

function subjectOf(scope: ConfigScope): Pick<AuditEvent, 'entity' | 'resource'> {
  if (scope.level === 'system') return {entity: SYSTEM_SUBJECT}
  const {resource} = scope
  return {entity: scope.level === 'entity' ? scope.entity : resourceSubject(resource), resource}
}

function limitJson(limit: Limit): Json {
  return {
    name: limit.name,
    capacity: limit.capacity,
    refill_amount: limit.refillAmount,
    refill_period_seconds: limit.refillPeriodSeconds,
  }
}
