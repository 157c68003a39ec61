/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Records decisions and settlements as OpenTelemetry metrics, and decisions as spans.
 *
 * @packageDocumentation
 */
import {
  type Attributes,
  type Counter,
  context,
  type Meter,
  type MeterProvider,
  metrics,
  SpanStatusCode,
  type Tracer,
  type TracerProvider,
  trace,
} from '@opentelemetry/api'
import type {DecisionEvent} from '../../limiter/request/decision-event.js'
import type {SettledEvent} from '../../limiter/request/options.js'

/** Options of {@link observeDecisions}. */
export interface ObserveOptions {
  /** Receives the metrics. @default the globally registered provider */
  readonly meterProvider?: MeterProvider
  /** Receives the spans. @default the globally registered provider */
  readonly tracerProvider?: TracerProvider
  /**
   * Record entity ids, which may be personal or secret. Each id is a time series; after 1,000 ids, others share `_other_`.
   * @default false
   */
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

/**
 * Counts the settlements of one or more limiters. Pass it as `onSettled`.
 *
 * @example
 * ```ts
 * const limiter = new RateLimiter({stack: 'prod', onSettled: observeSettlements()})
 * ```
 */
export function observeSettlements(options: Pick<ObserveOptions, 'meterProvider'> = {}): (event: SettledEvent) => void {
  const resourceLabel = boundedNames(MOST_NAMES)
  let counter: Counter | undefined
  return ({namespace, resource, retries, error}) => {
    counter ??= (options.meterProvider ?? metrics)
      .getMeter(SCOPE.name, SCOPE.version)
      .createCounter('zael.settlements', {
        description: 'Lease settlements: written at once, written after retries, or given up.',
        unit: '{settlement}',
      })
    counter.add(1, {
      'zael.namespace': namespace,
      'zael.resource': resourceLabel(resource),
      'zael.outcome': error !== undefined ? 'failed' : retries > 0 ? 'retried' : 'written',
    })
  }
}

const DURATION_BOUNDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

const SHARE_BOUNDS = [0, 0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.95, 0.99, 1]

const WAIT_BOUNDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600]

interface NameLabels {
  readonly resource: NameLabel
  readonly entity: NameLabel | undefined
}

/** docs/observing.md lists names, units and labels. */
function decisionMetrics(meter: Meter, names: NameLabels): (event: DecisionEvent) => void {
  const decisions = meter.createCounter('zael.decisions', {
    description: 'Decisions by outcome; refusals also by limit and level.',
    unit: '{decision}',
  })
  const duration = meter.createHistogram('zael.decision.duration', {
    description: 'From call to decision, including waits for admission.',
    unit: 's',
    advice: {explicitBucketBoundaries: DURATION_BOUNDS},
  })
  const waits = meter.createHistogram('zael.decision.wait', {
    description: 'Waiting time of requests that waited for admission.',
    unit: 's',
    advice: {explicitBucketBoundaries: WAIT_BOUNDS},
  })
  const slotShare = meter.createHistogram('zael.slots.share', {
    description: 'Slots in use of each in-flight limit after a decision, as a fraction of its capacity.',
    unit: '1',
    advice: {explicitBucketBoundaries: SHARE_BOUNDS},
  })
  const calls = meter.createCounter('zael.calls', {
    description: 'Calls to the table by all requests, which share calls.',
    unit: '{call}',
  })
  return event => {
    const {namespace, entity, resource, outcome, reason, refusedBy, waitedMs, durationMs, circuit} = event
    const labels: Attributes = {
      'zael.namespace': namespace,
      'zael.resource': names.resource(resource),
      'zael.outcome': outcome,
    }
    if (names.entity) labels['zael.entity'] = names.entity(entity)
    decisions.add(1, {
      ...labels,
      ...(reason && {'zael.reason': reason}),
      ...(refusedBy?.limit !== undefined && {'zael.limit': refusedBy.limit}),
      ...(refusedBy && {'zael.level': refusedBy.level}),
      ...(circuit === 'open' && {'zael.circuit': circuit}),
    })
    duration.record(durationMs / 1000, labels)
    if (waitedMs > 0) waits.record(waitedMs / 1000, labels)
    for (const {name, capacity, used} of slotLevels(event))
      slotShare.record(capacity > 0 ? used / capacity : 1, {...labels, 'zael.limit': name})
    if (event.calls > 0) calls.add(event.calls, {'zael.namespace': namespace})
  }
}

function slotLevels({
  limits,
}: DecisionEvent): {readonly name: string; readonly capacity: number; readonly used: number}[] {
  return Object.values(limits).flatMap(state => {
    if (!state?.inFlight) return []
    const {name, capacity, available} = state
    return [{name, capacity, used: capacity - available}]
  })
}

/** Label of all names beyond the bound; no resource can have this name. */
const OTHER = '_other_'

type NameLabel = (name: string) => string

/** Time series live as long as the process, so their number must be bounded. */
function boundedNames(most: number): NameLabel {
  const known = new Set<string>()
  return name => {
    if (known.has(name)) return name
    if (known.size >= most) return OTHER
    known.add(name)
    return name
  }
}

/** Only within a recording span: a trace of one decision says no more than the metrics. */
function decisionSpans(tracer: Tracer, showsEntity: boolean): (event: DecisionEvent) => void {
  return event => {
    const active = context.active()
    if (!trace.getSpan(active)?.isRecording()) return
    const endMs = Date.now()
    const {durationMs, outcome, error} = event
    const attributes = attributesOf(event, showsEntity)
    const span = tracer.startSpan('zael.decision', {startTime: endMs - durationMs, attributes}, active)
    if (outcome === 'failed') {
      const message = error instanceof Error ? error.message : String(error)
      span.recordException(error instanceof Error ? error : message)
      span.setStatus({code: SpanStatusCode.ERROR, message})
    }
    span.end(endMs)
  }
}

const namesOf = (resources: NonNullable<DecisionEvent['resources']>): string[] =>
  Array.isArray(resources) ? [...new Set(resources.map(({resource}) => resource))] : Object.keys(resources)

function attributesOf(event: DecisionEvent, showsEntity: boolean): Attributes {
  const {namespace, entity, resource, resources, outcome, reason, refusedBy, retryAfterMs, waitedMs, circuit} = event
  const slots = slotLevels(event).flatMap(({name, capacity, used}) => [
    [`zael.slots.${name}.used`, used],
    [`zael.slots.${name}.capacity`, capacity],
  ])
  return {
    'zael.namespace': namespace,
    'zael.resource': resource,
    'zael.outcome': outcome,
    ...(showsEntity && {'zael.entity': entity}),
    ...(resources && {'zael.resources': namesOf(resources)}),
    ...(reason && {'zael.reason': reason}),
    ...(refusedBy && {'zael.level': refusedBy.level, 'zael.refused_resource': refusedBy.resource}),
    ...(refusedBy?.limit !== undefined && {'zael.limit': refusedBy.limit}),
    ...(retryAfterMs !== null && {'zael.retry_after': retryAfterMs / 1000}),
    ...(waitedMs > 0 && {'zael.wait': waitedMs / 1000}),
    ...Object.fromEntries(slots),
    ...(circuit === 'open' && {'zael.circuit': circuit}),
  }
}
