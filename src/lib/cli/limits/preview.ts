import {formatAmount} from '../../core/limits/amount-text.js'
import {plainRate} from '../../core/limits/boost-text.js'
import {baseOf, type Limit} from '../../core/limits/limit.js'
import {formatLimit, limitChanges} from '../../core/limits/limit-text.js'
import {formatCount, formatList, formatMinute, formatPlural, formatTokens} from '../../core/text/text.js'
import type {NewName} from '../../insight/lookup/known-names.js'
import {type AppliedScope, nextLevelIn} from '../../insight/preview/level-limits.js'
import type {AlteredLimit, Preview, QuotaEffect, ScopePreview} from '../../insight/preview/preview.js'
import type {ConfigScope} from '../../schema/config-record.js'
import {scopeArguments, scopeWords, topUpCommand} from '../base/scope.js'
import {factLines} from '../output/text-table.js'
import {type ChangeOutcome, changeJson, limitChangeJson, limitJson, scopeJson} from './json.js'
import {bucketsText, changeText, firstLines, listText, policyText, retentionText} from './presenter.js'
import type {ChangeEffectJson, LimitsPlanResult, LimitsUnsetResult} from './results.js'

interface ChangeOutput {
  /** Follows the title: DRY_RUN, for example. */
  readonly state?: string
  /** Flags for suggested commands. */
  readonly where: string
  readonly kept?: string | undefined
}

export const DRY_RUN = ' (dry run, nothing written)'

export function changeLines(
  change: ChangeOutcome,
  preview: ScopePreview,
  {state = '', where, kept}: ChangeOutput,
): string[] {
  const {scope, previous, record, buckets, copied} = change
  const {before, after, hides, uncovers, altered, names} = preview
  const copies = new Set(copied?.limits.map(({name}) => name))
  const origin = copied ? `, copied from ${scopeWords(copied.scope)}` : ''
  const changesLimits = change.before.length > 0 || change.after.length > 0
  // After the change, "live buckets" already says "none affected".
  const isCounted = changesLimits && !(buckets && preview.buckets === 0)
  const facts = factLines(`Limits of ${scopeWords(scope)}${state}`, {
    ...Object.fromEntries(
      limitChanges(before.limits, after.limits).map(each => {
        return [
          each.name,
          `${changeText(each, nextLevelIn(preview.next, each.name))}${copies.has(each.name) ? origin : ''}`,
        ]
      }),
    ),
    kept,
    hides: levelsText(hides),
    uncovers: levelsText(uncovers),
    'also changes': alteredText(altered.filter(({isShown}) => !isShown)),
    affects: isCounted ? concernedText(preview) : undefined,
    loses: lossText(preview),
    new: newNamesText(names),
    'on unavailable': policyText(previous?.onUnavailable, record?.onUnavailable),
    'audit retention': policyText(retentionText(previous), retentionText(record)),
    'live buckets': buckets && bucketsText(buckets),
  })
  const others = othersLines(scope, preview, 'with live buckets')
  return [...facts, ...(others.length > 0 ? ['', ...others] : []), ...quotaLines(preview, where)]
}

export function othersLines(
  scope: ConfigScope,
  {others, isComplete}: Pick<Preview, 'others' | 'isComplete'>,
  which: string,
): string[] {
  if (others === 0 || scope.level === 'entity') return []
  const these = `${isComplete ? '' : 'At least '}${formatPlural(others, 'entity', 'entities')} ${which}`
  const [have, their, keep] = others === 1 ? ['has', 'its', 'keeps'] : ['have', 'their', 'keep']
  const own = scope.level === 'resource' ? `${their} own limits for ${scope.resource}` : 'more specific limits'
  return [`${these} ${have} ${own} and ${keep} them.`]
}

/** Asked before a change with side effects, and before limits copied for a boost (until epoch ms) become permanent. */
export function changeQuestion(
  scope: ConfigScope,
  preview: Preview,
  kept: {readonly untilMs: number | undefined; readonly limits: readonly Limit[]} = {untilMs: undefined, limits: []},
): string | undefined {
  const {lost, refused} = sideEffects(preview)
  const altered = alteredText(alteredLive(preview))
  const effects = [...lost, ...(altered === undefined ? [] : [`also changes ${altered}`])]
  const questions = [
    ...(effects.length === 0 ? [] : [`Changing ${scopeWords(scope)} ${effects.join('. It ')}`]),
    ...refused,
    ...(kept.untilMs === undefined || kept.limits.length === 0 ? [] : [keptText(scope, kept.untilMs, kept.limits)]),
  ]
  return questions.length === 0 ? undefined : questions.join('. ')
}

function keptText(scope: ConfigScope, untilMs: number, kept: readonly Limit[]): string {
  const words = formatList(kept.map(limit => formatLimit(baseOf(limit))))
  const end = `The limits of ${scopeWords(scope)} are a temporary copy until ${formatMinute(untilMs)}`
  return `${end}. This makes ${words} permanent`
}

