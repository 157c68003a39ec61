import type {Limit} from '../../core/limits/limit.js'
import {formatLimit} from '../../core/limits/limit-text.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import {bucketsOfScope, type ShardedBucket} from '../../repository/buckets/buckets.js'
import {scopesBelow} from '../../repository/limits/inherited.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {type ConfigScope, levelOf} from '../../schema/config-record.js'
import {type AppliedScope, type BucketPair, inForce, LevelLimits, type MeantChange} from './level-limits.js'

export interface ChangeReach {
  /** Entities with live buckets to which the changed limits apply. */
  readonly entities: number
  readonly buckets: number
  /** False: more live buckets exist than were read, so all numbers are lower bounds. */
  readonly isComplete: boolean
  /** Names of limits that charged live buckets lose. `losing` counts these buckets. */
  readonly lost: readonly string[]
  readonly losing: number
  /** Live buckets left without limits at any level: their requests fail. */
  readonly unconfigured: number
  /** Unnamed changes to live buckets, and to resources that are hidden or uncovered. */
  readonly altered: readonly AlteredLimit[]
}

/** Bounds the cost of a preview. */
const MOST_BUCKETS = 1000

const MOST_SCOPES = 200

const BUCKETS_PER_READ = 100

/** Read-only and bounded. `covered`: the levels that the change hides or uncovers. */
export async function changeReach(
  namespace: NamespaceRepository,
  change: MeantChange,
  covered: readonly AppliedScope[],
  nowMs: number,
): Promise<ChangeReach> {
  const levels = new LevelLimits(namespace, [change])
  await levels.load(scopesBelow(change.scope))
  const reach = new ReachCount(levels, [change])
  await reach.addResources(change.scope, covered)
  return reachOf(namespace, reach, [change], nowMs)
}

/** Like `changeReach` for changes made together. Reads only the buckets of changes that may have side effects. */
export async function lossReach(
  namespace: NamespaceRepository,
  changes: readonly MeantChange[],
  nowMs: number,
  signal?: AbortSignal,
): Promise<ChangeReach> {
  const levels = new LevelLimits(namespace, changes)
  await levels.load(changes.flatMap(({scope}) => scopesBelow(scope)))
  const suspects = changes.filter(change => maySurprise(levels, change))
  return reachOf(namespace, new ReachCount(levels, changes), suspects, nowMs, signal)
}

/** Whether a limit may disappear or get unnamed values. Levels below the scope must be loaded. */
function maySurprise(levels: LevelLimits, {scope, before, after, named}: MeantChange): boolean {
  const isCovering = before.length === 0 || after.length === 0
  // An entity default covers different limits for each resource.
  if (levelOf(scope) === 'entity_default' && isCovering) return true
  const [was, is] = [levels.appliedAt(scope, 'before'), levels.appliedAt(scope, 'after')]
  return namesLost(was, is).length > 0 || (isCovering && is.some(({name}) => !named.includes(name)))
}

async function reachOf(
  namespace: NamespaceRepository,
  reach: ReachCount,
  changes: readonly MeantChange[],
  nowMs: number,
  signal?: AbortSignal,
): Promise<ChangeReach> {
  let looked = 0
  for (const [at, {scope}] of changes.entries()) {
    if (at >= MOST_SCOPES || looked >= MOST_BUCKETS) return reach.result(false)
    for await (const buckets of chunksOf(bucketsOfScope(namespace.buckets, scope, signal), BUCKETS_PER_READ)) {
      if (looked >= MOST_BUCKETS) return reach.result(false)
      looked += buckets.length
      await reach.add(
        buckets.flatMap(bucket => {
          const records = recordsOf(bucket, nowMs)
          return records.length === 0 ? [] : [{bucket, records}]
        }),
      )
    }
  }
  return reach.result(true)
}

function recordsOf({shards}: ShardedBucket, nowMs: number): BucketRecord[] {
  const isLive = ({ttlSeconds}: BucketRecord) => ttlSeconds === undefined || ttlSeconds * 1000 > nowMs
  return shards.flatMap(shard => (shard.kind === 'bucket' && isLive(shard.record) ? [shard.record] : []))
}

function namesLost(before: readonly Limit[], after: readonly Limit[]): string[] {
  const kept = new Set(after.map(({name}) => name))
  return before.flatMap(({name}) => (kept.has(name) ? [] : [name]))
}

interface LiveBucket {
  readonly bucket: ShardedBucket
  readonly records: readonly BucketRecord[]
}

/** Counts each bucket once, even if several changes affect it. */
class ReachCount {
  readonly #levels: LevelLimits
  readonly #changes: readonly MeantChange[]
  readonly #entities = new Set<string>()
  readonly #buckets = new Set<string>()
  readonly #lost = new Set<string>()
  readonly #altered = new AlterationCount()
  #losing = 0
  #unconfigured = 0

  constructor(levels: LevelLimits, changes: readonly MeantChange[]) {
    this.#levels = levels
    this.#changes = changes
  }

