import {boostField} from '../../core/limits/boost-text.js'
import {baseOf, type Limit} from '../../core/limits/limit.js'
import {formatLimit, type LimitChange, limitChanges} from '../../core/limits/limit-text.js'
import {formatMinute} from '../../core/text/text.js'
import type {SwitchSet} from '../../insight/lookup/audit-search.js'
import type {LimitsChange} from '../../repository/repository.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import {type ConfigRecord, type ConfigScope, levelOf} from '../../schema/config-record.js'
import type {LimitChangeJson, LimitJson, ScopeJson} from '../output/results.js'
import type {ChangeEffectJson, LimitsGetResult, LimitsUnsetResult} from './results.js'

export function limitJson(limit: Limit): LimitJson {
  const {name, capacity, refillAmount, refillPeriodSeconds} = limit
  return {name, capacity, refillAmount, refillPeriodSeconds, text: formatLimit(limit), ...kindJson(limit)}
}

/** Empty for a plain rate. */
export function kindJson(
  limit: Limit,
): Pick<LimitJson, 'reset' | 'inFlight' | 'schedule' | 'timeZone' | 'soft' | 'unit' | 'boost'> {
  const {reset, inFlight, schedule, timeZone, soft, unit} = baseOf(limit)
  return {
    ...(reset && {reset}),
    ...(inFlight && {inFlight}),
    ...(schedule && {schedule}),
    ...(timeZone !== undefined && {timeZone}),
    ...(soft && {soft}),
    ...(unit !== undefined && {unit}),
    ...boostField(limit),
  }
}

/** An entity's default names no resource. */
export function scopeJson(scope: ConfigScope): ScopeJson {
  const level = levelOf(scope)
  return {
    level,
    entity: scope.level === 'entity' ? scope.entity : null,
    resource: scope.level === 'system' || level === 'entity_default' ? null : scope.resource,
  }
}

export const SCOPE_COLUMNS = (['level', 'entity', 'resource'] as const).map(name => ({
  name,
  fit: 'key' as const,
  value: ({scope}: {readonly scope: ConfigScope}) => scopeJson(scope)[name],
}))

/** The end and the reason of a switch. */
export interface SwitchEnd {
  readonly untilMs?: number | undefined
  readonly reason?: string | undefined
}

export function switchEndJson({untilMs, reason}: SwitchEnd): {until: string | null; reason: string | null} {
  return {until: untilMs === undefined ? null : isoSeconds(untilMs), reason: reason ?? null}
}

export const switchSetJson = (set: SwitchSet | undefined): {setAt: string | null; setBy: string | null} => ({
  ...{setAt: set?.at ?? null, setBy: set?.by ?? null},
})

/** Such as `2026-11-01 10:00 UTC by ada`. */
export function switchSetText(set: SwitchSet | undefined): string {
  if (!set) return 'unknown: its audit event has expired, or another client set it'
  return `${formatMinute(Date.parse(set.at))}${set.by === undefined ? '' : ` by ${set.by}`}`
}

export function configJson(config: ConfigRecord): LimitsGetResult {
  const {scope, limits, onUnavailable, auditRetentionDays, access, cascade} = config
  const {until, reason} = switchEndJson({untilMs: config.accessUntilMs, reason: config.accessReason})
  return {
    ...scopeJson(scope),
    limits: limits.map(limitJson),
    onUnavailable: onUnavailable ?? null,
    auditRetentionDays: auditRetentionDays ?? null,
    access: access ?? null,
    accessUntil: until,
    accessReason: reason,
    cascade: cascade ?? null,
  }
}

/** Without `buckets` when nothing was written. */
export type ChangeOutcome = Omit<LimitsChange, 'buckets'> & Partial<Pick<LimitsChange, 'buckets'>>

export function changeJson({
  scope,
  before,
  after,
  previous,
  record,
}: ChangeOutcome): Omit<LimitsUnsetResult, 'buckets' | 'copied' | keyof ChangeEffectJson> {
  return {
    scope: scopeJson(scope),
    changes: limitChangesJson(before, after),
    onUnavailable: {before: previous?.onUnavailable ?? null, after: record?.onUnavailable ?? null},
    auditRetentionDays: {
      before: previous?.auditRetentionDays ?? null,
      after: record?.auditRetentionDays ?? null,
    },
  }
}

export function limitChangesJson(before: readonly Limit[], after: readonly Limit[]): LimitChangeJson[] {
  return limitChanges(before, after).map(limitChangeJson)
}

export const limitChangeJson = ({name, before, after}: LimitChange): LimitChangeJson => ({
  name,
  before: before ? limitJson(before) : null,
  after: after ? limitJson(after) : null,
})
