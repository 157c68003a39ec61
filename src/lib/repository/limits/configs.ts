import {isDeepStrictEqual} from 'node:util'
import {ZaelError} from '../../core/errors.js'
import {baseOf, isSessionReset, type Limit} from '../../core/limit.js'
import {batchGet} from '../../dynamo/batch.js'
import {pause} from '../../dynamo/retry.js'
import type {Item} from '../../schema/attribute-value.js'
import type {BoostRecord} from '../../schema/boost-record.js'
import {encodeConfigLimits, limitAttributesIn, readConfigLimits} from '../../schema/config-limits.js'
import {
  type AccessSwitch,
  type ConfigRecord,
  type ConfigScope,
  configKey,
  decodeConfig,
  hasMoreThanLimits,
  holdsOnlyPolicies,
  type OnUnavailable,
  type Policies,
} from '../../schema/config-record.js'
import {keyId} from '../../schema/keys.js'
import {hasLimitFeature} from '../../schema/peer-features.js'
import type {Audit} from '../audit/audit.js'
import type {PageRequest, RecordPage} from '../table/query.js'
import {type MarkedFeature, requireReaders} from '../table/required-release.js'
import {getItem, type NamespaceTable} from '../table/table.js'
import {isRefused, type TransactItem, transact} from '../table/transact.js'
import {boosted, checkEnding, checkUntil, inOneZone, rebased, tidied, withoutBoosts} from './boosting.js'
import {allBoosts, type BoostsAfter, boostWrites, described, readBoosts, withBoosts} from './boosts.js'
import {ConfigCache} from './cache.js'
import {
  checkChange,
  checkLimitsTogether,
  checkPolicies,
  checkScope,
  missing,
  nameOf,
  notBoosted,
  requireRemovable,
  type SystemSettings,
} from './checks.js'
import {boostEndedEvent, deletedEvent, policyEvent, removedPolicies, setEvent} from './events.js'
import {type InheritedLimits, readInherited} from './inherited.js'
import {configsOfEntity, entityConfigCounts, entityConfigs, resourceConfigs} from './listing.js'
import {registerConfig, unregisterConfig} from './registry.js'
import {ConfigResolver, type Resolution, type ResolveOptions} from './resolver.js'
import {readLimitUnits, type UnitsByLimit, unitWrites, withUnits} from './units.js'
import {clearConfig, deleteConfig, updateConfig, updatePolicies} from './writes.js'

/** Attempts when others change the same configuration. */
const ATTEMPTS = 20

/** How to set; the settings are those of the system level. */
export interface SetOptions extends SystemSettings {
  /**
   * Only the given limits shall apply: others of the scope are removed. Otherwise they stay, and a scope without limits
   * of its own starts with a copy of those that apply there now, so that what is not given stays in force.
   */
  readonly replace?: boolean | undefined
  /**
   * The given values apply until then, rounded up to the minute, and end by themselves; after that the limits are as they
   * are now. At most 300 days ahead. Only values of limits that exist can end, and the others stay.
   */
  readonly until?: Date | undefined
  /**
   * The given limits are what applies without boosts: those that are under way go on.
   *
   * @internal
   */
  readonly keepsBoosts?: boolean | undefined
  /**
   * Names of limits that may be removed; if others had to be, nothing is changed. All may unless it is given.
   *
   * @internal
   */
  readonly mayRemove?: readonly string[] | undefined
  /**
   * In the same write; those that are left out stay.
   *
   * @internal
   */
  readonly policies?: Policies | undefined
}

/** How to delete. */
export interface DeleteOptions {
  /** @internal */
  readonly withPolicies?: boolean
  /**
   * As in {@link SetOptions}.
   *
   * @internal
   */
  readonly mayRemove?: readonly string[] | undefined
}

/** The limits of a scope before and after a change. */
export interface ConfigChange {
  readonly scope: ConfigScope
  readonly before: readonly Limit[]
  readonly after: readonly Limit[]
  /** The configuration as it was; `undefined` when there was none. */
  readonly previous: ConfigRecord | undefined
  /** The configuration as it is now; `undefined` when it was deleted. */
  readonly record: ConfigRecord | undefined
  /** Limits that were copied from another level, where they applied before; later changes there do not reach the copy. */
  readonly copied?: InheritedLimits | undefined
}

