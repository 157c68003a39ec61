import {InvalidInput} from '../core/errors.js'
import {checkConsumption} from '../core/limits/limit.js'
import {isOutage, isUnavailability} from '../dynamo/errors.js'
import {LONGEST_PAUSE_MS, LONGEST_RETRY_MS, retrying} from '../dynamo/retry.js'
import {mayHaveBeenApplied} from '../repository/buckets/marked-write.js'
import {type RunState, readRunState} from '../repository/runs/run-state.js'
import {
  createRun,
  endRun,
  type NewRun,
  neededRun,
  newRunId,
  noteDelegated,
  preventRun,
} from '../repository/runs/runs.js'
import type {NamespaceTable} from '../repository/table/table.js'
import type {RunRecord} from '../schema/run-record.js'
import {checkedDuration, checkRunName, type DelegateRequest, tokensAsked} from './delegate-request.js'
import type {Lease} from './lease.js'
import type {NamespaceLimiter} from './levels/namespace-limiter.js'
import {RateLimiterUnavailable} from './refusal/errors.js'
import type {AcquireRequest} from './request/options.js'
import {type DelegateDecision, Run, type RunActions} from './run.js'

/** The parts of a limiter that runs use. */
export interface RunServices<Name extends string>
  extends Pick<RunActions<Name>, 'tryAcquire' | 'acquire' | 'withLease' | 'clock'> {
  open(): Promise<NamespaceLimiter>
}

/** Creates runs, and finds stored ones. */
export class Runs<Name extends string> {
  readonly #services: RunServices<Name>

  readonly #actions: RunActions<Name>

  constructor(services: RunServices<Name>) {
    this.#services = services
    this.#actions = {
      ...services,
      tryDelegate: (request, parent) => this.tryDelegate(request, parent),
      state: id => this.#state(id),
      end: id => this.#end(id),
    }
  }

  async tryDelegate(request: DelegateRequest<Name>, parent?: RunRecord): Promise<DelegateDecision<Name>> {
    const {entity, resource, caller, timeoutMs, waitMs, onWait, signal, name} = request
    const lastsMs = checkedDuration(request.for)
    checkRunName(name)
    const {table, queues} = await this.#services.open()
    const consume = await tokensAsked(table, request.amounts)
    const id = newRunId(table, parent?.id)
    const decision = await this.#services.tryAcquire({
      ...{entity, resource, consume: consume as AcquireRequest<Name>['consume'], strict: true, onUnavailable: 'block'},
      ...(caller && {caller}),
      ...(timeoutMs !== undefined && {timeoutMs}),
      ...(waitMs !== undefined && {waitMs}),
      ...(onWait && {onWait}),
      ...(signal && {signal}),
    })
    if (!decision.admitted) return decision
    const {lease} = decision
    const endsAtMs = Math.min(table.clock() + lastsMs, parent?.endsAtMs ?? Number.POSITIVE_INFINITY)
    const granted = checkConsumption(consume)
    const run = {name, entity, resource, granted, sources: lease.taken, endsAtMs}
    let isInDoubt = false
    try {
      requireTokens(lease, granted.keys())
      const record = await createRun(table, id, run, {
        parent: parent?.id,
        onDoubt: () => {
          isInDoubt = true
        },
      })
      void queues.background.run(noteDelegated(table, lease.counted))
      // Returns the slots of in-flight limits; the run has the tokens now.
      await lease.commit()
      queues.services.reaper.lookAround()
      return {admitted: true, run: new Run(record, this.#actions)}
    } catch (error) {
      if (isInDoubt || mayHaveBeenApplied(error)) void queues.background.run(undo(table, id, run, lease as Lease))
      else await lease.rollback()
      throw isOutage(error) ? new RateLimiterUnavailable(error) : error
    }
  }

  async find(id: string): Promise<Run<Name>> {
    return new Run(await this.#record(id), this.#actions)
  }

  async #record(id: string): Promise<RunRecord> {
    return neededRun((await this.#services.open()).table, id)
  }

  async #state(id: string): Promise<RunState> {
    const {table} = await this.#services.open()
    return readRunState(table, await this.#record(id))
  }

  async #end(id: string): Promise<RunState> {
    const {table, queues} = await this.#services.open()
    const ending = endRun(table, id)
    void queues.background.run(ending)
    const {run, addresses} = await ending
    // Known states of the buckets are outdated.
    for (const address of addresses) queues.find(address)?.bucket.forget()
    return readRunState(table, run)
  }
}

/** Nobody knows whether the run was created. Its tokens must not stay charged for nobody. */
async function undo(table: NamespaceTable, id: string, run: NewRun, lease: Lease): Promise<void> {
  const giveUpMs = table.clock() + LONGEST_RETRY_MS
  const retryable = (error: unknown) => isUnavailability(error) && table.clock() < giveUpMs
  const ending = async () => ((await preventRun(table, id, run)) ? lease.rollback() : lease.commit())
  await retrying(ending, {...table.backoff, maxMs: LONGEST_PAUSE_MS, attempts: Infinity, retryable})
}

function requireTokens({limits}: Pick<Lease, 'limits'>, names: Iterable<string>): void {
  for (const name of names) {
    if (!limits[name]?.inFlight) continue
    throw new InvalidInput('run.in-flight', `The limit "${name}" counts requests in flight, which a run cannot have.`)
  }
}
