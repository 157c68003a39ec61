import type {Limit} from '../../core/limits/limit.js'
import {batchGet} from '../../dynamo/batch.js'
import {readConfigLimits} from '../../schema/config-limits.js'
import {
  type AccessSwitch,
  type ConfigRecord,
  type ConfigScope,
  configKey,
  countingAt,
  decodeConfig,
  type OnUnavailable,
} from '../../schema/config-record.js'
import {keyId} from '../../schema/keys.js'
import type {Audit} from '../table/audit.js'
import type {PageRequest, RecordPage} from '../table/query.js'
import {getItem, type NamespaceTable} from '../table/table.js'
import {allBoosts, type ScopedLimits, withBoosts} from './boost-records.js'
import {ConfigCache} from './cache.js'
import type {ConfigChange, DeleteOptions, PolicyScope, SetOptions} from './change-options.js'
import {ConfigChanger} from './config-changer.js'
import {configsOfEntity, entityConfigs, resourceConfigs, resourcesOfEntities, walkEntityConfigs} from './listing.js'
import {ConfigResolver, type Resolution, type ResolveOptions} from './resolver.js'
import {inUnits, readLimitUnits, type UnitsByLimit, withUnits} from './units.js'

/** A temporary limit, active, or ended but not tidied up yet. */
export interface BoostedLimit {
  readonly scope: ConfigScope
  /** With its boost. */
  readonly limit: Limit
  /** When the boost was set, ISO 8601. */
  readonly since: string
  readonly by: string | undefined
  /** The scope has limits only during the boost; after it, another level applies again. */
  readonly isForBoost: boolean
}

/** The limits configured in one namespace, at four levels. */
export class Configs {
  /** @internal */
  readonly cache: ConfigCache
  readonly #table: NamespaceTable
  readonly #resolver: ConfigResolver
  readonly #changes: ConfigChanger
  #keepsUnits = false
  #units: Promise<UnitsByLimit> | undefined