  async addResources(scope: ConfigScope, covered: readonly AppliedScope[]): Promise<void> {
    if (scope.level !== 'entity') return
    const {entity} = scope
    const pairs = covered.flatMap(({scope: of}) => (of?.level === 'resource' ? [{entity, resource: of.resource}] : []))
    await this.#levels.load(pairs.flatMap(pair => this.#levels.scopesOf(pair)))
    for (const pair of pairs) this.#altered.add(pair, alterationsOf(this.#levels, this.#changes, pair), false)
  }

  async add(live: readonly LiveBucket[]): Promise<void> {
    await this.#levels.load(live.flatMap(({bucket}) => this.#levels.scopesOf(bucket)))
    for (const each of live) this.#addOne(each)
  }

  #addOne({bucket, records}: LiveBucket): void {
    const {entity, resource} = bucket
    const [before, after] = [this.#levels.appliedTo(bucket, 'before'), this.#levels.appliedTo(bucket, 'after')]
    const isConcerned = before?.change !== undefined || after?.change !== undefined
    const id = `${entity}#${resource}`
    if (!isConcerned || this.#buckets.has(id)) return
    this.#buckets.add(id)
    this.#entities.add(entity)
    const charged = namesLost(before?.limits ?? [], after?.limits ?? []).filter(name =>
      records.some(({state}) => (state.limits.get(name)?.consumedMilli ?? 0n) > 0n),
    )
    for (const name of charged) this.#lost.add(name)
    if (charged.length > 0) this.#losing++
    if (before && !after) this.#unconfigured++
    this.#altered.add(bucket, alterationsOf(this.#levels, this.#changes, bucket), true)
  }

  result(isComplete: boolean): ChangeReach {
    return {
      entities: this.#entities.size,
      buckets: this.#buckets.size,
      isComplete,
      lost: [...this.#lost].sort(),
      losing: this.#losing,
      unconfigured: this.#unconfigured,
      altered: this.#altered.result(),
    }
  }
}

export interface LimitAlteration {
  readonly name: string
  readonly before: Limit | undefined
  readonly after: Limit | undefined
  /** The changed scope has the same `before` and `after`, so the preview shows them there. */
  readonly isShown: boolean
}

/** Unnamed effects: other limits, or other values than at the changed scope. All levels concerned must be loaded. */
function alterationsOf(levels: LevelLimits, changes: readonly MeantChange[], pair: BucketPair): LimitAlteration[] {
  const [was, is] = [levels.appliedTo(pair, 'before'), levels.appliedTo(pair, 'after')]
  const deciding = [is, was].flatMap(applied => changes[applied?.change ?? Number.NaN] ?? [])
  const [place] = deciding
  if (!place) return []
  const named = new Set(deciding.flatMap(change => change.named))
  const shown = changed(levels.appliedAt(place.scope, 'before'), levels.appliedAt(place.scope, 'after'))
  return changed(was?.limits ?? [], is?.limits ?? []).flatMap(({name, before, after}) => {
    const same = shown.find(each => each.name === name)
    const isShown = same !== undefined && isSame(same.before, before) && isSame(same.after, after)
    // A removed limit that is shown counts as lost.
    return isShown && (named.has(name) || after === undefined) ? [] : [{name, before, after, isShown}]
  })
}

function changed(before: readonly Limit[], after: readonly Limit[]): Omit<LimitAlteration, 'isShown'>[] {
  const [was, is] = [before, after].map(limits => new Map(limits.map(limit => [limit.name, inForce(limit)])))
  return [...new Set([...before, ...after].map(({name}) => name))]
    .sort()
    .map(name => ({name, before: was?.get(name), after: is?.get(name)}))
    .filter(each => !isSame(each.before, each.after))
}

const isSame = (a: Limit | undefined, b: Limit | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && formatLimit(a) === formatLimit(b))

export interface AlteredLimit extends LimitAlteration {
  readonly resource: string
  readonly entities: number
  /** 0: no live bucket now, but the next one used will be affected. */
  readonly buckets: number
}

class AlterationCount {
  readonly #found = new Map<
    string,
    {readonly each: LimitAlteration & {resource: string}; entities: Set<string>; buckets: number}
  >()

  add({entity, resource}: BucketPair, alterations: readonly LimitAlteration[], isLive: boolean): void {
    for (const alteration of alterations) {
      const {name, before, after} = alteration
      const key = [resource, name, before && formatLimit(before), after && formatLimit(after)].join('#')
      const known = this.#found.get(key) ?? {each: {...alteration, resource}, entities: new Set(), buckets: 0}
      this.#found.set(key, known)
      if (!isLive) continue
      known.entities.add(entity)
      known.buckets++
    }
  }

  /** Most live buckets first. */
  result(): AlteredLimit[] {
    const order = ({resource, name}: {resource: string; name: string}) => `${resource}#${name}`
    return [...this.#found.values()]
      .map(({each, entities, buckets}) => ({...each, entities: entities.size, buckets}))
      .sort((a, b) => b.buckets - a.buckets || (order(a) < order(b) ? -1 : 1))
  }
}
