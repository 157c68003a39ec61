import {isInFlight, type Level, type Limit, slotsOf, tokenLimits} from '../../core/limits/limit.js'
import {nothingApplies} from '../../repository/limits/checks.js'
import {type ConfigResolver, type Resolution, requireSupportedLimits} from '../../repository/limits/resolver.js'
import {Lru} from '../../repository/table/lru.js'
import {getItem, type NamespaceTable} from '../../repository/table/table.js'
import {decodeEntity, type EntityRecord} from '../../schema/entity-record.js'
import {chargedParent, type Family, familyOf} from '../../schema/family.js'
import {keys} from '../../schema/keys.js'
import {MOST_LEVELS} from '../../schema/namespace-record.js'
import {NO_SLOTS, type Slots} from '../holders/slot-account.js'
import type {LevelsSetting} from './levels-setting.js'

export interface AppliedLimits {
  readonly source: Level | 'default'
  /** Without in-flight limits. */
  readonly limits: readonly Limit[]
  readonly inFlight: Slots
  /** Whether the parent is charged too, if the configuration decides instead of the entity. */
  readonly cascade?: boolean | undefined
  readonly disabledAt?: Level | undefined
  readonly isBypassed?: boolean | undefined
  /** Epoch ms from which other limits apply, or another switch: copied limits or a temporary switch expire. */
  readonly changesAtMs?: number | undefined
}

export interface LimitsInForce {
  readonly applied: AppliedLimits
  readonly family: Family
}

interface AskedLimits {
  /** As in `CachedReadOptions`: older reads don't count. */
  readonly after?: number | undefined
  /** The instant whose limits to return, in epoch ms. Default: now. */
  readonly atMs?: number | undefined
}

interface CachedEntity {
  readonly record: EntityRecord | undefined
  readonly readFromMs: number
}

interface EntityAndResource {
  readonly entity: string
  readonly resource: string
}

interface LimitSourceOptions {
  readonly table: NamespaceTable
  readonly resolver: ConfigResolver
  readonly defaultLimits: readonly Limit[]
  readonly levels: LevelsSetting
  readonly cacheMs: number
  readonly cacheSize: number
}

export class LimitSource {
  readonly #options: LimitSourceOptions
  #entities: Lru<CachedEntity>
  #hits = 0
  #misses = 0

  constructor(options: LimitSourceOptions) {
    this.#options = options
    this.#entities = entityCache(options)
  }

  get size(): number {
    return this.#entities.size
  }

  get cacheUse(): {readonly entries: number; readonly hits: number; readonly misses: number} {
    return {entries: this.size, hits: this.#hits, misses: this.#misses}
  }

  /** A new cache: reads under way may have seen the old records, and still store them in the previous one. */
  invalidate(): void {
    this.#entities = entityCache(this.#options)
  }

  async inForce({entity, resource}: EntityAndResource, asked: AskedLimits = {}): Promise<LimitsInForce> {
    const [applied, record] = await Promise.all([
      this.limitsOf(entity, resource, asked),
      this.#entity(entity, asked.after),
    ])
    return {applied, family: familyOf(record, applied.cascade)}
  }

  /** The ancestors that a request charges by the configuration, nearest first. `parent` is the first. */
  async ancestors({entity, resource}: EntityAndResource, parent: string | undefined, asked: AskedLimits = {}) {
    const {levels} = this.#options
    const chain = [entity]
    let next = parent
    while (next !== undefined && !chain.includes(next)) {
      if (chain.length === MOST_LEVELS.parent) await levels.refresh()
      if (chain.length >= levels.most) break
      chain.push(next)
      const isLast = chain.length >= levels.most && !levels.isDue
      next = isLast ? undefined : chargedParent((await this.inForce({entity: next, resource}, asked)).family)
    }
    return chain.slice(1)
  }

  /** Throws if no limits are configured. */
  async limitsOf(entity: string, resource: string, asked: AskedLimits = {}): Promise<AppliedLimits> {
    const applied = this.#applied(await this.#options.resolver.resolve({entity, resource}, asked), {entity, resource})
    if (applied) return applied
    throw nothingApplies(entity, resource)
  }

  /** The limits in force, if there are any and no call is needed. Throws if zael cannot honour them. */
  atHand({entity, resource}: EntityAndResource, atMs?: number): AppliedLimits | undefined {
    const resolution = this.#options.resolver.peek(entity, resource, atMs)
    return resolution && this.#applied(resolution, {entity, resource})
  }

  #applied(resolution: Resolution, whose: EntityAndResource): AppliedLimits | undefined {
    requireSupportedLimits(resolution, whose)
    const {defaultLimits} = this.#options
    const {source, access, copiedUntilMs} = resolution
    const {limits, inFlight} = divided(source === undefined ? defaultLimits : resolution.limits)
    const cascade = resolution.cascade?.cascade
    const disabledAt = access?.access === 'disabled' ? access.level : undefined
    const isBypassed = access?.access === 'bypass'
    const endsMs = access?.untilMs
    const changesAtMs = endsMs === undefined ? copiedUntilMs : Math.min(endsMs, copiedUntilMs ?? Infinity)
    if (source !== undefined) return {source, limits, inFlight, cascade, disabledAt, isBypassed, changesAtMs}
    const hasDefault = defaultLimits.length > 0 || disabledAt !== undefined
    return hasDefault ? {source: 'default', limits, inFlight, cascade, disabledAt, isBypassed, changesAtMs} : undefined
  }

  async #entity(entity: string, after = Number.NEGATIVE_INFINITY): Promise<EntityRecord | undefined> {
    const entities = this.#entities
    const cached = entities.get(entity)
    if (cached && cached.readFromMs > after) {
      this.#hits++
      return cached.record
    }
    this.#misses++
    const {table} = this.#options
    const readFromMs = performance.now()
    const item = await getItem(table, keys.entity(table.namespace, entity))
    const record = item && decodeEntity(item)
    entities.set(entity, {record, readFromMs})
    return record
  }
}

function divided(limits: readonly Limit[]): Pick<AppliedLimits, 'limits' | 'inFlight'> {
  if (!limits.some(isInFlight)) return {limits, inFlight: NO_SLOTS}
  return {limits: tokenLimits(limits), inFlight: slotsOf(limits)}
}

const entityCache = ({table, cacheMs: ttlMs, cacheSize: maxEntries}: LimitSourceOptions): Lru<CachedEntity> =>
  new Lru({clock: table.clock, ttlMs, maxEntries})
