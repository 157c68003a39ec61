import {isDeepStrictEqual} from 'node:util'
import type {Limit} from '../../core/limits/limit.js'
import {tellsUse} from '../../core/limits/limit-kind.js'
import {formatLimit, hasSameText, type LimitChange, limitChanges} from '../../core/limits/limit-text.js'
import {toTokens} from '../../core/token-math.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import {bucketsOfScope, type ShardedBucket} from '../../repository/buckets/buckets.js'
import {planBucket} from '../../repository/buckets/plan.js'
import {quotaLevel, viewBucket} from '../../repository/buckets/view.js'
import {scopesBelow} from '../../repository/limits/merge.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {levelOf} from '../../schema/config-record.js'
import {type NewName, newNames} from '../lookup/known-names.js'
import {type AppliedScope, type BucketPair, inForce, LevelLimits, type ProposedChange} from './level-limits.js'

/** Effects of changes beyond the named limits, computed before writing. */
export interface Preview {
  /** Entities with live buckets to which the changed limits apply. */
  readonly entities: number
  readonly buckets: number
  /** Entities with live buckets in the changed scopes to which only more specific limits apply. */
  readonly others: number
  /** False: more live buckets exist than were read, so all numbers are lower bounds. */
  readonly isComplete: boolean
  /** Names of limits that charged live buckets lose. `losing` counts these buckets. */
  readonly lost: readonly string[]
  readonly losing: number
  /** Live buckets left without limits at any level: their requests fail. */
  readonly unconfigured: number
  /** Changed quotas of live buckets: first those that are refused, then least left first. */
  readonly quotas: readonly QuotaEffect[]
  /** Unnamed changes to live buckets, and to resources that are hidden or uncovered. Most live buckets first. */
  readonly altered: readonly AlteredLimit[]
}

export interface AlteredLimit extends LimitChange {
  /** The changed scope has the same `before` and `after`, so the preview shows them there. */
  readonly isShown: boolean
  readonly resource: string
  readonly entities: readonly string[]
  /** Live buckets, each of another entity. 0: the next one used will be affected. */
  readonly buckets: number
}

/** Tokens, at the instant of the preview. */
export interface QuotaEffect extends BucketPair {
  readonly limit: Limit
  /** `undefined`: not known, so the balance stays until the reset, but is cut to the new allowance. */
  readonly used: number | undefined
  readonly left: {readonly before: number; readonly after: number}
  /** ISO 8601, UTC. */
  readonly resetsAt: string
  /** Tokens by which the allowance rises; negative if it falls. For former rates: above the balance. */
  readonly risesBy: number
  /** ISO 8601, UTC: the reset, if nothing is left after the change. */
  readonly refusedUntil: string | undefined
}

interface ScopeEffect {
  readonly before: AppliedScope
  readonly after: AppliedScope
  /** Limits of other levels that stop applying. `uncovers`: limits that start to apply. */
  readonly hides: readonly AppliedScope[]
  readonly uncovers: readonly AppliedScope[]
  /** Applies when the limits of the scope, a temporary copy, expire. `undefined`: no copy, or it differs by resource. */
  readonly next?: AppliedScope | undefined
}

export interface ScopePreview extends Preview, ScopeEffect {
  readonly names: readonly NewName[]
}

/** Read-only and bounded. */
export async function previewChange(
  namespace: NamespaceRepository,
  change: ProposedChange,
  nowMs: number,
): Promise<ScopePreview> {
  const {scope, before, after} = change
  const levels = new LevelLimits(namespace, [change])
  const effect = await scopeEffect(namespace, change, levels)
  const count = new PreviewCount(levels)
  const known = new Set(before.map(({name}) => name))
  const added = after.flatMap(({name}) => (known.has(name) ? [] : [name]))
  const countAll = async (): Promise<void> => {
    // Settings alone affect no bucket.
    if (before.length === 0 && after.length === 0) return
    await count.addCovered(scope, [...effect.hides, ...effect.uncovers])
    await count.addBuckets(namespace, [change], nowMs)
  }
  const [names] = await Promise.all([added.length === 0 ? [] : newNames(namespace, scope, added), countAll()])
  return {...effect, ...count.result(), names}
}

/** For changes made together. Reads only the buckets of changes that may have side effects. */
export async function previewChanges(
  namespace: NamespaceRepository,
  changes: readonly ProposedChange[],
  nowMs: number,
  signal?: AbortSignal,
): Promise<Preview> {
  const levels = new LevelLimits(namespace, changes)
  await levels.load(changes.flatMap(({scope}) => scopesBelow(scope)))
  const count = new PreviewCount(levels)
  const suspects = changes.filter(change => maySurprise(levels, change))
  await count.addBuckets(namespace, suspects, nowMs, signal)
  return count.result()
}

