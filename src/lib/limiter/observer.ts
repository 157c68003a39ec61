import type {Consumption} from '../core/limits/limit.js'
import type {Transport} from '../dynamo/transport.js'
import type {DecisionEvent, DecisionSummary} from './request/decision-event.js'

interface ObservedRequest<Name extends string> {
  readonly entity: string
  readonly resource: string
  readonly consume: Consumption<Name>
  readonly resources?: Readonly<Record<string, Consumption<Name>>>
}

export class DecisionObserver {
  readonly #onDecision: (event: DecisionEvent) => unknown
  readonly #namespace: string
  #calls = 0
  #hasWarned = false

  constructor(onDecision: (event: DecisionEvent) => unknown, namespace: string) {
    this.#onDecision = onDecision
    this.#namespace = namespace
  }

  /** Monotonic, in ms. */
  now(): number {
    return performance.now()
  }

  counting(transport: Transport): Transport {
    return {
      send: (operation, input, options) => {
        this.#calls++
        return transport.send(operation, input, options)
      },
    }
  }

  /** `startedMs` comes from `now()`. Whatever the callback does, the decision stands. */
  report<Name extends string>(
    request: ObservedRequest<Name>,
    summary: DecisionSummary,
    waitedMs: number,
    startedMs: number,
  ): void {
    const {outcome, reason, refusedBy, retryAfterMs, error} = summary
    const {entity, resource, consume, resources} = request
    const calls = this.#calls
    this.#calls = 0
    // Field by field is faster than spreading; runs for every request.
    const event: DecisionEvent = Object.freeze({
      outcome,
      reason,
      refusedBy,
      retryAfterMs,
      error,
      namespace: this.#namespace,
      entity,
      resource,
      consume: consume as Consumption,
      resources: resources as DecisionEvent['resources'],
      waitedMs,
      durationMs: performance.now() - startedMs,
      calls,
    })
    try {
      const onDecision = this.#onDecision
      const result = onDecision(event)
      // Catch thenables of other realms too: an unhandled rejection would end the process.
      if (typeof result === 'object' && result !== null && 'then' in result) Promise.resolve(result).catch(this.#warn)
    } catch (thrown) {
      this.#warn(thrown)
    }
  }

  /** Once per limiter: a failing callback would fail with every request. */
  readonly #warn = (thrown: unknown): void => {
    if (this.#hasWarned) return
    this.#hasWarned = true
    process.emitWarning(`onDecision failed, decisions are not affected. Shown once per limiter: ${textOf(thrown)}`, {
      type: 'ZaelWarning',
      code: 'ZAEL_ON_DECISION',
    })
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
