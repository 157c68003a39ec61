import type {NextLevel} from '../../core/limits/boost-text.js'
import {boostedOf, LEVELS, type Limit} from '../../core/limits/limit.js'
import {formatLimit} from '../../core/limits/limit-text.js'
import type {ShardedBucket} from '../../repository/buckets/buckets.js'
import {scopesBelow} from '../../repository/limits/merge.js'
import {scopesOf} from '../../repository/limits/resolver.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {type ConfigScope, configKey, levelOf} from '../../schema/config-record.js'
import {keyId} from '../../schema/keys.js'

type When = 'before' | 'after'

export type BucketPair = Pick<ShardedBucket, 'entity' | 'resource'>

export interface ProposedChange {
  readonly scope: ConfigScope
  readonly before: readonly Limit[]
  readonly after: readonly Limit[]
  /** Limits that the user named. @default [] */
  readonly named?: readonly string[]
}

/** No scope and no limits: nothing is configured. */
export interface AppliedScope {
  readonly scope: ConfigScope | undefined
  readonly limits: readonly Limit[]
  /** `undefined`: unchanged. */
  readonly change?: ProposedChange | undefined
}

interface KnownLimits extends Pick<ProposedChange, When>, Pick<AppliedScope, 'change'> {
  /** Epoch ms at which this temporary copy expires and another level applies again. */
  readonly copiedUntilMs?: number | undefined
}

/** The limits of all levels, before and after some changes. Load levels before you ask for them. */
export class LevelLimits {
  readonly #namespace: Pick<NamespaceRepository, 'id' | 'configs'>
  readonly #known = new Map<string, KnownLimits>()

  constructor(namespace: Pick<NamespaceRepository, 'id' | 'configs'>, changes: readonly ProposedChange[]) {
    this.#namespace = namespace
    for (const change of changes) {
      const {scope, before, after} = change
      this.#known.set(this.#id(scope), {before, after, change})
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

  loadFor(pairs: readonly BucketPair[]): Promise<void> {
    return this.load(pairs.flatMap(levelsOf))
  }

  appliedTo(pair: BucketPair, when: When): AppliedScope {
    return this.#firstOf(levelsOf(pair), when)
  }

  /** Own or inherited limits. */
  appliedAt(scope: ConfigScope, when: When): AppliedScope {
    return this.#firstOf([scope, ...scopesBelow(scope)], when)
  }

  /**
   * The limits that apply when a temporary copy at the scope expires, at epoch ms. `undefined` for default limits of an
   * entity, because the next level differs by resource.
   */
  appliedAfter(scope: ConfigScope, endMs: number): AppliedScope | undefined {
    if (levelOf(scope) === 'entity_default') return undefined
    const lasts = (each: ConfigScope) => (this.#known.get(this.#id(each))?.copiedUntilMs ?? Infinity) > endMs
    return this.#firstOf(scopesBelow(scope).filter(lasts), 'after')
  }

  /** Ignores temporary copies, which apply until `boostedUntilMs`. `undefined`: the changes have no effect here. */
  broughtTo(
    pair: BucketPair,
  ): {present: readonly Limit[]; limits: readonly Limit[]; boostedUntilMs: number | undefined} | undefined {
    const scopes = levelsOf(pair)
    const copyEnd = (scope: ConfigScope) => this.#known.get(this.#id(scope))?.copiedUntilMs
    const lasting = scopes.filter(scope => copyEnd(scope) === undefined)
    const [before, after] = [this.#firstOf(lasting, 'before'), this.#firstOf(lasting, 'after')]
    if (!before.change && !after.change) return undefined
    const present = new Set(before.limits.map(limit => formatLimit(inForce(limit))))
    return {
      present: before.limits,
      limits: after.limits.filter(limit => !present.has(formatLimit(inForce(limit)))),
      boostedUntilMs: scopes.map(copyEnd).find(endMs => endMs !== undefined),
    }
  }

  #firstOf(scopes: readonly ConfigScope[], when: When): AppliedScope {
    for (const scope of scopes) {
      const known = this.#known.get(this.#id(scope))
      if (known && known[when].length > 0) return {scope, limits: known[when], change: known.change}
    }
    return {scope: undefined, limits: []}
  }

  #id(scope: ConfigScope): string {
    return keyId(configKey(this.#namespace.id, scope))
  }
}

/** Own limits of a scope, or the limits that it would copy. */
export async function limitsAt(
  namespace: Pick<NamespaceRepository, 'id' | 'configs'>,
  scope: ConfigScope,
): Promise<readonly Limit[]> {
  const levels = new LevelLimits(namespace, [])
  await levels.load([scope, ...scopesBelow(scope)])
  return levels.appliedAt(scope, 'before').limits
}

export function nextLevelIn(next: AppliedScope | undefined, name: string): NextLevel | undefined {
  if (!next) return undefined
  return {level: next.scope && levelOf(next.scope), limit: next.limits.find(limit => limit.name === name)}
}

/** The level that applies after each boost that ends a copy. */
export async function levelsAfter<T extends Pick<ProposedChange, 'scope'> & {readonly limit: Limit}>(
  namespace: Pick<NamespaceRepository, 'id' | 'configs'>,
  boosts: readonly T[],
): Promise<Map<T, NextLevel>> {
  const levels = new LevelLimits(namespace, [])
  const copies = boosts.filter(({limit}) => limit.boost?.endsCopy)
  await levels.load(copies.flatMap(({scope}) => scopesBelow(scope)))
  return new Map(
    copies.flatMap(each => {
      const next = nextLevelIn(levels.appliedAfter(each.scope, each.limit.boost?.untilMs ?? 0), each.limit.name)
      return next ? [[each, next] as const] : []
    }),
  )
}

/** Most specific first. */
function levelsOf({entity, resource}: BucketPair): ConfigScope[] {
  const scopes = scopesOf(entity, resource)
  return LEVELS.map(level => scopes[level])
}

/** Applies a boost that has not ended. */
export function inForce(limit: Limit): Limit {
  return (!limit.boost?.isEnded && boostedOf(limit)) || limit
}
