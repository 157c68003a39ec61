import {ZaelError} from '../core/errors.js'
import {chunksOf, forEachConcurrently} from '../dynamo/concurrency.js'
import type {SyncResult} from '../repository/limit-sync.js'
import type {SeenProvisioner} from '../repository/provisioner.js'
import type {NamespaceRepository} from '../repository/repository.js'
import {applyChange, isContention, isHopeless, maybeApplied} from './apply-change.js'
import {groupsOf} from './apply-groups.js'
import {fingerprint} from './fingerprint.js'
import type {Plan, PlannedChange} from './plan.js'
import {ScopeSet, statedLimits} from './scopes.js'

export interface ApplyProgress {
  readonly done: number
  readonly failed: number
  readonly total: number
}

export interface ApplyOptions {
  /** Called after each change. */
  readonly onProgress?: ((progress: ApplyProgress) => void) | undefined
  /** Starts no further change; those under way are finished. */
  readonly signal?: AbortSignal | undefined
}

/** A change that was not made, or not surely. */
export interface ApplyFailure {
  readonly change: PlannedChange
  readonly error: ZaelError
}

export interface ApplyResult {
  /** `complete`: the table is as the manifest states it. Otherwise the next run does the rest. */
  readonly outcome: 'complete' | 'failed' | 'interrupted'
  readonly created: number
  readonly updated: number
  readonly deleted: number
  /** Scopes of others that are managed now. */
  readonly adopted: number
  readonly failures: readonly ApplyFailure[]
  /** Changes that were not tried, after an interruption or a failure. */
  readonly left: number
  /** Live buckets that followed the limits, and those that will with their next request. */
  readonly buckets: SyncResult
  /** Why the record of what is managed could not be brought up to date; it then names too much, never too little. */
  readonly recordFailure: ZaelError | undefined
}

/**
 * Makes the planned changes. The record of what is managed is written twice: before, with everything that will be managed,
 * so that nothing is forgotten if this process dies; and after, with what is true then, so that it never claims what
 * failed (M-7). Limits come before entity records, so that a parent has its limits when it is first charged. Deletes come
 * last, and only when all else succeeded.
 */
export async function applyPlan(
  repository: NamespaceRepository,
  plan: Plan,
  options: ApplyOptions = {},
): Promise<ApplyResult> {
  const run = new Run(repository, plan, options)
  return run.finish(await run.begin())
}

class Run {
  readonly #repository: NamespaceRepository
  readonly #plan: Plan
  readonly #options: ApplyOptions
  readonly #managed: ScopeSet
  readonly #failures: ApplyFailure[] = []
  readonly #done: PlannedChange[] = []
  readonly #buckets = {checked: 0, updated: 0, failed: 0}
  #isHopeless = false
  /** What is no failure of the table but a fault of this program. */
  #fault: {error: unknown} | undefined

  constructor(repository: NamespaceRepository, plan: Plan, options: ApplyOptions) {
    this.#repository = repository
    this.#plan = plan
    this.#options = options
    this.#managed = ScopeSet.of(plan.seen.record)
  }

  get #isStopped(): boolean {
    return this.#isHopeless || this.#options.signal?.aborted === true
  }

  /** Records the intention, then makes the changes, group after group. */
  async begin(): Promise<SeenProvisioner> {
    const {changes, seen} = this.#plan
    if (this.#isStopped) return seen
    const intended = new ScopeSet([...this.#managed, ...statedLimits(this.#plan.manifest).map(({scope}) => scope)])
    const needsRecord = changes.length > 0 && !intended.equals(this.#managed)
    const recorded = needsRecord ? await this.#repository.provisioner.save(intended.managed(), seen) : seen
    for (const scope of this.#plan.adopted) this.#managed.add(scope)
    for (const {members, concurrent} of groupsOf(changes)) {
      const isDelete = members[0]?.action === 'delete'
      if (this.#isStopped || (isDelete && this.#failures.length > 0)) break
      await this.#makeAll(members, concurrent)
    }
    return recorded
  }

  async finish(recorded: SeenProvisioner): Promise<ApplyResult> {
    const {changes, manifest, adopted} = this.#plan
    const isComplete = this.#done.length === changes.length
    const recordFailure = await this.#record(recorded, isComplete ? fingerprint(manifest) : undefined)
    if (this.#fault) throw this.#fault.error
    const count = (action: PlannedChange['action']) => this.#done.filter(change => change.action === action).length
    const adopting = this.#done.filter(change => change.kind === 'limits' && change.adopts).length
    const isFailed = this.#failures.length > 0 || recordFailure !== undefined
    return {
      outcome: isFailed ? 'failed' : isComplete ? 'complete' : 'interrupted',
      created: count('create'),
      updated: count('update'),
      deleted: count('delete'),
      adopted: adopting + adopted.filter(scope => this.#managed.has(scope)).length,
      failures: this.#failures,
      left: changes.length - this.#done.length - this.#failures.length,
      buckets: this.#buckets,
      recordFailure,
    }
  }

  async #record(recorded: SeenProvisioner, hash: string | undefined): Promise<ZaelError | undefined> {
    const managed = hash === undefined ? this.#managed : this.#statedScopes()
    const isAsRecorded = managed.equals(ScopeSet.of(recorded.record))
    if (isAsRecorded && (hash === undefined || hash === recorded.record.appliedHash)) return undefined
    try {
      await this.#repository.provisioner.save(managed.managed(), recorded, hash)
      return undefined
    } catch (error) {
      if (error instanceof ZaelError) return error
      throw error
    }
  }

  /** After a complete run exactly what the manifest states is managed. */
  #statedScopes(): ScopeSet {
    return new ScopeSet(statedLimits(this.#plan.manifest).map(({scope}) => scope))
  }

  /** Side by side; what others stood in the way of is tried once more, alone. */
  async #makeAll(changes: readonly PlannedChange[], concurrent: number): Promise<void> {
    const again: PlannedChange[] = []
    await forEachConcurrently(this.#untilStopped(changes), concurrent, async change => {
      const error = await this.#make(change)
      if (error && isContention(error)) again.push(change)
      else if (error) this.#fail(change, error)
    })
    for (const change of again) {
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
      this.#fault ??= {error}
      this.#isHopeless = true
      this.#claimPossible(change)
      return undefined
    }
    this.#done.push(change)
    if (change.kind === 'limits' && change.action === 'delete') this.#managed.delete(change.scope)
    this.#claimPossible(change)
    this.#report()
    return undefined
  }

  #fail(change: PlannedChange, error: ZaelError): void {
    this.#failures.push({change, error})
    this.#isHopeless ||= isHopeless(error)
    if (maybeApplied(error)) this.#claimPossible(change)
    this.#report()
  }

  /** A claim too many is corrected by the next run; what exists and is not claimed would never be deleted. */
  #claimPossible(change: PlannedChange): void {
    if (change.kind === 'limits' && change.action !== 'delete') this.#managed.add(change.scope)
  }

  #report(): void {
    const {changes} = this.#plan
    this.#options.onProgress?.({done: this.#done.length, failed: this.#failures.length, total: changes.length})
  }
}
