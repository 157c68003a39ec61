import {InvalidInput} from '../core/errors.js'
import {type LimitTexts, readLimits} from '../core/limits/limit-text.js'
import {type BucketName, checkEntityId, checkResourceName, isNamespaceId} from '../core/names.js'
import {checkMs} from '../core/text/duration.js'
import type {Window} from '../core/window.js'
import type {AccessSwitch, ConfigScope} from '../schema/config-record.js'
import type {ChargedLevels} from '../schema/namespace-record.js'
import type {UsageRecord} from '../schema/usage-record.js'
import {Buckets} from './buckets/buckets.js'
import {HolderRecords} from './buckets/holders.js'
import {type BucketView, viewStates} from './buckets/view.js'
import {Entities} from './entities/entities.js'
import {ApplyLock} from './limits/apply-lock.js'
import {
  familySync,
  type SyncOptions,
  type SyncResult,
  switchRepair,
  switchSync,
  syncBuckets,
} from './limits/bucket-sync.js'
import type {
  ConfigChange,
  DeleteOptions,
  PolicyScope,
  SetOptions,
  SwitchChangeOptions,
} from './limits/change-options.js'
import {Configs} from './limits/configs.js'
import {EndedCopies} from './limits/ended-copies.js'
import {limitSync} from './limits/limit-sync.js'
import {Provisioner} from './limits/provisioner.js'
import {Namespaces} from './namespaces/namespaces.js'
import {openNamespace, readChargedLevels} from './namespaces/open-namespace.js'
import {type OperationOptions, type OperationResult, operateOnBucket} from './operations/apply-operation.js'
import {resetOf, topUpOf} from './operations/operation.js'
import {Audit, type Principal, storedAuditRetention} from './table/audit.js'
import {type ConnectionOptions, type OpenTable, openTable, type TableSeams} from './table/open-table.js'
import type {PageRequest, RecordPage} from './table/query.js'
import type {NamespaceTable} from './table/table.js'
import type {UsageSelection} from './usage/range.js'
import {type LimitUsage, Usage, usageSubjectMissing} from './usage/usage.js'

/** The table's location, and the author of changes. */
export interface RepositoryOptions extends ConnectionOptions {
  /** The author of changes in the audit trail. @default ZAEL_PRINCIPAL */
  readonly principal?: Principal
  /** Timeout of one request to the table, in ms. @default 10,000 */
  readonly requestTimeoutMs?: number
}

/** Consumption of one entity and resource in one window, in whole tokens. */
export interface WindowUsage {
  readonly entity: string
  readonly resource: string
  readonly window: Window
  /** First second of the window, `YYYY-MM-DDTHH:MM:SSZ`. */
  readonly start: string
  /** By limit; negative if refunds exceed consumption. */
  readonly tokens: Readonly<Record<string, number>>
  /** By soft limit: writes that took from it and left it in debt. */
  readonly overdrawn: Readonly<Record<string, number>>
  readonly totalEvents: number
}

/** Selects usage by entity, by resource over all entities, or both. */
export interface UsageQuery extends UsageSelection {
  readonly entity?: string | undefined
  readonly resource?: string | undefined
}

/** Consumption summed over windows of one type, in whole tokens. */
export interface UsageSum {
  readonly window: Window
  readonly windows: number
  readonly totalEvents: number
  /** Starts of the first and last window; `undefined` if there is none. */
  readonly firstStart: string | undefined
  readonly lastStart: string | undefined
  readonly limits: Readonly<Record<string, LimitUsage>>
}

/** A change of limits, and how many live buckets were updated. */
export interface LimitsChange extends ConfigChange {
  readonly buckets: SyncResult
}

/** The stored data of a stack: namespaces, entities, limits, buckets, usage and audit events. */
export class Repository implements AsyncDisposable {
  readonly namespaces: Namespaces
  readonly #open: OpenTable
  readonly #principal: Principal | undefined