/** A limit with other values until an instant, or whose boost has ended and is not tidied up yet. */
export interface BoostedLimit {
  readonly scope: ConfigScope
  /** With its boost. */
  readonly limit: Limit
  /** ISO instant at which the boost was set. */
  readonly since: string
  readonly by: string | undefined
  /** The scope has limits only for the time of the boost: after it, those of another level apply again. */
  readonly isForBoost: boolean
}

/** Where a switch or a cascade policy can be: everywhere but at the system level. */
export type PolicyScope = Exclude<ConfigScope, {level: 'system'}>

/** The writes of a change, decided from the stored configuration. */
interface ChangePlan {
  readonly writes: readonly TransactItem[]
  readonly record: ConfigRecord | undefined
  readonly copied?: InheritedLimits | undefined
  /** Where it is not that of the stored configuration. */
  readonly previous?: ConfigRecord | undefined
}

/** What a change is decided from. */
interface StoredConfig {
  readonly item: Item | undefined
  /** As if boosts that have ended were tidied up. */
  readonly before: ConfigRecord | undefined
  /** Before that. */
  readonly untidied: ConfigRecord | undefined
  readonly boosts: BoostRecord | undefined
  readonly units: UnitsByLimit
  /** The scope has limits, of which some may not be readable. */
  readonly hasLimits: boolean
}

/** The limits configured in one namespace, at four levels. */
export class Configs {
  /** @internal */
  readonly cache: ConfigCache
  readonly #table: NamespaceTable
  readonly #audit: Audit
  readonly #resolver: ConfigResolver
  #keepsUnits = false
  #units: Promise<UnitsByLimit> | undefined

  /** @internal */
  constructor(table: NamespaceTable, options: {readonly audit: Audit; readonly cache?: ConfigCache | undefined}) {
    const {audit, cache = new ConfigCache({clock: table.clock})} = options
    this.cache = cache
    this.#table = table
    this.#audit = audit
    this.#resolver = new ConfigResolver(table, cache)
  }

