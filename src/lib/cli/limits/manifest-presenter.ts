import type {ZaelError} from '../../core/errors.js'
import {rateText} from '../../core/limits/boost-text.js'
import type {Limit} from '../../core/limits/limit.js'
import {formatLimit, hasSameText, limitChanges} from '../../core/limits/limit-text.js'
import {formatCount, formatList, formatPlural, shellWord} from '../../core/text/text.js'
import type {Preview} from '../../insight/preview/preview.js'
import type {ApplyResult} from '../../manifest/apply.js'
import type {Manifest} from '../../manifest/manifest.js'
import {adoptedScopes, type ManifestDrift, type Plan, type PlanCounts, type PlannedChange} from '../../manifest/plan.js'
import type {SyncResult} from '../../repository/limits/bucket-sync.js'
import type {LockRecord} from '../../schema/lock-record.js'
import {scopeWords} from '../base/scope.js'
import {paint} from '../output/lines.js'
import {factLines} from '../output/text-table.js'
import {limitChangesJson, limitJson, scopeJson} from './json.js'
import {
  bucketsText,
  cascadeText,
  changeText,
  fieldChanges,
  firstLines,
  policyText,
  scopeKindChanges,
} from './presenter.js'
import {type FilePreview, planQuestion, quotaLines, sideEffectLines, sideEffects, sideEffectsJson} from './preview.js'
import type {
  LimitsApplyResult,
  LimitsDiffResult,
  LimitsPlanResult,
  LimitsValidateResult,
  PlannedChangeJson,
} from './results.js'

const SIGNS = {create: ['+', 'green'], update: ['~', 'yellow'], delete: ['-', 'red']} as const

/** `where`: flags for suggested commands. */
export function manifestPlanLines(
  {manifest, changes, counts, boosts}: Plan,
  preview: Preview,
  where: string,
): string[] {
  if (changes.length === 0) return [`No changes ${inNamespace(manifest)}${adoption(counts)}`, ...boostLines(boosts)]
  return [
    `Changes ${inNamespace(manifest)}`,
    ...changes.map(change => `  ${changeLine(change)}`),
    `${countWords(counts)}${adoption(counts)}`,
    ...sideEffectLines(preview),
    ...plannedKinds(changes).map(kinds => `Changes ${kinds}`),
    ...boostLines(boosts),
    ...quotaLines(preview, where),
  ]
}

const plannedKinds = (changes: Plan['changes']): string[] =>
  scopeKindChanges(changes.filter(change => change.kind === 'limits'))

export const planWrittenLines = (file: string): string[] => [
  `Plan written to ${file}. To apply exactly these changes: zael limits apply ${shellWord(file)}`,
]

function boostLines(boosts: Plan['boosts']): string[] {
  const listed = (title: string, among: Plan['boosts']) =>
    among.length === 0
      ? []
      : [title, ...among.map(({scope, limit}) => `  ${scopeWords(scope)}: ${limit.name} ${rateText(limit)}`)]
  return [
    ...listed(
      'Temporary limits, kept',
      boosts.filter(({isEnded}) => !isEnded),
    ),
    ...listed('Temporary limits, ended by this apply', endedBoosts(boosts)),
  ]
}

const endedBoosts = (boosts: Plan['boosts']): Plan['boosts'] => boosts.filter(({isEnded}) => isEnded)

/** `undefined` when the plan only adds and has no side effects on live buckets. */
export function applyQuestion({changes, counts, boosts}: Plan, preview: FilePreview): string | undefined {
  const {update, delete: gone} = counts
  const ended = endedBoosts(boosts).map(({scope, limit}) => `${limit.name} of ${scopeWords(scope)}`)
  const {lost, altered, refused} = sideEffects(preview)
  const parts = [
    ...(update > 0 ? [`updates ${formatPlural(update, 'scope or record', 'scopes or records')}`] : []),
    ...(gone > 0 ? [`deletes the limits of ${formatPlural(gone, 'scope')}`] : []),
    ...lost,
    ...plannedKinds(changes).map(kinds => `changes ${kinds}`),
    ...(ended.length === 0 ? [] : [`ends ${formatPlural(ended.length, 'temporary limit')} (${formatList(ended)})`]),
    ...altered,
  ]
  return planQuestion(parts, refused)
}

