import {isDeepStrictEqual} from 'node:util'
import {formatLimit} from '../../core/limits/limit-text.js'
import {formatCount, formatList, formatPlural} from '../../core/text/text.js'
import type {ChangeReach} from '../../insight/preview/change-reach.js'
import type {AppliedScope, LevelEffect, MeantChange, ScopeLimits} from '../../insight/preview/level-limits.js'
import type {NewName} from '../../insight/preview/new-names.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {ConfigScope} from '../../schema/config-record.js'
import {scopeArguments, scopeWords} from '../base/scope-text.js'
import {type Facts, factLines} from '../output/text-table.js'
import {alteredJson, alteredText, lossText, lostJson} from './consent.js'
import {type ChangeOutcome, limitChanges, limitJson, scopeJson} from './json.js'
import {bucketsText, changeText, policyText, retentionText} from './presenter.js'
import type {ChangeEffectJson} from './results.js'

/** Computed before the change is made. */
export interface ChangeEffect {
  readonly level: LevelEffect
  /** `undefined` when no limits change. */
  readonly reach: ChangeReach | undefined
  readonly names: readonly NewName[]
}

const MOST_LEVELS = 5

export async function effectOf(
  namespace: NamespaceRepository,
  change: MeantChange,
  nowMs: number,
): Promise<ChangeEffect> {
  const [{levelEffect}, {changeReach}, {newNames}] = await Promise.all([
    import('../../insight/preview/level-limits.js'),
    import('../../insight/preview/change-reach.js'),
    import('../../insight/preview/new-names.js'),
  ])
  const known = new Set(change.before.map(({name}) => name))
  const added = change.after.flatMap(({name}) => (known.has(name) ? [] : [name]))
  // Settings alone affect no bucket.
  const changesLimits = change.before.length > 0 || change.after.length > 0
  const level = await levelEffect(namespace, change)
  const covered = [...level.hides, ...level.uncovers]
  const [reach, names] = await Promise.all([
    changesLimits ? changeReach(namespace, change, covered, nowMs) : undefined,
    added.length === 0 ? [] : newNames(namespace, change.scope, added),
  ])
  return {level, reach, names}
}

/** Recomputed when others changed the same limits since the preview. */
export async function effectMade(
  namespace: NamespaceRepository,
  effect: ChangeEffect,
  previewed: Omit<ScopeLimits, 'scope'>,
  made: ScopeLimits,
): Promise<ChangeEffect> {
  const limits = ({before, after}: Omit<ScopeLimits, 'scope'>) => [before, after]
  if (isDeepStrictEqual(limits(previewed), limits(made))) return effect
  const {levelEffect} = await import('../../insight/preview/level-limits.js')
  return {...effect, level: await levelEffect(namespace, made)}
}

export function changeLines(change: ChangeOutcome, effect: ChangeEffect, dryRun: boolean): string[] {
  const {scope, previous, record, buckets, copied} = change
  const {before, after} = effect.level
  const changes = limitChanges(before.limits, after.limits)
  const copies = new Set(copied?.limits.map(({name}) => name))
  const origin = copied ? `, copied from ${scopeWords(copied.scope)}` : ''
  return factLines(`Limits of ${scopeWords(scope)}${dryRun ? ' (dry run, nothing is written)' : ''}`, {
    ...Object.fromEntries(
      changes.map(each => [each.name, `${changeText(each)}${copies.has(each.name) ? origin : ''}`]),
    ),
    ...effectFacts(effect, buckets !== undefined),
    'on unavailable': policyText(previous?.onUnavailable, record?.onUnavailable),
    'audit retention': policyText(retentionText(previous), retentionText(record)),
    'live buckets': buckets && bucketsText(buckets),
  })
}

function effectFacts({level: {hides, uncovers}, reach, names}: ChangeEffect, isMade: boolean): Facts {
  return {
    hides: levelsText(hides),
    uncovers: levelsText(uncovers),
    'also changes': alteredText(reach?.altered.filter(({isShown}) => !isShown) ?? []),
    // After the change, "live buckets" already says that there are none.
    concerns: reach && !(isMade && reach.buckets === 0) ? reachText(reach) : undefined,
    loses: reach && lossText(reach),
    new: names.length === 0 ? undefined : names.map(newNameText).join(', '),
  }
}

function levelsText(levels: readonly AppliedScope[]): string | undefined {
  if (levels.length === 0) return undefined
  const rest = levels.length - MOST_LEVELS
  const each = levels.slice(0, MOST_LEVELS).map(({scope, limits}) => {
    return `${scope ? scopeWords(scope) : ''}: ${limits.map(formatLimit).join(' ')}`
  })
  return [...each, ...(rest > 0 ? [`and ${formatCount(rest)} more`] : [])].join('; ')
}

function reachText({entities, buckets, isComplete}: ChangeReach): string {
  const least = isComplete ? '' : 'at least '
  if (buckets === 0) return isComplete ? 'no live bucket' : 'none of the first live buckets'
  return `${least}${formatPlural(entities, 'entity', 'entities')} with ${formatPlural(buckets, 'live bucket')}`
}

function newNameText({kind, name, nearest}: NewName): string {
  const meant = nearest.length === 0 ? '' : ` (did you mean ${nearest.join(' or ')}?)`
  return `${kind} ${name}${meant}`
}

export function newNameLines(names: readonly NewName[]): string[] {
  return names.length === 0 ? [] : [`Nothing has used before: ${names.map(newNameText).join(', ')}`]
}

export function copyLines(copied: AppliedScope | undefined, scope: ConfigScope, where: string): string[] {
  if (!copied?.scope) return []
  const names = formatList(copied.limits.map(({name}) => name))
  const undo = `zael limits unset --all ${scopeArguments(scope)}${where}`
  return [
    '',
    `${names} ${copied.limits.length === 1 ? 'is a copy' : 'are copies'}: later changes of ${scopeWords(copied.scope)} do not reach ${scopeWords(scope)}. To follow it again: ${undo}`,
  ]
}

export function effectJson({level, reach, names}: ChangeEffect): ChangeEffectJson {
  return {
    effective: {before: appliedJson(level.before), after: appliedJson(level.after)},
    hides: level.hides.map(appliedJson),
    uncovers: level.uncovers.map(appliedJson),
    concerned: {
      entities: reach?.entities ?? 0,
      buckets: reach?.buckets ?? 0,
      complete: reach?.isComplete ?? true,
    },
    lost: lostJson(reach),
    altered: alteredJson(reach?.altered ?? []),
    new: newNamesJson(names),
  }
}

export function newNamesJson(names: readonly NewName[]): ChangeEffectJson['new'] {
  return names.map(({kind, name, nearest}) => ({kind, name, nearest}))
}

export function appliedJson({scope, limits}: AppliedScope): ChangeEffectJson['effective']['before'] {
  return {scope: scope ? scopeJson(scope) : null, limits: limits.map(limitJson)}
}
