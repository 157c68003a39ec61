import type {BucketName} from '../../core/names.js'
import {windowStart} from '../../core/window.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import {addLink, type RefusalCounts} from '../../schema/refusal-counts.js'
import type {UsageRecord} from '../../schema/usage-record.js'

/** Recent usage covers at least this time. Usage is recorded by the hour, so it covers at most an hour more. */
const RECENT_MS = 600_000

export interface RefusedUsage {
  /** By the entity's own limits, each request once. */
  readonly requests: number
  /** Only by the parent or a shared scope; also counted there. */
  readonly byParent: number
  /** Of `byParent`, as in {@link RefusalCounts}. */
  readonly accounts?: RefusalCounts['accounts']
  readonly callers?: RefusalCounts['callers']
  /** Of `requests`, because the entity or resource is disabled. No limit counts them. */
  readonly blocked: number
  /** Whole tokens requested, by exceeded limit. */
  readonly limits: ReadonlyMap<string, LimitRefused>
  /** Epoch ms. `undefined`: none refused. */
  readonly lastAtMs: number | undefined
}

export interface LimitRefused {
  readonly requests: number
  readonly tokens: number
}

/** Requests of an entity that were refused, by its own limits, or only by its parent or a shared scope. Every screen counts so. */
export const refusedTotal = ({requests, byParent}: Pick<RefusedUsage, 'requests' | 'byParent'>): number =>
  requests + byParent

export const NOT_REFUSED: LimitRefused = {requests: 0, tokens: 0}

const NOTHING_REFUSED: RefusedUsage = {
  ...{requests: 0, byParent: 0, blocked: 0},
  ...{limits: new Map(), lastAtMs: undefined},
}

export function refusedIn(records: Iterable<Pick<UsageRecord, 'refused'>>): RefusedUsage {
  let all: RefusedUsage | undefined
  for (const record of records) all = withRefused(all, record)
  return all ?? NOTHING_REFUSED
}

export function withRefused(
  soFar: RefusedUsage = NOTHING_REFUSED,
  {refused}: Pick<UsageRecord, 'refused'>,
): RefusedUsage {
  if (!refused) return soFar
  const limits = new Map(soFar.limits)
  for (const [name] of refused.limits) limits.set(name, sum(limits.get(name), refused, name))
  const lastAtMs = Math.max(soFar.lastAtMs ?? 0, refused.lastAtMs)
  return {
    requests: soFar.requests + refused.requests,
    byParent: soFar.byParent + refused.byParent,
    blocked: soFar.blocked + (refused.blocked ?? 0),
    limits,
    ...(refused.accounts || soFar.accounts ? {accounts: summed(soFar.accounts, refused.accounts)} : {}),
    ...(refused.callers || soFar.callers ? {callers: summed(soFar.callers, refused.callers)} : {}),
    lastAtMs: lastAtMs > 0 ? lastAtMs : undefined,
  }
}

function summed(soFar: RefusalCounts['accounts'], more: RefusalCounts['accounts']): ReadonlyMap<string, number> {
  const sums = new Map(soFar)
  for (const [bucket, count] of more ?? []) addLink(sums, bucket, count)
  return sums
}

export interface RefusingAccount extends BucketName {
  readonly requests: number
}

/** The shared scopes that refused most requests come first. */
export function refusingAccounts({accounts = new Map()}: Pick<RefusalCounts, 'accounts'>): RefusingAccount[] {
  return Array.from(accounts, ([name, requests]) => {
    const [entity = '', resource = ''] = name.split('#')
    return {entity, resource, requests}
  }).sort((a, b) => b.requests - a.requests || (a.entity < b.entity ? -1 : 1))
}

/** Refused by others, each request once. Screens and JSON count so. */
export interface RefusedByOthers {
  /** Only by the parent. */
  readonly byParent: number
  /** Only by shared scopes. Absent if there were none. */
  readonly byProvider?: readonly RefusingAccount[] | undefined
}

export interface RefusedRequests extends Pick<RefusedUsage, 'requests' | 'blocked'>, RefusedByOthers {}

export const providerTotal = (accounts: readonly RefusingAccount[] = []): number =>
  accounts.reduce((sum, {requests}) => sum + requests, 0)

export function refusedByOthers({byParent, accounts}: Pick<RefusedUsage, 'byParent' | 'accounts'>): RefusedByOthers {
  if (!accounts) return {byParent}
  const byProvider = refusingAccounts({accounts})
  return {byParent: Math.max(0, byParent - providerTotal(byProvider)), byProvider}
}

export const requestsOf = ({requests, blocked, ...others}: RefusedUsage): RefusedRequests => ({
  ...{requests, blocked, ...refusedByOthers(others)},
})

/** Requests that a shared scope refused, and that none of these resources counts in the account's own usage. */
export const refusedElsewhere = (accounts: readonly RefusingAccount[], resources: readonly string[]): number =>
  accounts.reduce((sum, {resource, requests}) => sum + (resources.includes(resource) ? 0 : requests), 0)

function sum(known: LimitRefused = NOT_REFUSED, {limits}: RefusalCounts, name: string): LimitRefused {
  const {requests, tokens} = limits.get(name) ?? {requests: 0, tokens: 0n}
  return {requests: known.requests + requests, tokens: known.tokens + Number(tokens)}
}

