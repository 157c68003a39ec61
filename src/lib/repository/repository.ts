import type {Limit} from '../core/limit.js'
import type {ConfigScope} from '../schema/config-record.js'
import {Audit, type Principal, storedAuditRetention} from './audit/audit.js'
import {Buckets} from './buckets/buckets.js'
import {type ResetResult, resetBucket} from './buckets/reset.js'
import {Entities} from './entities/entities.js'
import {type SyncOptions, type SyncResult, syncLimits} from './limit-sync.js'
import {type ConfigChange, Configs, type SetOptions} from './limits/configs.js'
import {Namespaces} from './namespaces/namespaces.js'
import {openNamespace} from './open-namespace.js'
import {Provisioner} from './provisioner.js'
import {type OpenTable, type OpenTableOptions, openTable} from './table/open-table.js'
import type {NamespaceTable} from './table/table.js'
import {Usage} from './usage/usage.js'

export interface RepositoryOptions extends OpenTableOptions {
  /** The author of changes in the audit trail. */
  readonly principal?: Principal
}

/** A change of limits, and how many live buckets were updated. */
export interface LimitsChange extends ConfigChange {
  readonly buckets: SyncResult
}

/** The stored data of a stack: namespaces, entities, limits, buckets, usage and audit events. */
export class Repository {
  readonly namespaces: Namespaces
  readonly #open: OpenTable
  readonly #principal: Principal | undefined

  constructor(options: RepositoryOptions = {}) {
    this.#open = openTable(options)
    this.#principal = options.principal
    this.namespaces = new Namespaces(this.#open.table)
  }

  /** The records of a namespace, by its name; throws when there is none, or the table's layout is too old or too new. */
  async namespace(name = 'default'): Promise<NamespaceRepository> {
    return this.namespaceById(await openNamespace(this.#open.table, name))
  }

  /** The records of a namespace whose id is known. */
  namespaceById(id: string): NamespaceRepository {
    return new NamespaceRepository({...this.#open.table, namespace: id}, this.#principal)
  }

  /** Closes the connections. */
  close(): Promise<void> {
    return this.#open.close()
  }
}

/** The stored data of one namespace. */
export class NamespaceRepository {
  /** Opaque; all keys begin with it. */
  readonly id: string
  readonly audit: Audit
  readonly entities: Entities
  readonly configs: Configs
  readonly buckets: Buckets
  readonly usage: Usage
  readonly provisioner: Provisioner
  readonly #table: NamespaceTable

  constructor(table: NamespaceTable, principal: Principal | undefined) {
    this.id = table.namespace
    this.#table = table
    this.audit = new Audit(table, {principal, retentionDays: storedAuditRetention(table)})
    this.entities = new Entities(table, {audit: this.audit})
    this.configs = new Configs(table, {audit: this.audit})
    this.buckets = new Buckets(table)
    this.usage = new Usage(table)
    this.provisioner = new Provisioner(table)
  }

  /** Sets limits and updates the live buckets they apply to. Limits of other names stay unless `replace` is set. */
  async setLimits(
    scope: ConfigScope,
    limits: readonly Limit[],
    options: SetOptions & SyncOptions = {},
  ): Promise<LimitsChange> {
    return this.#synced(await this.configs.set(scope, limits, options), options)
  }

  /** Removes one limit, from live buckets too. */
  async unsetLimit(scope: ConfigScope, name: string, options: SyncOptions = {}): Promise<LimitsChange> {
    return this.#synced(await this.configs.unset(scope, name), options)
  }

  /** Removes all limits of a scope; live buckets get the limits that apply then. */
  async deleteLimits(scope: ConfigScope, options: SyncOptions = {}): Promise<LimitsChange> {
    return this.#synced(await this.configs.delete(scope), options)
  }

  /** Fills every limit of a bucket, which also cancels debts. */
  resetBucket(entity: string, resource: string): Promise<ResetResult> {
    return resetBucket(this.#table, this.audit, entity, resource)
  }

  async #synced(change: ConfigChange, options: SyncOptions): Promise<LimitsChange> {
    return {...change, buckets: await syncLimits(this.#table, change.scope, options)}
  }
}