  /** What is stored for a scope; never from the cache. */
  async get(scope: ConfigScope): Promise<ConfigRecord | undefined> {
    const [item, units] = await Promise.all([
      getItem(this.#table, configKey(this.#table.namespace, scope)),
      this.units(),
    ])
    const record = item && inUnits(decodeConfig(item), units)
    return record && (await withBoosts(this.#table, [record]))[0]
  }

  /** What is stored for each scope, in the order asked; a hundred to a request. */
  async getMany(scopes: readonly ConfigScope[], signal?: AbortSignal): Promise<(ConfigRecord | undefined)[]> {
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

  /**
   * The limits that can be read at each scope, in the order asked; never from the cache.
   *
   * @internal
   */
  async readableLimits(scopes: readonly ConfigScope[]): Promise<(readonly Limit[])[]> {
    const {namespace, transport, name, backoff} = this.#table
    const wanted = scopes.map(scope => configKey(namespace, scope))
    const [items, units] = await Promise.all([
      batchGet(transport, name, wanted, {backoff, consistent: true}),
      this.units(),
    ])
    const readable = scopes.map((scope, at) => {
      const item = items.get(keyId(wanted[at] as (typeof wanted)[number])) ?? {}
      return {
        scope,
        limits: withUnits(
          readConfigLimits(item, () => {}),
          units,
        ),
      }
    })
    return (await withBoosts(this.#table, readable)).map(({limits}) => limits)
  }

  /**
   * A resolution with what is known about the boosts of its limits.
   *
   * @internal
   */
  async withBoosts(resolution: Resolution): Promise<Resolution> {
    const trace = await withBoosts(this.#table, resolution.trace)
    const applied = trace.find(({level}) => level === resolution.source)
    return {...resolution, trace, limits: applied?.limits ?? resolution.limits}
  }

  /** Limits of the namespace that have other values until an instant; those that ended are listed until they are tidied up. */
  async boosts(): Promise<BoostedLimit[]> {
    const stored = await allBoosts(this.#table)
    const records = await this.getMany(stored.map(({scope}) => scope))
    return stored.flatMap(({scope, boosts}, at) => {
      const {limits = [], isForBoost = false} = records[at] ?? {}
      return limits.flatMap(limit => {
        const boost = limit.boost && boosts.get(limit.name)
        return boost ? [{scope, limit, since: boost.since, by: boost.by, isForBoost}] : []
      })
    })
  }

  /** Which limits apply to an entity and resource, and why; from the cache where possible. */
  resolve(entity: string, resource: string, options?: ResolveOptions): Promise<Resolution> {
    return this.#resolver.resolve(entity, resource, options)
  }

  /** The stored policy for outages; from the cache, and during an outage the last known one. */
  onUnavailable(options?: ResolveOptions): Promise<OnUnavailable | undefined> {
    return this.#resolver.onUnavailable(options)
  }

  /** In which currency limits are counted, by name; the others are counted in tokens. */
  units(): Promise<UnitsByLimit> {
    if (!this.#keepsUnits) return readLimitUnits(this.#table)
    this.#units ??= readLimitUnits(this.#table)
    return this.#units
  }

  /**
   * For a process that answers one question: all its reads show amounts in the units that the first of them has found.
   * Changes are decided by the units that are stored then.
   *
   * @internal
   */
  keepUnits(): void {
    this.#keepsUnits = true
  }

  /** Every resource with limits of its own, by name. */
  async resources(): Promise<ConfigRecord[]> {
    return this.#allInUnits(await resourceConfigs(this.#table))
  }

  /** The limits of one entity, its default included. */
  async ofEntity(entity: string): Promise<ConfigRecord[]> {
    return this.#allInUnits(await configsOfEntity(this.#table, entity))
  }

  /** Entities with limits of their own for a resource, or for `_default_`. */
  async entities(resource: string, page?: PageRequest): Promise<RecordPage<ConfigRecord>> {
    const {records, next} = await entityConfigs(this.#table, resource, page)
    return {records: await this.#allInUnits(records), next}
  }

  /**
   * How many entities have limits of their own, by resource.
   *
   * @internal
   */
  entityCounts(): Promise<Map<string, number>> {
    return entityConfigCounts(this.#table)
  }

  /**
   * Stores limits. Those of other names stay in force, unless `replace` is set. What is copied from another level is
   * stored on condition that it still applies.
   */
  async set(scope: ConfigScope, given: readonly Limit[], options: SetOptions = {}): Promise<ConfigChange> {
    const limits = this.#checked(scope, given, options)
    await requireReaders(this.#table, [...limits.flatMap(markedFeatures), ...policyFeatures(options.policies ?? {})])
    return this.#change(scope, async stored => {
      const {before, units} = stored
      const {record, copied, checks} = await this.#merge(scope, limits, options, stored)
      requireRemovable(scope, {before: before?.limits, after: record.limits}, options.mayRemove)
      const given = new Set(limits.map(({name}) => name))
      const isGiven = (name: string) => options.replace === true || given.has(name)
      const update = await this.#update(stored, record, isGiven, options.policies)
      const money = await unitWrites(this.#table, units, limits)
      const event = await this.#audit.put(setEvent(record, before, options.policies))
      return {writes: [...update, ...money, ...checks, event], record, copied}
    })
  }

  /** Everything that can be checked before anything is read; what is given with its boost counts as it is without. */
  #checked(scope: ConfigScope, given: readonly Limit[], options: SetOptions): Limit[] {
    const {replace, until, onUnavailable, auditRetentionDays, policies = {}} = options
    const limits = checkChange(scope, given.map(baseOf), options)
    if (until === undefined) return limits
    checkUntil(until, this.#table.clock())
    const hasSettings = [onUnavailable, auditRetentionDays].some(each => each !== undefined) || hasPolicies(policies)
    checkEnding(limits, {replace, hasSettings})
    return limits
  }

  /** The writes of a configuration, of its entry in the registry and of the record of its boosts. */
  async #update(
    {item, boosts}: StoredConfig,
    record: ConfigRecord,
    isGiven: (limit: string) => boolean,
    policies?: Policies,
  ): Promise<TransactItem[]> {
    const {scope, limits} = record
    const stored = readConfigLimits(item ?? {}, () => {})
    const spelled = (among: readonly Limit[], name: string) =>
      encodeConfigLimits(among.filter(each => each.name === name))
    // Limits that nobody has changed stay as another client may have written them.
    const isReplaced = (name: string) =>
      isGiven(name) || !isDeepStrictEqual(spelled(stored, name), spelled(limits, name))
    return [
      updateConfig(this.#table, item, record, isReplaced, policies),
      ...registerConfig(this.#table, scope, item),
      ...(await this.#boostWrites(boosts, record)),
    ]
  }

  async #boostWrites(
    before: BoostRecord | undefined,
    {scope, limits, isForBoost = false}: Pick<ConfigRecord, 'scope' | 'limits' | 'isForBoost'>,
  ): Promise<TransactItem[]> {
    const by = limits.some(({boost}) => boost) ? await this.#audit.author() : undefined
    const after: BoostsAfter = {scope, limits, isForBoost, by}
    return boostWrites(this.#table, before, after)
  }

  /** The limits that apply at a scope without limits of its own, and the conditions for that; none when it has its own. */
  async #inherited(
    scope: ConfigScope,
    given: readonly Limit[],
    {replace = false}: SetOptions,
    {hasLimits, units}: Pick<StoredConfig, 'hasLimits' | 'units'>,
  ): Promise<{readonly inherited: InheritedLimits | undefined; readonly checks: readonly TransactItem[]}> {
    if (replace || hasLimits || given.length === 0) return {inherited: undefined, checks: []}
    const {inherited, checks} = await readInherited(this.#table, scope)
    if (!inherited) return {inherited, checks}
    const {limits} = tidied(inherited, this.#table.clock())
    return {inherited: {...inherited, limits: withUnits(limits, units)}, checks}
  }

  /** Stores a switch, or with `undefined` removes it so that the next level decides. */
  async setAccess(scope: PolicyScope, access: AccessSwitch | undefined): Promise<ConfigChange> {
    return this.#setPolicies(scope, {access})
  }

  /** Stores whether requests are charged to the parent too, or with `undefined` lets the next level decide. */
  async setCascade(scope: PolicyScope, cascade: boolean | undefined): Promise<ConfigChange> {
    return this.#setPolicies(scope, {cascade})
  }

  /**
   * Everything else in the configuration stays; one that does not exist is created without limits, and one that then holds
   * nothing is deleted.
   */
  async #setPolicies(scope: PolicyScope, policies: Policies): Promise<ConfigChange> {
    checkScope(scope)
    checkPolicies(scope, policies)
    await requireReaders(this.#table, policyFeatures(policies))
    return this.#change(scope, async ({item, before}) => {
      const nothing = {limits: [], onUnavailable: undefined, auditRetentionDays: undefined}
      const record: ConfigRecord = {...nothing, namespace: this.#table.namespace, scope, ...before, ...policies}
      if (!hasPolicies(record) && !item) return {writes: [], record: undefined}
      const event = await this.#audit.put(policyEvent(record, before, policies))
      if (!hasPolicies(record) && item && holdsOnlyPolicies(item)) {
        const registry = await unregisterConfig(this.#table, scope, item)
        return {writes: [deleteConfig(this.#table, item, record), ...registry, event], record: undefined}
      }
      const update = updatePolicies(this.#table, item, record, policies)
      return {writes: [update, ...registerConfig(this.#table, scope, item), event], record}
    })
  }

  /** The result that {@link set} would have now; writes nothing. */
  async preview(scope: ConfigScope, given: readonly Limit[], options: SetOptions = {}): Promise<ConfigChange> {
    const limits = this.#checked(scope, given, options)
    const stored = await this.#stored(scope)
    const {before, units} = stored
    const {record, copied} = await this.#merge(scope, limits, options, stored)
    await unitWrites(this.#table, units, limits)
    return changeOf(scope, before, record, copied)
  }

  /** Removes one limit. With its last limit the configuration of an entity or resource is deleted, unless it has a policy. */
  async unset(scope: ConfigScope, limitName: string): Promise<ConfigChange> {
    return this.#change(scope, async stored => {
      const {item, before} = stored
      const kept = before?.limits.filter(limit => limit.name !== limitName)
      if (!item || !before || !kept || kept.length === before.limits.length)
        throw missing(scope, limitName, before?.limits)
      if (kept.length === 0 && scope.level !== 'system' && !hasMoreThanLimits(item, [limitName]))
        return this.#deletion(stored, before)
      const limits = inOneZone(kept, this.#table.clock())
      const record = {...before, limits, isForBoost: undefined}
      const update = await this.#update(stored, record, name => name === limitName)
      return {writes: [...update, await this.#audit.put(setEvent(record, before))], record}
    })
  }

  /** Ends boosts of a scope now: of the limits named, or all. Where the limits were copied for them, these go too. */
  async endBoosts(scope: ConfigScope, limitNames?: readonly string[]): Promise<ConfigChange> {
    return this.#change(scope, async stored => {
      const {before} = stored
      const boostedNames = (before?.limits ?? []).flatMap(({name, boost}) => (boost ? [name] : []))
      const unknown = limitNames?.find(name => !boostedNames.includes(name))
      if (!before || boostedNames.length === 0 || unknown !== undefined) throw notBoosted(scope, unknown, boostedNames)
      const after = withoutBoosts(before, ({name}) => limitNames?.includes(name) ?? true)
      return this.#boostsEnded(stored, before, after)
    })
  }

  /**
   * Tidies up boosts that ended some time ago: removes their windows, and limits that were copied for them. Limits stay as
   * they apply. Changes nothing where nothing is left to do.
   *
   * @internal
   */
  async tidy(scope: ConfigScope): Promise<ConfigChange> {
    return this.#change(scope, async stored => {
      const {before, untidied, boosts} = stored
      const isOrphan = boosts !== undefined && !untidied?.limits.some(({boost}) => boost)
      if (isOrphan) {
        const nothing = {scope, limits: []}
        return {writes: await this.#boostWrites(boosts, nothing), record: before}
      }
      if (!before || !untidied || before === untidied) return {writes: [], record: before}
      return this.#boostsEnded(stored, untidied, before)
    })
  }

  async #boostsEnded(stored: StoredConfig, before: ConfigRecord, after: ConfigRecord): Promise<ChangePlan> {
    const limits = inOneZone(after.limits, this.#table.clock())
    if (limits.length === 0) return this.#deletion(stored, before, {event: boostEndedEvent(before, [])})
    const record = {...after, limits}
    const update = await this.#update(stored, record, () => false)
    const event = await this.#audit.put(boostEndedEvent(before, limits))
    return {writes: [...update, event], record, previous: before}
  }

  /**
   * Deletes all limits of a scope; a switch or policy, and what other tools keep in the system's configuration, stays. With
   * `withPolicies`, which is internal, the former goes too.
   */
  async delete(scope: ConfigScope, options: DeleteOptions = {}): Promise<ConfigChange> {
    const {withPolicies = false, mayRemove} = options
    return this.#change(scope, async stored => {
      const {item, untidied: before} = stored
      requireRemovable(scope, {before: before?.limits}, mayRemove)
      const staysAnyway = scope.level === 'system' || (!withPolicies && hasPolicies(before))
      const isEmpty = staysAnyway && limitAttributesIn(item).length === 0 && before?.onUnavailable === undefined
      if (!item || !before || isEmpty) throw missing(scope)
      return this.#deletion(stored, before, {withPolicies})
    })
  }

  /** Settings that are not given stay, and so do limits of other names unless they are replaced. */
  async #merge(
    scope: ConfigScope,
    limits: readonly Limit[],
    options: SetOptions,
    stored: StoredConfig,
  ): Promise<{
    readonly record: ConfigRecord
    readonly copied: InheritedLimits | undefined
    readonly checks: readonly TransactItem[]
  }> {
    const {replace = false, until, keepsBoosts = false, onUnavailable, auditRetentionDays, policies} = options
    const {before} = stored
    const {inherited, checks} = await this.#inherited(scope, limits, options, stored)
    const names = new Set(limits.map(({name}) => name))
    const others = inherited?.limits.filter(({name}) => !names.has(name)) ?? []
    const copied = inherited && others.length > 0 ? {scope: inherited.scope, limits: others} : undefined
    const nowMs = this.#table.clock()
    const present = before?.limits ?? []
    const kept = replace ? [] : present.filter(limit => !names.has(limit.name))
    const given = keepsBoosts ? rebased(limits, present) : limits
    const merged =
      until === undefined
        ? [...kept, ...others, ...given]
        : boosted(scope, inherited?.limits ?? present, limits, {untilMs: checkUntil(until, nowMs), nowMs})
    const after = inOneZone(merged, nowMs).sort((a, b) => (a.name < b.name ? -1 : 1))
    checkLimitsTogether(after, copied && {names: others.map(({name}) => name), from: nameOf(copied.scope)})
    const isForBoost = until !== undefined && (inherited !== undefined || before?.isForBoost === true)
    const record = {
      namespace: this.#table.namespace,
      scope,
      limits: after,
      onUnavailable: onUnavailable ?? before?.onUnavailable,
      auditRetentionDays: auditRetentionDays ?? before?.auditRetentionDays,
      access: before?.access,
      cascade: before?.cascade,
      ...policies,
      ...(isForBoost && {isForBoost}),
    }
    return {record, copied, checks}
  }

  /** What is stored for a scope. A limit that cannot be read is left out: it can be replaced or deleted. */
  async #stored(scope: ConfigScope): Promise<StoredConfig> {
    const key = configKey(this.#table.namespace, scope)
    const [item, units, boosts] = await Promise.all([
      getItem(this.#table, key),
      readLimitUnits(this.#table),
      readBoosts(this.#table, scope),
    ])
    this.#units = Promise.resolve(units)
    let unreadable = 0
    const decoded = item && decodeConfig(item, each => readConfigLimits(each, () => void unreadable++))
    const nowMs = this.#table.clock()
    const untidied = decoded && described(inUnits(decoded, units) as ConfigRecord, boosts, nowMs)
    const before = untidied && tidied(untidied, nowMs)
    const hasLimits = unreadable > 0 || (before?.limits.length ?? 0) > 0 || hasLimitFeature(before?.unsupported)
    return {item, before, untidied, boosts, units, hasLimits}
  }

  async #allInUnits(records: readonly ConfigRecord[]): Promise<ConfigRecord[]> {
    const units = await this.units()
    return withBoosts(
      this.#table,
      records.map(record => inUnits(record, units) as ConfigRecord),
    )
  }

  async #deletion(
    {item, boosts}: StoredConfig,
    before: ConfigRecord,
    {withPolicies = false, event = deletedEvent(before, withPolicies ? removedPolicies(before) : {})} = {},
  ): Promise<ChangePlan> {
    const {scope} = before
    const others = [...(await this.#boostWrites(boosts, {scope, limits: []})), await this.#audit.put(event)]
    const stored = item as Item
    if (scope.level === 'system' || (!withPolicies && hasPolicies(before))) {
      const record = {...before, limits: [], onUnavailable: undefined, unsupported: undefined, isForBoost: undefined}
      return {writes: [clearConfig(this.#table, stored, before), ...others], record, previous: before}
    }
    const registry = await unregisterConfig(this.#table, scope, stored)
    const writes = [deleteConfig(this.#table, stored, before), ...registry, ...others]
    return {writes, record: undefined, previous: before}
  }

  /** Reads, decides and writes; starts again when another write came in between, so changes are serialised. */
  async #change(scope: ConfigScope, decide: (stored: StoredConfig) => Promise<ChangePlan>): Promise<ConfigChange> {
    const key = configKey(this.#table.namespace, scope)
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const stored = await this.#stored(scope)
      const {writes, record, copied, previous = stored.before} = await decide(stored)
      try {
        if (writes.length > 0) await transact(this.#table, [...writes])
        return changeOf(scope, previous, record, copied)
      } catch (error) {
        if (!isRefused(error)) throw error
      } finally {
        this.cache.invalidate(key)
        this.#units = undefined
      }
      await pause(attempt, this.#table.backoff)
    }
    throw new ZaelError('conflict', 'limits.contended', `Others keep changing the limits of ${nameOf(scope)}.`, {
      hint: 'Nothing was changed; try again in a moment.',
    })
  }
}

const hasPolicies = (record: Policies | undefined): boolean =>
  record?.access !== undefined || record?.cascade !== undefined

function markedFeatures({reset, soft}: Limit): MarkedFeature[] {
  return [...(isSessionReset(reset) ? ['session-quota' as const] : []), ...(soft ? ['soft' as const] : [])]
}

function policyFeatures({access, cascade}: Policies): MarkedFeature[] {
  const isPolicy = cascade !== undefined
  return [...(isPolicy ? ['cascade-policy' as const] : []), ...(access === 'bypass' ? [access] : [])]
}

function inUnits(record: ConfigRecord | undefined, units: UnitsByLimit): ConfigRecord | undefined {
  return record && {...record, limits: withUnits(record.limits, units)}
}

function changeOf(
  scope: ConfigScope,
  previous: ConfigRecord | undefined,
  record: ConfigRecord | undefined,
  copied: InheritedLimits | undefined,
): ConfigChange {
  const [before, after] = [previous?.limits ?? [], record?.limits ?? []]
  return {scope, before, after, previous, record, ...(copied && {copied})}
}