export function diffLines({manifest, differences, boosts, unlisted}: ManifestDrift): string[] {
  const scopes = `${formatPlural(unlisted, 'scope')} in the table ${unlisted === 1 ? 'is' : 'are'} not in the manifest`
  const rest = [...(unlisted === 0 ? [] : [scopes]), ...boostLines(boosts)]
  if (differences.length === 0) return [`No drift ${inNamespace(manifest)}`, ...rest]
  const width = Math.max(...differences.map(({kind}) => kind.length))
  return [
    `Drift ${inNamespace(manifest)}: table → manifest`,
    ...differences.map(({kind, change}) => `  ${kind.padEnd(width)}  ${changeLine(change)}`),
    ...rest,
  ]
}

const inNamespace = ({namespace}: Manifest): string => `in namespace ${namespace}`

export function changeLine(change: PlannedChange): string {
  const [sign, colour] = SIGNS[change.action]
  const {what, values} = change.kind === 'entity' ? entityWords(change) : limitsWords(change)
  return `${paint(colour, sign)} ${what}: ${values.join(', ')}`
}

function entityWords(change: PlannedChange & {kind: 'entity'}): {what: string; values: string[]} {
  const values = fieldChanges(change)
  return {what: `entity ${change.entity}`, values: values.length > 0 ? values : ['a new record']}
}

function limitsWords(change: PlannedChange & {kind: 'limits'}): {what: string; values: string[]} {
  const {action, scope, before, after, onUnavailable, access, cascade, adopts} = change
  const settings = {
    'on unavailable': onUnavailable && policyText(onUnavailable.before, onUnavailable.after),
    access: access && policyText(access.before, access.after),
    cascade: cascade && policyText(cascadeText(cascade.before), cascadeText(cascade.after)),
  }
  const changedSettings = Object.entries(settings).flatMap(([name, text]) => (text ? [`${name} ${text}`] : []))
  const changed = limitChanges(before, after).filter(each => !hasSameText(each.before, each.after))
  const values =
    action === 'update' ? changed.map(each => `${each.name} ${changeText(each)}`) : rates(action, before, after)
  return {
    what: `${scopeWords(scope)}${adopts ? ' (not managed yet)' : ''}`,
    values: [...values, ...changedSettings],
  }
}

function rates(action: 'create' | 'delete', before: readonly Limit[], after: readonly Limit[]): string[] {
  return (action === 'create' ? after : before).map(formatLimit)
}

function countWords({create, update, delete: gone, unchanged}: PlanCounts): string {
  const counts = {create, update, delete: gone}
  const words = Object.entries(counts).map(([action, count]) => `${formatCount(count)} to ${action}`)
  return `${words.join(', ')}, ${formatCount(unchanged)} unchanged`
}

function adoption({adopt}: PlanCounts): string {
  return adopt === 0
    ? ''
    : `; ${formatCount(adopt)} existing ${adopt === 1 ? 'scope becomes' : 'scopes become'} managed`
}

const RESUME = 'run the command again to apply the rest'

function applyTitle(total: number, {outcome, created, updated, deleted, mismatches, stopped}: ApplyResult): string {
  const made = `Stopped after ${formatCount(created + updated + deleted)} of ${formatPlural(total, 'change')}`
  if (outcome === 'complete') return 'Applied: everything matches the manifest'
  if (outcome === 'interrupted') return `${made}; ${RESUME}`
  if (stopped) return `${made}. ${failureText(stopped)}`
  if (mismatches.length === 0) return `Some changes failed; ${RESUME}`
  return `Applied, but ${formatPlural(mismatches.length, 'scope or record', 'scopes or records')} changed again meanwhile`
}

