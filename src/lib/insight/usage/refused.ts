import {windowStart} from '../../core/window.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {RefusalCounts} from '../../schema/refusal-counts.js'
import type {UsageRecord} from '../../schema/usage-record.js'

/** Recent usage covers at least this time. Usage is recorded by the hour, so it covers at most an hour more. */
const RECENT_MS = 600_000

export interface RefusedUsage {
  /** By the entity's own limits, each request once. */
  readonly requests: number
  /** Only by the parent; also counted there. */
  readonly byParent: number
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

/** Requests of an entity that were refused, by its own limits or only by those of its parent. Every screen counts so. */
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
    lastAtMs: lastAtMs > 0 ? lastAtMs : undefined,
  }
}

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
  readonly since: string
  /** Requests; writes of clients that count no requests. */
  readonly admitted: number
  /** Whole tokens charged, by limit. */
  readonly tokens: ReadonlyMap<string, number>
  readonly refused: RefusedUsage
}

export async function recentUsage(
  {usage}: Pick<NamespaceRepository, 'usage'>,
  entity: string,
  resource: string,
  nowMs: number,
): Promise<RecentUsage> {
  const range = {window: 'hourly', sinceMs: nowMs - RECENT_MS, untilMs: nowMs + 1, limit: 2} as const
  const {records} = await usage.ofEntity(entity, {resource, ...range})
  const tokens = new Map<string, number>()
  let admitted = 0
  for (const record of records) {
    admitted += record.totalEvents
    for (const [name, amount] of record.tokens) tokens.set(name, (tokens.get(name) ?? 0) + amount)
  }
  return {since: recentStart(nowMs), admitted, tokens, refused: refusedIn(records)}
}

/** Share of the recent requests that were refused. `null`: there were none. */
export function refusedShare({admitted, refused}: Pick<RecentUsage, 'admitted' | 'refused'>): number | null {
  const all = Math.max(0, admitted) + refusedTotal(refused)
  return all === 0 ? null : refusedTotal(refused) / all
}
