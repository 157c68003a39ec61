import {boolean} from '@oclif/core/flags'
import {rateText} from '../../core/limits/boost-text.js'
import {formatCount, formatList, formatPlural, formatTokens} from '../../core/text/text.js'
import {windowStart} from '../../core/window.js'
import type {EntityImpact, Impact, ImpactRange} from '../../insight/preview/impact.js'
import type {ProposedChange} from '../../insight/preview/level-limits.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {fieldColumns, type Listing, listingLines} from '../output/listing.js'
import type {ImpactJson} from './results.js'

export const impactFlags = {
  impact: boolean({description: 'Replay the usage of the last week against the new limits.'}),
}

/** A week has every weekday once. */
export const IMPACT_MS = 7 * 24 * 3_600_000

const MOST_ROWS = 10

export async function readImpact(
  namespace: NamespaceRepository,
  changes: readonly ProposedChange[],
  nowMs: number,
  {window, sinceMs, untilMs}: Omit<ImpactRange, 'nowMs'> = {
    ...{window: 'hourly', sinceMs: Math.max(0, nowMs - IMPACT_MS), untilMs: Math.floor(nowMs) + 1},
  },
): Promise<{impact: Impact; range: ImpactRange}> {
  const {impactOf} = await import('../../insight/preview/impact.js')
  // The first window is read from its start.
  const range = {window, sinceMs: Date.parse(windowStart(window, sinceMs)), untilMs, nowMs}
  return {impact: await impactOf(namespace, changes, range), range}
}

const WORDS = {refused: 'refused', possible: 'perhaps', bursts: 'in bursts', near: 'near', fits: 'fits'} as const

const isComparable = ({changed, unrecorded}: Impact): boolean => changed.length > unrecorded.length

/** Rows that matter: of those that are hardly ever refused, only the first. */
export function notableImpacts({found}: Impact): {shown: readonly EntityImpact[]; more: string[]} {
  const [notable, rest] = [true, false].map(isNotable =>
    found.filter(({verdict}) => (verdict === 'refused' || verdict === 'possible') === isNotable),
  ) as [EntityImpact[], EntityImpact[]]
  const more = rest.length - MOST_ROWS
  const words = [...new Set(rest.map(({verdict}) => WORDS[verdict]))].join(' or ')
  return {
    shown: [...notable, ...rest.slice(0, MOST_ROWS)],
    more: more > 0 ? [`… and ${formatCount(more)} more ${words}; --output csv lists all`] : [],
  }
}

export function impactListing(impact: Impact, found = impact.found): Listing<EntityImpact> {
  const peak = (of: 'tokens' | 'allowed') => (each: EntityImpact) => each.peak && Math.floor(each.peak[of])
  const amount = (of: 'tokens' | 'allowed') => (each: EntityImpact) => {
    const tokens = peak(of)(each)
    return tokens === undefined ? undefined : formatTokens(tokens, each.limit.unit)
  }
  return {
    rows: found,
    columns: [
      {name: 'verdict', header: 'WOULD BE', value: ({verdict}) => WORDS[verdict], raw: ({verdict}) => verdict},
      ...fieldColumns<EntityImpact>('entity', 'resource'),
      {name: 'limit', value: ({limit}) => `${limit.name}=${rateText(limit)}`},
      {name: 'windows', align: 'right', value: each => each.refusedWindows + each.possibleWindows},
      {
        name: 'refused',
        header: 'REFUSED TOKENS',
        align: 'right',
        value: refusedText,
        raw: ({refusedTokens}) => refusedTokens,
      },
      {name: 'peak', header: 'PEAK', align: 'right', value: amount('tokens'), raw: peak('tokens')},
      {name: 'allowed', header: 'ALLOWED', align: 'right', value: amount('allowed'), raw: peak('allowed')},
      {name: 'at', fit: 'whole', value: each => each.peak && minute(each.peak.startMs)},
      {
        name: 'boosted-until',
        isExtra: true,
        value: ({boostedUntilMs}) => (boostedUntilMs === undefined ? undefined : minute(boostedUntilMs)),
      },
    ],
    empty: isComparable(impact)
      ? 'No entity would have been refused or come near a limit.'
      : 'No recorded usage to compare with these limits.',
  }
}

function refusedText({refusedTokens, isExact, limit}: EntityImpact): string {
  if (refusedTokens === 0) return '-'
  return `${isExact ? '' : 'at least '}${formatTokens(refusedTokens, limit.unit)}`
}

const minute = (ms: number): string => new Date(ms).toISOString().slice(0, 16).replace('T', ' ')