  /** @internal */
  constructor(table: NamespaceTable, options: {readonly audit: Audit; readonly cache?: ConfigCache | undefined}) {
    const {audit, cache = new ConfigCache({clock: table.clock})} = options
    this.cache = cache
    this.#table = table
    this.#resolver = new ConfigResolver(table, cache)
    this.#changes = new ConfigChanger(table, {
      audit,
      onChanged: key => {
        cache.invalidate(key)
        this.#units = undefined
      },
      onUnits: units => {
        this.#units = Promise.resolve(units)
      },
    })
  }

  /** The stored configuration of a scope; never from the cache. */
  async get(scope: ConfigScope): Promise<ConfigRecord | undefined> {
    const [item, units] = await Promise.all([
      getItem(this.#table, configKey(this.#table.namespace, scope)),
      this.units(),
    ])
    const record = inUnits(this.#counting(item && decodeConfig(item)), units)
    return record && (await withBoosts(this.#table, [record]))[0]
  }

  /** The stored configurations of several scopes, in that order; one request per hundred. */
  async getMany(scopes: readonly ConfigScope[], signal?: AbortSignal): Promise<(ConfigRecord | undefined)[]> {
    const records = await this.#storedMany(scopes, signal)
    return records.map(record => this.#counting(record))
  }

  async #storedMany(scopes: readonly ConfigScope[], signal?: AbortSignal): Promise<(ConfigRecord | undefined)[]> {
    const {namespace, transport, name, backoff} = this.#table
    const wanted = scopes.map(scope => configKey(namespace, scope))
    const [items, units] = await Promise.all([
      batchGet(transport, name, wanted, {backoff, consistent: true, signal}),
      this.units(),
    ])
    const found = wanted.map(key => {
      const item = items.get(keyId(key))
      return item && inUnits(decodeConfig(item), units)
    })
    const records = await withBoosts(
      this.#table,
      found.flatMap(record => record ?? []),
    )
    return found.map(record => record && records.shift())
  }

  /** @internal Readable limits by scope, in that order, and whether they are a boost's copy; never from the cache. */
  async readableLimits(scopes: readonly ConfigScope[]): Promise<ScopedLimits[]> {
    const {namespace, transport, name, backoff} = this.#table
    const wanted = scopes.map(scope => configKey(namespace, scope))
    const [items, units] = await Promise.all([
      batchGet(transport, name, wanted, {backoff, consistent: true}),
      this.units(),
    ])
    const readable = scopes.map((scope, at) => {
      const item = items.get(keyId(wanted[at] as (typeof wanted)[number]))
      const record = this.#counting(item && decodeConfig(item, each => readConfigLimits(each, () => {})))
      const {limits = [], copiedUntilMs} = record ?? {}
      return {scope, limits: withUnits(limits, units), copiedUntilMs}
    })
    return withBoosts<ScopedLimits>(this.#table, readable)
  }

  /** @internal Adds boosts to a resolution. */
  async withBoosts(resolution: Resolution): Promise<Resolution> {
    const trace = await withBoosts(this.#table, resolution.trace)
    const applied = trace.find(({level}) => level === resolution.source)
    return {...resolution, trace, limits: applied?.limits ?? resolution.limits}
  }

  /** All temporary limits of the namespace; ended ones are listed until they are tidied up. */
  async boosts(): Promise<BoostedLimit[]> {
    const stored = await allBoosts(this.#table)
    const records = await this.#storedMany(stored.map(({scope}) => scope))
    return stored.flatMap(({scope, boosts}, at) => {
      const {limits = [], copiedUntilMs} = records[at] ?? {}
      const isForBoost = copiedUntilMs !== undefined
      return limits.flatMap(limit => {
        const boost = limit.boost && boosts.get(limit.name)
        return boost ? [{scope, limit, since: boost.since, by: boost.by, isForBoost}] : []
      })
    })
  }

  /** The limits that apply to an entity and resource, and why; from the cache where possible. */
  resolve(entity: string, resource: string, options?: ResolveOptions): Promise<Resolution> {
    return this.#resolver.resolve(entity, resource, options)
  }

  /** The stored outage policy; from the cache, and during an outage the last known one. */
  onUnavailable(options?: ResolveOptions): Promise<OnUnavailable | undefined> {
    return this.#resolver.onUnavailable(options)
  }

  /** Currencies by limit name; other limits are counted in tokens. */
  units(): Promise<UnitsByLimit> {
    if (!this.#keepsUnits) return readLimitUnits(this.#table)
    this.#units ??= readLimitUnits(this.#table)
    return this.#units
  }

  /** @internal For a short-lived process: reads keep the units found first. Changes use the stored units. */
  keepUnits(): void {
    this.#keepsUnits = true
  }

  /** Every resource with its own limits, by name. */
  async resources(): Promise<ConfigRecord[]> {
    return this.#allInUnits(await resourceConfigs(this.#table))
  }

  /** The limits of one entity, including its default. */
  async ofEntity(entity: string): Promise<ConfigRecord[]> {
    return this.#allInUnits(await configsOfEntity(this.#table, entity))
  }

  /** Entities with their own limits for a resource, or for `_default_`; eventually consistent. */
  async entities(resource: string, page?: PageRequest): Promise<RecordPage<ConfigRecord>> {
    const {records, next} = await entityConfigs(this.#table, resource, page, {isEventual: true})
    return {records: await this.#allInUnits(records), next}
  }

  /** Like `entities` without pages, by entity; holds only some hundreds in memory. */
  async *walkEntities(resource: string, signal?: AbortSignal): AsyncGenerator<ConfigRecord, void> {
    for await (const records of walkEntityConfigs(this.#table, resource, signal)) yield* await this.#allInUnits(records)
  }

  /** @internal Resources for which entities have their own limits. */
  resourcesOfEntities(): Promise<string[]> {
    return resourcesOfEntities(this.#table)
  }

  /** Stores limits. Others are kept unless `replace` is set. Limits copied from another level must still apply. */
  set(scope: ConfigScope, limits: readonly Limit[], options: SetOptions = {}): Promise<ConfigChange> {
    return this.#changes.set(scope, limits, options)
  }

  /** Stores a switch; `undefined` removes it, so that the next level decides. */
  setAccess(scope: PolicyScope, access: AccessSwitch | undefined): Promise<ConfigChange> {
    return this.#changes.setPolicies(scope, {access})
  }

  /** Stores whether requests are also charged to the parent; `undefined` lets the next level decide. */
  setCascade(scope: PolicyScope, cascade: boolean | undefined): Promise<ConfigChange> {
    return this.#changes.setPolicies(scope, {cascade})
  }

  /** The result that {@link set} would have now; writes nothing. */
  preview(scope: ConfigScope, limits: readonly Limit[], options: SetOptions = {}): Promise<ConfigChange> {
    return this.#changes.preview(scope, limits, options)
  }

  /** Removes one limit. With the last one, a configuration below the system level is deleted unless it has policies. */
  unset(scope: ConfigScope, limitName: string): Promise<ConfigChange> {
    return this.#changes.unset(scope, limitName)
  }

  /** Ends temporary limits now (default: all of the scope), with limits that were copied for them. */
  endBoosts(scope: ConfigScope, limitNames?: readonly string[]): Promise<ConfigChange> {
    return this.#changes.endBoosts(scope, limitNames)
  }

  /** @internal Removes leftovers of boosts that ended some time ago. The limits in force don't change. */
  tidy(scope: ConfigScope): Promise<ConfigChange> {
    return this.#changes.tidy(scope)
  }

  /** Deletes all limits of a scope. Keeps its policies, and other tools' attributes at the system level. */
  delete(scope: ConfigScope, options: DeleteOptions = {}): Promise<ConfigChange> {
    return this.#changes.delete(scope, options)
  }

  /** Limits copied for an ended boost do not count, even if still stored. */
  #counting(record: ConfigRecord | undefined): ConfigRecord | undefined {
    return countingAt(record, this.#table.clock())
  }

  async #allInUnits(records: readonly ConfigRecord[]): Promise<ConfigRecord[]> {
    const units = await this.units()
    return withBoosts(
      this.#table,
      records.flatMap(record => inUnits(this.#counting(record), units) ?? []),
    )
  }
}
