import type {Limit} from '../../../src/lib/core/limits/limit.js'
import {RateLimitExceeded, ResourceDisabled} from '../../../src/lib/limiter/refusal/errors.js'
import type {Verdicts} from '../oracles/verdicts.js'
import {familyAtStart, RESOURCE, type Scenario} from '../scenario.js'
import type {TableWrite} from '../world/table-writes.js'
import {bucketId} from '../world/table-writes.js'
import type {World} from '../world/world.js'
import {QuotaLedger} from './ledger.js'
import {QuotaRefusals} from './refusals.js'
import {ScheduleBound} from './schedule-bound.js'
import {Switches} from './switches.js'
import {TopUps} from './top-ups.js'

/** Names of limits that are not plain rates, at least for a time. */
export function kindedNames({configs, steps}: Scenario): ReadonlySet<string> {
  const sets = [...configs, ...steps.flatMap(({event}) => ('limits' in event ? [event] : []))]
  const boosted = steps.flatMap(({event}) => (event.kind === 'boost' ? event.limits.map(({name}) => name) : []))
  return new Set([
    ...sets.flatMap(({limits}) =>
      limits.flatMap(({name, reset, schedule, soft}) => (reset || schedule || soft ? [name] : [])),
    ),
    ...boosted,
  ])
}

/** All oracles for quotas, schedules, soft limits and switches. */
export class QuotaOracle {
  readonly ledger: QuotaLedger
  readonly switches: Switches
  readonly topUps: TopUps
  readonly #refusals: QuotaRefusals
  readonly #schedules: ScheduleBound
  readonly #world: World
  readonly #verdicts: Verdicts
  readonly #isSettled: (bucket: string, sinceMs: number) => boolean
  readonly #soft: ReadonlySet<string>

  constructor(
    world: World,
    verdicts: Verdicts,
    isSettled: (bucket: string, sinceMs: number) => boolean,
    configured: (bucket: string, name: string) => Limit | undefined,
  ) {
    this.#world = world
    this.#verdicts = verdicts
    this.#isSettled = isSettled
    const slack = {
      aheadMs: () => world.aheadMs,
      behindMs: () => world.spreadMs - world.aheadMs,
      lagMs: () => world.lagMs,
    }
    this.ledger = new QuotaLedger(verdicts, slack)
    this.switches = new Switches(verdicts, RESOURCE)
    this.topUps = new TopUps(world.scenario, verdicts)
    this.#refusals = new QuotaRefusals(verdicts, () => world.items, configured)
    this.#schedules = new ScheduleBound(world.scenario, verdicts, slack)
    this.#soft = alwaysSoft(world.scenario)
  }

  observe(write: TableWrite): void {
    this.ledger.observe(write)
    this.topUps.observe(write)
    this.switches.observe(write)
    this.#schedules.observe(write)
    this.#refusals.observe(write)
  }

  /** Call when nothing is in progress. */
  check(): void {
    this.topUps.check()
    this.#refusals.check()
  }

  /** A charge regardless of the balance. */
  noteForced(bucket: string, name: string, milli: bigint): void {
    this.#schedules.noteForced(bucket, name, milli)
  }

  /** A refusal that a process reported; `startedMs` since the start of the run. */
  refused(process: number, entity: string, error: unknown, startedMs: number): void {
    const {time, namespace, processes, spreadMs, lagMs, isCalm} = this.#world
    const isDisturbed = processes[process]?.wasDisturbed(startedMs)
    const startedEpochMs = time.nowMs - time.elapsedMs + startedMs
    if (error instanceof RateLimitExceeded)
      for (const {name, exceeded} of error.statuses)
        if (exceeded && this.#soft.has(name))
          this.#verdicts.report('S1-soft', `${entity} ${name}`, 'a soft limit has refused')
    if ((isDisturbed && !isCalm) || spreadMs > 0) return
    const family = familyAtStart(this.#world.scenario, entity).map(each => bucketId(namespace, each, RESOURCE))
    if (error instanceof ResourceDisabled)
      this.switches.refused(bucketId(namespace, error.entity, error.resource), startedEpochMs, lagMs)
    if (error instanceof RateLimitExceeded && family.every(bucket => this.#isSettled(bucket, startedEpochMs)))
      this.#refusals.judge({namespace, error, startedMs: startedEpochMs, endedMs: time.nowMs})
  }
}

/** Limits that are always soft. */
function alwaysSoft({configs, steps}: Scenario): ReadonlySet<string> {
  const limits = [...configs, ...steps.flatMap(({event}) => ('limits' in event ? [event] : []))].flatMap(
    each => each.limits,
  )
  const hard = new Set(limits.filter(({soft}) => !soft).map(({name}) => name))
  return new Set(limits.filter(({name}) => !hard.has(name)).map(({name}) => name))
}