/** The preview of the change that was made: others may have changed the same limits since. */
export async function previewMade(
  namespace: NamespaceRepository,
  preview: ScopePreview,
  previewed: Pick<ProposedChange, 'before' | 'after'>,
  made: ProposedChange,
): Promise<ScopePreview> {
  const isSame = isDeepStrictEqual([previewed.before, previewed.after], [made.before, made.after])
  return isSame ? preview : {...preview, ...(await scopeEffect(namespace, made))}
}

async function scopeEffect(
  namespace: NamespaceRepository,
  change: ProposedChange,
  levels = new LevelLimits(namespace, [change]),
): Promise<ScopeEffect> {
  const {scope, before: was, after: is} = change
  await levels.load(scopesBelow(scope))
  const [before, after] = [levels.appliedAt(scope, 'before'), levels.appliedAt(scope, 'after')]
  const isCovering = (was.length === 0) !== (is.length === 0)
  // An entity default also covers all resources.
  const resources = isCovering && levelOf(scope) === 'entity_default' ? await namespace.configs.resources() : []
  const other = was.length === 0 ? before : after
  const covered = isCovering ? [...resources, other].filter(({limits}) => limits.length > 0) : []
  const copyEnds = [...was, ...is].flatMap(({boost}) => (boost?.endsCopy ? boost.untilMs : []))
  const next = copyEnds.length === 0 ? undefined : levels.appliedAfter(scope, Math.max(...copyEnds))
  return {before, after, hides: is.length > 0 ? covered : [], uncovers: was.length > 0 ? covered : [], next}
}

/** Whether a limit may disappear or get unnamed values, or a quota changes. Levels below the scope must be loaded. */
function maySurprise(levels: LevelLimits, {scope, before, after, named = []}: ProposedChange): boolean {
  const isCovering = before.length === 0 || after.length === 0
  // An entity default covers different limits for each resource.
  if (levelOf(scope) === 'entity_default' && isCovering) return true
  const [was, is] = [levels.appliedAt(scope, 'before'), levels.appliedAt(scope, 'after')]
  if (namesLost(was, is).length > 0 || (isCovering && is.limits.some(({name}) => !named.includes(name)))) return true
  return changesBetween(was, is).some(change => change.before && change.after?.reset)
}

const namesLost = (was: AppliedScope, is: AppliedScope): string[] =>
  limitChanges(was.limits, is.limits).flatMap(({name, after}) => (after ? [] : [name]))

/** Bounds the cost of a preview. */
const MOST_BUCKETS = 1000

const MOST_SCOPES = 200

const BUCKETS_PER_READ = 100

/** Counts each bucket once, even if several changes affect it. */
class PreviewCount {
  readonly #levels: LevelLimits
  readonly #entities = new Set<string>()
  readonly #others = new Set<string>()
  readonly #buckets = new Set<string>()
  readonly #lost = new Set<string>()
  readonly #altered = new Map<string, AlteredLimit>()
  readonly #quotas: QuotaEffect[] = []
  #isComplete = true
  #losing = 0
  #unconfigured = 0

  /** The levels below all changes must be loaded. */
  constructor(levels: LevelLimits) {
    this.#levels = levels
  }

  /** Resources whose limits an entity's default hides or uncovers, with or without a bucket. */
  async addCovered(scope: ProposedChange['scope'], covered: readonly AppliedScope[]): Promise<void> {
    if (scope.level !== 'entity') return
    const {entity} = scope
    const pairs = covered.flatMap(({scope: of}) => (of?.level === 'resource' ? [{entity, resource: of.resource}] : []))
    await this.#levels.loadFor(pairs)
    for (const pair of pairs) this.#addAltered(pair, false)
  }

