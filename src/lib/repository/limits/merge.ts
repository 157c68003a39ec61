import type {Limit} from '../../core/limit.js'
import type {ConfigRecord, ConfigScope} from '../../schema/config-record.js'
import type {SystemSettings} from './checks.js'

/** How to set; the settings are those of the system level. */
export interface SetOptions extends SystemSettings {
  /** Drop the limits that are not given; otherwise they stay. */
  readonly replace?: boolean | undefined
}

/** Limits that are given for a scope. */
export interface GivenLimits {
  readonly namespace: string
  readonly scope: ConfigScope
  readonly limits: readonly Limit[]
}

/** What a scope holds once limits are set: settings that are not given stay, limits of other names unless replaced. */
export function mergeConfig(
  {namespace, scope, limits}: GivenLimits,
  {replace = false, onUnavailable, auditRetentionDays}: SetOptions,
  before: ConfigRecord | undefined,
): ConfigRecord {
  const names = new Set(limits.map(limit => limit.name))
  const kept = replace ? [] : (before?.limits ?? []).filter(limit => !names.has(limit.name))
  return {
    namespace,
    scope,
    limits: [...kept, ...limits].sort((a, b) => (a.name < b.name ? -1 : 1)),
    onUnavailable: onUnavailable ?? before?.onUnavailable,
    auditRetentionDays: auditRetentionDays ?? before?.auditRetentionDays,
  }
}
