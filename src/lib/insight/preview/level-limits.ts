import {boostedOf, LEVELS, type Limit} from '../../core/limits/limit.js'
import {formatLimit} from '../../core/limits/limit-text.js'
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
  /** Epoch ms until which the level has these limits, copied for a boost. Then another level applies again. */
  readonly copiedUntilMs?: number | undefined
}

export interface BroughtLimits {
  readonly limits: readonly Limit[]
  /** Epoch ms until which limits copied for a boost apply instead. `undefined`: none. */
  readonly boostedUntilMs: number | undefined
}

interface AppliedLevel {
  readonly limits: readonly Limit[]
  /** Index of the change to that level. `undefined`: unchanged. */
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

  /** Most specific first. */
  scopesOf({entity, resource}: BucketPair): ConfigScope[] {
    const scopes = scopesOf(entity, resource)
    return LEVELS.map(level => scopes[level])
  }

  /** `undefined`: no level has limits. The levels must be loaded. */
  appliedTo(pair: BucketPair, when: When): AppliedLevel | undefined {
    return this.#firstOf(this.scopesOf(pair), when)
  }

  /** Own or inherited limits. The levels must be loaded. */
  appliedAt(scope: ConfigScope, when: When): readonly Limit[] {
    return this.#firstOf([scope, ...scopesBelow(scope)], when)?.limits ?? []
  }

  /** Limits that apply only after the changes, ignoring copies for boosts. `undefined`: no change decides here. */
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

/** Applies a boost that has not ended. */
export function inForce(limit: Limit): Limit {
  return (!limit.boost?.isEnded && boostedOf(limit)) || limit
}

export interface ScopeLimits {
  readonly scope: ConfigScope
  readonly before: readonly Limit[]
  readonly after: readonly Limit[]
}

export interface MeantChange extends ScopeLimits {
  /** Empty if the whole scope is removed. */
  readonly named: readonly string[]
}

/** No scope and no limits: nothing is configured. */
export interface AppliedScope {
  readonly scope: ConfigScope | undefined
  readonly limits: readonly Limit[]
}

export interface LevelEffect {
  readonly before: AppliedScope
  readonly after: AppliedScope
  /** Limits of other levels that stop applying. `uncovers`: those that start. */
  readonly hides: readonly AppliedScope[]
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

/** An entity default also covers all resources. */
async function coveredBy(configs: Configs, scope: ConfigScope, next: AppliedScope): Promise<AppliedScope[]> {
  const resources = levelOf(scope) === 'entity_default' ? await configs.resources() : []
  return [...resources, next]
    .filter(({limits}) => limits.length > 0)
    .map(({scope: of, limits}) => ({scope: of, limits}))
}