export function applyLines({changes}: Pick<Plan, 'changes'>, result: ApplyResult): string[] {
  const {created, updated, deleted, adopted, failures, mismatches, left, buckets, recordFailure} = result
  return [
    ...factLines(applyTitle(changes.length, result), {
      created: formatCount(created),
      updated: formatCount(updated),
      deleted: formatCount(deleted),
      'now managed': adopted === 0 ? undefined : formatCount(adopted),
      'not tried': left === 0 ? undefined : formatCount(left),
      'live buckets': bucketsText(buckets),
      'managed list': recordFailure && `not updated: ${recordFailure.message}`,
    }),
    ...firstLines(
      'Failed',
      failures.map(({change, error}) => `${changeLine(change)}: ${failureText(error)}`),
    ),
    ...firstLines('Another client changed these, table → manifest', mismatches.map(changeLine)),
  ]
}

const failureText = ({message}: ZaelError): string => message.split('\n')[0] as string

export function manifestCounts({namespace, system, resources, entities}: Manifest): Omit<LimitsValidateResult, 'file'> {
  const sets = [
    system?.limits ?? [],
    ...[...resources.values(), ...[...entities.values()].flatMap(({scopes}) => [...scopes.values()])].map(
      ({limits}) => limits,
    ),
  ]
  return {
    namespace,
    system: system !== undefined,
    resources: resources.size,
    entities: entities.size,
    limits: sets.reduce((sum, limits) => sum + limits.length, 0),
  }
}

export function validLine(file: string, manifest: Manifest): string {
  const {namespace, resources, entities, limits} = manifestCounts(manifest)
  const figures = Object.entries({limits, resources, entities}).map(([name, count]) => `${name} ${formatCount(count)}`)
  return `${file === '-' ? 'Standard input' : file} is valid: namespace ${namespace}, ${figures.join(', ')}`
}

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

export function manifestPlanJson(plan: Plan, preview: Preview): Omit<LimitsPlanResult, 'impact'> {
  const {manifest, changes, counts, boosts} = plan
  return {
    namespace: manifest.namespace,
    changes: changes.map(plannedChangeJson),
    adopted: Array.from(adoptedScopes(plan), scopeJson),
    counts,
    boosts: boostsJson(boosts),
    ...sideEffectsJson(preview),
  }
}

function boostsJson(boosts: Plan['boosts']): LimitsPlanResult['boosts'] {
  return boosts.map(({scope, limit, isEnded}) => ({scope: scopeJson(scope), limit: limitJson(limit), ends: isEnded}))
}

export function diffJson({manifest: {namespace}, differences, boosts, unlisted}: ManifestDrift): LimitsDiffResult {
  return {
    namespace,
    drift: differences.length > 0,
    differences: differences.map(({kind, change}) => ({difference: kind, ...plannedChangeJson(change)})),
    unlisted,
    boosts: boostsJson(boosts),
  }
}

export function applyResultJson(result: ApplyResult): NonNullable<LimitsApplyResult['result']> {
  const {failures, mismatches, stopped, recordFailure} = result
  return {
    ...result,
    failures: failures.map(({change, error}) => ({change: plannedChangeJson(change), error: errorJson(error)})),
    mismatches: mismatches.map(plannedChangeJson),
    stopped: stopped ? errorJson(stopped) : null,
    recordFailure: recordFailure ? errorJson(recordFailure) : null,
  }
}

const errorJson = ({code, message}: ZaelError) => ({code, message})

export function unlockQuestion(namespace: string, {owner, since, leaseUntilMs}: LockRecord, nowMs: number): string {
  const seconds = Math.ceil((leaseUntilMs - nowMs) / 1000)
  const state = seconds > 0 ? `The lock expires in ${seconds} s unless that run renews it` : 'The lock has expired'
  return `${owner} has locked namespace ${namespace} since ${since}. ${state}`
}

export function unlockedLines(
  namespace: string,
  lock: LockRecord | undefined,
  buckets: SyncResult | undefined,
): string[] {
  if (!lock || !buckets) return [`Namespace ${namespace} is not locked`]
  return factLines(`Removed the lock of ${lock.owner} on namespace ${namespace}, held since ${lock.since}`, {
    'live buckets': bucketsText(buckets),
  })
}
