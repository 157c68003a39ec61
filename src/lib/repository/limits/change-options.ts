import type {Limit} from '../../core/limits/limit.js'
import type {Item} from '../../schema/attribute-value.js'
import type {BoostRecord} from '../../schema/boost-record.js'
import type {ConfigRecord, ConfigScope, Policies} from '../../schema/config-record.js'
import type {SystemSettings} from './checks.js'
import type {InheritedLimits} from './inherited.js'
import type {UnitsByLimit} from './units.js'

/** How to set; the settings are those of the system level. */
export interface SetOptions extends SystemSettings {
  /**
   * Only the given limits shall apply: others of the scope are removed. Otherwise they stay, and a scope without limits
   * of its own starts with a copy of those that apply there now, so that what is not given stays in force.
   */
  readonly replace?: boolean | undefined
  /**
   * The given values apply until then, rounded up to the minute, and end by themselves; after that the limits are as they
   * are now. At most 300 days ahead. Only values of limits that exist can end, and the others stay.
   */
  readonly until?: Date | undefined
  /**
   * The given limits are what applies without boosts: those that are under way go on.
   *
   * @internal
   */
  readonly keepsBoosts?: boolean | undefined
  /**
   * Names of limits that may be removed; if others had to be, nothing is changed. All may unless it is given.
   *
   * @internal
   */
  readonly mayRemove?: readonly string[] | undefined
  /**
   * In the same write; those that are left out stay.
   *
   * @internal
   */
  readonly policies?: Policies | undefined
}

/** How to delete. */
export interface DeleteOptions {
  /** @internal */
  readonly withPolicies?: boolean
  /**
   * As in {@link SetOptions}.
   *
   * @internal
   */
  readonly mayRemove?: readonly string[] | undefined
}

/** The limits of a scope before and after a change. */
export interface ConfigChange {
  readonly scope: ConfigScope
  readonly before: readonly Limit[]
  readonly after: readonly Limit[]
  /** The configuration as it was; `undefined` when there was none. */
  readonly previous: ConfigRecord | undefined
  /** The configuration as it is now; `undefined` when it was deleted. */
  readonly record: ConfigRecord | undefined
  /** Limits that were copied from another level, where they applied before; later changes there do not reach the copy. */
  readonly copied?: InheritedLimits | undefined
}

/** Where a switch or a cascade policy can be: everywhere but at the system level. */
export type PolicyScope = Exclude<ConfigScope, {level: 'system'}>

export interface StoredConfig {
  readonly item: Item | undefined
  /** What counts now, as if boosts that have ended were tidied up. */
  readonly before: ConfigRecord | undefined
  readonly untidied: ConfigRecord | undefined
  readonly boosts: BoostRecord | undefined
  readonly units: UnitsByLimit
  /** The scope has limits, of which some may not be readable. */
  readonly hasLimits: boolean
}
