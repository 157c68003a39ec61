import {BLOCKS, gauge, sparkline, WHOLE_BLOCKS} from '../../core/text/gauge.js'
import {
  formatCount,
  formatList,
  formatMinute,
  formatPercent,
  formatPlural,
  formatTokens,
  formatWait,
  shellWord,
} from '../../core/text/text.js'
import type {Window} from '../../core/window.js'
import type {ParentOnlyLimits} from '../../insight/lookup/family-limits.js'
import type {QuotaBudget} from '../../insight/usage/budgets.js'
import {
  type LimitRefused,
  providerTotal,
  type RefusedByOthers,
  type RefusedRequests,
  refusedElsewhere,
} from '../../insight/usage/refused.js'
import type {LimitShare, LimitTotal, UsageTotals, UsageWindow} from '../../insight/usage/usage-report.js'
import {isRunEntity} from '../../schema/run-record.js'
import type {TimeRange} from '../flags/time-range.js'
import {nothingChanged} from '../output/interrupt.js'
import type {Listing, ListingColumn} from '../output/listing.js'
import {keepHeapSmallest} from '../output/long-list.js'
import {withProgress} from '../output/progress.js'
import {percentCell} from '../output/text-table.js'
import type {UsageScopeJson} from './results.js'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

export const DEFAULT_RANGE_MS: Readonly<Record<Window, number>> = {
  hourly: DAY_MS,
  daily: 30 * DAY_MS,
  monthly: 365 * DAY_MS,
}

/** Currency by limit name; other limits count tokens. */
export type LimitUnits = ReadonlyMap<string, string>

export interface UsageScope {
  readonly units?: LimitUnits | undefined
  readonly window: Window
  readonly range: TimeRange
  readonly entity?: string | undefined
  readonly resource?: string | undefined
}

export const NOTHING_RECORDED = 'No usage is recorded for that time. Check that the aggregator runs: zael status'

export function usageTitle({window, range, entity, resource}: UsageScope): string {
  const of = [entity, resource].filter(name => name !== undefined).join(' · ')
  const [from, to] = [range.sinceMs, range.untilMs].map(ms => minuteOf(ms))
  return `${capital(window)} usage${of === '' ? '' : ` of ${of}`}, ${from} to ${to} (times are UTC)`
}

type ShareRow = Omit<UsageWindow, 'limits' | 'refused'> & Partial<LimitShare>

export function usageListing(windows: readonly UsageWindow[], scope: UsageScope, isCsv: boolean): Listing<ShareRow> {
  return {
    rows: windows.flatMap(({limits, refused, ...window}) => {
      const accounts = (refused.byProvider ?? []).map(({entity, requests}) => [`(${entity})`, requests] as const)
      const others = [[BLOCKED, refused.blocked] as const, ...accounts, [BY_PARENT, refused.byParent] as const]
        .filter(([, requests]) => requests > 0)
        .map(([name, requests]) => ({name, refused: {requests, tokens: 0}}))
      const rows: Partial<LimitShare>[] = [...limits, ...others]
      return (rows.length === 0 ? [{refused: {requests: refused.requests, tokens: 0}}] : rows).map(row => ({
        ...window,
        ...row,
      }))
    }),
    columns: [
      {name: 'start', fit: 'whole', value: ({start}) => startText(scope.window, start), raw: ({start}) => start},
      {name: 'entity', fit: 'key', value: ({entity}) => entity, isExtra: scope.entity !== undefined && !isCsv},
      {name: 'resource', fit: 'key', value: each => each.resource, isExtra: scope.resource !== undefined && !isCsv},
      {name: 'limit', fit: 'key', value: ({name}) => name},
      {...amountColumn<ShareRow>('used', scope, ({tokens}) => tokens), fit: 'key'},
      amountColumn('budget', scope, ({budget}) => budget),
      {name: 'share', align: 'right', value: ({share}) => percentCell(share), raw: ({share}) => share},
      {name: 'bar', header: '', fit: 'spare', value: ({share}) => shareBar(share), isExtra: isCsv},
      {name: 'requests', value: ({requests}) => requests},
      {
        name: 'overdrawn',
        value: ({overdrawn}) => overdrawn,
        isExtra: !isCsv && !windows.some(({limits}) => limits.some(isOverdrawn)),
      },
      ...refusedColumns(scope, isCsv || windows.some(isRefusing)),
    ],
    empty: NOTHING_RECORDED,
  }
}

