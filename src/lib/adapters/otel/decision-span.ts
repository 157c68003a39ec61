import {type Attributes, context, SpanStatusCode, type Tracer, trace} from '@opentelemetry/api'
import type {DecisionEvent} from '../../limiter/request/decision-event.js'

/**
 * Records a decision as a span of the trace that its caller is in. Without one there is none: a trace of nothing but a
 * decision says no more than the metrics, and there would be one per request.
 */
export function decisionSpans(tracer: Tracer, tellsEntity: boolean): (event: DecisionEvent) => void {
  return event => {
    const active = context.active()
    if (!trace.getSpan(active)?.isRecording()) return
    const endMs = Date.now()
    const {durationMs, outcome, error} = event
    const attributes = attributesOf(event, tellsEntity)
    const span = tracer.startSpan('zael.decision', {startTime: endMs - durationMs, attributes}, active)
    if (outcome === 'failed') {
      const message = error instanceof Error ? error.message : String(error)
      span.recordException(error instanceof Error ? error : message)
      span.setStatus({code: SpanStatusCode.ERROR, message})
    }
    span.end(endMs)
  }
}

function attributesOf(event: DecisionEvent, tellsEntity: boolean): Attributes {
  const {namespace, entity, resource, also, outcome, reason, refusedBy, retryAfterMs, waitedMs} = event
  return {
    'zael.namespace': namespace,
    'zael.resource': resource,
    'zael.outcome': outcome,
    ...(tellsEntity && {'zael.entity': entity}),
    ...(also && {'zael.also': Object.keys(also)}),
    ...(reason && {'zael.reason': reason}),
    ...(refusedBy && {'zael.level': refusedBy.level, 'zael.refused_resource': refusedBy.resource}),
    ...(refusedBy?.limit !== undefined && {'zael.limit': refusedBy.limit}),
    ...(retryAfterMs !== null && {'zael.retry_after': retryAfterMs / 1000}),
    ...(waitedMs > 0 && {'zael.wait': waitedMs / 1000}),
  }
}
