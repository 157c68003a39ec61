import {ZaelError} from '../../core/errors.js'
import {isSessionReset, type Limit} from '../../core/limit.js'
import {batchGet} from '../../dynamo/batch.js'
import {pause} from '../../dynamo/retry.js'
import type {Item} from '../../schema/attribute-value.js'
import {limitDetails, resourceSubject, SYSTEM_SUBJECT} from '../../schema/audit-record.js'
import {limitAttributesIn, readConfigLimits} from '../../schema/config-limits.js'
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
  policiesDetails,
  policyDetails,
} from '../../schema/config-record.js'
import {keyId} from '../../schema/keys.js'
import {hasLimitFeature} from '../../schema/peer-features.js'
import type {Audit, AuditEvent} from '../audit/audit.js'
import type {PageRequest, RecordPage} from '../table/query.js'
import {type MarkedFeature, requireReaders} from '../table/required-release.js'
import {getItem, type NamespaceTable} from '../table/table.js'
import {isRefused, type TransactItem, transact} from '../table/transact.js'
import {ConfigCache} from './cache.js'
import {
  checkChange,
  checkLimitsTogether,
  checkPolicies,
  checkScope,
  missing,
  nameOf,
  requireRemovable,
  type SystemSettings,
} from './checks.js'
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
interface DeleteOptions extends Pick<SetOptions, 'mayRemove'> {
  readonly withPolicies?: boolean
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

/** Where a switch or a cascade policy can be: everywhere but at the system level. */
export type PolicyScope = Exclude<ConfigScope, {level: 'system'}>

/** The writes of a change, decided from the stored configuration. */
interface ChangePlan {
  readonly writes: readonly TransactItem[]
  readonly record: ConfigRecord | undefined
  readonly copied?: InheritedLimits | undefined
}

/** What a change is decided from. */
interface StoredConfig {
  readonly item: Item | undefined
  readonly before: ConfigRecord | undefined
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
    return item && inUnits(decodeConfig(item), units)
  }

