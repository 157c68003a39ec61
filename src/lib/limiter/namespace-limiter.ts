import type {Limit} from '../core/limit.js'
import type {ConfigCache} from '../repository/limits/cache.js'
import {nothingApplies} from '../repository/limits/checks.js'
import {ConfigResolver} from '../repository/limits/resolver.js'
import {Lru} from '../repository/table/lru.js'
import {getItem, type NamespaceTable} from '../repository/table/table.js'
import {decodeEntity} from '../schema/entity-record.js'
import {keys} from '../schema/keys.js'
import {Admission} from './admission.js'
import {Cascade} from './cascade.js'
import type {AppliedLimits, Family, LimiterSettings} from './context.js'
import {EntityCache} from './entity-cache.js'

export interface NamespaceLimiterOptions {
  readonly table: NamespaceTable
  readonly cache: ConfigCache
  readonly settings: LimiterSettings
  readonly merge: boolean
  readonly random: () => number
  /** In force where nothing is configured. */
  readonly defaultLimits: readonly Limit[]
}

/** Everything that works within one namespace. */
export class NamespaceLimiter {
  readonly table: NamespaceTable
  readonly resolver: ConfigResolver
  readonly admission: Admission
  readonly cascade: Cascade
  readonly entities: EntityCache
  readonly #families: Lru<Family>
  readonly #defaultLimits: readonly Limit[]

  constructor({table, cache, settings, merge, random, defaultLimits}: NamespaceLimiterOptions) {
    const {clock} = table
    this.table = table
    this.#defaultLimits = defaultLimits
    this.resolver = new ConfigResolver(table, cache)
    this.entities = new EntityCache({clock, ttlMs: settings.configCheckMs})
    this.#families = new Lru({clock, ttlMs: settings.configCheckMs, maxEntries: 10_000})
    this.admission = new Admission({
      table,
      entities: this.entities,
      settings,
      merge,
      random,
      limitsOf: this.limitsOf,
      familyOf: this.familyOf,
    })
    this.cascade = new Cascade(this.admission, this.entities)
  }

  /** The limits in force; throws when there are none. */
  readonly limitsOf = async (entity: string, resource: string): Promise<AppliedLimits> => {
    const {source, limits} = await this.resolver.resolve(entity, resource)
    if (source !== undefined) return {source, limits}
    if (this.#defaultLimits.length > 0) return {source: 'default', limits: this.#defaultLimits}
    throw nothingApplies(entity, resource)
  }

  /** From the entity's own record; an entity need not have one to be limited. */
  readonly familyOf = async (entity: string): Promise<Family> => {
    const known = this.#families.get(entity)
    if (known) return known
    const item = await getItem(this.table, keys.entity(this.table.namespace, entity))
    const record = item && decodeEntity(item)
    const family = {cascade: record?.cascade ?? false, parent: record?.parent}
    this.#families.set(entity, family)
    return family
  }

  /** Forgets what is cached about an entity that was changed. */
  forget(entity: string): void {
    this.#families.delete(entity)
    this.entities.forget(entity)
  }
}
