import {boostedOf, type Limit} from '../../core/limit.js'
import {formatAmount} from '../../core/syntax/amount.js'
import {plainRate} from '../../core/syntax/boost-text.js'
import {formatList, formatMinute, shellWord} from '../../core/text.js'
import type {BoostedLimit} from '../../repository/limits/configs.js'
import {type ConfigScope, levelOf} from '../../schema/config-record.js'
import type {Listing} from '../output/listing.js'
import type {LimitsBoostsResult} from '../results/limits.js'
import {type ChangeOutcome, limitJson, scopeJson} from './json.js'
import {scopeArguments, scopeWords} from './presenter.js'

/** Boosts, one row per limit, the next end first. */
export function boostListing(boosts: readonly BoostedLimit[]): Listing<BoostedLimit> {
  return {
    rows: byEnd(boosts),
    columns: [
      {name: 'level', value: ({scope}) => scopeJson(scope).level, isExtra: true},
      {name: 'entity', value: ({scope}) => scopeJson(scope).entity},
      {name: 'resource', value: ({scope}) => scopeJson(scope).resource},
      {name: 'limit', value: ({limit}) => limit.name},
      {name: 'now', value: ({limit}) => (limit.boost?.isEnded ? 'ended' : plainRate(boostedOf(limit) ?? limit))},
      {name: 'until', header: 'UNTIL', fit: 'whole', value: ({limit}) => formatMinute(limit.boost?.untilMs ?? 0)},
      {name: 'then', value: ({limit, isForBoost}) => (isForBoost ? `${plainRate(limit)}, copied` : plainRate(limit))},
      {name: 'by', fit: 'spare', value: ({by}) => by},
      {name: 'since', value: ({since}) => since, isExtra: true},
    ],
    empty: 'No limits end by themselves. To raise one for a day: zael limits set … tpm=200k --for 24h',
  }
}

/** The same in JSON. */
export function boostsJson(boosts: readonly BoostedLimit[]): LimitsBoostsResult['boosts'] {
  return byEnd(boosts).map(({scope, limit, since, by, isForBoost}) => ({
    scope: scopeJson(scope),
    limit: limitJson(limit),
    copied: isForBoost,
    since,
    by: by ?? null,
  }))
}

function byEnd(boosts: readonly BoostedLimit[]): BoostedLimit[] {
  return [...boosts].sort((a, b) => (a.limit.boost?.untilMs ?? 0) - (b.limit.boost?.untilMs ?? 0))
}

/** A change for the comparison with recorded usage: what applies until the end counts, not what follows. */
export function asBoosted<T extends {readonly after: readonly Limit[]}>(change: T): T {
  return {...change, after: change.after.map(limit => boostedOf(limit) ?? limit)}
}

/** What to know about limits that end by themselves: the end, what follows, and from when a quota has its new amount. */
export function endLines(
  {scope, after, record}: ChangeOutcome,
  given: readonly Limit[],
  asked: Date,
  where: string,
): string[] {
  const names = new Set(given.map(({name}) => name))
  const set = after.filter(({name, boost}) => boost && names.has(name))
  const [first] = set
  if (!first?.boost) return []
  const {untilMs} = first.boost
  const rounded = untilMs === asked.getTime() ? '' : ' (rounded up to the minute)'
  const then = record?.isForBoost
    ? `what applied before applies again, and ${scopeWords(scope)} has no limits of its own`
    : 'what is shown after "then" applies'
  return [
    '',
    `Ends by itself at ${formatMinute(untilMs)}${rounded}: from then on ${then}. To end it before: zael limits unset --boost ${scopeArguments(scope)}${where}`,
    ...quotaLines(scope, set, where),
  ]
}

/** A changed allowance counts from the next reset, as always. */
function quotaLines(scope: ConfigScope, set: readonly Limit[], where: string): string[] {
  const quotas = set.flatMap(limit => {
    const more = (boostedOf(limit)?.capacity ?? 0) - limit.capacity
    return limit.reset ? [{limit, more}] : []
  })
  if (quotas.length === 0) return []
  const names = formatList(quotas.map(({limit}) => limit.name))
  const amounts = quotas
    .filter(({more}) => more > 0)
    .map(({limit: {name, unit}, more}) => shellWord(`${name}=${formatAmount(more, unit)}`))
  const says = `The allowance of ${names} counts from the next reset.`
  if (amounts.length === 0) return ['', says]
  const entity = scope.level === 'entity' ? shellWord(scope.entity) : 'ENTITY'
  const resource =
    levelOf(scope) === 'entity' || scope.level === 'resource'
      ? shellWord((scope as {resource: string}).resource)
      : 'RESOURCE'
  return [
    '',
    `${says} To add the difference until then: zael bucket top-up ${entity} ${resource} ${amounts.join(' ')}${where}`,
  ]
}
