import {boostedOf, type Limit} from '../../core/limits/limit.js'
import {formatLimit} from '../../core/limits/limit-text.js'
import {LEVELS} from '../../core/limits/resolve.js'
import type {ShardedBucket} from '../../repository/buckets/buckets.js'
import type {Configs} from '../../repository/limits/configs.js'
import {scopesBelow} from '../../repository/limits/inherited.js'
import {scopesOf} from '../../repository/limits/resolver.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {type ConfigScope, configKey, levelOf} from '../../schema/config-record.js'
import {keyId} from '../../schema/keys.js'

type When = 'before' | 'after'

export type BucketPair = Pick<ShardedBucket, 'entity' | 'resource'>

interface KnownLimits extends Omit<ScopeLimits, 'scope'> {
  /** It has them only for the time of a boost, until then (epoch ms): those of another level apply again after it. */
  readonly copiedUntilMs?: number | undefined
}

export interface BroughtLimits {
  readonly limits: readonly Limit[]
  /** Until then (epoch ms) limits that were copied for a boost apply instead; `undefined` where there are none. */
  readonly boostedUntilMs: number | undefined
}

interface AppliedLevel {
  readonly limits: readonly Limit[]
  /** The change of the level where they are set; `undefined` if it is not changed. */
  readonly change: number | undefined
}

export class LevelLimits {
  readonly #namespace: Pick<NamespaceRepository, 'id' | 'configs'>
  readonly #known = new Map<string, KnownLimits>()
  readonly #changes = new Map<string, number>()

  constructor(namespace: Pick<NamespaceRepository, 'id' | 'configs'>, changes: readonly ScopeLimits[]) {
    this.#namespace = namespace
    for (const [at, {scope, before, after}] of changes.entries()) {
      this.#known.set(this.#id(scope), {before, after})
      this.#changes.set(this.#id(scope), at)
    }
  }

  async load(scopes: readonly ConfigScope[]): Promise<void> {
    const missing = new Map<string, ConfigScope>()
    for (const scope of scopes) {
      const id = this.#id(scope)
      if (!this.#known.has(id)) missing.set(id, scope)
    }
    if (missing.size === 0) return
    const found = await this.#namespace.configs.readableLimits([...missing.values()])
    for (const [at, id] of [...missing.keys()].entries()) {
      const {limits = [], copiedUntilMs} = found[at] ?? {}
      this.#known.set(id, {before: limits, after: limits, copiedUntilMs})
    }
  }

  /** All levels that decide about an entity and a resource, the most specific first. */
  scopesOf({entity, resource}: BucketPair): ConfigScope[] {
    const scopes = scopesOf(entity, resource)
    return LEVELS.map(level => scopes[level])
  }

  /** What applies to an entity and a resource; `undefined` where no level has limits. Its levels must have been read. */
  appliedTo(pair: BucketPair, when: When): AppliedLevel | undefined {
    return this.#firstOf(this.scopesOf(pair), when)
  }

  /** What applies to a scope as a whole: its own limits, or those of another level. These must have been read. */
  appliedAt(scope: ConfigScope, when: When): readonly Limit[] {
    return this.#firstOf([scope, ...scopesBelow(scope)], when)?.limits ?? []
  }

  /**
   * The limits that apply after the changes and did not before, where these are what decides; `undefined` elsewhere. Limits
   * that were copied for a boost are looked through: when it ends, the others apply.
   */
  broughtTo(pair: BucketPair): BroughtLimits | undefined {
    const scopes = this.scopesOf(pair)
    const copyEnd = (scope: ConfigScope) => this.#known.get(this.#id(scope))?.copiedUntilMs
    const lasting = scopes.filter(scope => copyEnd(scope) === undefined)
    const [before, after] = [this.#firstOf(lasting, 'before'), this.#firstOf(lasting, 'after')]
    if ([before, after].every(applied => applied?.change === undefined)) return undefined
    const present = new Set(before?.limits.map(limit => formatLimit(inForce(limit))))
    return {
      limits: after?.limits.filter(limit => !present.has(formatLimit(inForce(limit)))) ?? [],
      boostedUntilMs: scopes.map(copyEnd).find(endMs => endMs !== undefined),
    }
  }

  #firstOf(scopes: readonly ConfigScope[], when: When): AppliedLevel | undefined {
    for (const scope of scopes) {
      const id = this.#id(scope)
      const limits = this.#known.get(id)?.[when] ?? []
      if (limits.length > 0) return {limits, change: this.#changes.get(id)}
    }
    return undefined
  }

  #id(scope: ConfigScope): string {
    return keyId(configKey(this.#namespace.id, scope))
  }
}

/** A limit as it applies now: with the values of a boost that has not ended. */
export function inForce(limit: Limit): Limit {
  return (!limit.boost?.isEnded && boostedOf(limit)) || limit
}

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
