import {nextResetMs} from '../../core/calendar/kind-definition.js'
import {formatAmount} from '../../core/limits/amount-text.js'
import {afterBoost, plainRate} from '../../core/limits/boost-text.js'
import {boostedOf, isSessionReset, type Limit} from '../../core/limits/limit.js'
import {formatMinute, formatTokens} from '../../core/text/text.js'
import type {BoostedLimit} from '../../repository/limits/configs.js'
import type {ConfigScope} from '../../schema/config-record.js'
import {scopeArguments, scopeWords, topUpCommand} from '../base/scope.js'
import type {Listing} from '../output/listing.js'
import {type ChangeOutcome, limitJson, scopeJson} from './json.js'
import type {LimitsBoostsResult} from './results.js'

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
      {name: 'then', value: ({limit}) => afterBoost(limit)},
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
  {given, until, nowMs}: {readonly given: readonly Limit[]; readonly until: Date; readonly nowMs: number},
  where: string,
): string[] {
  const names = new Set(given.map(({name}) => name))
  const set = after.filter(({name, boost}) => boost && names.has(name))
  const [first] = set
  if (!first?.boost) return []
  const {untilMs} = first.boost
  const rounded = untilMs === until.getTime() ? '' : ' (rounded up to the minute)'
  // A copy lasts as long as the last of its boosts.
  const then =
    record?.copiedUntilMs === untilMs
      ? `${scopeWords(scope)} has no limits of its own, and the next level applies`
      : 'the value shown after "then" applies'
  return [
    '',
    `Expires at ${formatMinute(untilMs)}${rounded}; then ${then}. To end it now: zael limits unset --boost ${scopeArguments(scope)}${where}`,
    ...set.flatMap(limit => (limit.reset ? ['', quotaText(limit, nowMs)] : [])),
    ...topUpLines(scope, set, where),
  ]
}

/** A higher quota applies from the next period, a lower one at once. Tokens cut off are not refunded. */
function quotaText(limit: Limit, nowMs: number): string {
  const {name, capacity, reset, unit} = limit
  const boosted = boostedOf(limit)?.capacity ?? capacity
  const [more, less] = [boosted, capacity].map(tokens => formatTokens(tokens, unit))
  if (boosted < capacity) {
    const again = isSessionReset(reset) ? 'the next session' : 'the next reset after expiry'
    return `${name}: balances above ${more} are cut at once. Only ${again} restores them.`
  }
  const atEnd = `On expiry, any balance above ${less} is lost.`
  if (isSessionReset(reset))
    return `${name}: sessions that start before expiry get ${more}; open sessions keep their balance. ${atEnd}`
  return `${name}: ${more} from the next reset, at ${formatMinute(nextResetMs(limit, nowMs) ?? 0)}. ${atEnd}`
}

function topUpLines(scope: ConfigScope, set: readonly Limit[], where: string): string[] {
  const amounts = set.flatMap(limit => {
    const more = (boostedOf(limit)?.capacity ?? 0) - limit.capacity
    return limit.reset && more > 0 ? [`${limit.name}=${formatAmount(more, limit.unit)}`] : []
  })
  if (amounts.length === 0) return []
  return ['', `To add the difference until the next reset: ${topUpCommand(scope, amounts)}${where}`]
}
