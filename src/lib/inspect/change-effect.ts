import type {Limit} from '../core/limit.js'
import {LEVELS} from '../core/resolve.js'
import {formatLimit} from '../core/syntax/limit-text.js'
import {chunksOf} from '../dynamo/concurrency.js'
import type {ShardedBucket} from '../repository/buckets/buckets.js'
import {bucketsOfScope} from '../repository/buckets/of-scope.js'
import type {Configs} from '../repository/limits/configs.js'
import {scopesBelow} from '../repository/limits/inherited.js'
import {scopesOf} from '../repository/limits/resolver.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import {type ConfigScope, configKey, levelOf} from '../schema/config-record.js'
import {keyId} from '../schema/keys.js'

/** The limits of a scope before and after a change. */
export interface ScopeLimits {
  readonly scope: ConfigScope
  readonly before: readonly Limit[]
  readonly after: readonly Limit[]
}

/** Limits that apply, and where they are set; no scope and no limits where nothing is configured. */
export interface AppliedScope {
  readonly scope: ConfigScope | undefined
  readonly limits: readonly Limit[]
}

/** What a change means at the place where it is made. */
export interface LevelEffect {
  /** What applies to the scope as a whole: its own limits, or those of another level. */
  readonly before: AppliedScope
  readonly after: AppliedScope
  /** Limits of other levels that applied before and do not any more. */
  readonly hides: readonly AppliedScope[]
  /** Limits of other levels that apply from now on. */
  readonly uncovers: readonly AppliedScope[]
}

/** Whom a change concerns. */
export interface ChangeReach {
  /** Entities with live buckets to which the changed limits apply. */
  readonly entities: number
  readonly buckets: number
  /** False when there are more live buckets than were looked at: then all numbers are lower bounds. */
  readonly isComplete: boolean
  /** Limits that live buckets were charged for and that then no longer apply to them, by name. */
  readonly lost: readonly string[]
  /** Those live buckets. */
  readonly losing: number
  /** Live buckets for which then no limits are configured at any level: their requests fail. */
  readonly unconfigured: number
}

/** Live buckets that are looked at; bounds the cost of a preview. */
const MOST_BUCKETS = 1000

/** Scopes whose buckets are looked for, when many change at once. */
const MOST_SCOPES = 200

const BUCKETS_PER_READ = 100

