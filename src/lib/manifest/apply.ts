import {ZaelError} from '../core/errors.js'
import {groupBy} from '../core/group-by.js'
import {chunksOf, forEachConcurrently} from '../dynamo/concurrency.js'
import {Aborted, Denied, isRetryable, TableMissing, Throttled, Unavailable} from '../dynamo/errors.js'
import type {EntityChange} from '../repository/entities/entities.js'
import type {SyncResult} from '../repository/limits/bucket-sync.js'
import type {SeenProvisioner} from '../repository/limits/provisioner.js'
import type {NamespaceRepository} from '../repository/repository.js'
import {isSameManaged, type Managed} from '../schema/provisioner-record.js'
import {fingerprint} from './fingerprint.js'
import type {EntityRecordChange} from './manifest.js'
import {adoptedScopes, type Plan, type PlannedChange, type ScopeChange} from './plan.js'
import {managedBy, ScopeSet, statedSet} from './scopes.js'

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
}

/** Not made, or the outcome is unknown. */
interface ApplyFailure {
  readonly change: PlannedChange
  readonly error: ZaelError
}

export interface ApplyResult {
  /** `complete`: the table matches the manifest. Otherwise, another run makes the remaining changes. */
  readonly outcome: 'complete' | 'failed' | 'interrupted'
  readonly created: number
  readonly updated: number
  readonly deleted: number
  readonly adopted: number
  readonly failures: readonly ApplyFailure[]
  readonly left: number
  /** Buckets that failed are updated by their next request. */
  readonly buckets: SyncResult
  /** If set, the record of managed scopes lists too many scopes, never too few. */
  readonly recordFailure: ZaelError | undefined
}

/**
 * Writes the record of managed scopes twice: first all intended scopes, so that a crash loses none; last the actual
 * ones, so that it never claims what failed (M-7). Limits come before entity records, so that a parent has limits when
 * first charged. Deletes come last, and only when everything else succeeded.
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
  #hasSystemicFailure = false
  /** Not a `ZaelError`: a bug. */
  #unexpected: {error: unknown} | undefined

  constructor(repository: NamespaceRepository, plan: Plan, options: ApplyOptions) {
    this.#repository = repository
    this.#plan = plan
    this.#options = options
  }

  get #isStopped(): boolean {
    return this.#hasSystemicFailure || this.#options.signal?.aborted === true
  }

  async execute(): Promise<SeenProvisioner> {
    const {changes, seen} = this.#plan
    if (this.#isStopped) return seen
    this.#hasBegun = true
    const recorded = changes.length > 0 ? await this.#recordIntended() : seen
    for (const {members, concurrent} of groupsOf(changes)) {
      const isDelete = members[0]?.action === 'delete'
      if (this.#isStopped || (isDelete && this.#failures.length > 0)) break
      await this.#makeAll(members, concurrent)
    }
    return recorded
  }

  async #recordIntended(): Promise<SeenProvisioner> {
    const {manifest, seen} = this.#plan
    const managed = ScopeSet.of(seen.record)
    const intended = statedSet(manifest)
    for (const scope of managed) intended.add(scope)
    return intended.equals(managed) ? seen : this.#repository.provisioner.save(intended.managed(), seen)
  }

  async finish(recorded: SeenProvisioner): Promise<ApplyResult> {
    const {changes, counts, manifest} = this.#plan
    const isComplete = this.#hasBegun && this.#done.length === changes.length
    const recordFailure = await this.#record(recorded, isComplete ? fingerprint(manifest) : undefined)
    if (this.#unexpected) throw this.#unexpected.error
    const count = (action: PlannedChange['action']) => this.#done.filter(change => change.action === action).length
    const adopting = (among: readonly PlannedChange[]) =>
      among.filter(change => change.kind === 'limits' && change.adopts).length
    const unchanged = this.#hasBegun ? counts.adopt - adopting(changes) : 0
    const isFailed = this.#failures.length > 0 || recordFailure !== undefined
    return {
      outcome: isFailed ? 'failed' : isComplete ? 'complete' : 'interrupted',
      created: count('create'),
      updated: count('update'),
      deleted: count('delete'),
      adopted: adopting(this.#done) + unchanged,
      failures: this.#failures,
      left: changes.length - this.#done.length - this.#failures.length,
      buckets: this.#buckets,
      recordFailure,
    }
  }

  async #record(recorded: SeenProvisioner, hash: string | undefined): Promise<ZaelError | undefined> {
    // A complete run manages exactly the stated scopes.
    const managed = hash === undefined ? this.#managedSoFar() : managedBy(this.#plan.manifest)
    const isUpToDate = isSameManaged(managed, recorded.record)
    if (isUpToDate && (hash === undefined || hash === recorded.record.appliedHash)) return undefined
    try {
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

  async *#untilStopped(changes: readonly PlannedChange[]): AsyncGenerator<PlannedChange, void> {
    for await (const [change] of chunksOf(changes, 1)) {
      if (this.#isStopped) return
      yield change as PlannedChange
    }
  }

  async #make(change: PlannedChange): Promise<ZaelError | undefined> {
    try {
      const buckets = await applyChange(this.#repository, change)
      for (const key of ['checked', 'updated', 'failed'] as const) this.#buckets[key] += buckets[key]
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

interface ChangeGroup {
  readonly members: readonly PlannedChange[]
  readonly concurrent: number
}

/** Groups of independent changes, in the order of the plan. */
function groupsOf(changes: readonly PlannedChange[]): ChangeGroup[] {
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
  if (scope.level === 'system' && after.length === 0) {
    return setPolicyOnly(repository, onUnavailable?.after)
  }
  const policy = onUnavailable ? {onUnavailable: onUnavailable.after} : {}
  const {buckets} = await repository.setLimits(scope, after, {replace: true, keepsBoosts: true, ...policy, policies})
  return buckets
}

/** A system section without limits removes existing limits and may set a policy. */
async function setPolicyOnly(
  repository: NamespaceRepository,
  stated: 'allow' | 'block' | undefined,
): Promise<SyncResult> {
  const system = {level: 'system'} as const
  // A set must contain something: repeat the stored policy if none is stated.
  const onUnavailable = stated ?? (await repository.configs.get(system))?.onUnavailable
  const {buckets} = await repository.setLimits(system, [], {replace: true, onUnavailable})
  return buckets
}

async function remove(repository: NamespaceRepository, change: ScopeChange): Promise<SyncResult> {
  const {scope, access, cascade, leavesCopy} = change
  if (leavesCopy && scope.level !== 'system') {
    const {buckets: a} = access ? await repository.setAccess(scope, undefined) : {buckets: NO_BUCKETS}
    const {buckets: b} = cascade ? await repository.setCascade(scope, undefined) : {buckets: NO_BUCKETS}
    return {checked: a.checked + b.checked, updated: a.updated + b.updated, failed: a.failed + b.failed}
  }
  try {
    const {buckets} = await repository.deleteConfig(scope)
    return buckets
  } catch (error) {
    if (hasCode(error, 'limits.missing')) return NO_BUCKETS // already deleted by another writer
    throw error
  }
}

async function writeEntity(
  {entities}: NamespaceRepository,
  {action, entity, after}: EntityRecordChange,
): Promise<void> {
  const change: EntityChange = after
  if (action === 'update') {
    await entities.update(entity, change)
    return
  }
  try {
    await entities.create({...after, id: entity, parent: after.parent ?? undefined})
  } catch (error) {
    if (!hasCode(error, 'entity.exists')) throw error
    // Another writer created it since the plan was made.
    await entities.update(entity, change)
  }
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
