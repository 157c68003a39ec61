/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Records decisions as OpenTelemetry metrics and spans.
 *
 * @packageDocumentation
 */
import {type MeterProvider, metrics, type TracerProvider, trace} from '@opentelemetry/api'
import type {DecisionEvent} from '../../limiter/request/decision-event.js'
import {boundedNames, decisionMetrics, decisionSpans} from './decision-metrics.js'

/** Options of {@link observeDecisions}. */
export interface ObserveOptions {
  /** Receives the metrics. @default the globally registered provider */
  readonly meterProvider?: MeterProvider
  /** Receives the spans. @default the globally registered provider */
  readonly tracerProvider?: TracerProvider
  /** Record entities: ids may be personal or secret, each is a time series; after 1,000, `_other_`. @default false */
  readonly entities?: boolean
  /** Record a span for each decision within an active span. @default true */
  readonly spans?: boolean
}

/** The version of the metric, span and attribute names. */
const SCOPE = {name: 'zael', version: '1'} as const

/** Distinct resources, and distinct entities, to record: requests may carry any name. */
const MOST_NAMES = 1000

/**
 * Records every decision of one or more limiters. Pass it as `onDecision`.
 *
 * @example
 * ```ts
 * const limiter = new RateLimiter({stack: 'prod', onDecision: observeDecisions()})
 * ```
 */
export function observeDecisions(options: ObserveOptions = {}): (event: DecisionEvent) => void {
  const {entities = false, spans = true} = options
  const names = {resource: boundedNames(MOST_NAMES), entity: entities ? boundedNames(MOST_NAMES) : undefined}
  // Created with the first decision, so that providers registered after this call are not missed.
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
