import type {ZaelError} from '../../core/errors.js'
import type {ChangeReach} from '../../insight/preview/change-reach.js'
import type {ApplyResult} from '../../manifest/apply.js'
import {adoptedScopes, type ManifestDrift, type Plan, type PlannedChange} from '../../manifest/plan.js'
import {alteredJson, lostJson} from './consent.js'
import {limitChangesJson, limitJson, scopeJson} from './json.js'
import type {LimitsApplyResult, LimitsDiffResult, LimitsPlanResult, PlannedChangeJson} from './manifest-results.js'

function plannedChangeJson(change: PlannedChange): PlannedChangeJson {
  if (change.kind === 'entity') {
    const {kind, action, entity, before, after} = change
    return {kind, action, entity, before, after}
  }
  const {kind, action, scope, before, after, onUnavailable, access, cascade, adopts} = change
  return {
    kind,
    action,
    scope: scopeJson(scope),
    changes: limitChangesJson(before, after),
    onUnavailable: onUnavailable ? {before: onUnavailable.before ?? null, after: onUnavailable.after ?? null} : null,
    access: access ? {before: access.before ?? null, after: access.after ?? null} : null,
    cascade: cascade ? {before: cascade.before ?? null, after: cascade.after ?? null} : null,
    adopts,
  }
}

export function manifestPlanJson(plan: Plan, loss: ChangeReach): Omit<LimitsPlanResult, 'impact'> {
  const {manifest, changes, counts, boosts} = plan
  return {
    namespace: manifest.namespace,
    changes: changes.map(plannedChangeJson),
    adopted: Array.from(adoptedScopes(plan), scopeJson),
    counts,
    boosts: boostsJson(boosts),
    lost: {...lostJson(loss), complete: loss.isComplete},
    altered: alteredJson(loss.altered),
  }
}

function boostsJson(boosts: Plan['boosts']): LimitsPlanResult['boosts'] {
  return boosts.map(({scope, limit, isEnded}) => ({scope: scopeJson(scope), limit: limitJson(limit), ends: isEnded}))
}

export function diffJson({manifest: {namespace}, differences, boosts}: ManifestDrift): LimitsDiffResult {
  return {
    namespace,
    drift: differences.length > 0,
    differences: differences.map(({kind, change}) => ({difference: kind, ...plannedChangeJson(change)})),
    boosts: boostsJson(boosts),
  }
}

export function applyResultJson(result: ApplyResult): NonNullable<LimitsApplyResult['result']> {
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
