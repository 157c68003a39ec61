import type {Limit} from '../../core/limits/limit.js'
import type {Item} from '../../schema/attribute-value.js'
import type {BoostRecord} from '../../schema/boost-record.js'
import type {AccessSwitch, ConfigRecord, ConfigScope, Policies} from '../../schema/config-record.js'
import type {SystemSettings} from './checks.js'
import type {UnitsByLimit} from './units.js'

/** How to set limits; the settings belong to the system level. */
export interface SetOptions extends SystemSettings {
  /** Remove the scope's other limits. If false, they are kept, and an empty scope starts with a copy. @default false */
  readonly replace?: boolean | undefined
  /**
   * When the values expire, rounded up to the minute, at most 300 days ahead. Only for limits that already apply.
   * @default never
   */
  readonly until?: Date | undefined
  /** @internal The given limits exclude boosts; current boosts continue. */
  readonly keepsBoosts?: boolean | undefined
  /** @internal Limits that may be removed. If the change would remove others, it changes nothing. Default: all. */
  readonly mayRemove?: readonly string[] | undefined
  /** @internal Set in the same write; omitted policies are kept. */
  readonly policies?: Policies | undefined
  /** @internal Throws if the stored configuration is not the expected one. Then nothing is changed. */
  readonly expect?: ((stored: ConfigRecord | undefined) => void) | undefined
}

/** How to delete limits. */
export interface DeleteOptions {
  /** @internal */
  readonly withPolicies?: boolean
  /** @internal As in {@link SetOptions}. */
  readonly mayRemove?: readonly string[] | undefined
  /** @internal As in {@link SetOptions}. */
  readonly expect?: SetOptions['expect']
}

/** How to change a switch. */
export interface SwitchChangeOptions {
  /** Change only a switch in this position. @default any */
  readonly from?: AccessSwitch | undefined
  /** When the switch expires, rounded up to the minute, at most 300 days ahead. @default never */
  readonly until?: Date | undefined
  /** Why it is set; shown to operators, never to callers. */
  readonly reason?: string | undefined
}

/** The limits that apply to a scope without limits of its own. */
export interface InheritedLimits {
  /** Where they are set. */
  readonly scope: ConfigScope
  /** With their boosts. */
  readonly limits: readonly Limit[]
}

/** The limits of a scope before and after a change. */
export interface ConfigChange {
  readonly scope: ConfigScope
  readonly before: readonly Limit[]
  readonly after: readonly Limit[]
  /** The previous configuration; `undefined` if there was none. */
  readonly previous: ConfigRecord | undefined
  /** The configuration now; `undefined` if it was deleted. */
  readonly record: ConfigRecord | undefined
  /** Limits copied from the level where they applied before. Later changes there do not update the copy. */
  readonly copied?: InheritedLimits | undefined
}

/** Scopes that can have a switch or a cascade policy: all but the system level. */
export type PolicyScope = Exclude<ConfigScope, {level: 'system'}>

export interface StoredConfig {
  readonly item: Item | undefined
  /** The configuration in force, as if ended boosts were already removed. */
  readonly before: ConfigRecord | undefined
  readonly untidied: ConfigRecord | undefined
  readonly boosts: BoostRecord | undefined
  readonly units: UnitsByLimit
  /** True also if the limits are not readable. */
  readonly hasLimits: boolean
}