/** Names no limit can have, for refusals without one. */
const BLOCKED = '(blocked)'
const BY_PARENT = '(parent)'

const isOverdrawn = ({overdrawn}: {readonly overdrawn: number}): boolean => overdrawn > 0

export const overdraftText = (writes = 0): string => (writes > 0 ? ` (overdrawn ${formatPlural(writes, 'time')})` : '')
const isRefusing = ({refused}: {readonly refused: {readonly requests: number} & Partial<RefusedByOthers>}): boolean =>
  refused.requests + (refused.byParent ?? 0) + providerTotal(refused.byProvider) > 0

type RefusedRow = {readonly name?: string; readonly refused?: LimitRefused}

function refusedColumns(scope: Pick<UsageScope, 'units'>, isShown: boolean): ListingColumn<RefusedRow>[] {
  const isExtra = !isShown
  const tokens = amountColumn<RefusedRow>('refused-tokens', scope, ({refused}) => refused?.tokens ?? 0)
  return [
    {name: 'refused', align: 'right', fit: 'key', value: ({refused}) => refused?.requests ?? 0, isExtra},
    {...tokens, header: 'REFUSED TOKENS', isExtra},
  ]
}

/**
 * The requests that the parent or a shared scope refused are counted there too: `requests` of all entities includes
 * them, unless the account belongs to another resource.
 */
function refusedText(
  refused: RefusedRequests,
  twice: number,
  {entity, resource, isPart}: {entity?: string | undefined; resource?: string | undefined; isPart: boolean},
): string {
  const {requests, byParent, blocked, byProvider = []} = refused
  const elsewhere = refusedElsewhere(byProvider, [resource ?? ''])
  const byOthers = byParent + providerTotal(byProvider)
  const total = entity === undefined ? Math.max(requests, byOthers - elsewhere) + elsewhere : requests + byOthers
  if (total === 0) return ''
  const part = (count: number, by: string) =>
    count === 0 ? [] : [`${count === total ? 'all' : formatCount(count)} by ${by}`]
  const accounts = byProvider.flatMap(each => part(each.requests, `${each.entity} · ${each.resource}`))
  const parts = [...part(blocked, 'a block'), ...accounts, ...part(byParent, 'the parent only')]
  const list = `${parts[0]?.startsWith('all') ? '' : 'including '}${formatList(parts)}`
  // A page may lack the parents of its children.
  const least = entity === undefined && byOthers > 0 && isPart ? 'at least ' : ''
  const range = twice > 0 ? `${formatCount(total - twice)} to ` : ''
  return `, ${least}${range}${formatCount(total)} refused${parts.length === 0 ? '' : `, ${list}`}`
}

/** Shows limits of a unit as money; CSV has numbers. */
function amountColumn<Row extends {readonly name?: string}>(
  name: string,
  {units}: Pick<UsageScope, 'units'>,
  raw: (row: Row) => number | null | undefined,
): ListingColumn<Row> {
  const value = (row: Row) => {
    const [tokens, unit] = [raw(row), units?.get(row.name ?? '')]
    return unit === undefined || tokens === null || tokens === undefined
      ? tokens
      : formatTokens(Math.round(tokens), unit)
  }
  return {name, align: 'right', value, raw}
}

export function usageFooter(
  windows: readonly UsageWindow[],
  {requests, doubtful, refused, refusedTwice, totals}: UsageTotals,
  {window, units, entity, resource, isPart}: Omit<UsageScope, 'range'> & {readonly isPart: boolean},
): string[] {
  if (windows.length === 0) return []
  const title = isPart ? `Total of the ${formatCount(windows.length)} windows shown` : 'Total'
  const figures = resourcesOf(totals, units).map(({resource, limits}) => `  ${resource}: ${limits.join(', ')}`)
  return [
    '',
    `${title}: ${formatPlural(requests, 'request')}${refusedText(refused, refusedTwice, {entity, resource, isPart})}`,
    ...figures,
    ...twiceLines(refusedTwice),
    // A page may lack the parents of its children.
    ...(isPart ? [] : doubtfulLines(doubtful)),
    `100 % is the amount that a rate allows ${PER[window]} (or its burst, if larger), or the whole allowance of a quota.`,
  ]
}

export const parentOnlyLines = (shared: readonly ParentOnlyLimits[]): string[] =>
  shared.flatMap(({resource, parent, limits}) => [
    '',
    `Requests for ${resource} charge ${formatList(limits)} to the parent ${parent} only. See: zael usage show ${shellWord(parent)}`,
  ])

