import {afterBoost, type NextLevel, plainRate} from '../../core/limits/boost-text.js'
import {boostedOf, type Limit} from '../../core/limits/limit.js'
import {formatMinute} from '../../core/text/text.js'
import type {AppliedScope} from '../../insight/preview/level-limits.js'
import type {BoostedLimit} from '../../repository/limits/configs.js'
import {scopeArguments, scopeWords} from '../base/scope.js'
import type {Listing} from '../output/listing.js'
import {type ChangeOutcome, limitJson, SCOPE_COLUMNS, scopeJson} from './json.js'
import type {LimitsBoostsResult} from './results.js'

export function boostListing(
  boosts: readonly BoostedLimit[],
  next: ReadonlyMap<BoostedLimit, NextLevel>,
): Listing<BoostedLimit> {
  return {
    rows: byEnd(boosts),
    columns: [
      ...SCOPE_COLUMNS.map(column => ({...column, isExtra: column.name === 'level'})),
      {name: 'limit', value: ({limit}) => limit.name},
      {name: 'now', value: ({limit}) => (limit.boost?.isEnded ? 'ended' : plainRate(boostedOf(limit) ?? limit))},
      {name: 'until', header: 'UNTIL', fit: 'whole', value: ({limit}) => formatMinute(limit.boost?.untilMs ?? 0)},
      {name: 'then', fit: 'whole', value: boost => afterBoost(boost.limit, next.get(boost))},
      {name: 'by', fit: 'spare', value: ({by}) => by},
      {name: 'since', value: ({since}) => since, isExtra: true},
    ],
    empty: 'No temporary limits. To raise a limit for a day: zael limits set … tpm=200k --for 24h',
  }
}

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

/** For the comparison with recorded usage: the boosted values count. */
export function asBoosted<T extends {readonly after: readonly Limit[]}>(change: T): T {
  return {...change, after: change.after.map(limit => boostedOf(limit) ?? limit)}
}

export function endLines(
  {scope, after, record}: ChangeOutcome,
  {
    given,
    until,
    next,
  }: {readonly given: readonly Limit[]; readonly until: Date; readonly next?: AppliedScope | undefined},
  where: string,
): string[] {
  const names = new Set(given.map(({name}) => name))
  const set = after.filter(({name, boost}) => boost && names.has(name))
  const [first] = set
  if (!first?.boost) return []
  const {untilMs} = first.boost
  const rounded = untilMs === until.getTime() ? '' : ' (rounded up to the minute)'
  // A copy lasts as long as the last of its boosts.
  const then = record?.copiedUntilMs === untilMs ? appliedText(next) : 'the permanent values apply'
  return [
    '',
    `Expires at ${formatMinute(untilMs)}${rounded}; then ${then}. To end it now: zael limits unset --boost ${scopeArguments(scope)}${where}`,
  ]
}

function appliedText(next: AppliedScope | undefined): string {
  if (!next) return 'the limits of each resource or of the system apply'
  return next.scope ? `the limits of ${scopeWords(next.scope)} apply` : 'no limits apply, so requests fail'
}
