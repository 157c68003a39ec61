import {isDeepStrictEqual} from 'node:util'
import {ZaelError} from '../../core/errors.js'
import {baseOf, isSessionReset, type Limit} from '../../core/limits/limit.js'
import type {BucketName} from '../../core/names.js'
import {pause} from '../../dynamo/retry.js'
import type {Item} from '../../schema/attribute-value.js'
import {type BoostRecord, boostKey, decodeBoosts} from '../../schema/boost-record.js'
import {encodeConfigLimits, limitAttributesIn, readConfigLimits} from '../../schema/config-limits.js'
import {
  type AccessSwitch,
  type ConfigRecord,
  type ConfigScope,
  configKey,
  countingAt,
  decodeConfig,
  hasMoreThanLimits,
  holdsOnlyPolicies,
  isAccessOver,
  isCopyOver,
  type OnUnavailable,
  type Policies,
} from '../../schema/config-record.js'
import {keyId, keys} from '../../schema/keys.js'
import {hasLimitFeature} from '../../schema/peer-features.js'
import type {Audit} from '../table/audit.js'
import type {PageRequest, RecordPage} from '../table/query.js'
import {getItem, getItems, type NamespaceTable} from '../table/table.js'
import {isRefused, type TransactItem, transact} from '../table/transact.js'
import {type MarkedFeature, requireReaders} from '../table/version.js'
import {allBoosts, boostWrites, described, type ScopedLimits, withBoosts, withCopyEnd} from './boost-records.js'
import {checkEnding, checkUntil, inOneZone, TIDY_AFTER_MS, tidied, withoutBoosts} from './boosted-limits.js'
import {ConfigCache} from './cache.js'
import type {
  ConfigChange,
  DeleteOptions,
  InheritedLimits,
  PolicyScope,
  SetOptions,
  StoredConfig,
  SwitchChangeOptions,
} from './change-options.js'
import {
  checkChange,
  checkPolicies,
  checkReason,
  checkScope,
  missing,
  nameOf,
  notBoosted,
  requireRemovable,
  switchRemoved,
} from './checks.js'
import {
  boostEndedEvent,
  clearConfig,
  deleteConfig,
  deletedEvent,
  policyEvent,
  registerConfig,
  removedPolicies,
  setEvent,
  unregisterConfig,
  updateConfig,
  updatePolicies,
} from './config-writes.js'
import {configsOfEntity, entityConfigs, resourceConfigs, resourcesOfEntities, walkEntityConfigs} from './listing.js'
import {keptCopy, mergeConfig} from './merge.js'
import {ConfigResolver, type Resolution, type ResolveOptions} from './resolver.js'
import {inUnits, readLimitUnits, type UnitsByLimit, unitsIn, unitWrites, withUnits} from './units.js'

const ATTEMPTS = 20

interface ChangePlan {
  readonly writes: readonly TransactItem[]
  readonly record: ConfigRecord | undefined
  readonly copied?: InheritedLimits | undefined
  readonly previous?: ConfigRecord | undefined
}

/** A temporary limit: active, or expired but not removed yet. */
export interface BoostedLimit {
  readonly scope: ConfigScope
  /** With its boost. */
  readonly limit: Limit
  /** When the boost was set, ISO 8601. */
  readonly since: string
  readonly by: string | undefined
  /** The scope has limits only during the boost. When it ends, another level applies again. */
  readonly isForBoost: boolean
}

/** The limits configured in one namespace, at four levels. Each change is one transaction with its audit event. */
export class Configs {
  /** @internal */
  readonly cache: ConfigCache
  readonly #table: NamespaceTable
  readonly #resolver: ConfigResolver
  readonly #audit: Audit
  #keepsUnits = false
  #units: Promise<UnitsByLimit> | undefined

