import type {ZaelError} from '../../core/errors.js'
import type {ApplyResult} from '../../manifest/apply.js'
import type {ManifestDifference, Plan, PlannedChange} from '../../manifest/plan.js'
import {limitChanges, limitJson, scopeJson} from './json.js'

/** One planned change in JSON; the keys depend on its kind. */
function plannedChangeJson(change: PlannedChange) {
  if (change.kind === 'entity') {
    const {kind, action, entity, before, after} = change
    return {kind, action, entity, before, after}
  }
  const {kind, action, scope, before, after, onUnavailable, adopts} = change
  return {
    kind,
    action,
    scope: scopeJson(scope),
    changes: limitChanges(before, after).map(({name, was, is}) => ({
      name,
      before: was ? limitJson(was) : null,
      after: is ? limitJson(is) : null,
    })),
    onUnavailable: onUnavailable ? {before: onUnavailable.before ?? null, after: onUnavailable.after ?? null} : null,
    adopts,
  }
}

/** A plan in JSON. */
export function manifestPlanJson({manifest, changes, adopted, counts}: Plan) {
  return {
    namespace: manifest.namespace,
    changes: changes.map(plannedChangeJson),
    adopted: adopted.map(scopeJson),
    counts,
  }
}

/** Drift in JSON. */
export function diffJson(namespace: string, differences: readonly ManifestDifference[]) {
  return {
    namespace,
    drift: differences.length > 0,
    differences: differences.map(({kind, change}) => ({difference: kind, ...plannedChangeJson(change)})),
  }
}

/** The result of an apply in JSON. */
export function applyResultJson(result: ApplyResult) {
  const {outcome, created, updated, deleted, adopted, left, buckets, failures, recordFailure} = result
  return {
    outcome,
    created,
    updated,
    deleted,
    adopted,
    left,
    buckets,
    failures: failures.map(({change, error}) => ({change: plannedChangeJson(change), error: errorJson(error)})),
    recordFailure: recordFailure ? errorJson(recordFailure) : null,
  }
}

const errorJson = ({code, message}: ZaelError) => ({code, message})