  async addBuckets(
    namespace: NamespaceRepository,
    changes: readonly ProposedChange[],
    nowMs: number,
    signal?: AbortSignal,
  ): Promise<void> {
    let looked = 0
    for (const [at, {scope}] of changes.entries()) {
      this.#isComplete = at < MOST_SCOPES && looked < MOST_BUCKETS
      if (!this.#isComplete) return
      for await (const buckets of chunksOf(bucketsOfScope(namespace.buckets, scope, signal), BUCKETS_PER_READ)) {
        this.#isComplete = looked < MOST_BUCKETS
        if (!this.#isComplete) return
        looked += buckets.length
        const live = buckets.filter(bucket => liveRecords(bucket, nowMs).length > 0)
        await this.#levels.loadFor(live)
        for (const bucket of live) this.#addBucket(bucket, liveRecords(bucket, nowMs), nowMs)
      }
    }
  }

  #addBucket(bucket: ShardedBucket, records: readonly BucketRecord[], nowMs: number): void {
    const {entity, resource} = bucket
    const [was, is] = [this.#levels.appliedTo(bucket, 'before'), this.#levels.appliedTo(bucket, 'after')]
    const id = `${entity}#${resource}`
    if (!(was.change ?? is.change)) this.#others.add(entity)
    if (!(was.change ?? is.change) || this.#buckets.has(id)) return
    this.#buckets.add(id)
    this.#entities.add(entity)
    const isCharged = (name: string): boolean =>
      records.some(({state}) => (state.limits.get(name)?.consumedMilli ?? 0n) > 0n)
    const charged = namesLost(was, is).filter(isCharged)
    for (const name of charged) this.#lost.add(name)
    if (charged.length > 0) this.#losing++
    if (was.limits.length > 0 && is.limits.length === 0) this.#unconfigured++
    this.#quotas.push(...quotaEffects(bucket, records, [was, is], nowMs))
    this.#addAltered(bucket, true)
  }

  /** Unnamed effects: other limits, or other values than at the changed scope. */
  #addAltered(pair: BucketPair, isLive: boolean): void {
    const {entity, resource} = pair
    const [was, is] = [this.#levels.appliedTo(pair, 'before'), this.#levels.appliedTo(pair, 'after')]
    const deciding = [is, was].flatMap(({change}) => change ?? [])
    const [place] = deciding
    if (!place) return
    const named = deciding.flatMap(change => change.named ?? [])
    const shown = changesBetween(
      this.#levels.appliedAt(place.scope, 'before'),
      this.#levels.appliedAt(place.scope, 'after'),
    )
    for (const {name, before, after} of changesBetween(was, is)) {
      const same = shown.find(each => each.name === name)
      const isShown = same !== undefined && hasSameText(same.before, before) && hasSameText(same.after, after)
      // A removed limit that is shown counts as lost.
      if (isShown && (named.includes(name) || after === undefined)) continue
      const key = [resource, name, before && formatLimit(before), after && formatLimit(after)].join('#')
      const known = this.#altered.get(key) ?? {resource, name, before, after, isShown, entities: [], buckets: 0}
      const entities = known.entities.includes(entity) ? known.entities : [...known.entities, entity]
      this.#altered.set(key, {...known, entities, buckets: known.buckets + (isLive ? 1 : 0)})
    }
  }

  result(): Preview {
    const order = ({resource, name}: AlteredLimit) => `${resource}#${name}`
    return {
      entities: this.#entities.size,
      buckets: this.#buckets.size,
      others: [...this.#others].filter(entity => !this.#entities.has(entity)).length,
      isComplete: this.#isComplete,
      lost: [...this.#lost].sort(),
      losing: this.#losing,
      unconfigured: this.#unconfigured,
      quotas: this.#quotas.sort((a, b) => isRefused(b) - isRefused(a) || a.left.after - b.left.after),
      altered: [...this.#altered.values()].sort((a, b) => b.buckets - a.buckets || (order(a) < order(b) ? -1 : 1)),
    }
  }
}

const isRefused = ({refusedUntil}: QuotaEffect): number => Number(refusedUntil !== undefined)

function liveRecords({shards}: ShardedBucket, nowMs: number): BucketRecord[] {
  const isLive = ({ttlSeconds}: BucketRecord) => ttlSeconds === undefined || ttlSeconds * 1000 > nowMs
  return shards.flatMap(shard => (shard.kind === 'bucket' && isLive(shard.record) ? [shard.record] : []))
}

/** Balances as the change will write them. */
function quotaEffects(
  bucket: ShardedBucket,
  records: readonly BucketRecord[],
  [was, is]: readonly [AppliedScope, AppliedScope],
  nowMs: number,
): QuotaEffect[] {
  const {entity, resource, limits} = viewBucket(bucket, nowMs)
  const plans = records.map(record => planBucket({record, incomplete: new Map()}, nowMs, is.limits))
  return changesBetween(was, is).flatMap(({name, before, after: limit}) => {
    const {level, used} = limits.find(each => each.name === name) ?? {}
    const planned = plans.flatMap(({changes}) => changes.get(name)?.after ?? [])
    const resetsAt = planned
      .flatMap(share => quotaLevel(share, nowMs).resetsAt ?? [])
      .sort()
      .at(-1)
    // Without a reset, the next request starts a session with the new allowance.
    if (!limit?.reset || level === undefined || resetsAt === undefined) return []
    // With debts: a shard's debt is paid by the others.
    const after = toTokens(planned.reduce((sum, {tokensMilli}) => sum + tokensMilli, 0n))
    return {
      ...{entity, resource, limit, resetsAt, left: {before: level, after}},
      used: planned.every(share => tellsUse(share, nowMs)) ? used : undefined,
      risesBy: limit.capacity - (before?.reset ? before.capacity : after),
      refusedUntil: after < 1 && !limit.soft ? resetsAt : undefined,
    }
  })
}

/** Compares current values, including boosts. */
function changesBetween(was: AppliedScope, is: AppliedScope): LimitChange[] {
  const inForceAt = ({limits}: AppliedScope): Limit[] => limits.map(inForce)
  return limitChanges(inForceAt(was), inForceAt(is)).filter(({before, after}) => !hasSameText(before, after))
}