const TOO_LITTLE = 'an average request needs more: such '

/** Amounts first, then when the quota resets and when it is used up. `entity`: whose requests are asked about. */
export function budgetLines(
  budgets: readonly QuotaBudget[],
  entity: string | undefined,
  units: LimitUnits,
  nowMs: number,
): string[] {
  return budgets.flatMap(budget => {
    const {resource, name, allowance, used, left, share, resetsAt, exhaustsAt, usedUp, averageSince} = budget
    const amount = (tokens: number) => formatTokens(tokens, units.get(name))
    const resetMs = Date.parse(resetsAt)
    const rate = exhaustsAt === null ? 'enough until the reset' : `used up at ${formatMinute(Date.parse(exhaustsAt))}`
    const whose = budget.entity === entity ? '' : `the parent ${budget.entity} for `
    const use =
      used === null || share === null
        ? `${amount(left)} of ${amount(allowance)} left; its use is unknown, because the limit changed its kind in this period or has time windows`
        : `${amount(used)} of ${amount(allowance)} used (${formatPercent(share)}), ${amount(left)} left`
    if (isRunEntity(budget.entity)) return ['', `Quota ${name} of ${resource} now: ${use}`]
    const earlier = budgets.find(other => endsBefore(other, budget))
    return [
      '',
      `Quota ${name} of ${whose}${resource} now: ${use}`,
      `  resets in ${formatWait(Math.max(0, resetMs - nowMs))}, at ${formatMinute(resetMs)}`,
      ...(usedUp ? [`  ${left > 0 ? TOO_LITTLE : ''}requests are refused until the reset`] : []),
      ...(left > 0 && !usedUp && averageSince !== null
        ? [`  at the average rate since ${formatMinute(Date.parse(averageSince))}: ${rate}`]
        : []),
      ...(earlier && !usedUp
        ? [`  ${name} of ${earlier.entity} ${earlier.usedUp ? 'is used up already' : 'runs out first'}`]
        : []),
    ]
  })
}

/** Of two quotas that the same requests are charged to: the one of the entity and the one of its parent. */
function endsBefore(one: QuotaBudget, other: QuotaBudget): boolean {
  if (one.entity === other.entity || one.resource !== other.resource || one.name !== other.name) return false
  return one.usedUp || (one.exhaustsAt !== null && (other.exhaustsAt === null || one.exhaustsAt < other.exhaustsAt))
}

const PER: Readonly<Record<Window, string>> = {hourly: 'per hour', daily: 'per day', monthly: 'per month'}

function resourcesOf(
  totals: readonly LimitTotal[],
  units: LimitUnits | undefined,
): {resource: string; limits: string[]}[] {
  const resources = [...new Set(totals.map(({resource}) => resource))]
  return resources.map(resource => ({
    resource,
    limits: totals
      .filter(each => each.resource === resource)
      .map(
        ({name, tokens, overdrawn}) => `${name} ${formatTokens(tokens, units?.get(name))}${overdraftText(overdrawn)}`,
      ),
  }))
}

export function summaryListing(totals: readonly LimitTotal[], scope: UsageScope, isCsv: boolean): Listing<LimitTotal> {
  return {
    rows: totals,
    columns: [
      {name: 'resource', value: ({resource}) => resource},
      {name: 'limit', value: ({name}) => name},
      amountColumn('tokens', scope, ({tokens}) => tokens),
      {name: 'overdrawn', value: ({overdrawn}) => overdrawn, isExtra: !totals.some(isOverdrawn)},
      {name: 'windows', value: ({windows}) => windows},
      {...amountColumn('average', scope, ({average}) => average), fit: 'spare'},
      amountColumn('peak', scope, ({peak}) => peak.tokens),
      {
        name: 'peak-at',
        fit: 'whole',
        header: 'PEAK AT',
        value: ({peak}) => startText(scope.window, peak.start),
        raw: ({peak}) => peak.start,
      },
      {name: 'peak-entity', header: 'BY', value: ({peak}) => peak.entity, isExtra: scope.entity !== undefined},
      ...refusedColumns(scope, isCsv || totals.some(isRefusing)),
    ],
    empty: NOTHING_RECORDED,
  }
}

export function summaryFooter(
  {requests, refused, refusedTwice, doubtful}: Omit<UsageTotals, 'totals'>,
  scope: Pick<UsageScope, 'entity' | 'resource'> & {readonly windows: number; readonly complete: boolean},
): string[] {
  const {windows, entity, resource, complete} = scope
  const text = refusedText(refused, refusedTwice, {entity, resource, isPart: !complete})
  const total = `Total: ${formatPlural(requests, 'request')} in ${formatPlural(windows, 'window')}${text}`
  return [total, ...twiceLines(refusedTwice), ...doubtfulLines(doubtful)]
}