export function countedLimits(records: Iterable<Pick<UsageRecord, 'tokens' | 'refused'>>): string[] {
  const names = new Set<string>()
  for (const {tokens, refused} of records) {
    for (const name of tokens.keys()) names.add(name)
    for (const name of refused?.limits.keys() ?? []) names.add(name)
  }
  return [...names].sort()
}

/** Start of the first hour of recent usage. */
export const recentStart = (nowMs: number): string => windowStart('hourly', nowMs - RECENT_MS)

export interface RecentUsage {
  /** Start of the first counted hour, UTC. */
  readonly hour: string
  /** Whole tokens and requests charged since then; writes of clients that count no requests. */
  readonly charged: {readonly tokens: ReadonlyMap<string, number>; readonly requests: number}
  /** Epoch ms of the first use or refusal since then, or the start of its hour. `undefined`: none is recorded. */
  readonly firstAtMs?: number | undefined
  /** Start of the counts below, UTC: when the refusals began, if that is known and later, else `hour`. */
  readonly since: string
  readonly admitted: number
  readonly refused: RefusedUsage
  /** When the refusals began, if there were any: at most a day ago. */
  readonly refusedSince?: RefusedSince | undefined
}

export interface RefusedSince {
  /** Epoch ms: some seconds after the first refusal at most, or the start of its hour. */
  readonly atMs: number
  readonly isHour: boolean
}

const HOUR_MS = 3_600_000

export async function recentUsage(
  {usage}: Pick<NamespaceRepository, 'usage'>,
  entity: string,
  resource: string,
  nowMs: number,
): Promise<RecentUsage> {
  const range = {window: 'hourly', sinceMs: nowMs - 24 * HOUR_MS, untilMs: nowMs + 1} as const
  const {records: day} = await usage.ofEntity(entity, {resource, ...range})
  const hour = recentStart(nowMs)
  const records = day.filter(({start}) => start >= hour)
  const tokens = new Map<string, number>()
  let requests = 0
  for (const record of records) {
    requests += record.totalEvents
    for (const [name, amount] of record.tokens) tokens.set(name, (tokens.get(name) ?? 0) + amount)
  }
  const firstAtMs = records.map(record => record.firstAtMs ?? Date.parse(record.start)).sort((a, b) => a - b)[0]
  const used = {hour, charged: {tokens, requests}, ...(firstAtMs !== undefined && {firstAtMs})}
  const refused = refusedIn(records)
  if (refusedTotal(refused) === 0) return {...used, since: hour, admitted: requests, refused}
  const began = refusedSince(day)
  const episode = began && nowMs - began.atMs >= SHORTEST_MS ? episodeOf(records, began) : undefined
  return {...used, ...(episode ?? {since: hour, admitted: requests, refused}), refusedSince: began}
}

/** Refusals are written up to 10 s late: a share of less time than this would mislead. */
const SHORTEST_MS = 60_000

/** Counts since the refusals began. `undefined`: they began before the records, or these do not show it. */
function episodeOf(
  records: readonly UsageRecord[],
  {atMs}: RefusedSince,
): Pick<RecentUsage, 'since' | 'admitted' | 'refused'> | undefined {
  const first = windowStart('hourly', atMs)
  const before = records.find(({start}) => start === first)?.refused?.before
  if (before === undefined) return undefined
  const later = records.filter(({start}) => start >= first)
  const admitted = later.reduce((sum, {totalEvents}) => sum + totalEvents, -before)
  return {since: isoSeconds(atMs), admitted: Math.max(0, admitted), refused: refusedIn(later)}
}

/** The first of the latest hours with refusals that follow each other. Newest first. */
function refusedSince(hours: readonly UsageRecord[]): RefusedSince | undefined {
  let earliest: RefusedSince | undefined
  let hourMs: number | undefined
  for (const {start, refused} of hours) {
    const startMs = Date.parse(start)
    if (!refused || refusedTotal(refused) === 0) continue
    const isGap = hourMs !== undefined && (startMs < hourMs - HOUR_MS || isPause(refused.lastAtMs, earliest))
    if (isGap) break
    hourMs = startMs
    earliest = {atMs: refused.firstAtMs ?? startMs, isHour: refused.firstAtMs === undefined}
  }
  return earliest
}

const isPause = (lastAtMs: number, next: RefusedSince | undefined): boolean =>
  next !== undefined && !next.isHour && next.atMs - lastAtMs > RECENT_MS

/** Share of the recent requests that were refused. `null`: there were none. */
export function refusedShare({admitted, refused}: Pick<RecentUsage, 'admitted' | 'refused'>): number | null {
  const all = Math.max(0, admitted) + refusedTotal(refused)
  return all === 0 ? null : refusedTotal(refused) / all
}

/**
 * Whether the counts since the refusals began may include a pause of 10 minutes or more. Records show the first and last
 * refusal of an hour, but no pause between them.
 */
export const mayHavePaused = ({since, hour, refused: {lastAtMs}}: RecentUsage): boolean =>
  since !== hour && lastAtMs !== undefined && lastAtMs - Date.parse(since) >= RECENT_MS

/** Refusals are written up to 10 s late, and counted some seconds later. */
const REFUSING_MS = 120_000

/** Whether the last refusal was some minutes ago at most. */
export const isRefusing = ({refused: {lastAtMs}}: Pick<RecentUsage, 'refused'>, nowMs: number): boolean =>
  lastAtMs !== undefined && nowMs - lastAtMs <= REFUSING_MS
