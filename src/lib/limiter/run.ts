import {MILLI} from '../core/token-math.js'
import type {RunAmounts, RunState} from '../repository/runs/run-state.js'
import {RunEnded} from '../repository/runs/runs.js'
import {type RunRecord, runEntity} from '../schema/run-record.js'
import type {AcquireDecision, RefusedDecision} from './decision.js'
import {type DelegateRequest, type SubRunRequest, subRequest} from './delegate-request.js'
import type {Lease} from './lease.js'
import {ResourceDisabled} from './refusal/errors.js'
import type {AcquireRequest} from './request/options.js'

/** The run was created. */
export interface DelegatedDecision<Name extends string = string> {
  readonly admitted: true
  readonly run: Run<Name>
}

/** The decision about one delegation; refused like a request. */
export type DelegateDecision<Name extends string = string> = DelegatedDecision<Name> | RefusedDecision<Name>

/** The parts of a limiter that a run uses. */
export interface RunActions<Name extends string> {
  tryAcquire(request: AcquireRequest<Name>): Promise<AcquireDecision<Name>>
  acquire(request: AcquireRequest<Name>): Promise<Lease<Name>>
  withLease<T>(request: AcquireRequest<Name>, work: (lease: Lease<Name>) => Promise<T> | T): Promise<T>
  tryDelegate(request: DelegateRequest<Name>, parent: RunRecord): Promise<DelegateDecision<Name>>
  state(id: string): Promise<RunState>
  end(id: string): Promise<RunState>
  clock(): number
}

/** One request to a run. */
export type RunAcquireRequest<Name extends string = string> = Omit<
  AcquireRequest<Name>,
  'entity' | 'resource' | 'resources'
>

/**
 * An amount that was moved from an entity's limits to a bucket of its own. Any process can open it by its id.
 *
 * @example
 * ```ts
 * await using run = await limiter.delegate({entity: 'user-1', resource: 'llm', amounts: {usd: '$2'}, for: '1h'})
 * await run.withLease({consume: {usd: 30_000}}, lease => callModel())
 * ```
 */
export class Run<Name extends string = string> implements AsyncDisposable {
  readonly id: string
  readonly name: string | undefined
  /** Whose tokens these are; of a sub-run, the entity of its parent. */
  readonly entity: string
  readonly resource: string
  /** From then on its requests are refused, and its rest comes back. */
  readonly endsAt: Date
  /** Tokens by limit; money in millionths. */
  readonly granted: RunAmounts
  readonly #record: RunRecord
  readonly #actions: RunActions<Name>

  /** @internal */
  constructor(record: RunRecord, actions: RunActions<Name>) {
    const {id, name, entity, resource, endsAtMs, granted} = record
    this.id = id
    this.name = name
    this.entity = entity
    this.resource = resource
    this.endsAt = new Date(endsAtMs)
    this.granted = Object.fromEntries([...granted].map(([limit, milli]) => [limit, Number(milli / MILLI)]))
    this.#record = record
    this.#actions = actions
  }

  /** Like `limiter.acquire`, from the run's amount: one write. Throws `RunEnded` after the end. */
  async acquire(request: RunAcquireRequest<Name>): Promise<Lease<Name>> {
    return this.#open(() => this.#actions.acquire(this.#of(request)))
  }

  /** Like `limiter.tryAcquire`, from the run's amount. Throws `RunEnded` after the end. */
  async tryAcquire(request: RunAcquireRequest<Name>): Promise<AcquireDecision<Name>> {
    return this.#open(() => this.#actions.tryAcquire(this.#of(request)).then(this.#unlessEnded))
  }

  /** Like `limiter.withLease`, from the run's amount. Throws `RunEnded` after the end. */
  async withLease<T>(request: RunAcquireRequest<Name>, work: (lease: Lease<Name>) => Promise<T> | T): Promise<T> {
    return this.#open(() => this.#actions.withLease(this.#of(request), work))
  }

  /** Moves a part of what is left to a sub-run. It ends with this run at the latest, and returns its rest to this run. */
  async delegate(request: SubRunRequest<Name>): Promise<Run<Name>> {
    return runOf(await this.tryDelegate(request))
  }

  /** Like `delegate`, but returns refusals. */
  async tryDelegate(request: SubRunRequest<Name>): Promise<DelegateDecision<Name>> {
    return this.#open(() => this.#actions.tryDelegate(this.#subRequest(request), this.#record).then(this.#unlessEnded))
  }

  /** Spent and remaining amounts, over all processes. Writes nothing. */
  state(): Promise<RunState> {
    return this.#actions.state(this.id)
  }

  /**
   * Ends the run and its sub-runs in all processes, and returns the rest. Leases that are still open stay charged as they
   * are. Repeatable: resolves to the state at the first end.
   */
  end(): Promise<RunState> {
    return this.#actions.end(this.id)
  }

  /** Leaving the block ends the run. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.end()
  }

  #of(request: RunAcquireRequest<Name>): AcquireRequest<Name> {
    return {...request, entity: runEntity(this.id), resource: this.resource}
  }

  #subRequest(request: SubRunRequest<Name>) {
    return subRequest(this.#record, request, this.#actions.clock())
  }

  async #open<T>(work: () => Promise<T>): Promise<T> {
    if (this.#actions.clock() >= this.#record.endsAtMs) throw new RunEnded(this.id)
    try {
      return await work()
    } catch (error) {
      throw this.#isEnd(error) ? new RunEnded(this.id) : error
    }
  }

  readonly #unlessEnded = <T extends AcquireDecision<Name> | DelegateDecision<Name>>(decision: T): T => {
    if (!decision.admitted && this.#isEnd(decision.error)) throw decision.error
    return decision
  }

  /** The end disables the run's entity. */
  #isEnd(error: unknown): boolean {
    return error instanceof ResourceDisabled && error.level === 'entity' && error.entity === runEntity(this.id)
  }
}

/** Throws a refusal. */
export function runOf<Name extends string>(decision: DelegateDecision<Name>): Run<Name> {
  if (!decision.admitted) throw decision.error
  return decision.run
}
