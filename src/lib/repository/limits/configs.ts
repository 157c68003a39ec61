import {ZaelError} from '../../core/errors.js'
import type {Limit} from '../../core/limit.js'
import {batchGet} from '../../dynamo/batch.js'
import {pause} from '../../dynamo/retry.js'
import type {Item} from '../../schema/attribute-value.js'
import {resourceSubject, SYSTEM_SUBJECT} from '../../schema/audit-record.js'
import {
  type ConfigRecord,
  type ConfigScope,
  configKey,
  decodeConfig,
  limitDetails,
  type OnUnavailable,
  policyDetails,
} from '../../schema/config-record.js'
import {keyId} from '../../schema/keys.js'
import type {Audit, AuditEvent} from '../audit/audit.js'
import type {PageRequest, RecordPage} from '../table/query.js'
import {getItem, type NamespaceTable} from '../table/table.js'
import {isRefused, type TransactItem, transact} from '../table/transact.js'
import {ConfigCache} from './cache.js'
import {checkChange, checkLimitCount, missing, nameOf, type SystemSettings} from './checks.js'
import {configsOfEntity, entityConfigCounts, entityConfigs, resourceConfigs} from './listing.js'
import {registerConfig, unregisterConfig} from './registry.js'
import {ConfigResolver, type Resolution, type ResolveOptions} from './resolver.js'
import {clearConfig, deleteConfig, updateConfig} from './writes.js'

/** Attempts when others change the same configuration. */
const ATTEMPTS = 20

/** How to set; the settings are those of the system level. */
export interface SetOptions extends SystemSettings {
  /** Remove the limits that are not given; otherwise they stay. */
  readonly replace?: boolean | undefined
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
}

/** The writes of a change, decided from the stored configuration. */
interface ChangePlan {
  readonly writes: readonly TransactItem[]
  readonly record: ConfigRecord | undefined
}

/** The limits configured in one namespace, at four levels. */
export class Configs {
  /** @internal */
  readonly cache: ConfigCache
  readonly #table: NamespaceTable
  readonly #audit: Audit
  readonly #resolver: ConfigResolver

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
    const item = await getItem(this.#table, configKey(this.#table.namespace, scope))
    return item && decodeConfig(item)
  }

