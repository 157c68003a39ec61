import type {Limit} from '../../core/limits/limit.js'
import type {Configs} from '../../repository/limits/configs.js'
import {scopesBelow} from '../../repository/limits/inherited.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {type ConfigScope, levelOf} from '../../schema/config-record.js'

export interface ScopeLimits {
  readonly scope: ConfigScope
  readonly before: readonly Limit[]
  readonly after: readonly Limit[]
}

export interface MeantChange extends ScopeLimits {
  /** Names of the limits that it is about; none where everything of the scope is removed. */
  readonly named: readonly string[]
}

/** Limits that apply, and where they are set; no scope and no limits where nothing is configured. */
export interface AppliedScope {
  readonly scope: ConfigScope | undefined
  readonly limits: readonly Limit[]
}

export interface LevelEffect {
  /** What applies to the scope as a whole: its own limits, or those of another level. */
  readonly before: AppliedScope
  readonly after: AppliedScope
  /** Limits of other levels that applied before and do not any more. */
  readonly hides: readonly AppliedScope[]
  /** Limits of other levels that apply from now on. */
  readonly uncovers: readonly AppliedScope[]
}

export async function levelEffect(
  {configs}: Pick<NamespaceRepository, 'configs'>,
  {scope, before, after}: ScopeLimits,
): Promise<LevelEffect> {
  const below = scopesBelow(scope)
  const others = await configs.readableLimits(below)
  const [next = {scope: undefined, limits: []}] = others.filter(({limits}) => limits.length > 0)
  const applied = (own: readonly Limit[]): AppliedScope => (own.length > 0 ? {scope, limits: own} : next)
  const isOwn = [before.length > 0, after.length > 0] as const
  const covered = isOwn[0] === isOwn[1] ? [] : await coveredBy(configs, scope, next)
  return {
    before: applied(before),
    after: applied(after),
    hides: isOwn[1] ? covered : [],
    uncovers: isOwn[0] ? covered : [],
  }
}

/** The levels that a scope with limits hides. For the default of an entity these are also all resources. */
async function coveredBy(configs: Configs, scope: ConfigScope, next: AppliedScope): Promise<AppliedScope[]> {
  const resources = levelOf(scope) === 'entity_default' ? await configs.resources() : []
  return [...resources, next]
    .filter(({limits}) => limits.length > 0)
    .map(({scope: of, limits}) => ({scope: of, limits}))
}