  /** @internal */
  constructor(table: NamespaceTable, options: {readonly audit: Audit; readonly cache?: ConfigCache | undefined}) {
    const {audit, cache = new ConfigCache({clock: table.clock})} = options
    this.cache = cache
    this.#table = table
    this.#resolver = new ConfigResolver(table, cache)
    this.#audit = audit
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
    const wanted = scopes.map(scope => configKey(this.#table.namespace, scope))
    const [items, units] = await Promise.all([getItems(this.#table, wanted, {signal}), this.units()])
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
    const wanted = scopes.map(scope => configKey(this.#table.namespace, scope))
    const [items, units] = await Promise.all([getItems(this.#table, wanted), this.units()])
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

  /** All temporary limits of the namespace, including expired ones that are not removed yet. */
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
  resolve(bucket: BucketName, options?: ResolveOptions): Promise<Resolution> {
    return this.#resolver.resolve(bucket, options)
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

  /** @internal For a short-lived process: keeps the units of the first read. Changes use the stored units. */
  keepUnits(): void {
    this.#keepsUnits = true
  }

  /** Every resource with its own limits, by name. */
  async resources(): Promise<ConfigRecord[]> {
    return this.#allInUnits(await resourceConfigs(this.#table))
  }

  /** The limits of one entity, including those for all resources. */
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

  /** Stores limits. Others are kept unless `replace` is set. Starts again if limits to copy from another level change. */
  async set(scope: ConfigScope, given: readonly Limit[], options: SetOptions = {}): Promise<ConfigChange> {
    const limits = this.#checked(scope, given, options)
    await requireReaders(this.#table, [...limits.flatMap(markedFeatures), ...policyFeatures(options.policies ?? {})])
    return this.#change(scope, async stored => {
      const {before, units} = stored
      options.expect?.(before)
      const policies = changedPolicies(options.policies, before)
      const {record, copied, checks} = await mergeConfig(this.#table, scope, limits, {...options, policies}, stored)
      requireRemovable(scope, {before: before?.limits, after: record.limits}, options.mayRemove)
      const given = new Set(limits.map(({name}) => name))
      const isGiven = (name: string) => options.replace === true || given.has(name)
      const update = await this.#update(stored, record, isGiven, policies)
      const money = await unitWrites(this.#table, units, limits)
      const event = await this.#audit.put(setEvent(record, before, options.policies))
      return {writes: [...update, ...money, ...checks, event], record, copied}
    })
  }

  /** The result that {@link set} would have now; writes nothing. */
  async preview(scope: ConfigScope, given: readonly Limit[], options: SetOptions = {}): Promise<ConfigChange> {
    const limits = this.#checked(scope, given, options)
    const stored = await this.#stored(scope)
    const {before, units} = stored
    const {record, copied} = await mergeConfig(this.#table, scope, limits, options, stored)
    await unitWrites(this.#table, units, limits)
    return changeOf(scope, before, record, copied)
  }

  /** Stores a switch; `undefined` removes it, so that the next level decides. */
  setAccess(
    scope: PolicyScope,
    access: AccessSwitch | undefined,
    {from, until, reason}: SwitchChangeOptions = {},
  ): Promise<ConfigChange> {
    if (access === undefined && (until !== undefined || reason !== undefined)) throw switchRemoved()
    const accessUntilMs = until === undefined ? undefined : checkUntil(until, this.#table.clock())
    const policies = {access, accessUntilMs, accessReason: reason && checkReason(reason)}
    return this.#setPolicies(scope, policies, from)
  }

  /** Stores whether requests are also charged to the parent; `undefined` lets the next level decide. */
  setCascade(scope: PolicyScope, cascade: boolean | undefined): Promise<ConfigChange> {
    return this.#setPolicies(scope, {cascade})
  }

  async #setPolicies(scope: PolicyScope, policies: Policies, from?: AccessSwitch): Promise<ConfigChange> {
    checkScope(scope)
    checkPolicies(scope, policies)
    await requireReaders(this.#table, policyFeatures(policies))
    return this.#change(scope, async stored => {
      const {before} = stored
      if (from !== undefined && before?.access !== from) return {writes: [], record: before}
      return this.#policyPlan(scope, stored, before, policies)
    })
  }

  /** Creates a missing configuration without limits. Deletes one that is then empty. */
  async #policyPlan(
    scope: PolicyScope,
    {item, boosts}: StoredConfig,
    before: ConfigRecord | undefined,
    policies: Policies,
  ): Promise<ChangePlan> {
    const nothing = {limits: [], onUnavailable: undefined, auditRetentionDays: undefined}
    const record: ConfigRecord = {...nothing, namespace: this.#table.namespace, scope, ...before, ...policies}
    if (!hasPolicies(record) && !item) return {writes: [], record: undefined}
    const event = await this.#audit.put(policyEvent(record, before, policies))
    const ends = 'access' in policies ? await this.#boostWrites(boosts, record) : []
    if (!hasPolicies(record) && item && holdsOnlyPolicies(item)) {
      const registry = await unregisterConfig(this.#table, scope, item)
      const writes = [deleteConfig(this.#table, item, record), ...registry, ...ends, event]
      return {writes, record: undefined, previous: before}
    }
    const update = updatePolicies(this.#table, item, record, policies)
    return {writes: [update, ...registerConfig(this.#table, scope, item), ...ends, event], record, previous: before}
  }

  /** Removes one limit. With the last one, a configuration below the system level is deleted unless it has policies. */
  async unset(scope: ConfigScope, limitName: string): Promise<ConfigChange> {
    return this.#change(scope, async stored => {
      const {item, before} = stored
      const kept = before?.limits.filter(limit => limit.name !== limitName)
      if (!item || !before || !kept || kept.length === before.limits.length)
        throw missing(scope, limitName, before?.limits)
      if (kept.length === 0 && scope.level !== 'system' && !hasMoreThanLimits(item, [limitName]))
        return this.#deletion(stored, before)
      const limits = inOneZone(kept, this.#table.clock())
      const record = {...before, limits, copiedUntilMs: undefined}
      const copied = before.copiedUntilMs === undefined ? undefined : await keptCopy(this.#table, scope, kept)
      const update = await this.#update(stored, record, name => name === limitName)
      return {writes: [...update, await this.#audit.put(setEvent(record, before))], record, copied}
    })
  }

  /** Ends temporary limits now, and removes limits copied for them. Default: all of the scope. */
  async endBoosts(scope: ConfigScope, limitNames?: readonly string[]): Promise<ConfigChange> {
    return this.#change(scope, async stored => {
      // An ended boost can be removed too.
      const {untidied: before} = stored
      const boostedNames = (before?.limits ?? []).flatMap(({name, boost}) => (boost ? [name] : []))
      const unknown = limitNames?.find(name => !boostedNames.includes(name))
      if (!before || boostedNames.length === 0 || unknown !== undefined) throw notBoosted(scope, unknown, boostedNames)
      const after = withoutBoosts(before, ({name}) => limitNames?.includes(name) ?? true)
      return this.#boostsEnded(stored, before, after)
    })
  }

  /** @internal Removes leftovers of boosts and switches that ended some time ago. The decisions don't change. */
  async tidy(scope: ConfigScope): Promise<ConfigChange> {
    const nowMs = this.#table.clock()
    const change = await this.#tidyLimits(scope)
    if (scope.level === 'system' || !isAccessOver(change.previous ?? {}, nowMs - TIDY_AFTER_MS)) return change
    return this.#change(scope, async stored => {
      const {untidied} = stored
      if (!untidied || !isAccessOver(untidied, nowMs - TIDY_AFTER_MS)) return {writes: [], record: untidied}
      return this.#policyPlan(scope, stored, untidied, NO_SWITCH)
    })
  }

  #tidyLimits(scope: ConfigScope): Promise<ConfigChange> {
    return this.#change(scope, async stored => {
      const {untidied, boosts} = stored
      const tidy = untidied && tidied(untidied, this.#table.clock())
      const isTemporary = untidied?.accessUntilMs !== undefined || untidied?.limits.some(({boost}) => boost)
      const isOrphan = boosts !== undefined && !isTemporary
      if (isOrphan) {
        const nothing = {scope, limits: []}
        return {writes: await this.#boostWrites(boosts, nothing), record: tidy, previous: tidy}
      }
      if (!tidy || !untidied || tidy === untidied) return {writes: [], record: tidy, previous: tidy}
      return this.#boostsEnded(stored, untidied, tidy)
    })
  }

  /** Deletes all limits of a scope. Keeps its policies, and other tools' attributes at the system level. */
  async delete(scope: ConfigScope, options: DeleteOptions = {}): Promise<ConfigChange> {
    const {withPolicies = false, mayRemove, expect} = options
    return this.#change(scope, async stored => {
      const {item, untidied: before} = stored
      if (before) expect?.(stored.before)
      requireRemovable(scope, {before: before?.limits}, mayRemove)
      const staysAnyway = scope.level === 'system' || (!withPolicies && hasPolicies(before))
      const isEmpty = staysAnyway && limitAttributesIn(item).length === 0 && before?.onUnavailable === undefined
      if (!item || !before || isEmpty) throw missing(scope)
      return this.#deletion(stored, before, {withPolicies})
    })
  }

  /** Checks that need no read. Limits given with a boost count without it. */
  #checked(scope: ConfigScope, given: readonly Limit[], options: SetOptions): Limit[] {
    const {replace, until, onUnavailable, auditRetentionDays, policies = {}} = options
    const limits = checkChange(scope, given.map(baseOf), options)
    if (until === undefined) return limits
    checkUntil(until, this.#table.clock())
    const hasSettings = [onUnavailable, auditRetentionDays].some(each => each !== undefined) || hasPolicies(policies)
    checkEnding(limits, {replace, hasSettings})
    return limits
  }

  async #boostsEnded(stored: StoredConfig, before: ConfigRecord, after: ConfigRecord): Promise<ChangePlan> {
    const limits = inOneZone(after.limits, this.#table.clock())
    if (limits.length === 0) return this.#deletion(stored, before, {event: boostEndedEvent(before, [])})
    const record = {...after, limits}
    const update = await this.#update(stored, record, () => false)
    const event = await this.#audit.put(boostEndedEvent(before, limits))
    return {writes: [...update, event], record, previous: before}
  }

  async #deletion(
    {item, boosts}: StoredConfig,
    before: ConfigRecord,
    {withPolicies = false, event = deletedEvent(before, withPolicies ? removedPolicies(before) : {})} = {},
  ): Promise<ChangePlan> {
    const {scope} = before
    const keepsPolicies = scope.level === 'system' || (!withPolicies && hasPolicies(before))
    const accessUntilMs = keepsPolicies ? before.accessUntilMs : undefined
    const ends = await this.#boostWrites(boosts, {scope, limits: [], accessUntilMs})
    const others = [...ends, await this.#audit.put(event)]
    const stored = item as Item
    if (keepsPolicies) {
      const record = {...before, limits: [], onUnavailable: undefined, unsupported: undefined, copiedUntilMs: undefined}
      return {writes: [clearConfig(this.#table, stored, before), ...others], record, previous: before}
    }
    const registry = await unregisterConfig(this.#table, scope, stored)
    const writes = [deleteConfig(this.#table, stored, before), ...registry, ...others]
    return {writes, record: undefined, previous: before}
  }

  async #update(
    {item, untidied, boosts}: StoredConfig,
    record: ConfigRecord,
    isGiven: (limit: string) => boolean,
    policies?: Policies,
  ): Promise<TransactItem[]> {
    const {scope, limits} = record
    const stored = readConfigLimits(item ?? {}, () => {})
    const spelled = (among: readonly Limit[], name: string) =>
      encodeConfigLimits(among.filter(each => each.name === name))
    // Keep unchanged limits exactly as another client wrote them.
    const isReplaced = (name: string) =>
      isGiven(name) || !isDeepStrictEqual(spelled(stored, name), spelled(limits, name))
    // As stored, even if it has expired: the clean-up needs it.
    const {accessUntilMs} = policies && 'access' in policies ? policies : (untidied ?? {})
    return [
      updateConfig(this.#table, item, record, isReplaced, policies),
      ...registerConfig(this.#table, scope, item),
      ...(await this.#boostWrites(boosts, {scope, limits, accessUntilMs})),
    ]
  }

  async #boostWrites(
    before: BoostRecord | undefined,
    {scope, limits, accessUntilMs}: Pick<ConfigRecord, 'scope' | 'limits' | 'accessUntilMs'>,
  ): Promise<TransactItem[]> {
    const by = limits.some(({boost}) => boost) ? await this.#audit.author() : undefined
    return boostWrites(this.#table, before, {scope, limits, accessUntilMs, by})
  }

  /** Skips unreadable limits, which can be replaced or deleted. */
  async #stored(scope: ConfigScope): Promise<StoredConfig> {
    const {namespace} = this.#table
    const wanted = [configKey(namespace, scope), keys.units(namespace), boostKey(namespace, scope)]
    // One request: a manifest changes thousands of scopes.
    const found = await getItems(this.#table, wanted)
    const [item, ofUnits, stored] = wanted.map(key => found.get(keyId(key)))
    const units = unitsIn(ofUnits)
    const boosts = stored && decodeBoosts(stored)
    this.#units = Promise.resolve(units)
    let unreadable = 0
    const decoded = item && decodeConfig(item, each => readConfigLimits(each, () => void unreadable++))
    const nowMs = this.#table.clock()
    const untidied = decoded && described(inUnits(decoded, units) as ConfigRecord, boosts, nowMs)
    const counting = countingAt(untidied, nowMs)
    const before = counting && tidied(counting, nowMs)
    const hasUnreadable = unreadable > 0 && !(untidied && isCopyOver(untidied, nowMs))
    const hasLimits = hasUnreadable || (before?.limits.length ?? 0) > 0 || hasLimitFeature(before?.unsupported)
    return {item, before, untidied, boosts, units, hasLimits}
  }

  /** Starts again if another write came first, so changes are serialised. */
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
    throw new ZaelError('conflict', 'limits.contended', `Other clients keep changing the limits of ${nameOf(scope)}.`, {
      hint: 'Nothing was changed. Try again in a moment.',
    })
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

const NO_SWITCH = {access: undefined, accessUntilMs: undefined, accessReason: undefined}

const hasPolicies = (record: Policies | undefined): boolean =>
  record?.access !== undefined || record?.cascade !== undefined

/** A stated switch that is already set keeps its end and its reason. */
function changedPolicies(policies: Policies | undefined, before: ConfigRecord | undefined): Policies | undefined {
  if (!policies || !('access' in policies)) return policies
  const {access, ...rest} = policies
  return access === before?.access ? rest : {...rest, ...NO_SWITCH, access}
}

function markedFeatures({reset, soft}: Limit): MarkedFeature[] {
  return [...(isSessionReset(reset) ? ['session-quota' as const] : []), ...(soft ? ['soft' as const] : [])]
}

function policyFeatures({access, cascade}: Policies): MarkedFeature[] {
  const isPolicy = cascade !== undefined
  return [...(isPolicy ? ['cascade-policy' as const] : []), ...(access === 'bypass' ? [access] : [])]
}

function changeOf(
  scope: ConfigScope,
  previous: ConfigRecord | undefined,
  record: ConfigRecord | undefined,
  copied: InheritedLimits | undefined,
): ConfigChange {
  const current = record && withCopyEnd(record)
  const [before, after] = [previous?.limits ?? [], current?.limits ?? []]
  return {scope, before, after, previous, record: current, ...(copied && {copied})}
}