  /** What is stored for each scope, in the order asked; a hundred to a request. */
  async getMany(scopes: readonly ConfigScope[], signal?: AbortSignal): Promise<(ConfigRecord | undefined)[]> {
    const {namespace, transport, name, backoff} = this.#table
    const wanted = scopes.map(scope => configKey(namespace, scope))
    const [items, units] = await Promise.all([
      batchGet(transport, name, wanted, {backoff, consistent: true, signal}),
      this.units(),
    ])
    return wanted.map(key => {
      const item = items.get(keyId(key))
      return item && inUnits(decodeConfig(item), units)
    })
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
    return wanted.map(key =>
      withUnits(
        readConfigLimits(items.get(keyId(key)) ?? {}, () => {}),
        units,
      ),
    )
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
    const limits = checkChange(scope, given, options)
    await requireReaders(this.#table, [...limits.flatMap(markedFeatures), ...policyFeatures(options.policies ?? {})])
    return this.#change(scope, async stored => {
      const {item, before, units} = stored
      const {copied, checks} = await this.#inherited(scope, limits, options, stored)
      const record = this.#merge(scope, limits, options, before, copied)
      requireRemovable(scope, {before: before?.limits, after: record.limits}, options.mayRemove)
      const given = new Set(limits.map(({name}) => name))
      const isReplaced = (name: string) => options.replace === true || given.has(name)
      const update = updateConfig(this.#table, item, record, isReplaced, options.policies)
      const money = await unitWrites(this.#table, units, limits)
      const writes = [update, ...registerConfig(this.#table, scope, item), ...money, ...checks]
      const event = await this.#audit.put(setEvent(record, before, options.policies))
      return {writes: [...writes, event], record, copied}
    })
  }

  /** The limits to copy, and the conditions for that; none when the scope has its own, or all shall be replaced. */
  async #inherited(
    scope: ConfigScope,
    given: readonly Limit[],
    {replace = false}: SetOptions,
    {hasLimits, units}: Pick<StoredConfig, 'hasLimits' | 'units'>,
  ): Promise<{readonly copied: InheritedLimits | undefined; readonly checks: readonly TransactItem[]}> {
    if (replace || hasLimits || given.length === 0) return {copied: undefined, checks: []}
    const {inherited, checks} = await readInherited(this.#table, scope)
    const names = new Set(given.map(({name}) => name))
    const limits = withUnits(inherited?.limits ?? [], units).filter(({name}) => !names.has(name))
    return {copied: inherited && limits.length > 0 ? {scope: inherited.scope, limits} : undefined, checks}
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
    const limits = checkChange(scope, given, options)
    const stored = await this.#stored(scope)
    const {before, units} = stored
    const {copied} = await this.#inherited(scope, limits, options, stored)
    const record = this.#merge(scope, limits, options, before, copied)
    await unitWrites(this.#table, units, limits)
    return changeOf(scope, before, record, copied)
  }

  /** Removes one limit. With its last limit the configuration of an entity or resource is deleted, unless it has a policy. */
  async unset(scope: ConfigScope, limitName: string): Promise<ConfigChange> {
    return this.#change(scope, async ({item, before}) => {
      const limits = before?.limits.filter(limit => limit.name !== limitName)
      if (!item || !before || !limits || limits.length === before.limits.length)
        throw missing(scope, limitName, before?.limits)
      if (limits.length === 0 && scope.level !== 'system' && !hasMoreThanLimits(item, [limitName]))
        return this.#deletion(item, before)
      const record = {...before, limits}
      const update = updateConfig(this.#table, item, record, name => name === limitName)
      const writes = [update, ...registerConfig(this.#table, scope, item)]
      return {writes: [...writes, await this.#audit.put(setEvent(record, before))], record}
    })
  }

  /**
   * Deletes all limits of a scope; a switch or policy, and what other tools keep in the system's configuration, stays. With
   * `withPolicies`, which is internal, the former goes too.
   */
  async delete(scope: ConfigScope, {withPolicies = false, mayRemove}: DeleteOptions = {}): Promise<ConfigChange> {
    return this.#change(scope, async ({item, before}) => {
      requireRemovable(scope, {before: before?.limits}, mayRemove)
      const staysAnyway = scope.level === 'system' || (!withPolicies && hasPolicies(before))
      const isEmpty = staysAnyway && limitAttributesIn(item).length === 0 && before?.onUnavailable === undefined
      if (!item || !before || isEmpty) throw missing(scope)
      return this.#deletion(item, before, withPolicies)
    })
  }

  /** Settings that are not given stay, and so do limits of other names unless they are replaced. */
  #merge(
    scope: ConfigScope,
    limits: readonly Limit[],
    {replace = false, onUnavailable, auditRetentionDays, policies}: SetOptions,
    before: ConfigRecord | undefined,
    copied: InheritedLimits | undefined,
  ): ConfigRecord {
    const names = new Set(limits.map(limit => limit.name))
    const kept = replace ? [] : (before?.limits ?? []).filter(limit => !names.has(limit.name))
    const merged = [...kept, ...(copied?.limits ?? []), ...limits].sort((a, b) => (a.name < b.name ? -1 : 1))
    checkLimitsTogether(merged, copied && {names: copied.limits.map(({name}) => name), from: nameOf(copied.scope)})
    return {
      namespace: this.#table.namespace,
      scope,
      limits: merged,
      onUnavailable: onUnavailable ?? before?.onUnavailable,
      auditRetentionDays: auditRetentionDays ?? before?.auditRetentionDays,
      access: before?.access,
      cascade: before?.cascade,
      ...policies,
    }
  }

  /** What is stored for a scope. A limit that cannot be read is left out: it can be replaced or deleted. */
  async #stored(scope: ConfigScope): Promise<StoredConfig> {
    const key = configKey(this.#table.namespace, scope)
    const [item, units] = await Promise.all([getItem(this.#table, key), readLimitUnits(this.#table)])
    this.#units = Promise.resolve(units)
    let unreadable = 0
    const decoded = item && decodeConfig(item, each => readConfigLimits(each, () => void unreadable++))
    const before = inUnits(decoded, units)
    const hasLimits = unreadable > 0 || (before?.limits.length ?? 0) > 0 || hasLimitFeature(before?.unsupported)
    return {item, before, units, hasLimits}
  }

  async #allInUnits(records: readonly ConfigRecord[]): Promise<ConfigRecord[]> {
    const units = await this.units()
    return records.map(record => inUnits(record, units) as ConfigRecord)
  }

  async #deletion(item: Item, before: ConfigRecord, withPolicies = false): Promise<ChangePlan> {
    const {scope} = before
    const event = await this.#audit.put(deletedEvent(before, withPolicies ? removedPolicies(before) : {}))
    if (scope.level === 'system' || (!withPolicies && hasPolicies(before))) {
      const record = {...before, limits: [], onUnavailable: undefined, unsupported: undefined}
      return {writes: [clearConfig(this.#table, item, before), event], record}
    }
    const registry = await unregisterConfig(this.#table, scope, item)
    return {writes: [deleteConfig(this.#table, item, before), ...registry, event], record: undefined}
  }

  /** Reads, decides and writes; starts again when another write came in between, so changes are serialised. */
  async #change(scope: ConfigScope, decide: (stored: StoredConfig) => Promise<ChangePlan>): Promise<ConfigChange> {
    const key = configKey(this.#table.namespace, scope)
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const stored = await this.#stored(scope)
      const {writes, record, copied} = await decide(stored)
      try {
        if (writes.length > 0) await transact(this.#table, [...writes])
        return changeOf(scope, stored.before, record, copied)
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

const hasPolicies = (record: ConfigRecord | undefined): boolean =>
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

function setEvent(after: ConfigRecord, before: ConfigRecord | undefined, policies: Policies = {}): AuditEvent {
  const limits = {limits: limitDetails(after.limits), before: limitDetails(before?.limits ?? [])}
  const details = {...limits, ...policyDetails(after), ...policiesDetails(policies)}
  return {...subjectOf(after.scope), action: 'limits_set', details}
}

function policyEvent(after: ConfigRecord, before: ConfigRecord | undefined, policies: Policies): AuditEvent {
  const details = {...policiesDetails(policies), before: policiesDetails(policies, before ?? {})}
  return {...subjectOf(after.scope), action: 'limits_set', details}
}

const removedPolicies = ({access, cascade}: ConfigRecord): Policies => ({
  ...(access !== undefined && {access: undefined}),
  ...(cascade !== undefined && {cascade: undefined}),
})

function deletedEvent(before: ConfigRecord, removed: Policies): AuditEvent {
  const names = before.scope.level === 'system' ? {limits: before.limits.map(limit => limit.name)} : {}
  const policies = {...policyDetails(before), ...policiesDetails(removed)}
  const details = {...names, ...policies, before: limitDetails(before.limits)}
  return {...subjectOf(before.scope), action: 'limits_deleted', details}
}

function subjectOf(scope: ConfigScope): Pick<AuditEvent, 'entity' | 'resource'> {
  if (scope.level === 'system') return {entity: SYSTEM_SUBJECT}
  const {resource} = scope
  return {entity: scope.level === 'entity' ? scope.entity : resourceSubject(resource), resource}
}
