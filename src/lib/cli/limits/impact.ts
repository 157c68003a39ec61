import {boolean} from '@oclif/core/flags'
import {rateText} from '../../core/syntax/boost-text.js'
import {formatCount, formatPlural, formatTokens} from '../../core/text.js'
import type {ScopeLimits} from '../../inspect/change-effect.js'
import type {EntityImpact, Impact, ImpactRange} from '../../inspect/impact.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {type Listing, listingLines} from '../output/listing.js'
import type {ImpactJson} from '../results/limits.js'

/** For commands that show a change. */
export const impactFlags = {
  impact: boolean({description: 'Also compare with the usage of the last week: whom the limits would have refused.'}),
}

/** A week: every habit of the weekdays is in it once. */
export const IMPACT_MS = 7 * 24 * 3_600_000

/** Rows that are shown beside a change. */
const MOST_ROWS = 10

/** Compares changes with recorded usage, by default of the last week by the hour; reads only. */
export async function readImpact(
  namespace: NamespaceRepository,
  changes: readonly ScopeLimits[],
  nowMs: number,
  range: ImpactRange = {window: 'hourly', sinceMs: Math.max(0, nowMs - IMPACT_MS), untilMs: Math.floor(nowMs) + 1},
): Promise<{impact: Impact; range: ImpactRange}> {
  const {impactOf} = await import('../../inspect/impact.js')
  return {impact: await impactOf(namespace, changes, range), range}
}

const WORDS = {refused: 'refused', possible: 'perhaps', near: 'near', fits: 'fits'} as const

/** Whom the limits would have stopped, worst first. */
export function impactListing(found: readonly EntityImpact[]): Listing<EntityImpact> {
  const peak = (of: 'tokens' | 'allowed') => (each: EntityImpact) => each.peak && Math.floor(each.peak[of])
  const amount = (of: 'tokens' | 'allowed') => (each: EntityImpact) => {
    const tokens = peak(of)(each)
    return tokens === undefined ? undefined : formatTokens(tokens, each.limit.unit)
  }
  return {
    rows: found,
    columns: [
      {name: 'verdict', header: 'WOULD BE', value: ({verdict}) => WORDS[verdict], raw: ({verdict}) => verdict},
      {name: 'entity', value: ({entity}) => entity},
      {name: 'resource', value: ({resource}) => resource},
      {name: 'limit', value: ({limit}) => `${limit.name}=${rateText(limit)}`},
      {
        name: 'windows',
        align: 'right',
        value: each => each.refusedWindows + each.possibleWindows,
      },
      {
        name: 'refused',
        header: 'REFUSED',
        align: 'right',
        value: refusedText,
        raw: ({refusedTokens}) => refusedTokens,
      },
      {name: 'peak', header: 'MOST USED', align: 'right', value: amount('tokens'), raw: peak('tokens')},
      {name: 'allowed', header: 'OF AT MOST', align: 'right', value: amount('allowed'), raw: peak('allowed')},
      {
        name: 'at',
        fit: 'whole',
        value: each => each.peak && new Date(each.peak.startMs).toISOString().slice(0, 16).replace('T', ' '),
      },
    ],
    empty: 'Nobody would have been refused, nor come near.',
  }
}

function refusedText({refusedTokens, isExact, limit}: EntityImpact): string {
  if (refusedTokens === 0) return '-'
  return `${isExact ? '' : 'at least '}${formatTokens(refusedTokens, limit.unit)}`
}

/** What the rows say in sum, and how far to trust them. */
export function impactLines({found, entities, windows, isComplete}: Impact, {window, sinceMs, untilMs}: ImpactRange) {
  const count = (verdict: EntityImpact['verdict']) =>
    new Set(found.filter(each => each.verdict === verdict).map(({entity}) => entity)).size
  const day = (ms: number) => new Date(ms).toISOString().slice(0, 16).replace('T', ' ')
  const hours = window === 'hourly' ? 'hour' : window === 'daily' ? 'day' : 'month'
  return [
    `Compared with ${formatPlural(windows, `${window} window`)} of usage of ${formatPlural(entities, 'entity', 'entities')}, ` +
      `${day(sinceMs)} to ${day(untilMs)} (UTC): ${formatCount(count('refused'))} would have been refused, ` +
      `${formatCount(count('possible'))} perhaps, ${formatCount(count('near'))} came near.`,
    ...(found.some(({verdict}) => verdict === 'possible')
      ? [
          `Perhaps: it depends on how the requests of a${hours === 'hour' ? 'n hour' : ` ${hours}`} came, which is not recorded.`,
        ]
      : []),
    ...(isComplete ? [] : ['There is more usage than was read; choose a shorter time range.']),
  ]
}

/** The worst rows and the sum, beside a change. */
export async function impactText(
  {impact, range}: {readonly impact: Impact; readonly range: ImpactRange},
  width: number | undefined,
): Promise<string[]> {
  const rows = impact.found.slice(0, MOST_ROWS)
  const more = impact.found.length - rows.length
  const table = await listingLines(impactListing(rows), {'no-header': false}, width)
  return [
    '',
    ...table,
    ...(more > 0 ? [`… and ${formatCount(more)} more; see \`zael limits impact\``] : []),
    ...impactLines(impact, range),
  ]
}

/** The impact in JSON. */
export function impactJson(impact: Impact, {window, sinceMs, untilMs}: ImpactRange): ImpactJson {
  return {
    window,
    since: new Date(sinceMs).toISOString(),
    until: new Date(untilMs).toISOString(),
    entities: impact.entities,
    windows: impact.windows,
    complete: impact.isComplete,
    found: impact.found.map(({entity, resource, limit, verdict, peak, ...figures}) => ({
      entity,
      resource,
      limit: limit.name,
      value: rateText(limit),
      verdict,
      refusedTokens: figures.refusedTokens,
      exact: figures.isExact,
      refusedWindows: figures.refusedWindows,
      possibleWindows: figures.possibleWindows,
      peak: peak
        ? {start: new Date(peak.startMs).toISOString(), tokens: peak.tokens, allowed: Math.floor(peak.allowed)}
        : null,
    })),
  }
}
