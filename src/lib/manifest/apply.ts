import {valueIf, ZaelError} from '../core/errors.js'
import {groupBy} from '../core/group-by.js'
import {forEachConcurrently} from '../dynamo/concurrency.js'
import {Aborted, Denied, isRetryable, TableMissing, Throttled, Unavailable} from '../dynamo/errors.js'
import type {SyncResult} from '../repository/limits/bucket-sync.js'
import type {SeenProvisioner} from '../repository/limits/provisioner.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {ConfigRecord} from '../schema/config-record.js'
import type {EntityRecord} from '../schema/entity-record.js'
import type {LockRecord} from '../schema/lock-record.js'
import {isSameManaged, type Managed} from '../schema/provisioner-record.js'
import {fingerprint} from './fingerprint.js'
import type {EntityFields, EntityRecordChange} from './manifest.js'
import {
  adoptedScopes,
  changedSincePlan,
  type Plan,
  type PlannedChange,
  planManifest,
  type ReadOptions,
  requireAsPlanned,
  type ScopeChange,
} from './plan.js'
import {hasFields} from './plan-entities.js'
import {managedBy, ScopeSet, statedScopes} from './scopes.js'

/** Changes in flight. A wide change, of a resource or the system, writes eight buckets at a time itself. */
const CONCURRENT_ENTITY_CHANGES = 8
const CONCURRENT_WIDE_CHANGES = 2

export interface ApplyProgress {
  readonly done: number
  readonly failed: number
  readonly total: number
}

export interface ApplyOptions {
  readonly onProgress?: ((progress: ApplyProgress) => void) | undefined
  /** Starts no further change; changes in flight finish. */
  readonly signal?: AbortSignal | undefined
  /** `hold` is called before every write. It throws when another run has taken the lock. */
  readonly lock?: {hold(): Promise<void>; readonly takenFrom?: LockRecord | undefined} | undefined
  /** Comparing the table with the manifest at the end. */
  readonly onVerify?: ReadOptions['onProgress']
}

/** Not made, or the outcome is unknown. */
interface ApplyFailure {
  readonly change: PlannedChange
  readonly error: ZaelError
}

export interface ApplyResult {
  /** `complete`: the table was found to match the manifest. Otherwise, another run makes the remaining changes. */
  readonly outcome: 'complete' | 'failed' | 'interrupted'
  readonly created: number
  readonly updated: number
  readonly deleted: number
  readonly adopted: number
  readonly failures: readonly ApplyFailure[]
  /** Changes needed again: another client has changed these records after this run. */
  readonly mismatches: readonly PlannedChange[]
  /** Why the run ended early, or could not compare: a lost lock, or an outage. */
  readonly stopped: ZaelError | undefined
  readonly left: number
  /** Buckets that failed are updated by their next request. */
  readonly buckets: SyncResult
  /** If set, the record of managed scopes lists too many scopes, never too few. */
  readonly recordFailure: ZaelError | undefined
}

/**
 * Overwrites only what the plan has seen. Writes the record of managed scopes twice: first all intended scopes, so that
 * a crash loses none; last the actual ones, so that it never claims what failed (M-7). Limits come before entity
 * records, so that a parent has limits when first charged. Deletes come last, and only when everything else succeeded.
 * Then compares the table with the manifest.
 */
export async function applyPlan(
  repository: NamespaceRepository,
  plan: Plan,
  options: ApplyOptions = {},
): Promise<ApplyResult> {
  const run = new ApplyRun(repository, plan, options)
  return run.finish(await run.execute())
}

class ApplyRun {
  readonly #repository: NamespaceRepository
  readonly #plan: Plan
  readonly #options: ApplyOptions
  /** Scopes that are, or may be, as the plan sets them. */
  readonly #claimed = new ScopeSet()
  readonly #deleted = new ScopeSet()
  readonly #failures: ApplyFailure[] = []
  readonly #done: PlannedChange[] = []
  readonly #buckets = {checked: 0, updated: 0, failed: 0}
  #hasBegun = false
  #mismatches: readonly PlannedChange[] = []
  #stopped: ZaelError | undefined
  #hasSystemicFailure = false
  /** Not a `ZaelError`: a bug. */
  #unexpected: {error: unknown} | undefined

