import {plainRate} from '../../core/limits/boost-text.js'
import {baseOf, type Limit} from '../../core/limits/limit.js'
import {formatLimit} from '../../core/limits/limit-text.js'
import {formatCount, formatList, formatMinute, formatPlural} from '../../core/text/text.js'
import type {AlteredLimit, ChangeReach} from '../../insight/preview/change-reach.js'
import type {ConfigScope} from '../../schema/config-record.js'
import {scopeWords} from '../base/scope-text.js'
import {limitJson} from './json.js'
import type {ChangeEffectJson} from './results.js'

const MOST_ALTERED = 5

/** `undefined` when live buckets lose no limit that they are charged for. */
export function lossText({lost, losing, unconfigured, isComplete}: ChangeReach): string | undefined {
  const least = isComplete ? '' : 'at least '
  const parts = [
    ...(losing > 0 ? [`${formatList(lost)}, charged by ${least}${formatPlural(losing, 'live bucket')}`] : []),
    ...(unconfigured > 0
      ? [`${least}${formatPlural(unconfigured, 'live bucket')} then without limits at any level: requests fail`]
      : []),
  ]
  return parts.length === 0 ? undefined : parts.join('; ')
}

export function alteredText(altered: readonly AlteredLimit[]): string | undefined {
  if (altered.length === 0) return undefined
  const rest = altered.length - MOST_ALTERED
  const each = altered.slice(0, MOST_ALTERED).map(({resource, name, before, after, buckets}) => {
    const [from, to] = [before, after].map(limit => (limit ? plainRate(limit) : '(none)'))
    return `${name} for ${resource} from ${from} to ${to}${buckets > 0 ? ` (${formatPlural(buckets, 'live bucket')})` : ''}`
  })
  return [...each, ...(rest > 0 ? [`and ${formatCount(rest)} more`] : [])].join('; ')
}

/** Changes that need confirmation: live buckets get other values. Limits that are gone count as lost. */
export function alteredLive({altered}: Pick<ChangeReach, 'altered'>): AlteredLimit[] {
  return altered.filter(({after, buckets}) => after !== undefined && buckets > 0)
}

/** `undefined` when the change has no side effects on live buckets. */
export function consentQuestion(scope: ConfigScope, reach: ChangeReach | undefined): string | undefined {
  if (!reach) return undefined
  const [lost, altered] = [lossText(reach), alteredText(alteredLive(reach))]
  const parts = [
    ...(lost === undefined ? [] : [`takes limits away: ${lost}`]),
    ...(altered === undefined ? [] : [`also changes ${altered}`]),
  ]
  return parts.length === 0 ? undefined : `Changing ${scopeWords(scope)} ${parts.join(', and ')}`
}

/** Asked before limits copied for a boost (until epoch ms) become permanent. `undefined` when there are none. */
export function keptQuestion(
  scope: ConfigScope,
  copiedUntilMs: number | undefined,
  kept: readonly Limit[],
): string | undefined {
  if (copiedUntilMs === undefined || kept.length === 0) return undefined
  const words = formatList(kept.map(limit => formatLimit(baseOf(limit))))
  const end = `The limits of ${scopeWords(scope)} are a copy for a boost, until ${formatMinute(copiedUntilMs)}`
  return `${end}; with this ${words} ${kept.length === 1 ? 'stays' : 'stay'} for good`
}

export function joinQuestions(...questions: readonly (string | undefined)[]): string | undefined {
  const asked = questions.filter(question => question !== undefined)
  return asked.length === 0 ? undefined : asked.join('. ')
}

export function lostJson(reach: ChangeReach | undefined): ChangeEffectJson['lost'] {
  const {lost = [], losing = 0, unconfigured = 0} = reach ?? {}
  return {limits: lost, buckets: losing, unconfigured}
}

export function alteredJson(altered: readonly AlteredLimit[]): ChangeEffectJson['altered'] {
  return altered.map(({resource, name, before, after, entities, buckets}) => ({
    resource,
    name,
    before: before ? limitJson(before) : null,
    after: after ? limitJson(after) : null,
    entities,
    buckets,
  }))
}
