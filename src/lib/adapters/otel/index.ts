/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Metrics and spans of decisions, through OpenTelemetry.
 *
 * @packageDocumentation
 */
import {type MeterProvider, metrics, type TracerProvider, trace} from '@opentelemetry/api'
import type {DecisionEvent} from '../../limiter/request/decision-event.js'
import {boundedNames, decisionMetrics, decisionSpans} from './decision-metrics.js'

/** What is recorded, and where. */
export interface ObserveOptions {
  /** Instead of the one that is registered globally. */
  readonly meterProvider?: MeterProvider
  /** Instead of the one that is registered globally. */
  readonly tracerProvider?: TracerProvider
  /**
   * Whether metrics and spans tell the entity. Every one of them is a time series of its own, and its id may be a person's
   * or a secret: not unless said otherwise. Beyond the first 1,000 it is `_other_`.
   */
  readonly entities?: boolean
  /** Whether a decision within an active span gets a span of its own; it does unless said otherwise. */
  readonly spans?: boolean
}

/** The version of the names of metrics, spans and attributes. */
const SCOPE = {name: 'zael', version: '1'} as const

/** Different names of resources, and of entities, that are told apart; requests may carry any. */
const MOST_NAMES = 1000

/**
 * Records every decision of a limiter: to be given to it as `onDecision`. One may serve several limiters.
 *
 * @example
 * ```ts
 * const limiter = new RateLimiter({stack: 'prod', onDecision: observeDecisions()})
 * ```
 */
export function observeDecisions(options: ObserveOptions = {}): (event: DecisionEvent) => void {
  const {entities = false, spans = true} = options
  const names = {resource: boundedNames(MOST_NAMES), entity: entities ? boundedNames(MOST_NAMES) : undefined}
  // With the first decision: metrics of a provider that is registered later would be lost.
  let record: ((event: DecisionEvent) => void)[] | undefined
  return event => {
    record ??= [
      decisionMetrics((options.meterProvider ?? metrics).getMeter(SCOPE.name, SCOPE.version), names),
      ...(spans
        ? [decisionSpans((options.tracerProvider ?? trace).getTracer(SCOPE.name, SCOPE.version), entities)]
        : []),
    ]
    for (const each of record) each(event)
  }
}