  constructor(repository: NamespaceRepository, plan: Plan, options: ApplyOptions) {
    this.#repository = repository
    this.#plan = plan
    this.#options = options
  }

  get #isStopped(): boolean {
    return this.#hasSystemicFailure || this.#stopped !== undefined || this.#options.signal?.aborted === true
  }

  async execute(): Promise<SeenProvisioner> {
    const {changes, seen} = this.#plan
    if (this.#isStopped) return seen
    this.#hasBegun = true
    await this.#options.lock?.hold()
    const recorded = changes.length > 0 ? await this.#recordIntended() : seen
    for (const {members, concurrent} of groupsOf(changes)) {
      const isDelete = members[0]?.action === 'delete'
      if (this.#isStopped || (isDelete && this.#failures.length > 0)) break
      await this.#makeAll(members, concurrent)
    }
    if (this.#options.lock?.takenFrom && !this.#isStopped) await this.#syncAll()
    if (changes.length > 0 && this.#done.length === changes.length) await this.#verify()
    return recorded
  }

  /** A killed run may have stored limits without updating their buckets, and the plan has no changes for these. */
  async #syncAll(): Promise<void> {
    const {signal} = this.#options
    await this.#unlessStopped(async () => this.#count(await this.#repository.syncAll({signal})))
  }

  #count(buckets: SyncResult): void {
    for (const key of ['checked', 'updated', 'failed'] as const) this.#buckets[key] += buckets[key]
  }

  /** Others may have changed records that this run had set, or that were unchanged. */
  async #verify(): Promise<void> {
    const {signal, onVerify: onProgress} = this.#options
    await this.#unlessStopped(async () => {
      this.#mismatches = (await planManifest(this.#repository, this.#plan.manifest, {signal, onProgress})).changes
    })
  }

  async #unlessStopped<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work()
    } catch (error) {
      if (!(error instanceof ZaelError)) throw error
      this.#stopped ??= error
      return undefined
    }
  }

  async #recordIntended(): Promise<SeenProvisioner> {
    const {manifest, seen} = this.#plan
    const managed = ScopeSet.of(seen.record)
    const intended = new ScopeSet()
    for (const {scope} of statedScopes(manifest)) intended.add(scope)
    for (const scope of managed) intended.add(scope)
    return intended.size === managed.size ? seen : this.#repository.provisioner.save(intended.managed(), seen)
  }

  async finish(recorded: SeenProvisioner): Promise<ApplyResult> {
    const {changes, counts, manifest} = this.#plan
    const isMade = this.#hasBegun && this.#done.length === changes.length
    const isComplete = isMade && this.#mismatches.length === 0 && !this.#stopped
    const recordFailure = await this.#record(recorded, isComplete ? fingerprint(manifest) : undefined)
    if (this.#unexpected) throw this.#unexpected.error
    const count = (action: PlannedChange['action']) => this.#done.filter(change => change.action === action).length
    const adopting = (among: readonly PlannedChange[]) =>
      among.filter(change => change.kind === 'limits' && change.adopts).length
    const unchanged = this.#hasBegun ? counts.adopt - adopting(changes) : 0
    const isInterrupted = this.#stopped instanceof Aborted
    const hasFailed = [this.#failures, this.#mismatches].some(({length}) => length > 0) || recordFailure !== undefined
    const isFailed = hasFailed || (this.#stopped !== undefined && !isInterrupted)
    return {
      outcome: isFailed ? 'failed' : isComplete ? 'complete' : 'interrupted',
      created: count('create'),
      updated: count('update'),
      deleted: count('delete'),
      adopted: adopting(this.#done) + unchanged,
      failures: this.#failures,
      mismatches: this.#mismatches,
      stopped: isInterrupted ? undefined : this.#stopped,
      left: changes.length - this.#done.length - this.#failures.length,
      buckets: this.#buckets,
      recordFailure,
    }
  }

  async #record(recorded: SeenProvisioner, hash: string | undefined): Promise<ZaelError | undefined> {
    // A complete run manages exactly the stated scopes.
    const managed = hash === undefined ? this.#managedSoFar() : managedBy(this.#plan.manifest)
    const isUpToDate = isSameManaged(managed, recorded.record)
    // The run that has the lock now reads the intended scopes, and corrects them.
    if (this.#stopped?.kind === 'conflict') return undefined
    if (isUpToDate && (hash === undefined || hash === recorded.record.appliedHash)) return undefined
    try {
      await this.#options.lock?.hold()
      await this.#repository.provisioner.save(managed, recorded, hash)
      return undefined
    } catch (error) {
      if (error instanceof ZaelError) return error
      throw error
    }
  }

  #managedSoFar(): Managed {
    const managed = ScopeSet.of(this.#plan.seen.record)
    if (this.#hasBegun) for (const scope of adoptedScopes(this.#plan)) managed.add(scope)
    for (const scope of this.#claimed) managed.add(scope)
    for (const scope of this.#deleted) managed.delete(scope)
    return managed.managed()
  }

  /** Retries changes that failed by contention once, one at a time. */
  async #makeAll(changes: readonly PlannedChange[], concurrent: number): Promise<void> {
    const contended: PlannedChange[] = []
    await forEachConcurrently(this.#untilStopped(changes), concurrent, async change => {
      const error = await this.#make(change)
      if (error && isContention(error)) contended.push(change)
      else if (error) this.#fail(change, error)
    })
    for (const change of contended) {
      if (this.#isStopped) return
      const error = await this.#make(change)
      if (error) this.#fail(change, error)
    }
  }

  *#untilStopped(changes: readonly PlannedChange[]): Generator<PlannedChange, void> {
    for (const change of changes) {
      if (this.#isStopped) return
      yield change
    }
  }

  async #make(change: PlannedChange): Promise<ZaelError | undefined> {
    await this.#unlessStopped(async () => this.#options.lock?.hold())
    if (this.#stopped) return undefined
    try {
      this.#count(await applyChange(this.#repository, change))
    } catch (error) {
      if (error instanceof ZaelError) return error
      this.#unexpected ??= {error}
      this.#hasSystemicFailure = true
      this.#claim(change)
      return undefined
    }
    this.#done.push(change)
    if (change.kind === 'limits' && change.action === 'delete') this.#deleted.add(change.scope)
    this.#claim(change)
    this.#report()
    return undefined
  }

  #fail(change: PlannedChange, error: ZaelError): void {
    this.#failures.push({change, error})
    this.#hasSystemicFailure ||= isSystemic(error)
    if (maybeApplied(error)) this.#claim(change)
    this.#report()
  }

  /** The next run corrects a claim too many. Limits that are not claimed would never be deleted. */
  #claim(change: PlannedChange): void {
    if (change.kind === 'limits' && change.action !== 'delete') this.#claimed.add(change.scope)
  }

  #report(): void {
    const {changes} = this.#plan
    this.#options.onProgress?.({done: this.#done.length, failed: this.#failures.length, total: changes.length})
  }
}

/** Groups of independent changes, in the order of the plan. */
function groupsOf(changes: readonly PlannedChange[]) {
  const groups = groupBy(changes, change =>
    change.kind === 'entity' ? `record ${change.depth}` : `${change.action === 'delete'} ${change.scope.level}`,
  )
  return [...groups.values()].map(members => {
    const [first] = members
    const isWide = first?.kind === 'limits' && first.scope.level !== 'entity'
    return {members, concurrent: isWide ? CONCURRENT_WIDE_CHANGES : CONCURRENT_ENTITY_CHANGES}
  })
}

const NO_BUCKETS: SyncResult = {checked: 0, updated: 0, failed: 0}

export async function applyChange(repository: NamespaceRepository, change: PlannedChange): Promise<SyncResult> {
  if (change.kind === 'limits') return change.action === 'delete' ? remove(repository, change) : set(repository, change)
  await writeEntity(repository, change)
  return NO_BUCKETS
}

async function set(repository: NamespaceRepository, change: ScopeChange): Promise<SyncResult> {
  const {scope, after, onUnavailable, policies} = change
  const options = {replace: true, expect: expectationOf(change)}
  if (scope.level === 'system' && after.length === 0) {
    // A set must contain something: repeat the stored policy if none is stated.
    const policy = onUnavailable?.after ?? (await repository.configs.get(scope))?.onUnavailable
    return (await repository.setLimits(scope, [], {...options, onUnavailable: policy})).buckets
  }
  const policy = onUnavailable ? {onUnavailable: onUnavailable.after} : {}
  return (await repository.setLimits(scope, after, {...options, keepsBoosts: true, ...policy, policies})).buckets
}

const expectationOf = (change: ScopeChange) => (stored: ConfigRecord | undefined) => requireAsPlanned(change, stored)

async function remove(repository: NamespaceRepository, change: ScopeChange): Promise<SyncResult> {
  const {scope, access, cascade, leavesCopy} = change
  if (leavesCopy && scope.level !== 'system') {
    requireAsPlanned(change, await repository.configs.get(scope))
    const {buckets: a} = access ? await repository.setAccess(scope, undefined) : {buckets: NO_BUCKETS}
    const {buckets: b} = cascade ? await repository.setCascade(scope, undefined) : {buckets: NO_BUCKETS}
    return {checked: a.checked + b.checked, updated: a.updated + b.updated, failed: a.failed + b.failed}
  }
  const deletion = repository.deleteConfig(scope, {expect: expectationOf(change)})
  // Another writer may have deleted it already.
  const {buckets} = await deletion.catch(valueIf(error => hasCode(error, 'limits.missing'), {buckets: NO_BUCKETS}))
  return buckets
}

const ENTITY_ATTEMPTS = 5

/** Accepts that another writer has just made the same change. */
async function writeEntity(
  {entities}: NamespaceRepository,
  {action, entity, before, after}: EntityRecordChange,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      if (action === 'create' && attempt === 1) {
        await entities.create({...after, id: entity, parent: after.parent ?? undefined})
        return
      }
      const record = await entities.get(entity)
      if (record && hasFields(record, after)) return
      if (!record || action === 'create' || !hasFields(record, before)) throw changedSincePlan(fieldsOf(record, after))
      await entities.update(entity, {...after, expectedVersion: record.version})
      return
    } catch (error) {
      const isRaced = hasCode(error, 'entity.exists') || hasCode(error, 'entity.version')
      if (!isRaced || attempt === ENTITY_ATTEMPTS) throw error
    }
  }
}

function fieldsOf(record: EntityRecord | undefined, stated: EntityFields): string[] {
  if (!record) return ['no record']
  const names = Object.keys(stated) as (keyof EntityFields)[]
  return names.map(name => `${name} ${JSON.stringify(record[name] ?? null)}`)
}

const hasCode = (error: unknown, code: string): boolean => error instanceof ZaelError && error.code === code

/** Worth one retry without concurrency. */
export function isContention(error: unknown): boolean {
  return (isRetryable(error) && !(error instanceof Unavailable)) || hasCode(error, 'limits.contended')
}

/** Other changes would fail too. */
export function isSystemic(error: ZaelError): boolean {
  return [Throttled, Unavailable, Denied, TableMissing].some(kind => error instanceof kind)
}

function maybeApplied(error: ZaelError): boolean {
  return (error instanceof Unavailable || error instanceof Aborted) && error.maybeApplied
}
