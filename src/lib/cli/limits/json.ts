import {formatLimit, type Limit} from '../../core/limit.js'
import type {Level} from '../../core/resolve.js'
import type {LimitsChange} from '../../repository/repository.js'
import {type ConfigRecord, type ConfigScope, levelOf} from '../../schema/config-record.js'

/** A limit for programs; `text` is what `zael limits set` reads. */
export interface LimitJson extends Limit {
  readonly text: string
}

export function limitJson(limit: Limit): LimitJson {
  const {name, capacity, refillAmount, refillPeriodSeconds} = limit
  return {name, capacity, refillAmount, refillPeriodSeconds, text: formatLimit(limit)}
}

/** Whose limits; an entity's default is for every resource, so it names none. */
export interface ScopeJson {
  readonly level: Level
  readonly entity: string | null
  readonly resource: string | null
}

export function scopeJson(scope: ConfigScope): ScopeJson {
  const level = levelOf(scope)
  return {
    level,
    entity: scope.level === 'entity' ? scope.entity : null,
    resource: scope.level === 'system' || level === 'entity_default' ? null : scope.resource,
  }
}

/** What is configured for one scope. */
export function configJson({scope, limits, onUnavailable, auditRetentionDays}: ConfigRecord) {
  return {
    ...scopeJson(scope),
    limits: limits.map(limitJson),
    onUnavailable: onUnavailable ?? null,
    auditRetentionDays: auditRetentionDays ?? null,
  }
}

/** A change of limits; `buckets` is null where nothing was written. */
export type ChangeOutcome = Omit<LimitsChange, 'buckets'> & Partial<Pick<LimitsChange, 'buckets'>>

/** What a change found and left, limit by limit. */
export function changeJson({scope, before, after, previous, record, buckets}: ChangeOutcome) {
  return {
    scope: scopeJson(scope),
    changes: limitChanges(before, after).map(({name, was, is}) => ({
      name,
      before: was ? limitJson(was) : null,
      after: is ? limitJson(is) : null,
    })),
    onUnavailable: {before: previous?.onUnavailable ?? null, after: record?.onUnavailable ?? null},
    auditRetentionDays: {
      before: previous?.auditRetentionDays ?? null,
      after: record?.auditRetentionDays ?? null,
    },
    buckets: buckets ?? null,
  }
}

/** One limit before and after; at least one of the two is there. */
export interface LimitChange {
  readonly name: string
  readonly was: Limit | undefined
  readonly is: Limit | undefined
}

/** Every limit that was there or is there now, by name. */
export function limitChanges(before: readonly Limit[], after: readonly Limit[]): LimitChange[] {
  const names = [...new Set([...before, ...after].map(({name}) => name))].sort()
  const called = (limits: readonly Limit[], name: string) => limits.find(limit => limit.name === name)
  return names.map(name => ({name, was: called(before, name), is: called(after, name)}))
}