/** Buckets do not record which of their refusals another bucket counted too. */
const twiceLines = (refused: number): string[] =>
  refused === 0
    ? []
    : [
        `Up to ${formatPlural(refused, 'refused request')} exceeded limits of both an entity and its parent. The higher total counts them twice.`,
      ]

/** Usage records do not name the parent of their time. */
export function doubtfulLines(requests: number): string[] {
  if (requests === 0) return []
  return [
    `Up to ${formatPlural(requests, 'request')} and their tokens count twice if an entity changed its parent in this time.`,
  ]
}

export function partialText(windows: number): string {
  return `Only the newest ${formatCount(windows)} windows are counted. Choose a shorter time range.`
}

/** Oldest window first; windows without usage count as zero. */
export function sparkLines(
  windows: readonly UsageWindow[],
  totals: readonly LimitTotal[],
  {window, units}: Pick<UsageScope, 'window' | 'units'>,
): string[] {
  if (windows.length === 0) return []
  const starts = everyStart(windows, window)
  const names = totals.map(({resource, name}) => `${resource} ${name}`)
  const width = Math.max(...names.map(name => name.length))
  return totals.map(({resource, name, peak}, at) => {
    const used = new Map<string, number>()
    for (const each of windows.filter(one => one.resource === resource)) {
      const tokens = each.limits.find(limit => limit.name === name)?.tokens ?? 0
      used.set(each.start, (used.get(each.start) ?? 0) + tokens)
    }
    const curve = tokenCurve(starts.map(start => used.get(start) ?? 0))
    return `${(names[at] ?? '').padEnd(width)}  ${curve}  peak ${formatTokens(peak.tokens, units?.get(name))} at ${startText(window, peak.start)}`
  })
}

function tokenCurve(numbers: readonly number[]): string {
  const shown = numbers.slice(-WIDEST_CURVE)
  const top = Math.max(1, ...shown)
  return sparkline(
    shown.map(each => each / top),
    shown.length,
    BLOCKS,
  )
}

const WIDEST_CURVE = 60

/** `share`: 0 to 1. */
export function shareBar(share: number | null | undefined): string {
  return share === null || share === undefined ? '' : gauge(Math.max(0, share), 1, BAR_WIDTH, WHOLE_BLOCKS)
}

const BAR_WIDTH = 10

function everyStart(windows: readonly UsageWindow[], window: Window): string[] {
  const known = windows.map(({start}) => start).sort()
  const ends = new Map(windows.map(({start, end}) => [start, end]))
  const [first, last] = [known[0] ?? '', known.at(-1) ?? '']
  const starts: string[] = []
  // In UTC, hours and days have fixed lengths; months do not, so months without usage are left out.
  const stepMs = window === 'hourly' ? HOUR_MS : window === 'daily' ? DAY_MS : undefined
  if (stepMs === undefined) return [...ends.keys()].sort()
  for (let ms = Date.parse(first); ms <= Date.parse(last); ms += stepMs) {
    starts.push(`${new Date(ms).toISOString().slice(0, 19)}Z`)
  }
  return starts
}

function startText(window: Window, start: string): string {
  const length = {hourly: 16, daily: 10, monthly: 7}[window]
  return start.slice(0, length).replace('T', ' ')
}

const minuteOf = (ms: number): string => new Date(ms).toISOString().slice(0, 16).replace('T', ' ')

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1)

export function usageScopeJson({window, range, entity, resource}: UsageScope): UsageScopeJson {
  return {
    window,
    since: new Date(range.sinceMs).toISOString(),
    until: new Date(range.untilMs).toISOString(),
    entity: entity ?? null,
    resource: resource ?? null,
  }
}

const WINDOWS_PER_REPORT = 1000

/** There may be a million windows. Ctrl-C stops reading. */
export function readWithProgress<T>(read: (onProgress: (windows: number) => void) => Promise<T>): Promise<T> {
  keepHeapSmallest()
  const interrupted = () => nothingChanged('usage.interrupted')
  return withProgress((line, signal) => {
    return read(windows => {
      if (signal.aborted) throw interrupted()
      if (windows % WINDOWS_PER_REPORT === 0) line.count('Windows read', windows)
    })
  }, interrupted)
}