export function impactLines(impact: Impact, range: ImpactRange): string[] {
  const {found, openMs, unrecorded, inFlight, isComplete} = impact
  const boosted = new Set(found.flatMap(({entity, boostedUntilMs}) => (boostedUntilMs === undefined ? [] : [entity])))
  // Only in-flight limits change: there is nothing to replay.
  const isEmpty = impact.changed.length === 0 && impact.entities > 0 && inFlight.length > 0
  return [
    ...(isEmpty ? [] : [summaryText(impact, range)]),
    ...(isComparable(impact) ? verdictLines(impact, range) : []),
    ...(unrecorded.length > 0 && isComparable(impact) ? [unrecordedText(impact)] : []),
    ...(inFlight.length > 0 ? [inFlightText(impact)] : []),
    ...(openMs === undefined || !isComparable(impact) ? [] : [openText(openMs, range)]),
    ...(boosted.size > 0
      ? [
          `${formatPlural(boosted.size, 'listed entity has', 'listed entities have')} a temporary limit now. The result applies after it expires (\`zael limits boosts\`).`,
        ]
      : []),
    ...(isComplete ? [] : ['Not all usage was read. Choose a shorter time range.']),
  ]
}

function summaryText(impact: Impact, {window, sinceMs, untilMs}: ImpactRange): string {
  const {entities, others, windows, changed} = impact
  const time = `from ${minute(sinceMs)} to ${minute(untilMs)} (UTC)`
  const these = formatPlural(entities, 'entity', 'entities')
  if (entities === 0 && others === 0)
    return `No usage is recorded ${time} where these limits would apply. Check that the aggregator runs: zael status`
  if (entities === 0)
    return `${formatPlural(others, 'entity has', 'entities have')} usage ${time}, but more specific limits apply to all of them.`
  if (changed.length === 0) return `Nothing would change for ${these} with usage ${time}.`
  if (!isComparable(impact)) return `${unrecordedText(impact)} zael searched the usage of ${these}, ${time}.`
  return `Replayed ${formatPlural(windows, `${window} window`)} of ${these}, ${time}.`
}

/** Each entity once, by its worst verdict. */
function verdictLines({found, entities}: Impact, {window}: ImpactRange): string[] {
  const hour = {hourly: 'an hour', daily: 'a day', monthly: 'a month'}[window]
  const worst = new Map<string, EntityImpact['verdict']>()
  // Worst first.
  for (const {entity, verdict} of found) if (!worst.has(entity)) worst.set(entity, verdict)
  const meanings = {
    refused: 'some requests would have been refused, for certain',
    possible: `depends on request times within ${hour}, which are not recorded`,
    bursts: `used at most half of the allowance of ${hour}: refused only in bursts above twice their average`,
    near: 'admitted, but used 80 % of the allowance or more',
    fits: 'all requests would have been admitted',
  }
  const count = (wanted: EntityImpact['verdict']) =>
    wanted === 'fits' ? entities - worst.size : [...worst.values()].filter(verdict => verdict === wanted).length
  const rows = (Object.keys(meanings) as (keyof typeof meanings)[]).filter(verdict => count(verdict) > 0)
  const width = Math.max(...rows.map(verdict => formatCount(count(verdict)).length))
  return rows.map(verdict => {
    return `  ${formatCount(count(verdict)).padStart(width)} ${WORDS[verdict].padEnd(9)}  ${meanings[verdict]}`
  })
}

function openText(openMs: number, {window}: ImpactRange): string {
  const name = {hourly: 'hour', daily: 'day', monthly: 'month'}[window]
  return `The ${name} from ${minute(openMs)} is still open: its usage is compared with the allowance until now.`
}

function unrecordedText({unrecorded}: Impact): string {
  return `No usage is recorded for ${formatList(unrecorded)}, so ${unrecorded.length === 1 ? 'it' : 'they'} cannot be compared.`
}

function inFlightText({inFlight}: Impact): string {
  const [they, are] = inFlight.length === 1 ? ['it', 'is an in-flight limit'] : ['they', 'are in-flight limits']
  return `${formatList(inFlight)} ${are}: usage does not record concurrency, so ${they} cannot be compared.`
}

export async function impactText(
  {impact, range}: {readonly impact: Impact; readonly range: ImpactRange},
  width: number | undefined,
): Promise<string[]> {
  const rows = impact.found.slice(0, MOST_ROWS)
  const more = impact.found.length - rows.length
  const table = await listingLines(impactListing(impact, rows), {'no-header': false}, width)
  return [
    '',
    ...table,
    ...(more > 0 ? [`… and ${formatCount(more)} more; --json lists all`] : []),
    ...impactLines(impact, range),
  ]
}

export function impactJson(impact: Impact, {window, sinceMs, untilMs}: ImpactRange): ImpactJson {
  const {found, isComplete, openMs, ...counts} = impact
  return {
    window,
    since: new Date(sinceMs).toISOString(),
    until: new Date(untilMs).toISOString(),
    ...counts,
    open: openMs === undefined ? null : new Date(openMs).toISOString(),
    complete: isComplete,
    found: found.map(({limit, isExact, peak, boostedUntilMs, ...rest}) => ({
      ...rest,
      limit: limit.name,
      value: rateText(limit),
      exact: isExact,
      peak: peak
        ? {start: new Date(peak.startMs).toISOString(), tokens: peak.tokens, allowed: Math.floor(peak.allowed)}
        : null,
      boostedUntil: boostedUntilMs === undefined ? null : new Date(boostedUntilMs).toISOString(),
    })),
  }
}