/** With moves of entities to parents that have nothing left. */
export interface FilePreview extends Preview {
  readonly moves?: readonly string[]
}

/**
 * Parts of a question, if any: live buckets lose limits that they are charged for, or get other values. `refused` is a
 * sentence of its own: quotas lose all that is left.
 */
export function sideEffects(preview: FilePreview): Record<'lost' | 'altered' | 'refused', string[]> {
  const lost = lossText(preview)
  const [first, ...more] = alteredPairs(alteredLive(preview))
  const buckets = more.length === 0 ? '' : `${formatPlural(more.length + 1, 'live bucket')}, such as `
  return {
    lost: lost === undefined ? [] : [`removes limits: ${lost}`],
    altered: first === undefined ? [] : [`also changes ${buckets}${first}`],
    refused: [...refusedText(preview), ...(preview.moves ?? []).slice(0, MOST_MOVES)],
  }
}

/** `undefined` when no confirmation is needed. */
export function planQuestion(parts: readonly string[], refused: readonly string[]): string | undefined {
  const sentences = [...(parts.length === 0 ? [] : [`This ${formatList(parts)}`]), ...refused]
  return sentences.length === 0 ? undefined : sentences.join('. ')
}

function refusedText({quotas, buckets, isComplete}: Preview): string[] {
  const emptied = quotas.filter(({left, refusedUntil}) => left.before >= 1 && refusedUntil !== undefined)
  const count = new Set(emptied.map(({entity, resource}) => `${entity}#${resource}`)).size
  if (count === 0) return []
  const resets = [...new Set(emptied.flatMap(({refusedUntil}) => refusedUntil ?? []))].sort()
  const until = `${formatMinute(Date.parse(resets.at(-1) ?? ''))}${resets.length > 1 ? ' at the latest' : ''}`
  const these = `${isComplete ? '' : 'At least '}${formatCount(count)} of ${formatPlural(buckets, 'live bucket')}`
  return [`${these} ${count === 1 ? 'has nothing left and is' : 'have nothing left and are'} refused until ${until}`]
}

const MOST_MOVES = 3

export function sideEffectLines(preview: FilePreview): string[] {
  const lost = lossText(preview)
  const altered = alteredPairs(preview.altered)
  const count = `${preview.isComplete ? '' : 'at least '}${formatPlural(altered.length, 'live bucket')}`
  return [
    ...(lost === undefined ? [] : [`Removes limits: ${lost}`]),
    ...(preview.moves?.length ? firstLines('Moves to a parent whose quota is used up', preview.moves) : []),
    ...firstLines('Also changes', altered, {count, elsewhere: '; --json lists all'}),
  ]
}

/** One text per entity and resource: `acme for gpt-4: rpm 30/min → 500/min, tpm 9k/min → 10k/min`. */
function alteredPairs(altered: readonly AlteredLimit[]): string[] {
  const changes = new Map<string, string[]>()
  for (const {entities, resource, name, before, after} of altered)
    for (const entity of entities) {
      const pair = `${entity} for ${resource}`
      changes.set(pair, [...(changes.get(pair) ?? []), `${name} ${changeText({name, before, after})}`])
    }
  return Array.from(changes, ([pair, texts]) => `${pair}: ${texts.join(', ')}`)
}

/** Changes that need confirmation: live buckets get other values. Limits that are gone count as lost. */
export function alteredLive({altered}: Preview): AlteredLimit[] {
  return altered.filter(({after, buckets}) => after !== undefined && buckets > 0)
}

function lossText({lost, losing, unconfigured, isComplete}: Preview): string | undefined {
  const least = isComplete ? '' : 'at least '
  return listText([
    ...(losing > 0 ? [`${formatList(lost)} from ${least}${formatPlural(losing, 'live bucket')}`] : []),
    ...(unconfigured > 0
      ? [`${least}${formatPlural(unconfigured, 'live bucket')} left without limits: requests fail`]
      : []),
  ])
}

function alteredText(altered: readonly AlteredLimit[]): string | undefined {
  const texts = altered.map(({resource, name, before, after, buckets}) => {
    const [from, to] = [before, after].map(limit => (limit ? plainRate(limit) : '(none)'))
    return `${name} for ${resource} from ${from} to ${to}${buckets > 0 ? ` (${formatPlural(buckets, 'live bucket')})` : ''}`
  })
  return listText(texts)
}

export function quotaLines({quotas, isComplete}: Preview, where: string): string[] {
  const empty = quotas.filter(({refusedUntil}) => refusedUntil !== undefined).length
  const later = quotas.filter(({used}) => used === undefined).length
  const counts = [
    `${formatCount(quotas.length)} changed`,
    ...(empty > 0 ? [`${formatCount(empty)} ${empty === 1 ? 'has' : 'have'} nothing left`] : []),
    ...(later > 0 ? [`${formatCount(later)} only from the next reset`] : []),
  ]
  const title = `Quotas of ${isComplete ? 'live buckets' : 'the live buckets read'}`
  return [
    ...firstLines(title, quotas.map(quotaText), {count: counts.join(', '), elsewhere: '; --json lists all'}),
    ...topUpLines(quotas, where),
  ]
}

