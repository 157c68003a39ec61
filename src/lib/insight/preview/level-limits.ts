import {boostedOf, type Limit} from '../../core/limits/limit.js'
import {formatLimit} from '../../core/limits/limit-text.js'
import {LEVELS} from '../../core/limits/resolve.js'
import type {ShardedBucket} from '../../repository/buckets/buckets.js'
import {scopesBelow} from '../../repository/limits/inherited.js'
import {scopesOf} from '../../repository/limits/resolver.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {type ConfigScope, configKey} from '../../schema/config-record.js'
import {keyId} from '../../schema/keys.js'
import type {ScopeLimits} from './change-effect.js'

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
