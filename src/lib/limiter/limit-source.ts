import type {Limit} from '../core/limit.js'
import type {Level} from '../core/resolve.js'
import {nothingApplies} from '../repository/limits/checks.js'
import type {ConfigResolver, Resolution} from '../repository/limits/resolver.js'
import {Lru} from '../repository/table/lru.js'
import {getItem, type NamespaceTable} from '../repository/table/table.js'
import {decodeEntity} from '../schema/entity-record.js'
import {keys} from '../schema/keys.js'

/** The limits that apply to an entity and resource, and where they come from. */
export interface AppliedLimits {
  readonly source: Level | 'default'
  readonly limits: readonly Limit[]
}

/** The parent that an entity shares its budget with. */
export interface Family {
  readonly cascade: boolean
  readonly parent: string | undefined
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
    return {applied, family}
  }

  /** The limits in force; throws when there are none. */
  async limitsOf(entity: string, resource: string, after?: number): Promise<AppliedLimits> {
    const applied = this.#applied(await this.#options.resolver.resolve(entity, resource, {after}))
    if (applied) return applied
    throw nothingApplies(entity, resource)
  }

  /** The limits in force if no call is needed to know them, and if there are any. */
  atHand({entity, resource}: EntityAndResource): AppliedLimits | undefined {
    const resolution = this.#options.resolver.peek(entity, resource)
    return resolution && this.#applied(resolution)
  }

  #applied({source, limits}: Resolution): AppliedLimits | undefined {
    const {defaultLimits} = this.#options
    if (source !== undefined) return {source, limits}
    return defaultLimits.length > 0 ? {source: 'default', limits: defaultLimits} : undefined
  }

  /** From the entity's own record; an entity need not have one to be limited. */
  async familyOf(entity: string, after = Number.NEGATIVE_INFINITY): Promise<Family> {
    const cached = this.#families.get(entity)
    if (cached && cached.readFromMs > after) return cached.family
    const {table} = this.#options
    const readFromMs = performance.now()
    const item = await getItem(table, keys.entity(table.namespace, entity))
    const record = item && decodeEntity(item)
    const family = {cascade: record?.cascade ?? false, parent: record?.parent}
    this.#families.set(entity, {family, readFromMs})
    return family
  }
}
