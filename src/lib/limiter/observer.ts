import type {Consumption} from '../core/limits/limit.js'
import type {Circuit} from './circuit.js'
import {balancesOfDecision} from './decision.js'
import type {Lease} from './lease.js'
import type {DecisionEvent, DecisionSummary, FurtherResources} from './request/decision-event.js'

interface ObservedRequest<Name extends string> {
  readonly entity: string
  readonly resource: string
  readonly consume: Consumption<Name>
  readonly resources?: FurtherResources<Name>
}

export class DecisionObserver {
  readonly #onDecision: (event: DecisionEvent) => void
  readonly #namespace: string
  readonly #circuit: Pick<Circuit, 'state' | 'calls'>
  #callsReported = 0

  constructor(
    onDecision: (event: DecisionEvent) => unknown,
    namespace: string,
    circuit: Pick<Circuit, 'state' | 'calls'>,
  ) {
    this.#onDecision = guardedCallback('onDecision', onDecision)
    this.#namespace = namespace
    this.#circuit = circuit
  }

  /** Monotonic, in ms. */
  now(): number {
    return performance.now()
  }

  /** `startedMs` comes from `now()`. `lease`: if admitted. Whatever the callback does, the decision stands. */
  report<Name extends string>(
    request: ObservedRequest<Name>,
    summary: DecisionSummary,
    lease: Lease | undefined,
    waitedMs: number,
    startedMs: number,
  ): void {
    const {state, calls} = this.#circuit
    const newCalls = calls - this.#callsReported
    this.#callsReported = calls
    this.#onDecision(
      new ReportedDecision(this.#namespace, request, summary, lease, waitedMs, startedMs, newCalls, state),
    )
  }
}

const WARNINGS = {
  onDecision: {code: 'ZAEL_ON_DECISION', unaffected: 'decisions'},
  onSettled: {code: 'ZAEL_ON_SETTLED', unaffected: 'settlements'},
} as const

/** A callback of the user that never throws. It warns once per limiter: it would fail with every request. */
export function guardedCallback<Event>(
  option: keyof typeof WARNINGS,
  callback: (event: Event) => unknown,
): (event: Event) => void {
  const {code, unaffected} = WARNINGS[option]
  let hasWarned = false
  const warn = (thrown: unknown): void => {
    if (hasWarned) return
    hasWarned = true
    const text = `${option} failed, ${unaffected} are not affected. Shown once per limiter: ${textOf(thrown)}`
    process.emitWarning(text, {type: 'ZaelWarning', code})
  }
  return event => {
    try {
      const result = callback(event)
      // Catch thenables of other realms too: an unhandled rejection would end the process.
      if (typeof result === 'object' && result !== null && 'then' in result) Promise.resolve(result).catch(warn)
    } catch (thrown) {
      warn(thrown)
    }
  }
}

/** Runs for every request. A class, because getters of an object literal cost microseconds. */
class ReportedDecision<Name extends string> implements DecisionEvent {
  readonly #lease: Lease | undefined
  readonly outcome: DecisionEvent['outcome']
  readonly reason: DecisionEvent['reason']
  readonly refusedBy: DecisionEvent['refusedBy']
  readonly retryAfterMs: number | null
  readonly error: unknown
  readonly entity: string
  readonly resource: string
  readonly consume: Consumption
  readonly resources: DecisionEvent['resources']
  readonly durationMs: number

  constructor(
    readonly namespace: string,
    request: ObservedRequest<Name>,
    summary: DecisionSummary,
    lease: Lease | undefined,
    readonly waitedMs: number,
    startedMs: number,
    readonly calls: number,
    readonly circuit: DecisionEvent['circuit'],
  ) {
    this.#lease = lease
    this.outcome = summary.outcome
    this.reason = summary.reason
    this.refusedBy = summary.refusedBy
    this.retryAfterMs = summary.retryAfterMs
    this.error = summary.error
    this.entity = request.entity
    this.resource = request.resource
    this.consume = request.consume as Consumption
    this.resources = request.resources as DecisionEvent['resources']
    this.durationMs = performance.now() - startedMs
    Object.freeze(this)
  }

  get limits(): DecisionEvent['limits'] {
    return balancesOfDecision(this.#lease ?? this.error).limits
  }

  get share(): number | undefined {
    return balancesOfDecision(this.#lease ?? this.error).share
  }
}

/** Anything can be thrown, even values that cannot be converted to text. */
function textOf(thrown: unknown): string {
  try {
    return thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown)
  } catch {
    return `a value of type ${typeof thrown}`
  }
}