/** What a change of one scope means there, and which levels it hides or uncovers; reads only. */
export async function levelEffect(
  {configs}: Pick<NamespaceRepository, 'configs'>,
  {scope, before, after}: ScopeLimits,
): Promise<LevelEffect> {
  const below = scopesBelow(scope)
  const limitsBelow = await configs.readableLimits(below)
  const others = below.map((each, at) => ({scope: each, limits: limitsBelow[at] ?? []}))
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

/** Whom a change concerns, and which limits are lost by buckets that are charged for them; reads only, and not everything. */
export function changeReach(namespace: NamespaceRepository, change: ScopeLimits, nowMs: number): Promise<ChangeReach> {
  return reachOf(namespace, new LevelLimits(namespace, [change]), [change], nowMs)
}

/** The same for changes that are made together, of which only those are looked into that may take a limit away. */
export async function lossReach(
  namespace: NamespaceRepository,
  changes: readonly ScopeLimits[],
  nowMs: number,
): Promise<ChangeReach> {
  const levels = new LevelLimits(namespace, changes)
  await levels.load(changes.flatMap(({scope}) => scopesBelow(scope)))
  const suspects = changes.filter(change => levels.mayLose(change))
  return reachOf(namespace, levels, suspects, nowMs)
}

async function reachOf(
  namespace: NamespaceRepository,
  levels: LevelLimits,
  changes: readonly ScopeLimits[],
  nowMs: number,
): Promise<ChangeReach> {
  const reach = new ReachCount()
  let looked = 0
  for (const [at, {scope}] of changes.entries()) {
    if (at >= MOST_SCOPES || looked >= MOST_BUCKETS) return reach.result(false)
    for await (const buckets of chunksOf(bucketsOfScope(namespace.buckets, scope), BUCKETS_PER_READ)) {
      if (looked >= MOST_BUCKETS) return reach.result(false)
      looked += buckets.length
      const live = buckets.filter(bucket => recordsOf(bucket, nowMs).length > 0)
      await levels.load(live.flatMap(scopesOfBucket))
      for (const bucket of live) reach.add(bucket, recordsOf(bucket, nowMs), levels.effectOn(bucket))
    }
  }
  return reach.result(true)
}

/** The shards that are not about to be dropped. */
function recordsOf({shards}: ShardedBucket, nowMs: number): BucketRecord[] {
  const isLive = ({ttlSeconds}: BucketRecord) => ttlSeconds === undefined || ttlSeconds * 1000 > nowMs
  return shards.flatMap(shard => (shard.kind === 'bucket' && isLive(shard.record) ? [shard.record] : []))
}

/** What changes do to one bucket. */
interface BucketEffect {
  readonly isConcerned: boolean
  /** Names that apply to it before, and not after. */
  readonly lost: readonly string[]
  readonly isUnconfigured: boolean
}

/** The limits of all levels that were looked at, before and after the changes. */
export class LevelLimits {
  readonly #namespace: Pick<NamespaceRepository, 'id' | 'configs'>
  readonly #known = new Map<string, Omit<ScopeLimits, 'scope'>>()
  readonly #changed: ReadonlySet<string>

  constructor(namespace: Pick<NamespaceRepository, 'id' | 'configs'>, changes: readonly ScopeLimits[]) {
    this.#namespace = namespace
    for (const {scope, before, after} of changes) this.#known.set(this.#id(scope), {before, after})
    this.#changed = new Set(this.#known.keys())
  }

  /** Reads the limits of scopes that are not known yet. */
  async load(scopes: readonly ConfigScope[]): Promise<void> {
    const missing = new Map<string, ConfigScope>()
    for (const scope of scopes) {
      const id = this.#id(scope)
      if (!this.#known.has(id)) missing.set(id, scope)
    }
    if (missing.size === 0) return
    const found = await this.#namespace.configs.readableLimits([...missing.values()])
    for (const [at, id] of [...missing.keys()].entries()) {
      const limits = found[at] ?? []
      this.#known.set(id, {before: limits, after: limits})
    }
  }

  /** Whether a name may be gone somewhere; those below the scope must have been read. */
  mayLose({scope, before, after}: ScopeLimits): boolean {
    // Resources hide different limits from the default of an entity.
    if (levelOf(scope) === 'entity_default' && before.length === 0) return true
    const below = scopesBelow(scope).map(each => this.#known.get(this.#id(each)))
    const own = {before, after}
    const applied = (when: 'before' | 'after') =>
      [own, ...below].map(limits => limits?.[when] ?? []).find(limits => limits.length > 0) ?? []
    return namesLost(applied('before'), applied('after')).length > 0
  }

  effectOn(bucket: ShardedBucket): BucketEffect {
    const [before, after] = [this.#applied(bucket, 'before'), this.#applied(bucket, 'after')]
    const isConcerned = [before, after].some(applied => applied !== undefined && this.#changed.has(applied.id))
    const lost = namesLost(before?.limits ?? [], after?.limits ?? [])
    return {isConcerned, lost, isUnconfigured: before !== undefined && after === undefined}
  }

  /** All levels that decide about an entity and a resource, the most specific first. */
  scopesOf(pair: BucketPair): ConfigScope[] {
    return scopesOfBucket(pair)
  }

  /**
   * The limits that apply after the changes and did not before, where these are what decides; `undefined` elsewhere, and where
   * there are none.
   */
  changedLimitsOf(pair: BucketPair): readonly Limit[] | undefined {
    const [before, after] = [this.#applied(pair, 'before'), this.#applied(pair, 'after')]
    const isConcerned = [before, after].some(applied => applied !== undefined && this.#changed.has(applied.id))
    const present = new Set(before?.limits.map(formatLimit))
    return isConcerned ? after?.limits.filter(limit => !present.has(formatLimit(limit))) : undefined
  }

  #applied(bucket: BucketPair, when: 'before' | 'after'): {id: string; limits: readonly Limit[]} | undefined {
    for (const scope of scopesOfBucket(bucket)) {
      const id = this.#id(scope)
      const limits = this.#known.get(id)?.[when] ?? []
      if (limits.length > 0) return {id, limits}
    }
    return undefined
  }

  #id(scope: ConfigScope): string {
    return keyId(configKey(this.#namespace.id, scope))
  }
}

function namesLost(before: readonly Limit[], after: readonly Limit[]): string[] {
  const kept = new Set(after.map(({name}) => name))
  return before.flatMap(({name}) => (kept.has(name) ? [] : [name]))
}

/** An entity and a resource. */
type BucketPair = Pick<ShardedBucket, 'entity' | 'resource'>

function scopesOfBucket({entity, resource}: BucketPair): ConfigScope[] {
  const scopes = scopesOf(entity, resource)
  return LEVELS.map(level => scopes[level])
}

/** Counts each bucket once, however many changes concern it. */
class ReachCount {
  readonly #entities = new Set<string>()
  readonly #buckets = new Set<string>()
  readonly #lost = new Set<string>()
  #losing = 0
  #unconfigured = 0

  add({entity, resource}: ShardedBucket, records: readonly BucketRecord[], effect: BucketEffect): void {
    const id = `${entity}#${resource}`
    if (!effect.isConcerned || this.#buckets.has(id)) return
    this.#buckets.add(id)
    this.#entities.add(entity)
    const charged = effect.lost.filter(name =>
      records.some(({state}) => (state.limits.get(name)?.consumedMilli ?? 0n) > 0n),
    )
    for (const name of charged) this.#lost.add(name)
    if (charged.length > 0) this.#losing++
    if (effect.isUnconfigured) this.#unconfigured++
  }

  result(isComplete: boolean): ChangeReach {
    return {
      entities: this.#entities.size,
      buckets: this.#buckets.size,
      isComplete,
      lost: [...this.#lost].sort(),
      losing: this.#losing,
      unconfigured: this.#unconfigured,
    }
  }
}
