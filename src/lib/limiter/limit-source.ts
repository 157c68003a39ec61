import type {Limit} from '../core/limit.js'
import type {Level} from '../core/resolve.js'
import {nothingApplies} from '../repository/limits/checks.js'
import {type ConfigResolver, type Resolution, requireSupportedLimits} from '../repository/limits/resolver.js'
import {Lru} from '../repository/table/lru.js'
import {getItem, type NamespaceTable} from '../repository/table/table.js'
import {decodeEntity} from '../schema/entity-record.js'
import {keys} from '../schema/keys.js'
import type {ParentGeneration} from '../schema/parent-generation.js'

/** The limits that apply to an entity and resource, and where they come from. */
export interface AppliedLimits {
  readonly source: Level | 'default'
  readonly limits: readonly Limit[]
  /** Whether requests are charged to the parent too, where the configuration decides instead of the entity. */
  readonly cascade?: boolean | undefined
  /** The level at which a switch refuses every request. */
  readonly disabledAt?: Level | undefined
  /** A switch admits every request: it is counted, and nothing is taken. */
  readonly isBypassed?: boolean | undefined
}

/** The parent that an entity shares its budget with. */
export interface Family {
  readonly cascade: boolean
  readonly parent: string | undefined
  /** The generation of the parent; absent where no client counts moves. */
  readonly parentGeneration?: ParentGeneration | undefined
}

/** Everything that the configuration determines about a bucket. */
export interface LimitsInForce {
  readonly applied: AppliedLimits
  readonly family: Family
}

interface EntityAndResource {
  readonly entity: string
  readonly resource: string
}

interface LimitSourceOptions {
  readonly table: NamespaceTable
  readonly resolver: ConfigResolver
  /** In force where nothing is configured. */
  readonly defaultLimits: readonly Limit[]
  /** How long an entity's record is cached, in ms. */
  readonly cacheMs: number
}

/** Looks up limits and families, through caches. */
export class LimitSource {
  readonly #options: LimitSourceOptions
  readonly #families: Lru<{readonly family: Family; readonly readFromMs: number}>

  constructor(options: LimitSourceOptions) {
    this.#options = options
    this.#families = new Lru({clock: options.table.clock, ttlMs: options.cacheMs, maxEntries: 10_000})
  }

  /** Both at once; throws when no limits are configured. With `after`, as `CachedReadOptions` has it, nothing older counts. */
  async inForce({entity, resource}: EntityAndResource, after?: number): Promise<LimitsInForce> {
    const [applied, family] = await Promise.all([this.limitsOf(entity, resource, after), this.familyOf(entity, after)])
    const {cascade = family.cascade} = applied
    return {applied, family: {...family, cascade}}
  }

  /** The limits in force; throws when there are none. */
  async limitsOf(entity: string, resource: string, after?: number): Promise<AppliedLimits> {
    const applied = this.#applied(await this.#options.resolver.resolve(entity, resource, {after}), {entity, resource})
    if (applied) return applied
    throw nothingApplies(entity, resource)
  }

  /** The limits in force if no call is needed to know them, and if there are any; throws when zael cannot honour them. */
  atHand({entity, resource}: EntityAndResource): AppliedLimits | undefined {
    const resolution = this.#options.resolver.peek(entity, resource)
    return resolution && this.#applied(resolution, {entity, resource})
  }

  #applied(resolution: Resolution, whose: EntityAndResource): AppliedLimits | undefined {
    requireSupportedLimits(resolution, whose)
    const {defaultLimits} = this.#options
    const {source, limits, cascade, access} = resolution
    const disabledAt = access?.access === 'disabled' ? access.level : undefined
    const isBypassed = access?.access === 'bypass'
    if (source !== undefined) return {source, limits, cascade, disabledAt, isBypassed}
    const hasDefault = defaultLimits.length > 0 || disabledAt !== undefined
    return hasDefault ? {source: 'default', limits: defaultLimits, cascade, disabledAt, isBypassed} : undefined
  }

  /** From the entity's own record; an entity need not have one to be limited. */
  async familyOf(entity: string, after = Number.NEGATIVE_INFINITY): Promise<Family> {
    const cached = this.#families.get(entity)
    if (cached && cached.readFromMs > after) return cached.family
    const {table} = this.#options
    const readFromMs = performance.now()
    const item = await getItem(table, keys.entity(table.namespace, entity))
    const record = item && decodeEntity(item)
    const {cascade = false, parent, parentGeneration} = record ?? {}
    const family = {cascade, parent, ...(parentGeneration && {parentGeneration})}
    this.#families.set(entity, {family, readFromMs})
    return family
  }
}