  /** What is stored for each scope, in the order asked; a hundred to a request. */
  async getMany(scopes: readonly ConfigScope[], signal?: AbortSignal): Promise<(ConfigRecord | undefined)[]> {
    const {namespace, transport, name, backoff} = this.#table
    const wanted = scopes.map(scope => configKey(namespace, scope))
    const items = await batchGet(transport, name, wanted, {backoff, consistent: true, signal})
    return wanted.map(key => {
      const item = items.get(keyId(key))
      return item && decodeConfig(item)
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

  /** Every resource with limits of its own, by name. */
  resources(): Promise<ConfigRecord[]> {
    return resourceConfigs(this.#table)
  }

  /** The limits of one entity, its default included. */
  ofEntity(entity: string): Promise<ConfigRecord[]> {
    return configsOfEntity(this.#table, entity)
  }

  /** Entities with limits of their own for a resource, or for `_default_`. */
  entities(resource: string, page?: PageRequest): Promise<RecordPage<ConfigRecord>> {
    return entityConfigs(this.#table, resource, page)
  }

  /**
   * How many entities have limits of their own, by resource.
   *
   * @internal
   */
  entityCounts(): Promise<Map<string, number>> {
    return entityConfigCounts(this.#table)
  }

  /** Stores limits. Those of other names stay, unless `replace` is set. */
  async set(scope: ConfigScope, limits: readonly Limit[], options: SetOptions = {}): Promise<ConfigChange> {
    checkChange(scope, limits, options)
    return this.#change(scope, async (item, before) => {
      const record = this.#merge(scope, limits, options, before)
      const writes = [updateConfig(this.#table, item, record, limits), ...registerConfig(this.#table, scope, item)]
      return {writes: [...writes, await this.#audit.put(setEvent(record, before))], record}
    })
  }

  /** The result that {@link set} would have now; writes nothing. */
  async preview(scope: ConfigScope, limits: readonly Limit[], options: SetOptions = {}): Promise<ConfigChange> {
    checkChange(scope, limits, options)
    const previous = await this.get(scope)
    const record = this.#merge(scope, limits, options, previous)
    return changeOf(scope, previous, record)
  }

  /** Removes one limit. With its last limit the configuration of an entity or resource is deleted. */
  async unset(scope: ConfigScope, limitName: string): Promise<ConfigChange> {
    return this.#change(scope, async (item, before) => {
      const limits = before?.limits.filter(limit => limit.name !== limitName)
      if (!item || !before || !limits || limits.length === before.limits.length)
        throw missing(scope, limitName, before?.limits)
      if (limits.length === 0 && scope.level !== 'system') return this.#deletion(item, before)
      const record = {...before, limits}
      const writes = [updateConfig(this.#table, item, record, []), ...registerConfig(this.#table, scope, item)]
      return {writes: [...writes, await this.#audit.put(setEvent(record, before))], record}
    })
  }

  /** Deletes all limits of a scope; what other tools keep in the system's configuration stays. */
  async delete(scope: ConfigScope): Promise<ConfigChange> {
    return this.#change(scope, async (item, before) => {
      const isEmpty = scope.level === 'system' && before?.limits.length === 0 && before.onUnavailable === undefined
      if (!item || !before || isEmpty) throw missing(scope)
      return this.#deletion(item, before)
    })
  }

  /** Settings that are not given stay, and so do limits of other names unless they are replaced. */
  #merge(
    scope: ConfigScope,
    limits: readonly Limit[],
    {replace = false, onUnavailable, auditRetentionDays}: SetOptions,
    before: ConfigRecord | undefined,
  ): ConfigRecord {
    const names = new Set(limits.map(limit => limit.name))
    const kept = replace ? [] : (before?.limits ?? []).filter(limit => !names.has(limit.name))
    const merged = [...kept, ...limits].sort((a, b) => (a.name < b.name ? -1 : 1))
    checkLimitCount(merged)
    return {
      namespace: this.#table.namespace,
      scope,
      limits: merged,
      onUnavailable: onUnavailable ?? before?.onUnavailable,
      auditRetentionDays: auditRetentionDays ?? before?.auditRetentionDays,
    }
  }

  async #deletion(item: Item, before: ConfigRecord): Promise<ChangePlan> {
    const {scope} = before
    const event = await this.#audit.put(deletedEvent(before))
    if (scope.level === 'system') {
      const record = {...before, limits: [], onUnavailable: undefined}
      return {writes: [clearConfig(this.#table, item, before), event], record}
    }
    const registry = await unregisterConfig(this.#table, scope, item)
    return {writes: [deleteConfig(this.#table, item, before), ...registry, event], record: undefined}
  }

  /** Reads, decides and writes; starts again when another write came in between, so changes are serialised. */
  async #change(
    scope: ConfigScope,
    decide: (item: Item | undefined, before: ConfigRecord | undefined) => Promise<ChangePlan>,
  ): Promise<ConfigChange> {
    const key = configKey(this.#table.namespace, scope)
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const item = await getItem(this.#table, key)
      const before = item && decodeConfig(item)
      const {writes, record} = await decide(item, before)
      try {
        await transact(this.#table, [...writes])
        return changeOf(scope, before, record)
      } catch (error) {
        if (!isRefused(error)) throw error
      } finally {
        this.cache.invalidate(key)
      }
      await pause(attempt, this.#table.backoff)
    }
    throw new ZaelError('conflict', 'limits.contended', `Others keep changing the limits of ${nameOf(scope)}.`, {
      hint: 'Nothing was changed; try again in a moment.',
    })
  }
}

function changeOf(
  scope: ConfigScope,
  previous: ConfigRecord | undefined,
  record: ConfigRecord | undefined,
): ConfigChange {
  return {scope, before: previous?.limits ?? [], after: record?.limits ?? [], previous, record}
}

function setEvent(after: ConfigRecord, before: ConfigRecord | undefined): AuditEvent {
  const limits = {limits: limitDetails(after.limits), before: limitDetails(before?.limits ?? [])}
  return {...subjectOf(after.scope), action: 'limits_set', details: {...limits, ...policyDetails(after)}}
}

function deletedEvent(before: ConfigRecord): AuditEvent {
  const names = before.scope.level === 'system' ? {limits: before.limits.map(limit => limit.name)} : {}
  const details = {...names, ...policyDetails(before), before: limitDetails(before.limits)}
  return {...subjectOf(before.scope), action: 'limits_deleted', details}
}

function subjectOf(scope: ConfigScope): Pick<AuditEvent, 'entity' | 'resource'> {
  if (scope.level === 'system') return {entity: SYSTEM_SUBJECT}
  const {resource} = scope
  return {entity: scope.level === 'entity' ? scope.entity : resourceSubject(resource), resource}
}