function quotaText({entity, resource, limit: {name, unit}, used, left, ...quota}: QuotaEffect): string {
  const {resetsAt, refusedUntil} = quota
  const [before, after] = [left.before, left.after].map(tokens => formatTokens(tokens, unit))
  const reset = formatMinute(Date.parse(resetsAt))
  const refused = refusedUntil === undefined ? '' : ', requests are refused'
  const whose = `${name} of ${entity} for ${resource}`
  if (used !== undefined) {
    const until = refused && `${refused} until ${reset}`
    return `${whose}: ${formatTokens(used, unit)} used, left ${before} → ${after}${until}`
  }
  const balance = before === after ? `${after} left` : `left ${before} → ${after}`
  return `${whose}: ${balance}${refused} until the reset at ${reset}; the new allowance applies from then`
}

/** For the first of several. */
function topUpLines(quotas: readonly QuotaEffect[], where: string): string[] {
  const [first, second] = quotas.filter(({used, risesBy}) => used === undefined && risesBy > 0)
  if (!first) return []
  const {entity, resource, limit, risesBy} = first
  const command = topUpCommand({level: 'entity', entity, resource}, [
    `${limit.name}=${formatAmount(risesBy, limit.unit)}`,
  ])
  return ['', `To add tokens now${second ? ', for example' : ''}: ${command}${where}`]
}

function levelsText(levels: readonly AppliedScope[]): string | undefined {
  return listText(
    levels.map(({scope, limits}) => `${scope ? scopeWords(scope) : ''}: ${limits.map(formatLimit).join(' ')}`),
  )
}

function concernedText({entities, buckets, isComplete}: Preview): string {
  const least = isComplete ? '' : 'at least '
  if (buckets === 0) return isComplete ? 'no live buckets' : 'none of the live buckets read'
  return `${least}${formatPlural(entities, 'entity', 'entities')} with ${formatPlural(buckets, 'live bucket')}`
}

export function newNamesText(names: readonly NewName[]): string | undefined {
  const texts = names.map(({kind, name, nearest}) => {
    return `${kind} ${name}${nearest.length === 0 ? '' : ` (did you mean ${nearest.join(' or ')}?)`}`
  })
  return texts.length === 0 ? undefined : texts.join(', ')
}

export function copyLines(copied: AppliedScope | undefined, scope: ConfigScope, where: string): string[] {
  if (!copied?.scope) return []
  const names = formatList(copied.limits.map(({name}) => name))
  const undo = `zael limits unset --all ${scopeArguments(scope)}${where}`
  return [
    '',
    `${names} ${copied.limits.length === 1 ? 'is a copy and does' : 'are copies and do'} not follow later changes of ${scopeWords(copied.scope)}. To remove all limits of ${scopeWords(scope)} and follow it again: ${undo}`,
  ]
}

export function previewJson(change: ChangeOutcome, preview: ScopePreview): Omit<LimitsUnsetResult, 'buckets'> {
  const {before, after, hides, uncovers, entities, buckets, others, isComplete, names} = preview
  const {
    lost: {complete: _, ...lost},
    altered,
    quotas,
  } = sideEffectsJson(preview)
  return {
    ...changeJson(change),
    copied: change.copied ? appliedJson(change.copied) : null,
    effective: {before: appliedJson(before), after: appliedJson(after)},
    hides: hides.map(appliedJson),
    uncovers: uncovers.map(appliedJson),
    concerned: {entities, buckets, others, complete: isComplete},
    quotas,
    lost,
    altered,
    new: newNamesJson(names),
  }
}

export function sideEffectsJson(preview: Preview): Pick<LimitsPlanResult, 'lost' | 'altered' | 'quotas'> {
  const {lost: limits, losing, unconfigured, isComplete, altered, quotas} = preview
  return {
    lost: {limits, buckets: losing, unconfigured, complete: isComplete},
    altered: altered.map(({resource, entities: entityIds, buckets, ...change}) => {
      return {resource, ...limitChangeJson(change), entities: buckets, entityIds: [...entityIds], buckets}
    }),
    quotas: quotas.map(({limit, risesBy: _, used = null, refusedUntil = null, ...quota}) => {
      return {...quota, limit: limit.name, used, refusedUntil}
    }),
  }
}

export function newNamesJson(names: readonly NewName[]): ChangeEffectJson['new'] {
  return names.map(({kind, name, nearest}) => ({kind, name, nearest}))
}

function appliedJson({scope, limits}: AppliedScope): ChangeEffectJson['effective']['before'] {
  return {scope: scope ? scopeJson(scope) : null, limits: limits.map(limitJson)}
}
