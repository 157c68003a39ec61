import type {Limit} from '../../core/limits/limit.js'
import {limitDetails, resourceSubject, SYSTEM_SUBJECT} from '../../schema/audit-record.js'
import {
  type ConfigRecord,
  type ConfigScope,
  type Policies,
  policiesDetails,
  policyDetails,
} from '../../schema/config-record.js'
import type {AuditEvent} from '../audit/audit.js'

export function setEvent(after: ConfigRecord, before: ConfigRecord | undefined, policies: Policies = {}): AuditEvent {
  const limits = {limits: limitDetails(after.limits), before: limitDetails(before?.limits ?? [])}
  const details = {...limits, ...policyDetails(after), ...policiesDetails(policies)}
  return {...subjectOf(after.scope), action: 'limits_set', details}
}

export function policyEvent(after: ConfigRecord, before: ConfigRecord | undefined, policies: Policies): AuditEvent {
  const details = {...policiesDetails(policies), before: policiesDetails(policies, before ?? {})}
  return {...subjectOf(after.scope), action: 'limits_set', details}
}

export const removedPolicies = ({access, cascade}: ConfigRecord): Policies => ({
  ...(access !== undefined && {access: undefined}),
  ...(cascade !== undefined && {cascade: undefined}),
})

export function deletedEvent(before: ConfigRecord, removed: Policies): AuditEvent {
  const names = before.scope.level === 'system' ? {limits: before.limits.map(limit => limit.name)} : {}
  const policies = {...policyDetails(before), ...policiesDetails(removed)}
  const details = {...names, ...policies, before: limitDetails(before.limits)}
  return {...subjectOf(before.scope), action: 'limits_deleted', details}
}

/** Limits whose boost has ended, by itself or because somebody has ended it; `after` is empty where a copy ended with it. */
export function boostEndedEvent(before: ConfigRecord, after: readonly Limit[]): AuditEvent {
  const details = {limits: limitDetails(after), before: limitDetails(before.limits)}
  return {...subjectOf(before.scope), action: 'limits_boost_ended', details}
}

function subjectOf(scope: ConfigScope): Pick<AuditEvent, 'entity' | 'resource'> {
  if (scope.level === 'system') return {entity: SYSTEM_SUBJECT}
  const {resource} = scope
  return {entity: scope.level === 'entity' ? scope.entity : resourceSubject(resource), resource}
}
