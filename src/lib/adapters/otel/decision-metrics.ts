import type {Attributes, Meter} from '@opentelemetry/api'
import type {DecisionEvent} from '../../limiter/request/decision-event.js'
import type {NameLabel} from './bounded-names.js'

/** In seconds: a decision is one round trip, or none; with retries and waits it may be many. */
const DURATION_BOUNDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** In seconds. */
const WAIT_BOUNDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600]

interface NameLabels {
  readonly resource: NameLabel
  /** Absent where entities are not told. */
  readonly entity: NameLabel | undefined
}

/** Records decisions by a meter. Names, units and labels are listed in docs/observing.md. */
export function decisionMetrics(meter: Meter, names: NameLabels): (event: DecisionEvent) => void {
  const decisions = meter.createCounter('zael.decisions', {
    description: 'Requests that were decided on, by outcome; refusals by limit and level.',
    unit: '{decision}',
  })
  const duration = meter.createHistogram('zael.decision.duration', {
    description: 'From the call to the decision, waits for admission included.',
    unit: 's',
    advice: {explicitBucketBoundaries: DURATION_BOUNDS},
  })
  const waits = meter.createHistogram('zael.decision.wait', {
    description: 'Time that requests have waited for admission, of those that did.',
    unit: 's',
    advice: {explicitBucketBoundaries: WAIT_BOUNDS},
  })
  const calls = meter.createCounter('zael.calls', {
    description: 'Calls to the table, of all requests together: they share calls.',
    unit: '{call}',
  })
  return event => {
    const {namespace, entity, resource, outcome, reason, refusedBy, waitedMs, durationMs} = event
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
    })
    duration.record(durationMs / 1000, labels)
    if (waitedMs > 0) waits.record(waitedMs / 1000, labels)
    if (event.calls > 0) calls.add(event.calls, {'zael.namespace': namespace})
  }
}