  constructor(options?: RepositoryOptions)
  /** @internal */
  constructor(options: RepositoryOptions & TableSeams)
  constructor(options: RepositoryOptions & TableSeams = {}) {
    checkMs('requestTimeoutMs', options.requestTimeoutMs)
    this.#open = openTable(options)
    this.#principal = options.principal ?? (process.env.ZAEL_PRINCIPAL || undefined)
    this.namespaces = new Namespaces(this.#open.table)
  }

  /** Opens a namespace by name; throws if it is missing, or if the table's layout is too old or too new. */
  async namespace(name = 'default'): Promise<NamespaceRepository> {
    return this.namespaceById((await openNamespace(this.#open.table, name)).id)
  }

  /** A namespace by id; does not check that it exists. */
  namespaceById(id: string): NamespaceRepository {
    if (!isNamespaceId(id)) throw new InvalidInput('name.invalid', `${JSON.stringify(id)} is not a valid namespace id.`)
    return new NamespaceRepository({...this.#open.table, namespace: id}, this.#principal)
  }

  /** Closes the connections. */
  close(): Promise<void> {
    return this.#open.close()
  }

  /** Same as `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}

/** The stored data of one namespace. */
export class NamespaceRepository {
  /** Opaque; all keys begin with it. */
  readonly id: string
  readonly audit: Audit
  readonly entities: Entities
  readonly configs: Configs
  /** @internal */
  readonly buckets: Buckets
  /** @internal */
  readonly holders: HolderRecords
  /** @internal */
  readonly usage: Usage
  /** @internal */
  readonly provisioner: Provisioner
  /** @internal */
  readonly applyLock: ApplyLock
  readonly #table: NamespaceTable

  /** @internal */
  constructor(table: NamespaceTable, principal: Principal | undefined) {
    this.id = table.namespace
    this.#table = table
    this.audit = new Audit(table, {principal, retentionDays: storedAuditRetention(table)})
    this.entities = new Entities(table, {audit: this.audit})
    this.configs = new Configs(table, {audit: this.audit})
    this.buckets = new Buckets(table)
    this.holders = new HolderRecords(table)
    this.usage = new Usage(table)
    this.provisioner = new Provisioner(table)
    this.applyLock = new ApplyLock(table)
  }

  /**
   * Sets limits and updates live buckets. Limits you don't name are kept unless `replace` is set; a scope without
   * limits starts with a copy of those that apply there. With `until`, the given values expire then, for every client.
   * Texts are complete limits: `usd=$600` is a rate per minute, even if the limit was a quota.
   */
  async setLimits(
    scope: ConfigScope,
    limits: LimitTexts,
    options: SetOptions & SyncOptions = {},
  ): Promise<LimitsChange> {
    return this.#synced(await this.configs.set(scope, readLimits(limits), options), options)
  }

  /** Removes one limit, from live buckets too. */
  async unsetLimit(scope: ConfigScope, name: string, options: SyncOptions = {}): Promise<LimitsChange> {
    return this.#synced(await this.configs.unset(scope, name), options)
  }

  /** Ends temporary limits now: those named, or all of the scope. Updates live buckets. */
  async endBoosts(
    scope: ConfigScope,
    names?: readonly string[] | undefined,
    options: SyncOptions = {},
  ): Promise<LimitsChange> {
    return this.#synced(await this.configs.endBoosts(scope, names), options)
  }

  /** Removes all limits of a scope and updates live buckets. Keeps its switch and cascade policy. */
  async deleteLimits(scope: ConfigScope, options: DeleteOptions & SyncOptions = {}): Promise<LimitsChange> {
    return this.#synced(await this.configs.delete(scope, {mayRemove: options.mayRemove}), options)
  }

  /** @internal Removes the switch and the cascade policy too. */
  async deleteConfig(
    scope: ConfigScope,
    options: Pick<DeleteOptions, 'expect'> & SyncOptions = {},
  ): Promise<LimitsChange> {
    return this.#synced(await this.configs.delete(scope, {withPolicies: true, expect: options.expect}), options)
  }

  /**
   * Sets a switch and updates live buckets: `disabled` refuses requests, `bypass` admits and only counts them,
   * `enabled` overrides a less specific switch, `undefined` inherits. Precedence: entity and resource, entity, resource.
   */
  async setAccess(
    scope: PolicyScope,
    access: AccessSwitch | undefined,
    options: SwitchChangeOptions & SyncOptions = {},
  ): Promise<LimitsChange> {
    const change = await this.configs.setAccess(scope, access, options)
    const isKept = options.from !== undefined && change.previous?.access !== options.from
    if (isKept) return {...change, buckets: await syncBuckets(this.#table, scope, [switchRepair], options)}
    // An interrupted deletion of the entity leaves blocked buckets with its parent.
    const syncs = scope.level === 'entity' && access !== 'disabled' ? [familySync, switchSync] : [switchSync]
    return {...change, buckets: await syncBuckets(this.#table, scope, syncs, options)}
  }

  /**
   * Sets whether requests are also charged to the parent; `undefined` inherits. Updates live buckets. The most specific
   * policy counts: of the entity for the resource, the entity, the resource; without any, the entity's own `cascade`.
   */
  async setCascade(scope: PolicyScope, cascade: boolean | undefined, options: SyncOptions = {}): Promise<LimitsChange> {
    const change = await this.configs.setCascade(scope, cascade)
    return {...change, buckets: await syncBuckets(this.#table, scope, [familySync], options)}
  }

  /** Which ancestors requests charge: `namespaces.setLevels`. */
  levels(): Promise<ChargedLevels> {
    return readChargedLevels(this.#table)
  }

  /** A bucket with all its shards; `undefined` if it was never used or has expired. */
  async bucket({entity, resource}: BucketName): Promise<BucketView | undefined> {
    const bucket = await this.buckets.find(checkEntityId(entity), checkResourceName(resource))
    return bucket && viewStates(bucket, this.#table.clock())
  }

  /** @internal Buckets that keep the limits of an ended boost until their next request. */
  endedCopies(): Promise<EndedCopies> {
    return EndedCopies.read(this.#table)
  }

  /** Consumption per window, newest first. */
  async usageWindows(query: UsageQuery & PageRequest): Promise<RecordPage<WindowUsage>> {
    const {entity, resource} = query
    if (entity === undefined && resource === undefined) throw usageSubjectMissing()
    const {records, next} =
      entity === undefined
        ? await this.usage.ofResource(resource as string, query)
        : await this.usage.ofEntity(entity, query)
    return {records: records.map(windowUsage), next}
  }

  /** Consumption per limit over all windows of one type. Default: `hourly`. */
  async usageTotals(query: UsageQuery): Promise<UsageSum> {
    const {limits, ...summary} = await this.usage.summary(query)
    return {...summary, limits: Object.fromEntries(limits)}
  }

  /** Fills limits (default: all), cancels debts and starts new quota periods. Applied once per idempotency key. */
  async resetBucket(
    bucket: BucketName,
    {limits, ...options}: OperationOptions & {readonly limits?: readonly string[] | undefined} = {},
  ): Promise<OperationResult> {
    return operateOnBucket(this.#table, this.audit, bucket, resetOf(limits), options)
  }

  /** Adds whole tokens: to quotas exactly, until their reset; to others up to capacity. Once per idempotency key. */
  async topUpBucket(
    bucket: BucketName,
    amounts: Readonly<Record<string, number>>,
    options: OperationOptions = {},
  ): Promise<OperationResult> {
    return operateOnBucket(this.#table, this.audit, bucket, topUpOf(amounts), options)
  }

  /** @internal Updates live buckets that a killed process has left with former limits, switches or parents. */
  syncAll(options: SyncOptions = {}): Promise<SyncResult> {
    return syncBuckets(this.#table, undefined, [limitSync, switchRepair, familySync], options)
  }

  async #synced(change: ConfigChange, options: SyncOptions): Promise<LimitsChange> {
    const {scope, previous, record} = change
    const syncs = [
      limitSync,
      ...(previous?.access === record?.access ? [] : [switchSync]),
      ...(previous?.cascade === record?.cascade ? [] : [familySync]),
    ]
    return {...change, buckets: await syncBuckets(this.#table, scope, syncs, options)}
  }
}

function windowUsage(record: UsageRecord): WindowUsage {
  const {entity, resource, window, start, tokens, overdrawn, totalEvents} = record
  const counters = {tokens: Object.fromEntries(tokens), overdrawn: Object.fromEntries(overdrawn ?? [])}
  return {entity, resource, window, start, ...counters, totalEvents}
}
